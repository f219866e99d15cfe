//! What one proxy says about the clusters of external names, and what its numbers mean. What was read from an admin
//! port or from its metrics comes in as an [`Inspection`]; sentences go out. Called by `proxy status`.

mod meaning;

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use meaning::{addresses, meanings};

use crate::{ClusterType, Version};

/// One proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inspection {
    /// Envoy's version.
    pub envoy: Version,
    /// The node id, such as `sidecar~10.0.0.7~api-0.shop~shop.svc.cluster.local`.
    pub node: String,
    /// Istio's version, where an agent started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub istio: Option<String>,
    /// The guard over the merged DNS implementation, where the runtime sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<bool>,
    /// Clusters of external names, by name.
    pub clusters: Vec<InspectedCluster>,
}

/// One cluster that asks DNS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InspectedCluster {
    /// `outbound|443||api.partner.example`.
    pub name: String,
    /// The external name.
    pub host: String,
    /// What it is.
    #[serde(rename = "type")]
    pub cluster_type: ClusterType,
    /// How that is written.
    pub written: Written,
    /// How DNS is used.
    pub dns: DnsSettings,
    /// `connect_timeout`, seconds.
    pub connect_timeout_s: f64,
    /// The outlier detection as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlier: Option<Value>,
    /// `max_connection_duration` of an HTTP pool, seconds. Of a TCP route it is a property of the listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connection_duration_s: Option<f64>,
    /// Hosts that are members now.
    pub members: Vec<Member>,
    /// Those of the cluster's counters that the proxy keeps; Istio's proxies keep none of them by default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// Sockets to addresses that are members no more: the cluster's gauge minus what the members have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<u64>,
}

/// How a cluster's type is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// `type: STRICT_DNS`, with the DNS fields of the cluster.
    Enum,
    /// `cluster_type` with the extension `DnsCluster`.
    DnsCluster,
}

/// How DNS is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DnsSettings {
    /// Refresh by the answer's TTL.
    pub respect_ttl: bool,
    /// Refresh after a failure or for TTL 0, seconds; Envoy's default is 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_s: Option<f64>,
    /// Greatest addition to a refresh, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_s: Option<f64>,
    /// `V4_ONLY`, `V6_ONLY`, `ALL`, ..; Envoy's default is `AUTO`.
    pub family: String,
}

/// One member of a cluster, as `/clusters` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its address.
    #[schemars(with = "String")]
    pub addr: IpAddr,
    /// Open connections (`cx_active`).
    pub active: u64,
    /// Connections so far (`cx_total`).
    pub total: u64,
    /// Connects that failed (`cx_connect_fail`).
    pub failed: u64,
    /// Requests or connections that it was picked for (`rq_total`).
    pub picked: u64,
    /// Ejected by outlier detection.
    pub ejected: bool,
}

/// How many proxies have an address as a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressUse {
    /// The external name.
    pub host: String,
    /// The address.
    #[schemars(with = "String")]
    pub addr: IpAddr,
    /// Proxies that have it.
    pub proxies: usize,
    /// Their open connections to it.
    pub active: u64,
}
