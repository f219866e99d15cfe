//! The advice for one name: what was observed and judged of both families, the platform and the user's settings come
//! in; a [`Recommendation`] goes out, complete enough to be printed, saved and turned into manifests without asking
//! again. Pure. `cli` calls [`recommend`]; `manifest::manifests_for` writes the YAML.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod configure;
mod explain;
mod facts;
pub(crate) mod seconds;
mod settings;

pub(crate) use explain::decimal;
pub use settings::{Protocol, Settings, WantedPort};

use crate::{
    Classification, ClusterType, EnvoyInUse, Host, Observation, Platform, ProxyKind, Reason, Resolution,
    ResolutionClass, Trait, Version,
};
use facts::Facts;

/// One family of a name: the facts and the opinion.
#[derive(Debug, Clone, Copy)]
pub struct Family<'a> {
    /// The facts.
    pub observation: &'a Observation,
    /// The opinion.
    pub classification: &'a Classification,
}

/// What is known about a name.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The A records.
    pub a: Family<'a>,
    /// The AAAA records, where they were asked for.
    pub aaaa: Option<Family<'a>>,
}

/// The advice for one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recommendation {
    /// The name.
    pub host: Host,
    /// How the name answers, in the families that the proxy asks for.
    pub class: ResolutionClass,
    /// How sure the class is, 0 to 1.
    pub confidence: f64,
    /// What else was seen.
    pub traits: Vec<Trait>,
    /// The Envoy that the advice is for.
    pub envoy: EnvoyInUse,
    /// The Istio that the advice is for, where it was named.
    pub istio_version: Option<Version>,
    /// The kind of proxy that the advice is for.
    pub proxy_kind: ProxyKind,
    /// What the user wants.
    pub settings: Settings,
    /// The numbers behind the class, in the families that the proxy asks for; absent where those were not observed.
    pub pattern: Option<Pattern>,
    /// The value to write; absent where nothing can be advised, and then [`remedy`](Self::remedy) says what to do.
    pub resolution: Option<Resolution>,
    /// What Envoy will call it; absent for ztunnel.
    pub cluster_type: Option<ClusterType>,
    /// Settings of the `DestinationRule`; absent where nothing can be advised.
    pub traffic: Option<TrafficAdvice>,
    /// How often the proxy asks again; absent where no TTL was seen.
    pub refresh: Option<Refresh>,
    /// What each of the two DNS resolutions costs here, the advised one first.
    pub costs: Vec<Cost>,
    /// A third way, where there is one.
    pub alternative: Option<Alternative>,
    /// The addresses of a small pool, sorted: what clients connect to.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// Why, most important first.
    pub reasons: Vec<Reason>,
    /// What to look out for, most important first.
    pub caveats: Vec<Reason>,
    /// The questions to settle before the advice is shared.
    pub checks: Vec<Check>,
    /// What to do where nothing can be advised.
    pub remedy: Option<String>,
}

/// The numbers behind a class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Mean addresses per answer.
    pub answer_size: f64,
    /// Addresses listed at any one time, a lower bound: what ejection percentages are counted from.
    pub members: usize,
    /// Addresses in all: estimated for a rotating pool, as seen for a small one.
    pub pool: usize,
}

/// Settings of the `DestinationRule`, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficAdvice {
    /// `connectionPool.tcp.connectTimeout`.
    pub connect_timeout_s: u64,
    /// `connectionPool.tcp.maxConnectionDuration`: only with a fail-over target.
    pub max_connection_duration_s: Option<u64>,
    /// `connectionPool.tcp.idleTimeout`: only where the longest stream exceeds the fail-over target.
    pub idle_timeout_s: Option<u64>,
    /// `outlierDetection`: only where another address is listed to go to.
    pub outlier_detection: Option<OutlierAdvice>,
}

/// `outlierDetection` of the `DestinationRule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutlierAdvice {
    /// Addresses listed at any one time, which the percentage is computed from.
    pub members: usize,
    /// Connect failures in a row that eject; counted apart from answers (`splitExternalLocalOriginErrors`).
    pub consecutive_local_origin_failures: u32,
    /// 502, 503 and 504 in a row that eject; only where the proxy sees HTTP.
    pub consecutive_gateway_errors: Option<u32>,
    /// Time between two judgements, seconds.
    pub interval_s: u64,
    /// Shortest ejection, seconds.
    pub base_ejection_time_s: u64,
    /// Share of the members that may be ejected: half of them, unless the user says otherwise.
    pub max_ejection_percent: u32,
    /// Share of healthy members below which ejections are ignored; 0 switches that off.
    pub min_health_percent: u32,
}

