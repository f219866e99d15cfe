//! Envoy's admin interface: the three questions a drain asks. Called by `engine`; counting itself is in `count`.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::address::Target;
use crate::client::{self, ClientError};
use crate::count::{Counting, FILTER, Reading};
use crate::duration::duration;

/// One Envoy.
#[derive(Debug)]
pub(crate) struct Envoy {
    pub(crate) admin: Target,
    pub(crate) data: Option<SocketAddr>,
    pub(crate) counting: Counting,
    pub(crate) limit: Duration,
    pub(crate) inbound_only: bool,
}

/// What `/server_info` says that matters here.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ServerInfo {
    pub(crate) version: String,
    pub(crate) drain_time_s: u64,
    /// `Gradual` or `Immediate`.
    pub(crate) drain_strategy: String,
    pub(crate) uptime_s: u64,
}

/// Why Envoy did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    #[error("no answer from Envoy's admin")]
    Client(#[from] ClientError),
    #[error("Envoy's admin answered {0}")]
    Status(StatusCode),
    #[error("Envoy's server_info is not what was expected")]
    Shape(#[from] serde_json::Error),
}

impl Envoy {
    /// How much work is there. A failure is a reading too. `doubtful` has the data port looked at as well: the gauges
    /// of one listener say nothing of another.
    pub(crate) async fn poll(&self, doubtful: bool) -> Reading {
        let reading = self.count().await;
        let known = matches!(reading, Reading::Known(_));
        if known && doubtful && self.data.is_some() && self.data_refuses().await {
            return Reading::Unknown(Reading::DATA_REFUSED);
        }
        reading
    }

    async fn count(&self) -> Reading {
        // The filter is a regular expression; `\`, `^`, `|` and `+` do not survive in a URL as they are.
        let path = format!("/stats?filter={}", percent_encoded(FILTER));
        match client::ask(&self.admin, Method::GET, &path, self.limit).await {
            Ok((StatusCode::OK, body)) => match std::str::from_utf8(&body) {
                Ok(text) => self.counting.read(text),
                Err(_) => Reading::Unknown(Reading::UNPARSABLE),
            },
            Ok(_) => Reading::Unknown("status"),
            Err(ClientError::Refused) if self.data_refuses().await => Reading::Unknown(Reading::REFUSED),
            Err(ClientError::Refused) => Reading::Unknown("admin_refused"),
            Err(ClientError::Timeout) => Reading::Unknown("timeout"),
            Err(_) => Reading::Unknown("broken"),
        }
    }

    async fn data_refuses(&self) -> bool {
        let Some(data) = self.data else { return true };
        let connect = tokio::time::timeout(self.limit, TcpStream::connect(data)).await;
        matches!(connect, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
    }

    /// Drains the listeners. `skip_exit` keeps Envoy serving after its drain time.
    pub(crate) async fn drain_listeners(&self) -> Result<(), AdminError> {
        let scope = if self.inbound_only { "&inboundonly" } else { "" };
        let path = format!("/drain_listeners?graceful&skip_exit{scope}");
        match client::ask(&self.admin, Method::POST, &path, self.limit).await? {
            (StatusCode::OK, _) => Ok(()),
            (status, _) => Err(AdminError::Status(status)),
        }
    }

    pub(crate) async fn server_info(&self) -> Result<ServerInfo, AdminError> {
        match client::ask(&self.admin, Method::GET, "/server_info", self.limit).await? {
            (StatusCode::OK, body) => Ok(ServerInfo::from(serde_json::from_slice::<RawInfo>(&body)?)),
            (status, _) => Err(AdminError::Status(status)),
        }
    }
}

impl ServerInfo {
    /// Whether a drain of `timeout_s` reaches every answer.
    pub(crate) fn drains_within(&self, timeout_s: u64) -> bool {
        self.drain_strategy == "Immediate" && self.drain_time_s >= timeout_s
    }
}

#[derive(Deserialize)]
struct RawInfo {
    version: String,
    uptime_current_epoch: String,
    command_line_options: RawOptions,
}

#[derive(Deserialize)]
struct RawOptions {
    drain_time: String,
    drain_strategy: String,
}

impl From<RawInfo> for ServerInfo {
    fn from(raw: RawInfo) -> Self {
        let seconds = |text: &str| duration(text).map_or(0, |time| time.as_secs());
        Self {
            drain_time_s: seconds(&raw.command_line_options.drain_time),
            drain_strategy: raw.command_line_options.drain_strategy,
            uptime_s: seconds(&raw.uptime_current_epoch),
            version: raw.version,
        }
    }
}

fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._()*$".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
