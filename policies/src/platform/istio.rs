//! What changed in Istio and when, as far as egress is concerned: rows with sources, which the audit reads instead of
//! comparing versions itself.

use super::Version;
use crate::Citation;

/// Something that Istio does from one version on, or did up to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IstioBehaviour {
    /// New `DNS_ROUND_ROBIN` entries may be left out until they are edited.
    LosesRoundRobinEntries,
    /// Entries without `addresses` get one, which DNS capture hands out.
    AllocatesAddresses,
    /// `DYNAMIC_DNS` exists, for HTTP through a waypoint.
    DynamicDns,
    /// Wildcards of `DYNAMIC_DNS` get an address too.
    AllocatesForDynamicWildcards,
    /// `DYNAMIC_DNS` goes by SNI through a waypoint, behind a flag.
    DynamicDnsByName,
    /// Sidecars do `DYNAMIC_DNS`.
    DynamicDnsInSidecars,
    /// A Service comes before an entry, the oldest entry before others.
    OldestEntryWins,
    /// `istio.io/connect-strategy` is read.
    ConnectStrategy,
    /// Networks in `addresses` reach ztunnel.
    NetworksInAmbient,
    /// `meshConfig.defaultTrafficPolicy` exists.
    DefaultTrafficPolicy,
    /// `~namespace/host` in a Sidecar leaves a host out.
    SidecarExclusions,
    /// `meshConfig.serviceEntryVisibility` exists.
    ServiceEntryVisibility,
    /// The outbound mode `ALLOW_ANY_DYNAMIC_DNS` exists.
    AllowAnyDynamicDns,
    /// Endpoints that are not ready are sent unless `minHealthPercent` says otherwise.
    SendsUnhealthyEndpoints,
    /// An empty `workloadSelector` stands for no more than it says.
    EmptySelectorMended,
    /// `connectionPool.http.outlierDetectionHttpErrorCodes` exists.
    OutlierHttpErrorCodes,
}

/// One row of [`ISTIO_BEHAVIOURS`].
#[derive(Debug)]
pub struct IstioRow {
    /// Which behaviour.
    pub behaviour: IstioBehaviour,
    /// The behaviour in one sentence.
    pub what: &'static str,
    /// First Istio release that has it.
    pub since: Version,
    /// First release that has it no more.
    pub until: Option<Version>,
    /// How it is known.
    pub evidence: &'static [Citation],
}

const NOTES_1_28: Citation =
    Citation::docs("https://istio.io/latest/news/releases/1.28.x/announcing-1.28/change-notes/");
const NOTES_1_29: Citation =
    Citation::docs("https://istio.io/latest/news/releases/1.29.x/announcing-1.29/change-notes/");
const NOTES_1_30: Citation =
    Citation::docs("https://istio.io/latest/news/releases/1.30.x/announcing-1.30/change-notes/");
const NOTES_1_31: Citation =
    Citation::docs("https://istio.io/latest/news/releases/1.31.x/announcing-1.31/change-notes/");
const MESH_CONFIG: Citation =
    Citation::docs("https://istio.io/latest/docs/reference/config/istio.mesh.v1alpha1/");

