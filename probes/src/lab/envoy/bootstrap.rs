//! Pure: what one Envoy of the lab is to do -> its bootstrap configuration. The DNS cluster mirrors what istiod sends
//! for `resolution: DNS` and `DNS_ROUND_ROBIN` (pilot/pkg/networking/core, `cluster_builder.go`), written as the
//! version at hand wants it. `lab` fills a [`Proxy`] and hands the result to `process`.

mod cluster;
mod listener;

use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use policies::Version;
use policies::platform::NEW_DNS_SINCE;

pub use cluster::{DnsCluster, Outlier};

/// The name of the one listener.
pub const LISTENER: &str = "front";

/// How deep Envoy looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Layer {
    /// The client speaks TLS; Envoy reads the SNI and passes bytes (`protocol: TLS`).
    #[serde(rename = "l4")]
    Passthrough,
    /// The client speaks plain HTTP; Envoy routes requests and originates TLS (`protocol: HTTP` + DestinationRule).
    #[serde(rename = "l7")]
    Http,
}

/// The HTTP version towards the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HttpVersion {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
}

impl HttpVersion {
    /// As it stands in a cell's name.
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
        }
    }
}

/// Where accepted traffic goes.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// To the backends, found by DNS.
    Dns(DnsCluster),
    /// To the egress gateway, over mutual TLS.
    Gateway(SocketAddr),
    /// To the cluster of the external name that a control plane sends.
    Ads(Ads),
}

/// A control plane that sends clusters.
#[derive(Debug, Clone)]
pub struct Ads {
    /// Where it speaks gRPC in plain text.
    pub addr: SocketAddr,
    /// Who asks: the bootstrap's `node`.
    pub node: Value,
}

/// PEM texts: one CA, and one key pair for both ends of the mesh's mutual TLS.
#[derive(Debug, Clone)]
pub struct Trust {
    /// The CA that signed every certificate of the lab.
    pub ca_pem: String,
    /// The mesh identity's certificate.
    pub mesh_cert_pem: String,
    /// Its private key.
    pub mesh_key_pem: String,
}

/// One Envoy of the lab.
#[derive(Debug, Clone)]
pub struct Proxy<'a> {
    /// Decides how the DNS cluster is written.
    pub version: Version,
    /// Run the DNS clusters of 1.38 in a later Envoy (`enable_new_dns_implementation: false`).
    pub old_dns: bool,
    /// The external name.
    pub host: &'a str,
    /// Passthrough or HTTP.
    pub layer: Layer,
    /// HTTP/1.1 or HTTP/2 on the upstream side.
    pub http: HttpVersion,
    /// Whether the listener is a gateway's, which accepts mutual TLS only.
    pub behind_mtls: bool,
    /// Where traffic goes.
    pub upstream: Upstream,
    /// Keys of the lab.
    pub trust: &'a Trust,
    /// `connectionPool.tcp.maxConnectionDuration`: on passthrough a property of the listener (istiod's
    /// `networkfilter.go`), with HTTP one of the upstream pool.
    pub max_connection_duration: Option<Duration>,
}

/// The name istiod gives the cluster of an external name.
#[must_use]
pub fn cluster_name(host: &str) -> String {
    cluster_name_at(443, host)
}

/// The same for another port of its ServiceEntry.
#[must_use]
pub fn cluster_name_at(port: u16, host: &str) -> String {
    format!("outbound|{port}||{host}")
}

/// The whole bootstrap. The admin port and the listener bind port 0.
#[must_use]
pub fn bootstrap(proxy: &Proxy<'_>) -> Value {
    let mut config = json!({
        "node": { "id": "egress-audit-lab", "cluster": "lab" },
        "admin": { "address": loopback() },
        "static_resources": {
            "listeners": [listener::listener(proxy)],
            "clusters": [cluster::cluster(proxy)],
        },
    });
    if let Upstream::Ads(ads) = &proxy.upstream {
        config["node"] = ads.node.clone();
        let grpc = json!({ "envoy_grpc": { "cluster_name": cluster::ADS } });
        config["dynamic_resources"] = json!({
            "ads_config": { "api_type": "GRPC", "transport_api_version": "V3", "grpc_services": [grpc] },
            "cds_config": { "ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s" },
        });
    }
    if proxy.version >= NEW_DNS_SINCE && proxy.old_dns {
        config["layered_runtime"] = json!({ "layers": [{ "name": "lab", "static_layer": {
            "envoy.reloadable_features.enable_new_dns_implementation": false,
        }}]});
    }
    config
}

fn loopback() -> Value {
    address(SocketAddr::from(([127, 0, 0, 1], 0)))
}

fn address(addr: SocketAddr) -> Value {
    json!({ "socket_address": { "address": addr.ip().to_string(), "port_value": addr.port() } })
}

/// Protobuf JSON: seconds with an `s`.
fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

/// The SNI that istiod uses between sidecar and gateway.
fn mesh_sni(host: &str) -> String {
    format!("outbound_.443_._.{host}")
}

fn common_tls(proxy: &Proxy<'_>, with_identity: bool) -> Value {
    let alpn = match (proxy.layer, proxy.http) {
        // Nothing may be negotiated for bytes that are somebody else's TLS.
        (Layer::Passthrough, _) => json!([]),
        (Layer::Http, HttpVersion::H1) => json!(["http/1.1"]),
        (Layer::Http, HttpVersion::H2) => json!(["h2"]),
    };
    let mut tls = json!({
        "alpn_protocols": alpn,
        "validation_context": { "trusted_ca": { "inline_string": proxy.trust.ca_pem } },
    });
    if with_identity {
        tls["tls_certificates"] = json!([{
            "certificate_chain": { "inline_string": proxy.trust.mesh_cert_pem },
            "private_key": { "inline_string": proxy.trust.mesh_key_pem },
        }]);
    }
    tls
}

#[cfg(test)]
mod tests;
