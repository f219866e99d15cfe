//! The words: why the advice is what it is, what to look out for, and the three questions that the decision guide
//! wants settled before it is shared. Numbers come from `configure`; nothing is computed here.

use super::facts::Facts;
use super::{Cost, Observed, Recommendation};
use crate::{Citation, LookupFamily, Platform, ProxyKind, Reason, Resolution, ResolutionClass, VersionBasis};

mod caveats;
mod checks;

const SERVICE_DISCOVERY: Citation = Citation::docs(
    "https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/service_discovery",
);
const OUTLIER_PROTO: Citation = Citation::docs(
    "https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/outlier_detection.proto",
);
const DESTINATION_RULE: Citation =
    Citation::docs("https://istio.io/latest/docs/reference/config/networking/destination-rule/");

/// Reasons, caveats and checks of an advice with a resolution.
pub(super) fn advised(
    advice: &mut Recommendation,
    facts: &Facts,
    resolution: Resolution,
    platform: &Platform,
) {
    advice.reasons.push(why_this_resolution(facts, resolution));
    if let [chosen, other] = &advice.costs[..] {
        advice.reasons.push(price(chosen, other, advice.settings.protocol.is_http(), platform));
    }
    advice.reasons.push(Reason::new(
        "a changed answer cuts no request or stream in flight under either resolution",
        &[SERVICE_DISCOVERY, Citation::lab("in-flight-flip")],
    ));
    advice.reasons.extend(why_these_settings(advice, facts, resolution));
    advice.caveats = caveats::of(advice, facts, resolution, platform);
    advice.checks = checks::of(advice, facts);
}

fn why_this_resolution(facts: &Facts, resolution: Resolution) -> Reason {
    let text = if resolution == Resolution::DnsRoundRobin {
        format!(
            "{} {} addresses stand behind answers of {}: a missing address was not drawn this time, so its \
             absence means nothing and no list should be kept",
            if facts.unbounded { "at least" } else { "about" },
            facts.pool,
            decimal(facts.answer_size)
        )
    } else {
        format!(
            "the pool is small ({} in all, {} per answer), so an address that stays away was probably taken out of \
             service; DNS follows that",
            addresses(facts.pool),
            decimal(facts.answer_size)
        )
    };
    Reason::new(text, &[Citation::Window, SERVICE_DISCOVERY])
}

fn price(chosen: &Cost, other: &Cost, http: bool, platform: &Platform) -> Reason {
    let version = platform.envoy().version;
    let of = |cost: &Cost| {
        let members = decimal(cost.members_replaced_per_hour);
        let connections = if http {
            format!("closes {} pooled connections per worker", decimal(cost.reconnects_per_hour))
        } else {
            "closes no passed-through connection".to_owned()
        };
        format!("{} replaces {members} members an hour and {connections}", cost.resolution)
    };
    let text = if chosen.members_replaced_per_hour + other.members_replaced_per_hour == 0.0 {
        format!("on Envoy {version} neither resolution replaces members while the answers stay as they are")
    } else {
        format!("on Envoy {version}, {}; {}", of(chosen), of(other))
    };
    Reason::new(text, &[Citation::Window, Citation::lab("rotation-churn")])
}

fn why_these_settings(advice: &Recommendation, facts: &Facts, resolution: Resolution) -> Vec<Reason> {
    let Some(traffic) = &advice.traffic else { return Vec::new() };
    let mut reasons = Vec::new();
    match traffic.outlier_detection {
        Some(outlier) => reasons.push(Reason::new(
            format!(
                "at least {} addresses are listed at a time: up to {} % may be ejected, which leaves {} (the \
                 default of 10 % ejects none of fewer than 10); connectTimeout {} s so that three failures take \
                 seconds, not half a minute",
                outlier.members,
                outlier.max_ejection_percent,
                match outlier.members - outlier.members * outlier.max_ejection_percent as usize / 100 {
                    1 => "one".to_owned(),
                    left => left.to_string(),
                },
                traffic.connect_timeout_s
            ),
            &[OUTLIER_PROTO, Citation::thread("https://github.com/envoyproxy/gateway/issues/8140"), Citation::lab("dead-ip")],
        )),
        None if resolution == Resolution::DnsRoundRobin => reasons.push(Reason::new(
            "no outlier detection: the cluster has one logical host, and ejecting it takes the whole name down; Envoy \
             tries the next address of the answer by itself when one refuses",
            &[Citation::thread("https://github.com/envoyproxy/envoy/issues/32088"), Citation::lab("ejection-memory")],
        )),
        None => reasons.push(Reason::new(
            "no outlier detection: one address is listed at a time, so there is nowhere else to go; what decides a \
             fail-over is how fast the DNS side notices, and the TTL",
            &[Citation::Deduced],
        )),
    }
    if let Some(lifetime) = traffic.max_connection_duration_s {
        reasons.push(Reason::new(
            format!(
                "maxConnectionDuration {lifetime} s, at the top level of trafficPolicy (port settings and subsets are \
                 not copied to a passed-through connection), because a connection stays on its address until it ends"
            ),
            &[DESTINATION_RULE, Citation::lab("keepalive-pinning"), Citation::lab("failover-time")],
        ));
    }
    if facts.is_small_pool() && advice.alternative.is_some() {
        reasons.push(Reason::new(
            "every address of the pool has been seen and an answer holds only some of them: STATIC endpoints with all \
             of them, under outlier detection, are a third way, as long as somebody keeps the list",
            &[Citation::Window],
        ));
    }
    reasons
}

