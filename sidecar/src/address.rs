//! Where to listen and whom to ask: TCP addresses and unix sockets, as written on the command line. Names are not
//! resolved (a static binary has no resolver, and inside a pod there is nothing to resolve) except `localhost`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// An address to listen on: `:18180` (all addresses), `127.0.0.1:18181`, `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bind {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
        match full.parse() {
            Ok(address) => Ok(Self::Tcp(address)),
            Err(_) => Err(format!("`{text}` is not `:port`, `ip:port` or `unix:/path`")),
        }
    }
}

/// A server to ask: `http://127.0.0.1:15000`, `127.0.0.1:15000`, `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Tried in order: `localhost` is both loopback addresses.
    Tcp(Vec<SocketAddr>),
    Unix(PathBuf),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let rest = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        if let Some(port) = rest.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
            let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            return Ok(Self::Tcp(both.map(|ip| SocketAddr::new(ip, port)).to_vec()));
        }
        match rest.parse() {
            Ok(address) => Ok(Self::Tcp(vec![address])),
            Err(_) => {
                Err(format!("`{text}` is not `http://ip:port`, `http://localhost:port` or `unix:/path`"))
            }
        }
    }
}

/// A connection of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

impl Target {
    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Self::Tcp(addresses) => Ok(Box::new(TcpStream::connect(&addresses[..]).await?)),
        }
    }
}
