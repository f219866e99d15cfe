//! The real drain sidecar as a process: arguments come in, its ports are read from its own log, its control listener
//! is asked over HTTP, and its log lines are what the timeline is made of. Used by `pod`.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::lab::child::{Child, Signal};

/// Why the sidecar does not run or answer.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// Neither beside this program nor in `PATH` nor named by `DRAIN_SIDECAR_BIN`.
    #[error("drain-sidecar was not found")]
    Missing,
    /// It could not be started or asked.
    #[error("{what}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It ended or was not listening in time.
    #[error("drain-sidecar is not listening: {said}")]
    NotListening {
        /// The end of its log.
        said: String,
    },
    /// The connection broke.
    #[error("drain-sidecar did not answer")]
    Http(#[source] hyper::Error),
}

impl SidecarError {
    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Missing => "build it (`cargo build -p drain-sidecar`) or point DRAIN_SIDECAR_BIN at it",
            _ => "its log says why",
        }
    }
}

/// The binary: `DRAIN_SIDECAR_BIN`, beside this program, or in `PATH`.
///
/// # Errors
/// In none of them.
pub fn find() -> Result<PathBuf, SidecarError> {
    if let Some(path) = std::env::var_os("DRAIN_SIDECAR_BIN").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("drain-sidecar"))
        .find(|file| file.is_file())
        .ok_or(SidecarError::Missing)
}

/// A running sidecar.
#[derive(Debug)]
pub struct Sidecar {
    child: Child,
    /// What the load balancer checks.
    pub health: SocketAddr,
    /// What only the pod may ask.
    pub control: SocketAddr,
    /// The agent-check port, where one was asked for.
    pub agent: Option<SocketAddr>,
}

impl Sidecar {
    /// Starts `binary serve` with `args` and waits until it listens. The log is appended to.
    ///
    /// # Errors
    /// It ends, or does not listen within 10 s.
    pub async fn start(binary: &Path, args: &[String], log: PathBuf) -> Result<Self, SidecarError> {
        let lines_before = std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
        let args = std::iter::once("serve").chain(args.iter().map(String::as_str));
        let mut child = Child::start(binary, args, log)
            .map_err(|source| SidecarError::Io { what: "drain-sidecar cannot be started", source })?;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let text = child.log();
            let mut fresh = text.lines().skip(lines_before).filter_map(parse);
            if let Some(line) = fresh.find(|line| line["event"] == "listening") {
                let at = |key: &str| line[key].as_str().and_then(loopback);
                if let (Some(health), Some(control)) = (at("public"), at("control")) {
                    return Ok(Self { child, health, control, agent: at("agent") });
                }
            }
            if !child.running() || Instant::now() > deadline {
                let tail = text.lines().next_back().unwrap_or_default().to_owned();
                return Err(SidecarError::NotListening { said: tail });
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Every line of its log that is JSON, over all its lives.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        self.child.log().lines().filter_map(parse).collect()
    }

    /// When it first said `event` with `field` = `value`, ms since the epoch.
    #[must_use]
    pub fn said(&self, event: &str, field: &str, value: &str) -> Option<u64> {
        let line = self.log().into_iter().find(|line| line["event"] == event && line[field] == value)?;
        line["ts_ms"].as_u64()
    }

    /// Asks the control listener.
    ///
    /// # Errors
    /// No whole answer within `limit`.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        limit: Duration,
    ) -> Result<(StatusCode, Value), SidecarError> {
        let (status, body) = request(self.control, method, path, limit).await?;
        let value = serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
        Ok((status, value))
    }

    /// `GET /drain/status`.
    ///
    /// # Errors
    /// As [`Sidecar::ask`].
    pub async fn status(&self) -> Result<Value, SidecarError> {
        Ok(self.ask(Method::GET, "/drain/status", Duration::from_secs(3)).await?.1)
    }

    /// The status of one public path, as the kubelet or a load balancer without words sees it.
    ///
    /// # Errors
    /// As [`Sidecar::ask`].
    pub async fn public(&self, path: &str) -> Result<StatusCode, SidecarError> {
        Ok(request(self.health, Method::GET, path, Duration::from_secs(3)).await?.0)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It is not there.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        self.child.signal(signal)
    }

    /// Whether it ends by itself within `limit`.
    pub async fn ended(&mut self, limit: Duration) -> bool {
        self.child.ended(limit).await
    }

    /// Kills it.
    pub async fn kill(&mut self) {
        self.child.kill().await;
    }
}

fn parse(line: &str) -> Option<Value> {
    serde_json::from_str(line).ok()
}

/// The address with which a bound one is reached.
fn loopback(text: &str) -> Option<SocketAddr> {
    let bound: SocketAddr = text.parse().ok()?;
    Some(SocketAddr::from(([127, 0, 0, 1], bound.port())))
}

async fn request(
    at: SocketAddr,
    method: Method,
    path: &str,
    limit: Duration,
) -> Result<(StatusCode, Bytes), SidecarError> {
    let io = |source| SidecarError::Io { what: "drain-sidecar cannot be reached", source };
    let exchange = async {
        let stream = TcpStream::connect(at).await.map_err(io)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(SidecarError::Http)?;
        tokio::spawn(connection);
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = method;
        // Paths are the lab's own and well formed.
        *request.uri_mut() = path.parse().unwrap_or_default();
        let response = sender.send_request(request).await.map_err(SidecarError::Http)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(SidecarError::Http)?.to_bytes();
        Ok((status, body))
    };
    timeout(limit, exchange).await.unwrap_or_else(|_| Err(io(io::ErrorKind::TimedOut.into())))
}
