//! Envoy's admin port: counters, gauges, the host list of a cluster and the addresses its listeners got. All read as
//! JSON over one short connection per question, so that asking never counts as traffic of the experiment.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Bytes of the longest answer that is read: the dump of ten thousand clusters.
const LONGEST: usize = 256 << 20;

const PATIENCE: Duration = Duration::from_secs(5);

/// Why the admin port did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// No connection, or one that broke.
    #[error("the admin port {addr} did not answer {path}: {said}")]
    Unreachable {
        /// The admin port.
        addr: SocketAddr,
        /// What was asked.
        path: String,
        /// What the system or hyper said.
        said: String,
    },
    /// An answer in a shape that this version is not known to give.
    #[error("the admin port answered {path} in an unknown shape")]
    Shape {
        /// What was asked.
        path: String,
        /// Where it did not fit.
        source: serde_json::Error,
    },
    /// The proxy's own word for its version is not one.
    #[error("the proxy says that it is Envoy {build:?}, which is not a version")]
    Version {
        /// What it said.
        build: String,
    },
}

/// A handle on one admin port.
#[derive(Debug, Clone, Copy)]
pub struct Admin {
    addr: SocketAddr,
}

/// One host as `/clusters` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ListedHost {
    /// The address that Envoy shows. LOGICAL_DNS before 1.39 shows the newest answer here even for sockets that
    /// still go to an older one.
    #[schemars(with = "String")]
    pub addr: IpAddr,
    /// Connections that Envoy attributes to it (`cx_active`).
    pub active: u64,
    /// Ejected by outlier detection.
    pub ejected: bool,
}

impl Admin {
    /// The admin port at `addr`.
    #[must_use]
    pub const fn new(addr: SocketAddr) -> Self {
        Self { addr }
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Every counter and gauge of `cluster`, by its name after `cluster.<name>.`; istiod ends the name that it counts
    /// under in a semicolon (`alt_stat_name`).
    ///
    /// # Errors
    /// No answer, or one of another shape.
    pub async fn cluster_stats(&self, cluster: &str) -> Result<BTreeMap<String, u64>, AdminError> {
        // The name holds `|` and dots: matched here and not by the filter's regular expression.
        let prefix = format!("cluster.{cluster}");
        let own = |name: &str| {
            let rest = name.strip_prefix(&prefix)?;
            rest.strip_prefix(';').unwrap_or(rest).strip_prefix('.').map(ToOwned::to_owned)
        };
        let all = self.stats("^cluster").await?;
        Ok(all.into_iter().filter_map(|(name, value)| Some((own(&name)?, value))).collect())
    }

    /// Every counter and gauge whose name matches the regular expression `filter` (only unreserved characters).
    ///
    /// # Errors
    /// No answer, or one of another shape.
    pub async fn stats(&self, filter: &str) -> Result<BTreeMap<String, u64>, AdminError> {
        let read: wire::Stats = self.json(&format!("/stats?format=json&filter={filter}")).await?;
        Ok(read.values())
    }

    /// The hosts of `cluster` as `/clusters` lists them; empty when the cluster is unknown.
    ///
    /// # Errors
    /// No answer, or one of another shape.
    pub async fn hosts(&self, cluster: &str) -> Result<Vec<ListedHost>, AdminError> {
        let read: wire::Clusters = self.json("/clusters?format=json").await?;
        let found = read.cluster_statuses.into_iter().find(|status| status.name == cluster);
        Ok(found
            .map(|status| status.host_statuses.iter().filter_map(wire::Host::listed).collect())
            .unwrap_or_default())
    }

    /// The address that each listener is bound to, by listener name.
    ///
    /// # Errors
    /// No answer, or one of another shape.
    pub async fn listeners(&self) -> Result<BTreeMap<String, SocketAddr>, AdminError> {
        let read: wire::Listeners = self.json("/listeners?format=json").await?;
        Ok(read
            .listener_statuses
            .into_iter()
            .filter_map(|status| Some((status.name, status.local_address.socket_addr()?)))
            .collect())
    }

    /// `LIVE` once every cluster has had its first DNS answer and the listeners are open.
    ///
    /// # Errors
    /// No answer.
    pub async fn ready(&self) -> Result<bool, AdminError> {
        Ok(self.get("/ready").await?.trim() == "LIVE")
    }

    async fn json<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, AdminError> {
        let text = self.get(path).await?;
        serde_json::from_str(&text).map_err(|source| AdminError::Shape { path: path.to_owned(), source })
    }

    /// The body of the answer to `GET path`, whatever its status.
    ///
    /// # Errors
    /// No answer within five seconds.
    pub async fn get(&self, path: &str) -> Result<String, AdminError> {
        let failed = |said: String| AdminError::Unreachable { addr: self.addr, path: path.to_owned(), said };
        match tokio::time::timeout(PATIENCE, self.exchange(path)).await {
            Ok(Ok(body)) => Ok(String::from_utf8_lossy(&body).into_owned()),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("nothing within {PATIENCE:?}"))),
        }
    }

    async fn exchange(&self, path: &str) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
        fetch(TcpStream::connect(self.addr).await?, path).await
    }
}

