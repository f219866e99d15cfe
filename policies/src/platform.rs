//! The proxy that the advice is for. Versions, runtime guards and the kind of proxy come in from flags or from the
//! cluster; what Envoy does there goes out to `recommend`, `audit` and the lab. One table: [`BEHAVIOURS`].

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod behaviour;
mod istio;
mod version;

pub use behaviour::{
    ASSUMED_ENVOY, BEHAVIOURS, Behaviour, BehaviourRow, ISTIO_ENVOY, ISTIO_ENVOY_SOURCE, NEW_DNS_GUARD,
    NEW_DNS_SINCE, NEWEST_ENVOY, NEWEST_ISTIO, NOTED, Noted, NotedRow, OLDEST_ENVOY,
};
pub use istio::{ISTIO_BEHAVIOURS, IstioBehaviour, IstioRow};
pub use version::{Version, VersionError};

use behaviour::MINOR_OFFSET;

/// Where the name is resolved and connected to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProxyKind {
    /// Envoy beside the application.
    Sidecar,
    /// Envoy as an egress gateway.
    #[default]
    Gateway,
    /// ztunnel, without Envoy.
    Ambient,
}

/// Which addresses a proxy asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LookupFamily {
    /// A only: Istio's choice for pods with an IPv4 address.
    #[default]
    V4Only,
    /// AAAA only: Istio's choice for pods with an IPv6 address alone.
    V6Only,
    /// Both, merged into one list: where dual stack is enabled.
    All,
}

/// The proxy that the advice is for. Every field has a default; without a version, [`Platform::envoy`] says which
/// one is assumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Platform {
    /// Istio's version, where it is known.
    pub istio_version: Option<Version>,
    /// The proxy's own version; wins over the one that follows from Istio's.
    pub envoy_version: Option<Version>,
    /// Runtime guards set on the proxy, by full name.
    pub guards: BTreeMap<String, bool>,
    /// What resolves the name.
    pub proxy_kind: ProxyKind,
    /// Which addresses are asked for.
    pub lookup_family: LookupFamily,
    /// `meshConfig.dnsRefreshRate`: used after a failed lookup and for TTL 0 (Istio's default is 60 s).
    /// Where nobody names it, [`Platform::refresh_rate`] says what is assumed.
    #[serde(rename = "dns_refresh_rate_s", with = "crate::recommend::seconds")]
    #[schemars(with = "Option<u64>")]
    pub dns_refresh_rate: Option<Duration>,
}

/// How sure a version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionBasis {
    /// The caller named it.
    Given,
    /// Follows from Istio's version, as Istio's own pages state.
    FromIstio,
    /// Follows from Istio's version, as others' release notes state.
    FromIstioThirdParty,
    /// Follows from Istio's version by the pattern of the releases before.
    FromIstioPattern,
    /// Nobody named a version: the newest that was measured.
    Assumed,
}

/// The Envoy that the advice is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvoyInUse {
    /// Its version.
    pub version: Version,
    /// How sure that is.
    pub basis: VersionBasis,
}

/// `meshConfig.dnsRefreshRate` where it is not set (istio, `pkg/config/mesh/mesh.go`, `DefaultMeshConfig`).
pub const DEFAULT_DNS_REFRESH_RATE: Duration = Duration::from_secs(60);

impl Platform {
    /// The Envoy that the advice is for, and how sure that is.
    #[must_use]
    pub fn envoy(&self) -> EnvoyInUse {
        if let Some(version) = self.envoy_version {
            return EnvoyInUse { version, basis: VersionBasis::Given };
        }
        let Some(istio) = self.istio_version else {
            return EnvoyInUse { version: ASSUMED_ENVOY, basis: VersionBasis::Assumed };
        };
        match ISTIO_ENVOY.iter().find(|(line, ..)| *line == istio.line()) {
            Some(&(_, version, basis)) => EnvoyInUse { version, basis },
            None => EnvoyInUse {
                version: Version::new(1, istio.minor().saturating_add(MINOR_OFFSET)),
                basis: VersionBasis::FromIstioPattern,
            },
        }
    }

    /// How long a proxy waits after a failed lookup and for TTL 0.
    #[must_use]
    pub fn refresh_rate(&self) -> Duration {
        self.dns_refresh_rate.unwrap_or(DEFAULT_DNS_REFRESH_RATE)
    }

    /// Whether the proxy behaves so: new enough, and the guard not taken back.
    #[must_use]
    pub fn behaves(&self, behaviour: Behaviour) -> bool {
        let row = behaviour.row();
        match row.guard.and_then(|guard| self.guards.get(guard)) {
            Some(&set) if !set => false,
            _ => self.envoy().version >= row.since,
        }
    }

    /// Whether a change that is only known from Envoy's changelogs is there.
    #[must_use]
    pub fn notes(&self, noted: Noted) -> bool {
        let (row, envoy) = (noted.row(), self.envoy().version);
        let reverted = row.guard.and_then(|guard| self.guards.get(guard)) == Some(&false);
        !reverted && envoy >= row.since && row.until.is_none_or(|until| envoy < until)
    }

    /// The Istio that the advice is for: the one that was named, else the one that ships the Envoy that was named, else
    /// the newest one that the table knows.
    #[must_use]
    pub fn istio(&self) -> Version {
        let by_envoy = || {
            let envoy = self.envoy_version?.line();
            ISTIO_ENVOY.iter().find(|(_, shipped, _)| *shipped == envoy).map(|(istio, ..)| *istio)
        };
        self.istio_version.or_else(by_envoy).unwrap_or(NEWEST_ISTIO)
    }

