//! Where programs are: those of this workspace, built on demand so that no test meets a stale one, and those of
//! Debian. A missing one is an error that names its package; no test is skipped for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, bail};

/// A command that runs this workspace's `egress-audit`, without the caller's environment settings for it.
///
/// # Panics
/// When it does not build.
#[must_use]
pub fn egress_audit() -> Command {
    workspace_binary("egress-audit")
}

/// A command that runs a program of this workspace.
///
/// # Panics
/// When the workspace does not build.
#[must_use]
pub fn workspace_binary(name: &str) -> Command {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| build().unwrap_or_else(|error| panic!("{error:#}")));
    let mut command = Command::new(folder.join(name));
    command.env("NO_COLOR", "1").stdin(std::process::Stdio::null());
    command
}

/// Builds the workspace's programs as `cargo build --workspace` does (a no-op after `make test` did so) and returns
/// their folder, which is the one above the running test's.
fn build() -> anyhow::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the tests' folder has a parent")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let mut command = Command::new(cargo);
    // What the outer cargo said about the test's own package would make build scripts run again (ring's, with all that
    // stands on it).
    let of_package = |(name, _): &(OsString, OsString)| {
        name.to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
    };
    for (name, _) in std::env::vars_os().filter(of_package) {
        command.env_remove(name);
    }
    let built = command
        .args(["build", "--quiet", "--workspace", "--bins", "--profile", profile])
        .current_dir(root)
        .output()
        .context("cargo cannot be run to build the programs under test")?;
    if !built.status.success() {
        bail!("cargo build --workspace --bins:\n{}", String::from_utf8_lossy(&built.stderr));
    }
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).context("the test runs from the target folder")?;
    Ok(folder.to_owned())
}

/// Finds an installed program in `PATH` and in the folders for servers, which a normal user's `PATH` lacks.
///
/// # Errors
/// When it is not installed; the message says which Debian package has it.
pub fn find(program: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .with_context(|| {
            format!(
                "`{program}` is not installed\nhint: run `scripts/install-test-deps`, or `apt-get install {package}`"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = find("no-such-server", "no-such-package").unwrap_err().to_string();
        assert!(
            error.contains("`no-such-server`") && error.contains("apt-get install no-such-package"),
            "{error}"
        );
        assert!(find("sh", "dash").unwrap().is_absolute());
    }
}
