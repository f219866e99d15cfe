//! Typed Istio manifests and their YAML. [`Recommendation`]s come in, [`Manifest`]s and then text go out
//! ([`manifests_for`], [`render`]); what was printed reads back equal ([`parse`]). `cli generate` prints them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod build;
mod comments;
pub mod egress;
mod load;
pub(crate) mod mesh_config;
mod name;
pub mod node;
mod read;
pub(crate) mod spelled;
mod yaml;

pub use build::{manifests_for, warnings};
pub use comments::{Comments, reduce};
use egress::{Gateway, SubsetRule, VirtualService};
pub(crate) use load::clip;
pub use load::{Kind, LoadProblem, Loadable, Loaded, MAX_FILE_BYTES};
pub use mesh_config::dns_refresh_rate_in;
pub use name::{is_resource_name, resource_name, stable_hash};
#[cfg(test)]
pub(crate) use read::read;
pub use yaml::{ManifestError, parse, render};

use crate::Resolution;

/// One resource with the comment above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Lines of the comment, any text; they are escaped when they are printed.
    #[serde(default)]
    pub comment: Vec<String>,
    /// The resource.
    pub resource: Resource,
}

/// A resource that the tool writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Resource {
    /// Registers names.
    ServiceEntry(ServiceEntry),
    /// Says how to connect to one of them.
    DestinationRule(DestinationRule),
    /// Accepts them on an egress gateway.
    Gateway(Gateway),
    /// Leads them through it.
    VirtualService(VirtualService),
    /// Says how to connect to the gateway.
    SubsetRule(SubsetRule),
}

/// `networking.istio.io/v1` `ServiceEntry`, the fields that the tool writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceEntry {
    /// The API.
    pub api_version: ApiVersion,
    /// The kind.
    pub kind: ServiceEntryKind,
    /// Name and namespace.
    pub metadata: Metadata,
    /// What is registered.
    pub spec: ServiceEntrySpec,
}

/// `networking.istio.io/v1` `DestinationRule`, the fields that the tool writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DestinationRule {
    /// The API.
    pub api_version: ApiVersion,
    /// The kind.
    pub kind: DestinationRuleKind,
    /// Name and namespace.
    pub metadata: Metadata,
    /// How to connect.
    pub spec: DestinationRuleSpec,
}

/// The version that the tool writes; Istio serves it since 1.22.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApiVersion {
    /// `networking.istio.io/v1`.
    #[default]
    #[serde(rename = "networking.istio.io/v1")]
    V1,
}

/// The kind of a [`ServiceEntry`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceEntryKind {
    /// `ServiceEntry`.
    #[default]
    ServiceEntry,
}

/// The kind of a [`DestinationRule`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DestinationRuleKind {
    /// `DestinationRule`.
    #[default]
    DestinationRule,
}

/// `metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// RFC 1123 label.
    pub name: String,
    /// Absent leaves it to `kubectl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// `ServiceEntry.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceEntrySpec {
    /// The names.
    pub hosts: Vec<String>,
    /// The addresses that clients connect to, where no name tells them apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Always `MESH_EXTERNAL`.
    pub location: String,
    /// How the addresses are found.
    pub resolution: Resolution,
    /// What the application connects to.
    pub ports: Vec<ServicePort>,
    /// Addresses for `STATIC`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<Endpoint>,
    /// Namespaces that see the entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub export_to: Vec<String>,
}

/// One of `ServiceEntry.spec.ports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServicePort {
    /// What the application connects to.
    pub number: u16,
    /// Name of the port.
    pub name: String,
    /// Istio's name of the protocol.
    pub protocol: String,
    /// What the proxy connects to, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<u16>,
}

/// One of `ServiceEntry.spec.endpoints`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// IP address.
    pub address: String,
}

/// `DestinationRule.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DestinationRuleSpec {
    /// The name that it is about.
    pub host: String,
    /// How to connect.
    pub traffic_policy: TrafficPolicy,
    /// Namespaces that see the rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub export_to: Vec<String>,
}

/// `trafficPolicy`, top level: the only one that istiod copies to a passed-through connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrafficPolicy {
    /// Connections.
    pub connection_pool: ConnectionPool,
    /// Ejection of addresses that fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlier_detection: Option<OutlierDetection>,
    /// TLS towards the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
}

/// `connectionPool`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectionPool {
    /// TCP settings.
    pub tcp: TcpSettings,
}

/// `connectionPool.tcp`; durations are written as `30s`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TcpSettings {
    /// Longest time for a connect.
    pub connect_timeout: String,
    /// Longest life of a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connection_duration: Option<String>,
    /// Longest silence on a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<String>,
}

/// `outlierDetection`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutlierDetection {
    /// Count failed connects apart from answers.
    pub split_external_local_origin_errors: bool,
    /// Failed connects in a row that eject.
    pub consecutive_local_origin_failures: u32,
    /// 502, 503, 504 in a row that eject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consecutive_gateway_errors: Option<u32>,
    /// Any 5xx in a row that eject; 0 switches it off.
    #[serde(default, rename = "consecutive5xxErrors", skip_serializing_if = "Option::is_none")]
    pub consecutive_5xx_errors: Option<u32>,
    /// Time between judgements.
    pub interval: String,
    /// Shortest ejection.
    pub base_ejection_time: String,
    /// Share that may be ejected.
    pub max_ejection_percent: u32,
    /// Healthy share below which ejections are ignored.
    pub min_health_percent: u32,
}

/// `tls`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientTls {
    /// Always `SIMPLE`.
    pub mode: String,
    /// Name to ask for and to verify.
    pub sni: String,
}

impl Resource {
    /// Kind, namespace and name: what must be unique.
    #[must_use]
    pub fn identity(&self) -> (&'static str, Option<&str>, &str) {
        let (kind, metadata) = match self {
            Self::ServiceEntry(entry) => ("ServiceEntry", &entry.metadata),
            Self::DestinationRule(rule) => ("DestinationRule", &rule.metadata),
            Self::SubsetRule(rule) => ("DestinationRule", &rule.metadata),
            Self::Gateway(gateway) => ("Gateway", &gateway.metadata),
            Self::VirtualService(service) => ("VirtualService", &service.metadata),
        };
        (kind, metadata.namespace.as_deref(), &metadata.name)
    }
}
