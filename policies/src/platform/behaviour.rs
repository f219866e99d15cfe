//! What changed in Envoy and in Istio and when: the only place that knows a version number, each row with its source.
//! The recommendation and the audit read the rows; the lab's version matrix measures those of [`BEHAVIOURS`] again, those
//! of [`NOTED`] are known from changelogs alone, those of [`ISTIO_BEHAVIOURS`] from Istio's notes and source.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Version, VersionBasis};
use crate::Citation;

/// Istio's release lines with the Envoy line that they ship, oldest first.
pub const ISTIO_ENVOY: &[(Version, Version, VersionBasis)] = &[
    (Version::new(1, 20), Version::new(1, 28), VersionBasis::FromIstio),
    (Version::new(1, 21), Version::new(1, 29), VersionBasis::FromIstio),
    (Version::new(1, 22), Version::new(1, 30), VersionBasis::FromIstio),
    (Version::new(1, 23), Version::new(1, 31), VersionBasis::FromIstio),
    (Version::new(1, 24), Version::new(1, 32), VersionBasis::FromIstio),
    (Version::new(1, 25), Version::new(1, 33), VersionBasis::FromIstio),
    (Version::new(1, 26), Version::new(1, 34), VersionBasis::FromIstio),
    (Version::new(1, 27), Version::new(1, 35), VersionBasis::FromIstio),
    (Version::new(1, 28), Version::new(1, 36), VersionBasis::FromIstio),
    (Version::new(1, 29), Version::new(1, 37), VersionBasis::FromIstio),
    (Version::new(1, 30), Version::new(1, 38), VersionBasis::FromIstioThirdParty),
    (Version::new(1, 31), Version::new(1, 39), VersionBasis::FromIstioThirdParty),
    (Version::new(1, 32), Version::new(1, 40), VersionBasis::FromIstioPattern),
];

/// Where [`ISTIO_ENVOY`] is written down.
pub const ISTIO_ENVOY_SOURCE: Citation =
    Citation::docs("https://istio.io/latest/docs/releases/supported-releases/");

/// Istio's version where nobody names one: the newest of [`ISTIO_ENVOY`].
pub const NEWEST_ISTIO: Version = Version::new(1, 32);

/// Envoy's version where nobody names one: the newest that the lab has measured.
pub const ASSUMED_ENVOY: Version = Version::new(1, 40);

/// The newest Envoy that something is known of: its changelog was read before its release.
pub const NEWEST_ENVOY: Version = Version::new(1, 41);

/// The oldest Envoy that the table speaks of: that of the oldest Istio line which has reports.
pub const OLDEST_ENVOY: Version = Version::new(1, 22);

/// Envoy's minor number minus Istio's, the same for every line of the table.
pub(super) const MINOR_OFFSET: u16 = 8;

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

/// What a changelog says that Envoy does, and that the lab has not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Noted {
    /// Clusters of equal settings share one c-ares resolver.
    SharedResolver,
    /// `DnsCluster` can keep a floor under tiny TTLs.
    MinRefreshRate,
    /// A timeout of A beside an empty AAAA no longer empties a `STRICT_DNS` cluster.
    DualLookupKeepsMembers,
    /// A query id of c-ares that is used again stops the refreshes of a cluster no more.
    RefreshSurvivesQueryIds,
    /// Connections learn of a drain one by one.
    DrainByConnection,
    /// A dynamic forward proxy replaces a host whose address changed, so that its pools drain.
    ForwardProxyFlipDrains,
    /// Idle and upgraded connections are drained in the last third of the drain time.
    IdleDrainedLate,
}

/// One row of [`NOTED`].
#[derive(Debug)]
pub struct NotedRow {
    /// Which change.
    pub noted: Noted,
    /// The change in one sentence.
    pub what: &'static str,
    /// First Envoy release line that has it.
    pub since: Version,
    /// First line that has it no more.
    pub until: Option<Version>,
    /// The runtime guard that takes it back when it is `false`.
    pub guard: Option<&'static str>,
    /// How it is known.
    pub evidence: &'static [Citation],
}

const CHANGES_1_39: Citation =
    Citation::docs("https://www.envoyproxy.io/docs/envoy/latest/version_history/v1.39/v1.39.0");
const CHANGES_1_40: Citation =
    Citation::docs("https://www.envoyproxy.io/docs/envoy/latest/version_history/v1.40/v1.40.0");
const CHANGES_1_41: Citation =
    Citation::docs("https://github.com/envoyproxy/envoy/blob/main/changelogs/current.yaml");

/// Changes that are known from Envoy's changelogs, oldest first.
pub const NOTED: &[NotedRow] = &[
    NotedRow {
        noted: Noted::SharedResolver,
        what: "clusters with equal c-ares settings share one resolver; 1.40 takes it back for a race",
        since: Version::new(1, 39),
        until: Some(Version::new(1, 40)),
        guard: Some("envoy.restart_features.shared_cares_dns_resolver"),
        evidence: &[CHANGES_1_39, Citation::thread("https://github.com/envoyproxy/envoy/pull/45073")],
    },
    NotedRow {
        noted: Noted::MinRefreshRate,
        what: "DnsCluster.dns_min_refresh_rate keeps a floor under tiny TTLs; istiod does not set it",
        since: Version::new(1, 39),
        until: None,
        guard: None,
        evidence: &[CHANGES_1_39],
    },
    NotedRow {
        noted: Noted::DualLookupKeepsMembers,
        what: "with lookups of both families a timeout of A beside an empty AAAA keeps the members of STRICT_DNS",
        since: Version::new(1, 40),
        until: None,
        guard: Some("envoy.reloadable_features.cares_dual_resolution_preserve_failure"),
        evidence: &[CHANGES_1_40, Citation::thread("https://github.com/envoyproxy/envoy/issues/38752")],
    },
    NotedRow {
        noted: Noted::RefreshSurvivesQueryIds,
        what: "c-ares 1.34.8: a query id that is used again no longer stops a cluster's refreshes for ever",
        since: Version::new(1, 40),
        until: None,
        guard: None,
        evidence: &[CHANGES_1_40],
    },
    NotedRow {
        noted: Noted::DrainByConnection,
        what: "whether a drain closes a connection is decided by an event of that connection",
        since: Version::new(1, 40),
        until: None,
        guard: Some("envoy.reloadable_features.use_connection_event_drain"),
        evidence: &[CHANGES_1_40],
    },
    NotedRow {
        noted: Noted::ForwardProxyFlipDrains,
        what: "a dynamic forward proxy replaces a host whose address changed, and its pools drain; before, sockets that \
               are open stay in use",
        since: Version::new(1, 41),
        until: None,
        guard: Some("envoy.reloadable_features.dfp_cluster_replace_host_on_address_change"),
        evidence: &[CHANGES_1_41],
    },
    NotedRow {
        noted: Noted::IdleDrainedLate,
        what: "idle and upgraded connections, WebSockets among them, are drained in the last third of the drain time",
        since: Version::new(1, 41),
        until: None,
        guard: Some("envoy.reloadable_features.use_connection_event_drain"),
        evidence: &[CHANGES_1_41],
    },
];

impl Noted {
    /// The row of the table.
    ///
    /// # Panics
    /// Never: a test holds the table complete.
    #[must_use]
    pub fn row(self) -> &'static NotedRow {
        NOTED
            .iter()
            .find(|row| row.noted == self)
            .unwrap_or_else(|| unreachable!("{self:?} has no row in NOTED"))
    }
}