/// Why there is no resolution, and what would help.
pub(super) fn nothing_advised(advice: &mut Recommendation, observed: &Observed<'_>, platform: &Platform) {
    let v6_only = platform.lookup_family == LookupFamily::V4Only
        && observed.aaaa.is_some_and(|aaaa| !aaaa.observation.addresses.is_empty());
    let (text, remedy) = match advice.class {
        ResolutionClass::Unresolvable if v6_only => (
            "only AAAA records exist, and pods with IPv4 ask for A only".to_owned(),
            "enable dual stack for these workloads, or ask the partner for an A record".to_owned(),
        ),
        ResolutionClass::Unresolvable => (
            "no server answered with an address, and every proxy that knows the entry keeps asking"
                .to_owned(),
            "check the spelling and ask from a network that can resolve the name, or remove its entry"
                .to_owned(),
        ),
        _ if platform.lookup_family == LookupFamily::V6Only && observed.aaaa.is_none() => (
            "the proxy asks for AAAA records, which were not observed".to_owned(),
            "observe both families".to_owned(),
        ),
        _ => ("the window cannot tell a small pool from a large one".to_owned(), more(observed)),
    };
    advice.reasons.push(Reason::new(text, &[Citation::Window]));
    advice.remedy = Some(remedy);
}

fn more(observed: &Observed<'_>) -> String {
    match &observed.a.classification.needs {
        Some(needs) => {
            format!("observe longer: {} more independent answers, about {} s", needs.draws, needs.wait_s)
        }
        None => "observe longer, or where an authoritative server can be asked directly".to_owned(),
    }
}

/// What holds with and without a resolution: the version and the family that the advice is for.
pub(super) fn both_ways(advice: &mut Recommendation, observed: &Observed<'_>, platform: &Platform) {
    let version = advice.envoy.version;
    let basis = match advice.envoy.basis {
        VersionBasis::Given => None,
        VersionBasis::FromIstio => Some("as Istio's release table has it"),
        VersionBasis::FromIstioThirdParty => {
            Some("as others' release notes have it: check `envoy --version` in the proxy")
        }
        VersionBasis::FromIstioPattern => {
            Some("by the pattern of earlier releases: check `envoy --version` in the proxy")
        }
        VersionBasis::Assumed => Some("since no version was named: name yours, the costs depend on it"),
    };
    if let Some(basis) = basis {
        let text = format!("the advice is for Envoy {version}, {basis}");
        advice.caveats.push(Reason::new(text, &[crate::platform::ISTIO_ENVOY_SOURCE]));
    }
    let a_is_empty = observed.a.observation.addresses.is_empty();
    let aaaa_answers = observed.aaaa.is_some_and(|aaaa| !aaaa.observation.addresses.is_empty());
    if platform.lookup_family == LookupFamily::V4Only && aaaa_answers && !a_is_empty {
        advice.caveats.push(Reason::new(
            "the AAAA records are not used: pods with IPv4 ask for A only unless dual stack is enabled",
            &[Citation::thread("https://github.com/istio/istio/issues/50823")],
        ));
    }
    if advice.resolution.is_some() && platform.proxy_kind == ProxyKind::Ambient {
        advice.caveats.push(Reason::new(
            "ztunnel looks names up on demand and balances over all addresses: DNS_ROUND_ROBIN makes no difference \
             there, outlier detection needs a waypoint, and the entry needs DNS capture to be reached",
            &[Citation::thread("https://github.com/istio/ztunnel/pull/612")],
        ));
    }
}

/// At most one decimal, and none where it says nothing.
pub(crate) fn decimal(number: f64) -> String {
    if number >= 10.0 || (number - number.round()).abs() < 0.05 {
        format!("{number:.0}")
    } else {
        format!("{number:.1}")
    }
}

fn addresses(count: usize) -> String {
    if count == 1 { "1 address".to_owned() } else { format!("{count} addresses") }
}