/// How often the proxy asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// The interval under the advised resolution, seconds.
    pub refresh_s: u64,
    /// The TTL that it comes from, seconds.
    pub ttl_s: u32,
    /// The TTL is 0, so the interval is the mesh's `dnsRefreshRate`.
    pub fallback: bool,
    /// Smallest TTL seen, a cache's countdown included, seconds.
    pub lowest_s: u32,
    /// Greatest TTL seen, seconds.
    pub highest_s: u32,
}

/// What a resolution costs for this name on this platform.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Which resolution.
    pub resolution: Resolution,
    /// Seconds between two lookups.
    pub refresh_s: u64,
    /// Members taken out of the cluster's list, per hour: 3600 / refresh x (answer size - mean overlap of successive
    /// answers); fail-overs inside the window are left out.
    pub members_replaced_per_hour: f64,
    /// Pooled connections closed and opened again because of that, per hour and worker thread with one idle
    /// connection to each member; 0 where the proxy passes bytes on, since those connections stay.
    pub reconnects_per_hour: f64,
    /// Longest time from a change in DNS until the old address is out of use, seconds: refresh plus the greater of
    /// connection lifetime and longest stream. Absent where nothing bounds it but the application.
    pub worst_failover_s: Option<u64>,
    /// Lookups that one proxy sends per hour, before the search list of its resolver multiplies them.
    pub dns_queries_per_hour: f64,
    /// Envoy's counters show when the address changed.
    pub failover_recorded: bool,
}

/// Another way to register the name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// Which resolution.
    pub resolution: Resolution,
    /// Addresses to list, sorted.
    pub endpoints: Vec<IpAddr>,
}

/// A question to settle before the advice is shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The question.
    pub question: String,
    /// The answer as far as it is known.
    pub answer: String,
    /// Nothing is left to find out.
    pub settled: bool,
}

/// The `resolution` that a class asks for: `DNS` where an absent address was taken out, `DNS_ROUND_ROBIN` where it was
/// not drawn this time, none where nothing is known of the name.
#[must_use]
pub const fn resolution_for(class: ResolutionClass) -> Option<Resolution> {
    match class {
        ResolutionClass::SingleVip | ResolutionClass::FixedMultiIp => Some(Resolution::Dns),
        ResolutionClass::RotatingPool => Some(Resolution::DnsRoundRobin),
        ResolutionClass::Unresolvable | ResolutionClass::InsufficientData => None,
    }
}

/// The advice for one name. Total: every input gives an answer, if only "nothing can be advised, because".
#[must_use]
pub fn recommend(observed: &Observed<'_>, platform: &Platform, settings: &Settings) -> Recommendation {
    let facts = Facts::of(observed, platform.lookup_family);
    let resolution = facts.as_ref().and_then(|facts| resolution_for(facts.class));
    let mut advice = Recommendation {
        host: observed.a.classification.host.clone(),
        class: facts.as_ref().map_or(ResolutionClass::InsufficientData, |facts| facts.class),
        confidence: facts.as_ref().map_or(0.0, |facts| facts.confidence),
        traits: facts.as_ref().map(|facts| facts.traits.clone()).unwrap_or_default(),
        envoy: platform.envoy(),
        istio_version: platform.istio_version,
        proxy_kind: platform.proxy_kind,
        settings: settings.clone(),
        pattern: facts.as_ref().map(|facts| Pattern {
            answer_size: facts.answer_size,
            members: facts.members,
            pool: facts.pool,
        }),
        resolution,
        cluster_type: resolution.and_then(|resolution| resolution.cluster_type(platform.proxy_kind)),
        traffic: None,
        refresh: None,
        costs: Vec::new(),
        alternative: None,
        addresses: facts
            .as_ref()
            .filter(|facts| facts.is_small_pool())
            .map(|facts| facts.union.clone())
            .unwrap_or_default(),
        reasons: Vec::new(),
        caveats: Vec::new(),
        checks: Vec::new(),
        remedy: None,
    };
    match (&facts, resolution) {
        (Some(facts), Some(resolution)) => {
            advise(&mut advice, facts, resolution, platform);
            explain::advised(&mut advice, facts, resolution, platform);
        }
        _ => explain::nothing_advised(&mut advice, observed, platform),
    }
    explain::both_ways(&mut advice, observed, platform);
    advice
}

fn advise(advice: &mut Recommendation, facts: &Facts, resolution: Resolution, platform: &Platform) {
    let settings = &advice.settings;
    let other = match resolution {
        Resolution::Dns => Resolution::DnsRoundRobin,
        _ => Resolution::Dns,
    };
    let costs = [resolution, other]
        .into_iter()
        .filter_map(|resolution| configure::cost(facts, resolution, platform, settings))
        .collect();
    advice.traffic = Some(configure::traffic(facts, resolution, platform, settings));
    advice.refresh = configure::refresh(facts, resolution, platform);
    advice.alternative = configure::alternative(facts);
    advice.costs = costs;
}