    /// Whether Istio does so.
    #[must_use]
    pub fn istio_does(&self, behaviour: IstioBehaviour) -> bool {
        let (row, istio) = (behaviour.row(), self.istio());
        istio >= row.since && row.until.is_none_or(|until| istio < until)
    }

    /// The nearest Istio line that the table knows, where it does not know this one.
    #[must_use]
    pub fn nearest_istio(version: Version) -> Option<Version> {
        let oldest = ISTIO_ENVOY.first().map_or(NEWEST_ISTIO, |(istio, ..)| *istio);
        let nearest = version.line().clamp(oldest, NEWEST_ISTIO);
        (nearest != version.line()).then_some(nearest)
    }

    /// The nearest Envoy line that the table speaks of, where it does not know this one.
    #[must_use]
    pub fn nearest_envoy(version: Version) -> Option<Version> {
        let nearest = version.line().clamp(OLDEST_ENVOY, NEWEST_ENVOY);
        (nearest != version.line()).then_some(nearest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Behaviour; 8] = [
        Behaviour::LogicalFlipRecorded,
        Behaviour::LogicalFlipDrains,
        Behaviour::LogicalOrderChurns,
        Behaviour::LogicalForgetsEjection,
        Behaviour::EmptyAnswerEmptiesStrict,
        Behaviour::EjectionLimitBindsFirst,
        Behaviour::AlwaysEjectOneHostExists,
        Behaviour::ClusterDnsFieldsDeprecated,
    ];

    fn envoy(version: &str) -> Platform {
        Platform { envoy_version: Some(version.parse().unwrap()), ..Platform::default() }
    }

    #[test]
    fn every_behaviour_has_exactly_one_row_with_evidence() {
        assert_eq!(BEHAVIOURS.len(), ALL.len());
        for behaviour in ALL {
            assert!(!behaviour.row().evidence.is_empty(), "{behaviour:?}");
        }
        assert!(BEHAVIOURS.is_sorted_by_key(|row| row.since));
    }

    #[test]
    fn the_other_tables_are_in_order_and_have_evidence() {
        assert!(NOTED.is_sorted_by_key(|row| row.since) && NOTED.iter().all(|row| !row.evidence.is_empty()));
        assert!(ISTIO_BEHAVIOURS.is_sorted_by_key(|row| row.since));
        for row in ISTIO_BEHAVIOURS {
            assert_eq!(row.behaviour.row().what, row.what, "one row each");
            assert!(!row.evidence.is_empty());
        }
        for row in NOTED {
            assert_eq!(row.noted.row().what, row.what, "one row each");
        }
        assert!(ISTIO_ENVOY.is_sorted_by_key(|row| row.0));
        assert_eq!(ISTIO_ENVOY.last().map(|row| row.0), Some(NEWEST_ISTIO));
    }

    #[test]
    fn without_a_version_the_newest_istio_is_meant_and_others_are_told_the_nearest() {
        assert_eq!(Platform::default().istio(), NEWEST_ISTIO);
        assert_eq!(envoy("1.38.3").istio(), Version::new(1, 30));
        assert!(Platform::default().istio_does(IstioBehaviour::SidecarExclusions));
        assert!(!Platform::default().istio_does(IstioBehaviour::LosesRoundRobinEntries), "mended since");
        assert!(
            envoy("1.39.0").notes(Noted::SharedResolver) && !envoy("1.40.0").notes(Noted::SharedResolver)
        );
        for (version, nearest) in [("1.45", Some("1.32")), ("1.6", Some("1.20")), ("1.31.2", None)] {
            let nearest = nearest.map(|version: &str| version.parse().unwrap());
            assert_eq!(Platform::nearest_istio(version.parse().unwrap()), nearest, "{version}");
        }
    }

    #[test]
    fn a_logical_flip_drains_from_1_39_unless_the_guard_takes_it_back() {
        for (version, drains) in [("1.36.4", false), ("1.38.3", false), ("1.39.0", true), ("1.40.0", true)] {
            assert_eq!(envoy(version).behaves(Behaviour::LogicalFlipDrains), drains, "{version}");
        }
        let mut reverted = envoy("1.40.0");
        reverted.guards.insert(NEW_DNS_GUARD.to_owned(), false);
        assert!(!reverted.behaves(Behaviour::LogicalFlipDrains));
        assert!(reverted.behaves(Behaviour::EjectionLimitBindsFirst));
        let mut early = envoy("1.38.3");
        early.guards.insert(NEW_DNS_GUARD.to_owned(), true);
        assert!(!early.behaves(Behaviour::LogicalOrderChurns), "the table speaks of releases, not of trials");
    }

    #[test]
    fn the_envoy_follows_from_istio_with_its_grade() {
        let of = |istio: &str| {
            Platform { istio_version: Some(istio.parse().unwrap()), ..Platform::default() }.envoy()
        };
        assert_eq!(of("1.29.1"), EnvoyInUse { version: Version::new(1, 37), basis: VersionBasis::FromIstio });
        assert_eq!(of("1.31").version, Version::new(1, 39));
        assert_eq!(
            of("1.33"),
            EnvoyInUse { version: Version::new(1, 41), basis: VersionBasis::FromIstioPattern }
        );
        assert_eq!(Platform::default().envoy().basis, VersionBasis::Assumed);
        assert_eq!(envoy("1.38.3").envoy().basis, VersionBasis::Given);
    }
}