/// The table, oldest change first.
pub const ISTIO_BEHAVIOURS: &[IstioRow] = &[
    IstioRow {
        behaviour: IstioBehaviour::LosesRoundRobinEntries,
        what: "early releases of 1.20 and 1.21 leave new DNS_ROUND_ROBIN entries out until they are edited",
        since: Version::new(1, 20),
        until: Some(Version::new(1, 22)),
        evidence: &[Citation::thread("https://github.com/istio/istio/issues/49315")],
    },
    IstioRow {
        behaviour: IstioBehaviour::AllocatesAddresses,
        what: "an entry without addresses gets one by default, which DNS capture hands out",
        since: Version::new(1, 25),
        until: None,
        evidence: &[Citation::docs(
            "https://istio.io/latest/docs/ops/configuration/traffic-management/dns-proxy/",
        )],
    },
    IstioRow {
        behaviour: IstioBehaviour::DynamicDns,
        what: "DYNAMIC_DNS looks up the name that an HTTP request brings along, through a waypoint",
        since: Version::new(1, 28),
        until: None,
        evidence: &[NOTES_1_28, Citation::thread("https://github.com/istio/istio/issues/54540")],
    },
    IstioRow {
        behaviour: IstioBehaviour::AllocatesForDynamicWildcards,
        what: "wildcard hosts get an address as well where the resolution is DYNAMIC_DNS (keepHost)",
        since: Version::new(1, 28),
        until: None,
        evidence: &[NOTES_1_28, Citation::thread("https://github.com/istio/istio/pull/57658")],
    },
    IstioRow {
        behaviour: IstioBehaviour::DynamicDnsByName,
        what: "a waypoint does DYNAMIC_DNS by SNI where ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS is set",
        since: Version::new(1, 29),
        until: None,
        evidence: &[NOTES_1_29, Citation::thread("https://github.com/istio/istio/pull/57972")],
    },
    IstioRow {
        behaviour: IstioBehaviour::DynamicDnsInSidecars,
        what: "sidecars do DYNAMIC_DNS, for HTTP and by SNI, without a flag",
        since: Version::new(1, 30),
        until: None,
        evidence: &[NOTES_1_30],
    },
    IstioRow {
        behaviour: IstioBehaviour::OldestEntryWins,
        what: "of several with one host the Service is used, else the oldest entry",
        since: Version::new(1, 30),
        until: None,
        evidence: &[NOTES_1_30, Citation::thread("https://github.com/istio/istio/issues/60447")],
    },
    IstioRow {
        behaviour: IstioBehaviour::ConnectStrategy,
        what: "istio.io/connect-strategy lets a proxy race connects to several addresses",
        since: Version::new(1, 30),
        until: None,
        evidence: &[NOTES_1_30],
    },
    IstioRow {
        behaviour: IstioBehaviour::NetworksInAmbient,
        what: "networks in the addresses of an entry reach ztunnel",
        since: Version::new(1, 30),
        until: None,
        evidence: &[NOTES_1_30],
    },
    IstioRow {
        behaviour: IstioBehaviour::DefaultTrafficPolicy,
        what: "meshConfig.defaultTrafficPolicy is the baseline of connectionPool and outlierDetection",
        since: Version::new(1, 31),
        until: None,
        evidence: &[NOTES_1_31, MESH_CONFIG],
    },
    IstioRow {
        behaviour: IstioBehaviour::SidecarExclusions,
        what: "~namespace/host in Sidecar.egress.hosts leaves a host out, whatever else imports it",
        since: Version::new(1, 31),
        until: None,
        evidence: &[NOTES_1_31],
    },
    IstioRow {
        behaviour: IstioBehaviour::ServiceEntryVisibility,
        what: "meshConfig.serviceEntryVisibility says who sees an entry, whatever its exportTo",
        since: Version::new(1, 31),
        until: None,
        evidence: &[NOTES_1_31, MESH_CONFIG],
    },
    IstioRow {
        behaviour: IstioBehaviour::AllowAnyDynamicDns,
        what: "outboundTrafficPolicy ALLOW_ANY_DYNAMIC_DNS looks up plain HTTP to unregistered hosts by its Host header",
        since: Version::new(1, 31),
        until: None,
        evidence: &[NOTES_1_31, MESH_CONFIG],
    },
    IstioRow {
        behaviour: IstioBehaviour::SendsUnhealthyEndpoints,
        what: "endpoints that are not ready are sent to the proxies unless minHealthPercent is set",
        since: Version::new(1, 31),
        until: None,
        evidence: &[NOTES_1_31],
    },
    IstioRow {
        behaviour: IstioBehaviour::EmptySelectorMended,
        what: "a workloadSelector without labels no longer matches workloads that it does not name",
        since: Version::release(1, 31, 1),
        until: None,
        evidence: &[Citation::docs("https://istio.io/latest/news/releases/1.31.x/announcing-1.31.1/")],
    },
    IstioRow {
        behaviour: IstioBehaviour::OutlierHttpErrorCodes,
        what: "connectionPool.http.outlierDetectionHttpErrorCodes names the answers that count",
        since: Version::new(1, 32),
        until: None,
        evidence: &[Citation::docs(
            "https://istio.io/latest/docs/reference/config/networking/destination-rule/#ConnectionPoolSettings-HTTPSettings",
        )],
    },
];

impl IstioBehaviour {
    /// The row of the table.
    ///
    /// # Panics
    /// Never: a test holds the table complete.
    #[must_use]
    pub fn row(self) -> &'static IstioRow {
        ISTIO_BEHAVIOURS
            .iter()
            .find(|row| row.behaviour == self)
            .unwrap_or_else(|| unreachable!("{self:?} has no row in ISTIO_BEHAVIOURS"))
    }
}
