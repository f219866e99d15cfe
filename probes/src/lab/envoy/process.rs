//! One running Envoy: ports taken by Envoy itself and asked for afterwards, a refused configuration told in its own
//! words, and killed whatever becomes of the lab. Its folder (configuration, log, access log) goes with it unless it is saved.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::admin::{Admin, AdminError};
use super::bootstrap::LISTENER;
use super::install::Binary;
use crate::lab::child::{Child, Signal};
use crate::lab::scratch::Scratch;

/// Starting includes the first DNS answer of every cluster; c-ares gives up on a silent server after 5 s per try.
const START: Duration = Duration::from_secs(30);

/// Why an Envoy is not running.
#[derive(Debug, thiserror::Error)]
pub enum EnvoyError {
    /// A file of the run cannot be written, or the program cannot be started.
    #[error("{what}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// `--mode validate` refused the configuration.
    #[error("Envoy refuses the configuration: {said}")]
    Refused {
        /// Envoy's own words.
        said: String,
    },
    /// It ended by itself.
    #[error("Envoy ended with {status}: {said}")]
    Ended {
        /// `exit code 1`, `signal 11`.
        status: String,
        /// The end of its log.
        said: String,
    },
    /// It runs, but not in time.
    #[error("Envoy was not ready within {} s: {said}", START.as_secs())]
    NotReady {
        /// The end of its log.
        said: String,
    },
    /// The admin port.
    #[error(transparent)]
    Admin(#[from] AdminError),
}

impl EnvoyError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => "check that TMPDIR can be written and has space",
            Self::Refused { .. } => {
                "this Envoy is older or newer than the lab knows; try a release from `egress-audit envoy install`"
            }
            Self::Ended { .. } | Self::NotReady { .. } => {
                "the whole log is kept with `--save`; try another release with `--envoy`"
            }
            Self::Admin(_) => "Envoy may have crashed or hang; its log is kept with `--save`",
        }
    }
}

/// A running Envoy. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct Envoy {
    child: Child,
    admin: Admin,
    front: SocketAddr,
    folder: Folder,
}

/// How to start one, beyond its configuration.
#[derive(Debug, Default)]
pub struct Launch<'a> {
    /// More arguments, such as `--drain-strategy`.
    pub args: &'a [&'a str],
    /// Where its files stay; without it they go with the process.
    pub keep: Option<PathBuf>,
}

/// Where the files of a run are.
#[derive(Debug)]
enum Folder {
    Passing(Scratch),
    Kept(PathBuf),
}

impl Folder {
    fn make(keep: Option<PathBuf>) -> io::Result<Self> {
        match keep {
            Some(path) => std::fs::create_dir_all(&path).map(|()| Self::Kept(path)),
            None => Scratch::new("envoy").map(Self::Passing),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Passing(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }
}

impl Envoy {
    /// Starts Envoy on `config` and waits until it is ready. One that ends instead is asked with `--mode validate`
    /// whether it was for the configuration: it checks as it loads, so to ask first would only take the time twice.
    ///
    /// # Errors
    /// A refused configuration, a crash, or 30 s without becoming ready; each with Envoy's own words.
    pub async fn start(binary: &Binary, config: &Value) -> Result<Self, EnvoyError> {
        Self::start_with(binary, config, Launch::default()).await
    }

    /// [`Envoy::start`] with more of a say.
    ///
    /// # Errors
    /// As [`Envoy::start`].
    pub async fn start_with(binary: &Binary, config: &Value, launch: Launch<'_>) -> Result<Self, EnvoyError> {
        let io = |what| move |source| EnvoyError::Io { what, source };
        let folder = Folder::make(launch.keep).map_err(io("the run's folder cannot be made"))?;
        let file = folder.path().join("envoy.json");
        std::fs::write(&file, format!("{config:#}")).map_err(io("the configuration cannot be written"))?;
        let mut args = vec!["--config-path".into(), file.clone().into_os_string()];
        args.extend(["--admin-address-path".into(), folder.path().join("admin").into_os_string()]);
        // One worker: pools and load balancing are per worker, so counts mean what they say.
        args.extend(
            ["--concurrency", "1", "--disable-hot-restart", "--log-level", "info"].map(OsString::from),
        );
        args.extend(launch.args.iter().map(OsString::from));
        // A kept folder may have those of an earlier run.
        for stale in ["admin", "access.log", "envoy.log"] {
            let _ = std::fs::remove_file(folder.path().join(stale));
        }
        let (access, log) = (folder.path().join("access.log"), folder.path().join("envoy.log"));
        let child =
            Child::start_apart(&binary.path, args, &access, log).map_err(io("Envoy cannot be started"))?;
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut envoy = Self { child, admin: Admin::new(unknown), front: unknown, folder };
        match envoy.wait_until_ready().await {
            Ok(()) => Ok(envoy),
            Err(ended @ EnvoyError::Ended { .. }) => {
                Err(validate(binary, &file).await.err().unwrap_or(ended))
            }
            Err(error) => Err(error),
        }
    }

    /// The admin port.
    #[must_use]
    pub const fn admin(&self) -> Admin {
        self.admin
    }

    /// Where clients connect.
    #[must_use]
    pub const fn front(&self) -> SocketAddr {
        self.front
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// How it ended and what it said last.
    pub fn check(&mut self) -> Result<(), EnvoyError> {
        match self.child.exited() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                let status = match status.code() {
                    // The shell's way to say it.
                    Some(code) if code > 128 => format!("signal {}", code - 128),
                    Some(code) => format!("exit code {code}"),
                    None => "its watchdog".to_owned(),
                };
                Err(EnvoyError::Ended { status, said: self.last_words() })
            }
            Err(source) => Err(EnvoyError::Io { what: "Envoy's state cannot be read", source }),
        }
    }

    /// Sends a signal to Envoy itself.
    ///
    /// # Errors
    /// It is not there.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        self.child.signal(signal)
    }

