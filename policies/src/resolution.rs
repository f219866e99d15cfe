//! What a `ServiceEntry`'s `resolution` becomes. Istio's value and the kind of proxy come in, Envoy's cluster type goes
//! out; `recommend` and `audit` use it, and reports print both names side by side.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ProxyKind;

/// `ServiceEntry.spec.resolution` (istio/api, `networking/v1alpha3/service_entry.proto`).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Resolution {
    /// The application's own destination address; also what an unset field means.
    #[default]
    None,
    /// The addresses of `endpoints`.
    Static,
    /// Every address of the answer is a member.
    Dns,
    /// One logical member: the first address of the answer, for new connections.
    DnsRoundRobin,
    /// Looked up per request from the host or SNI that the client names; for wildcard hosts.
    DynamicDns,
}

/// Envoy's name for it (`envoy.config.cluster.v3.Cluster.DiscoveryType`, or the extension).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClusterType {
    /// Passes on to the address that the application asked for.
    OriginalDst,
    /// Members from the control plane.
    Eds,
    /// All addresses of the answer.
    StrictDns,
    /// The first address of the answer.
    LogicalDns,
    /// `envoy.clusters.dynamic_forward_proxy`.
    DynamicForwardProxy,
}

impl Resolution {
    /// All values, in the order of Istio's enum.
    pub const ALL: [Self; 5] = [Self::None, Self::Static, Self::Dns, Self::DnsRoundRobin, Self::DynamicDns];

    /// The cluster that istiod builds (`convertResolution` in istio's `pilot/pkg/networking/core`). On a gateway
    /// `NONE` becomes an EDS cluster, which has no members (istio/istio#58688). `None` for ztunnel, which looks names
    /// up on demand and has no clusters.
    #[must_use]
    pub fn cluster_type(self, proxy: ProxyKind) -> Option<ClusterType> {
        Some(match (self, proxy) {
            (_, ProxyKind::Ambient) => return None,
            (Self::None, ProxyKind::Sidecar) => ClusterType::OriginalDst,
            (Self::None, ProxyKind::Gateway) | (Self::Static, _) => ClusterType::Eds,
            (Self::Dns, _) => ClusterType::StrictDns,
            (Self::DnsRoundRobin, _) => ClusterType::LogicalDns,
            (Self::DynamicDns, _) => ClusterType::DynamicForwardProxy,
        })
    }

    /// As it is written in a manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Static => "STATIC",
            Self::Dns => "DNS",
            Self::DnsRoundRobin => "DNS_ROUND_ROBIN",
            Self::DynamicDns => "DYNAMIC_DNS",
        }
    }

    /// Reads the value of a manifest; names are upper case there, and nothing else is accepted.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resolution| resolution.as_str() == text)
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for ClusterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OriginalDst => "ORIGINAL_DST",
            Self::Eds => "EDS",
            Self::StrictDns => "STRICT_DNS",
            Self::LogicalDns => "LOGICAL_DNS",
            Self::DynamicForwardProxy => "DYNAMIC_FORWARD_PROXY",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn istio_s_values_become_envoy_s_cluster_types() {
        use ClusterType::{DynamicForwardProxy, Eds, LogicalDns, OriginalDst, StrictDns};
        let sidecar = Resolution::ALL.map(|r| r.cluster_type(ProxyKind::Sidecar).unwrap());
        assert_eq!(sidecar, [OriginalDst, Eds, StrictDns, LogicalDns, DynamicForwardProxy]);
        let gateway = Resolution::ALL.map(|r| r.cluster_type(ProxyKind::Gateway).unwrap());
        assert_eq!(gateway, [Eds, Eds, StrictDns, LogicalDns, DynamicForwardProxy]);
        assert_eq!(Resolution::Dns.cluster_type(ProxyKind::Ambient), None);
    }

    #[test]
    fn names_are_the_manifest_s() {
        for resolution in Resolution::ALL {
            assert_eq!(Resolution::parse(resolution.as_str()), Some(resolution));
            assert_eq!(serde_json::to_value(resolution).unwrap(), resolution.as_str());
        }
        assert_eq!(Resolution::parse("dns"), None);
    }
}
