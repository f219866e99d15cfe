//! What the user wants of the manifests and of a fail-over; from flags, read by `recommend` and `manifest`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the application speaks to the proxy.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TLS of its own, passed on by SNI.
    #[default]
    Tls,
    /// The same under Istio's other name.
    Https,
    /// Bytes without a name: Envoy tells such entries apart by address and port only.
    Tcp,
    /// Plain HTTP, passed on as such.
    Http,
    /// Plain HTTP, which the proxy carries on over TLS to port 443.
    TlsOrigination,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Tls, Self::Https, Self::Tcp, Self::Http, Self::TlsOrigination];

    /// Envoy sees requests, not only bytes: it retries, pools connections and counts 5xx.
    #[must_use]
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::TlsOrigination)
    }

    /// The port where none is given; none is customary for TCP.
    #[must_use]
    pub const fn default_port(self) -> Option<u16> {
        match self {
            Self::Tls | Self::Https => Some(443),
            Self::Http | Self::TlsOrigination => Some(80),
            Self::Tcp => None,
        }
    }
}

/// One more port of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedPort {
    /// What the application connects to.
    pub number: u16,
    /// What it speaks there.
    pub protocol: Protocol,
    /// Istio's name of it, where it says more.
    pub spelling: Option<String>,
}

impl Settings {
    /// One of the ports is passed on as bytes without a name.
    #[must_use]
    pub fn has_tcp(&self) -> bool {
        self.protocol == Protocol::Tcp || self.more_ports.iter().any(|port| port.protocol == Protocol::Tcp)
    }
}

/// What the user wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Namespace of the manifests; absent leaves it to `kubectl`.
    pub namespace: Option<String>,
    /// `exportTo`; empty leaves it to the mesh's default.
    pub export_to: Vec<String>,
    /// Name of the manifests; absent derives it from the host.
    pub name: Option<String>,
    /// The egress gateway to lead through, as `namespace/name`; absent writes no routes.
    pub gateway: Option<String>,
    /// `maxEjectionPercent`; absent allows at most half of the addresses.
    pub max_ejection_percent: Option<u32>,
    /// What the application speaks.
    pub protocol: Protocol,
    /// The port that the application connects to.
    pub port: u16,
    /// Istio's name of the protocol, where it says more than `protocol`: `MONGO`, `GRPC`, ...
    pub spelling: Option<String>,
    /// Further ports of the entry.
    pub more_ports: Vec<WantedPort>,
    /// How soon after a change in DNS the old address must be out of use.
    #[serde(rename = "failover_target_s", with = "super::seconds")]
    #[schemars(with = "Option<u64>")]
    pub failover_target: Option<Duration>,
    /// How long the longest response, stream or transfer lasts.
    #[serde(rename = "longest_stream_s", with = "super::seconds")]
    #[schemars(with = "Option<u64>")]
    pub longest_stream: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            export_to: Vec::new(),
            name: None,
            gateway: None,
            max_ejection_percent: None,
            protocol: Protocol::Tls,
            port: 443,
            spelling: None,
            more_ports: Vec::new(),
            failover_target: None,
            longest_stream: None,
        }
    }
}