    /// The folder with `envoy.json`, `envoy.log` and `access.log`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it and waits until it is gone.
    pub async fn stop(mut self) {
        self.child.kill().await;
    }

    async fn wait_until_ready(&mut self) -> Result<(), EnvoyError> {
        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            self.check()?;
            if let Some(addr) = read_admin_address(&self.folder.path().join("admin")) {
                self.admin = Admin::new(addr);
                if self.admin.ready().await.unwrap_or(false)
                    && let Some(front) = self.admin.listeners().await?.get(LISTENER)
                {
                    self.front = *front;
                    return Ok(());
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(EnvoyError::NotReady { said: self.last_words() })
    }

    /// The end of its log, in one line that is safe to print.
    fn last_words(&self) -> String {
        essence(&self.child.log())
    }
}

/// `--mode validate`: the place where Envoy says what it dislikes in one sentence.
async fn validate(binary: &Binary, file: &Path) -> Result<(), EnvoyError> {
    let output = ask(binary, file, "error").await?;
    if output.status.success() {
        return Ok(());
    }
    Err(EnvoyError::Refused { said: essence(&String::from_utf8_lossy(&output.stderr)) })
}

/// What Envoy says of a configuration that it is not to run: whether it takes it, and its warnings.
///
/// # Errors
/// It cannot be asked.
pub(crate) async fn opinion(binary: &Binary, config: &Value) -> Result<(bool, String), EnvoyError> {
    let io = |source| EnvoyError::Io { what: "the configuration cannot be written", source };
    let folder = Scratch::new("opinion").map_err(io)?;
    let file = folder.path().join("envoy.json");
    std::fs::write(&file, config.to_string()).map_err(io)?;
    let output = ask(binary, &file, "warning").await?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

async fn ask(binary: &Binary, file: &Path, level: &str) -> Result<Output, EnvoyError> {
    Command::new(&binary.path)
        .args(["--mode", "validate", "--log-level", level, "--config-path"])
        .arg(file)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|source| EnvoyError::Io { what: "Envoy cannot be started", source })
}

fn read_admin_address(file: &Path) -> Option<SocketAddr> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The last errors of a log (else its last lines), joined and without control characters.
fn essence(log: &str) -> String {
    let loud =
        |line: &&str| ["[error]", "[critical]", "error", "Error"].iter().any(|word| line.contains(word));
    let mut lines: Vec<&str> = log.lines().filter(loud).collect();
    if lines.is_empty() {
        lines = log.lines().collect();
    }
    let tail = lines[lines.len().saturating_sub(3)..].join(" · ");
    let clean: String = tail.chars().map(|c| if c.is_control() { ' ' } else { c }).take(800).collect();
    if clean.trim().is_empty() { "it said nothing".to_owned() } else { clean }
}