/// The body of the answer to `GET path` over a stream that leads to an admin port, whatever its status.
///
/// # Errors
/// The stream breaks, or the answer is no HTTP or longer than any admin port's.
pub async fn fetch<S>(stream: S, path: &str) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = Request::get(path).header("host", "admin").body(Full::default())?;
    Ok(send(stream, request).await?.1)
}

/// Status and body of the answer to `POST path` with a JSON body, over a stream as for [`fetch`].
///
/// # Errors
/// As for [`fetch`].
pub async fn post<S>(
    stream: S,
    path: &str,
    json: Vec<u8>,
) -> Result<(u16, Bytes), Box<dyn std::error::Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = Request::post(path).header("host", "pod").header("content-type", "application/json");
    send(stream, request.body(Full::from(json))?).await
}

async fn send<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<(u16, Bytes), Box<dyn std::error::Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LONGEST).collect().await?.to_bytes();
    driver.abort();
    Ok((status, body))
}

/// The parts of the admin port's JSON that are read (protobuf JSON: zero values are left out, u64 are strings).
pub(super) mod wire {
    use std::collections::BTreeMap;

    use super::{Deserialize, IpAddr, ListedHost, SocketAddr};
    use policies::proxy::Member;

    #[derive(Deserialize)]
    pub(in super::super) struct Stats {
        stats: Vec<Counted>,
    }

    #[derive(Deserialize)]
    struct Counted {
        name: Option<String>,
        value: Option<serde_json::Value>,
    }

    impl Stats {
        /// Counters and gauges; histograms have no value of their own.
        pub(in super::super) fn values(self) -> BTreeMap<String, u64> {
            self.stats.into_iter().filter_map(|stat| Some((stat.name?, stat.value?.as_u64()?))).collect()
        }
    }

    #[derive(Deserialize)]
    pub(in super::super) struct Clusters {
        #[serde(default)]
        pub cluster_statuses: Vec<Cluster>,
    }

    #[derive(Deserialize)]
    pub(in super::super) struct Cluster {
        pub name: String,
        #[serde(default)]
        pub host_statuses: Vec<Host>,
    }

    #[derive(Deserialize)]
    pub(in super::super) struct Host {
        address: Address,
        #[serde(default)]
        stats: Vec<Stat>,
        #[serde(default)]
        health_status: Health,
    }

    #[derive(Deserialize)]
    struct Stat {
        name: String,
        #[serde(default)]
        value: Option<String>,
    }

    #[derive(Deserialize, Default)]
    struct Health {
        #[serde(default)]
        failed_outlier_check: bool,
    }

    #[derive(Deserialize)]
    pub(super) struct Listeners {
        #[serde(default)]
        pub listener_statuses: Vec<Listener>,
    }

    #[derive(Deserialize)]
    pub(super) struct Listener {
        pub name: String,
        pub local_address: Address,
    }

    #[derive(Deserialize)]
    pub(super) struct Address {
        socket_address: Option<Socket>,
    }

    #[derive(Deserialize)]
    struct Socket {
        address: IpAddr,
        #[serde(default)]
        port_value: u16,
    }

    impl Address {
        pub(super) fn socket_addr(&self) -> Option<SocketAddr> {
            self.socket_address.as_ref().map(|socket| SocketAddr::new(socket.address, socket.port_value))
        }
    }

    impl Host {
        pub(in super::super) fn listed(&self) -> Option<ListedHost> {
            let Member { addr, active, ejected, .. } = self.member()?;
            Some(ListedHost { addr, active, ejected })
        }

        pub(in super::super) fn member(&self) -> Option<Member> {
            let value = |name: &str| {
                let stat = self.stats.iter().find(|stat| stat.name == name);
                stat.and_then(|stat| stat.value.as_ref()?.parse().ok()).unwrap_or(0)
            };
            Some(Member {
                addr: self.address.socket_addr()?.ip(),
                active: value("cx_active"),
                total: value("cx_total"),
                failed: value("cx_connect_fail"),
                picked: value("rq_total"),
                ejected: self.health_status.failed_outlier_check,
            })
        }
    }
}
