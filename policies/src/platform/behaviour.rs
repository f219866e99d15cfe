//! What changed in Envoy and when, as far as DNS clusters and ejection are concerned: ONE table with sources. The
//! recommendation and the audit read it, and the lab's version matrix measures it again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Version;
use crate::Citation;

/// Something that Envoy does from one version on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// A flip under `LOGICAL_DNS` counts in `membership_change`.
    LogicalFlipRecorded,
    /// A flip under `LOGICAL_DNS` closes idle pooled connections, so that the next request goes to the new address.
    LogicalFlipDrains,
    /// A changed order of the same addresses replaces the `LOGICAL_DNS` host.
    LogicalOrderChurns,
    /// A changed answer clears the ejection of the `LOGICAL_DNS` host.
    LogicalForgetsEjection,
    /// NXDOMAIN and NODATA empty a `STRICT_DNS` cluster.
    EmptyAnswerEmptiesStrict,
    /// `max_ejection_percent` binds the first ejection too.
    EjectionLimitBindsFirst,
    /// `always_eject_one_host` exists (Istio does not set it).
    AlwaysEjectOneHostExists,
    /// The DNS fields of a `Cluster` are deprecated; `DnsCluster` carries them.
    ClusterDnsFieldsDeprecated,
}

/// One row of [`BEHAVIOURS`].
#[derive(Debug)]
pub struct BehaviourRow {
    /// Which behaviour.
    pub behaviour: Behaviour,
    /// The behaviour in one sentence.
    pub what: &'static str,
    /// First Envoy release line that has it.
    pub since: Version,
    /// The runtime guard that takes it back when it is `false`.
    pub guard: Option<&'static str>,
    /// How it is known.
    pub evidence: &'static [Citation],
}

/// The guard over the merged implementation of `STRICT_DNS` and `LOGICAL_DNS`. Istio's bootstrap, which sets a few
/// guards, leaves it at Envoy's default ([`ISTIO_BOOTSTRAP`]), and istiod sends no runtime.
pub const NEW_DNS_GUARD: &str = "envoy.reloadable_features.enable_new_dns_implementation";

/// Envoy's first release line with [`NEW_DNS_GUARD`] on: `STRICT_DNS` and `LOGICAL_DNS` are one implementation there,
/// configured by the extension `DnsCluster` (envoy, changelogs/1.39.0.yaml).
pub const NEW_DNS_SINCE: Version = Version::new(1, 39);

/// Where Istio 1.31 sets runtime guards (`extractRuntimeFlags`); 1.30 sets the same ones.
const ISTIO_BOOTSTRAP: &str = "https://github.com/istio/istio/blob/eed52ebb66ad/pkg/bootstrap/config.go";

/// Where istiod 1.31 writes a DNS cluster (`buildCluster`): by `type`, with the cluster's own DNS fields.
const ISTIO_CLUSTER: &str =
    "https://github.com/istio/istio/blob/eed52ebb66ad/pilot/pkg/networking/core/cluster_builder.go";

const MERGED_DNS: &str = "https://github.com/envoyproxy/envoy/pull/38483";

/// The table, oldest change first.
pub const BEHAVIOURS: &[BehaviourRow] = &[
    BehaviourRow {
        behaviour: Behaviour::EmptyAnswerEmptiesStrict,
        what: "NXDOMAIN and NODATA count as successful answers without addresses and empty a STRICT_DNS cluster",
        since: Version::new(1, 23),
        guard: None,
        evidence: &[
            Citation::thread("https://github.com/envoyproxy/envoy/pull/21027"),
            Citation::lab("dns-outage"),
        ],
    },
    BehaviourRow {
        behaviour: Behaviour::EjectionLimitBindsFirst,
        what: "the k-th ejection out of N needs 100*k/N <= max_ejection_percent, the first one included",
        since: Version::new(1, 28),
        guard: Some("envoy.reloadable_features.check_mep_on_first_eject"),
        evidence: &[
            Citation::thread("https://github.com/envoyproxy/envoy/pull/27909"),
            Citation::lab("dead-ip"),
        ],
    },
    BehaviourRow {
        behaviour: Behaviour::AlwaysEjectOneHostExists,
        what: "always_eject_one_host allows one ejection whatever the percentage; a DestinationRule cannot set it",
        since: Version::new(1, 31),
        guard: None,
        evidence: &[
            Citation::thread("https://github.com/envoyproxy/envoy/pull/34796"),
            Citation::lab("matrix"),
        ],
    },
    BehaviourRow {
        behaviour: Behaviour::ClusterDnsFieldsDeprecated,
        what: "dns_refresh_rate, respect_dns_ttl and dns_jitter of a Cluster are deprecated in favour of DnsCluster",
        // The oldest release that could be asked; it warns already.
        since: Version::new(1, 36),
        guard: None,
        evidence: &[
            Citation::docs(
                "https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/clusters/dns/v3/dns_cluster.proto",
            ),
            Citation::docs(ISTIO_CLUSTER),
            Citation::lab("matrix"),
        ],
    },
    BehaviourRow {
        behaviour: Behaviour::LogicalFlipRecorded,
        what: "a changed answer under LOGICAL_DNS removes and adds the host: membership_change counts it",
        since: NEW_DNS_SINCE,
        guard: Some(NEW_DNS_GUARD),
        evidence: &[
            Citation::thread(MERGED_DNS),
            Citation::lab("flip-record"),
            Citation::docs(ISTIO_BOOTSTRAP),
        ],
    },
    BehaviourRow {
        behaviour: Behaviour::LogicalFlipDrains,
        what: "a changed answer under LOGICAL_DNS closes idle pooled connections",
        since: NEW_DNS_SINCE,
        guard: Some(NEW_DNS_GUARD),
        evidence: &[Citation::thread(MERGED_DNS), Citation::lab("keepalive-pinning")],
    },
    BehaviourRow {
        behaviour: Behaviour::LogicalOrderChurns,
        what: "a changed order of the same addresses replaces the LOGICAL_DNS host as well",
        since: NEW_DNS_SINCE,
        guard: Some(NEW_DNS_GUARD),
        evidence: &[Citation::thread(MERGED_DNS), Citation::lab("order-churn")],
    },
    BehaviourRow {
        behaviour: Behaviour::LogicalForgetsEjection,
        what: "a changed answer under LOGICAL_DNS clears the ejection of its only host",
        since: NEW_DNS_SINCE,
        guard: Some(NEW_DNS_GUARD),
        evidence: &[Citation::thread(MERGED_DNS), Citation::lab("ejection-memory")],
    },
];

impl Behaviour {
    /// The behaviour's row of the table.
    ///
    /// # Panics
    /// Never: a test holds the table complete.
    #[must_use]
    pub fn row(self) -> &'static BehaviourRow {
        BEHAVIOURS
            .iter()
            .find(|row| row.behaviour == self)
            .unwrap_or_else(|| unreachable!("{self:?} has no row in BEHAVIOURS"))
    }
}
