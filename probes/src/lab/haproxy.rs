//! A real HAProxy in front of the lab's pods: configured ([`config`]), run on unix sockets only, asked over its stats
//! socket, and read by its log. Called by `ingress`.

pub mod config;
pub mod stats;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::lab::child::Child;
use crate::lab::scratch::Scratch;
use config::Config;
use stats::{CutSession, ServerLine};

/// Why HAProxy does not run or answer.
#[derive(Debug, thiserror::Error)]
pub enum HaProxyError {
    /// Not in `PATH` nor in the folders for servers.
    #[error("haproxy is not installed")]
    Missing,
    /// A file or socket of the run.
    #[error("{what}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It ended, usually because of its configuration.
    #[error("haproxy ended: {said}")]
    Ended {
        /// The end of its log.
        said: String,
    },
}

impl HaProxyError {
    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Missing => "install it (Debian: apt-get install haproxy), or put it into PATH",
            Self::Io { .. } => "check that TMPDIR can be written and is a short path (unix sockets)",
            Self::Ended { .. } => "the lab needs HAProxy 2.4 or newer",
        }
    }
}

/// A running HAProxy. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct HaProxy {
    child: Child,
    /// Processes before a reload: they end when their last session has.
    retired: Vec<Child>,
    folder: Scratch,
}

impl HaProxy {
    /// Starts it and waits until its stats socket answers.
    ///
    /// # Errors
    /// Not installed, or it refuses the configuration.
    pub async fn start(config: &Config) -> Result<Self, HaProxyError> {
        let io = |what| move |source| HaProxyError::Io { what, source };
        let binary = find().ok_or(HaProxyError::Missing)?;
        let folder = Scratch::new("haproxy").map_err(io("the run's folder cannot be made"))?;
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, config.render(folder.path()))
            .map_err(io("the configuration cannot be written"))?;
        // -db: in the foreground, so that the process that is started is the one that serves.
        let args = ["-db".as_ref(), "-f".as_ref(), file.as_os_str()];
        let child = Child::start(&binary, args, folder.path().join("haproxy.log"))
            .map_err(io("haproxy cannot be started"))?;
        let mut haproxy = Self { child, retired: Vec::new(), folder };
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match haproxy.servers().await {
                Ok(_) => return Ok(haproxy),
                Err(_) if !haproxy.child.running() => {
                    let said = haproxy.child.log();
                    let tail: Vec<&str> = said.lines().rev().take(3).collect();
                    return Err(HaProxyError::Ended { said: tail.join(" · ") });
                }
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Starts a new process that takes over from this one, as `systemctl reload haproxy` does: what runs stays with the
    /// old one, and the new one knows nothing of the servers' states. Returns when the new one answers.
    ///
    /// # Errors
    /// It cannot be started, or does not answer.
    pub async fn reload(&mut self) -> Result<(), HaProxyError> {
        let io = |what| move |source| HaProxyError::Io { what, source };
        let binary = find().ok_or(HaProxyError::Missing)?;
        let old = self.child.pid().map_err(io("the old process is not known"))?.as_raw_nonzero().to_string();
        let file = self.folder.path().join("haproxy.cfg");
        let args = ["-db".as_ref(), "-f".as_ref(), file.as_os_str(), "-sf".as_ref(), old.as_ref()];
        let log = self.folder.path().join(format!("haproxy-{}.log", self.retired.len() + 1));
        let child = Child::start(&binary, args, log).map_err(io("haproxy cannot be started"))?;
        let pid = || child.pid().map(|pid| pid.as_raw_nonzero().to_string());
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let said = stats::process(&self.stats_socket()).await;
            match (said, pid()) {
                (Ok(answers), Ok(new)) if answers == new => break,
                (Err(source), _) if Instant::now() > deadline => {
                    return Err(HaProxyError::Io { what: "the stats socket does not answer", source });
                }
                _ if Instant::now() > deadline => {
                    return Err(HaProxyError::Ended { said: "the old process still answers".to_owned() });
                }
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
        self.retired.push(std::mem::replace(&mut self.child, child));
        Ok(())
    }

    /// Where HTTP/1 clients connect.
    #[must_use]
    pub fn front_h1(&self) -> PathBuf {
        config::front_h1(self.folder.path())
    }

    /// Where HTTP/2 clients connect.
    #[must_use]
    pub fn front_h2(&self) -> PathBuf {
        config::front_h2(self.folder.path())
    }

    /// Where raw TCP clients connect.
    #[must_use]
    pub fn front_tcp(&self) -> PathBuf {
        config::front_tcp(self.folder.path())
    }

    /// The stats socket.
    #[must_use]
    pub fn stats_socket(&self) -> PathBuf {
        config::stats_socket(self.folder.path())
    }

    /// The HTTP backend's servers as `show stat` has them now.
    ///
    /// # Errors
    /// The stats socket does not answer.
    pub async fn servers(&self) -> Result<Vec<ServerLine>, HaProxyError> {
        stats::ask(&self.stats_socket())
            .await
            .map_err(|source| HaProxyError::Io { what: "the stats socket does not answer", source })
    }

    /// The sessions that HAProxy itself ended, by its log.
    #[must_use]
    pub fn cut_sessions(&self) -> Vec<CutSession> {
        stats::cut_sessions(&self.log())
    }

    /// Its whole log.
    #[must_use]
    pub fn log(&self) -> String {
        self.retired.iter().chain([&self.child]).map(Child::log).collect()
    }
}

/// `haproxy` in `PATH` or where Debian puts it.
#[must_use]
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join("haproxy"))
        .find(|file: &PathBuf| Path::is_file(file))
}
