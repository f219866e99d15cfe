//! What to look out for: the traits and the platform come in, cited sentences go out.

use super::decimal;
use crate::recommend::Recommendation;
use crate::recommend::facts::Facts;
use crate::{Behaviour, Citation, Platform, Protocol, Reason, Resolution, Trait};

/// Most important first.
pub(super) fn of(
    advice: &Recommendation,
    facts: &Facts,
    resolution: Resolution,
    platform: &Platform,
) -> Vec<Reason> {
    let mut caveats = Vec::new();
    caveats.extend(empty_answers(facts, resolution, platform));
    caveats.extend(refresh(advice));
    caveats.extend(failover(advice, resolution, platform));
    caveats.extend(order_churn(advice, facts, platform));
    caveats.extend(protocol(advice));
    caveats.extend(presence(facts, resolution));
    caveats.extend(
        TRAITS
            .iter()
            .filter(|(seen, ..)| facts.has(*seen))
            .map(|(_, text, evidence)| Reason::new(*text, evidence)),
    );
    caveats
}

fn empty_answers(facts: &Facts, resolution: Resolution, platform: &Platform) -> Option<Reason> {
    if !facts.has(Trait::EmptyAnswers) || !platform.behaves(Behaviour::EmptyAnswerEmptiesStrict) {
        return None;
    }
    let refresh = platform.refresh_rate().as_secs();
    let text = match resolution {
        Resolution::Dns => format!(
            "NXDOMAIN or an empty answer came between good ones: each empties a DNS cluster (503 UH) until the next \
             good answer, up to {refresh} s later; DNS_ROUND_ROBIN would keep the last address. Alert on \
             membership_total 0, update_failure does not count it"
        ),
        _ => {
            "NXDOMAIN or an empty answer came between good ones: DNS_ROUND_ROBIN keeps its last address then"
                .to_owned()
        }
    };
    Some(Reason::new(
        text,
        &[Citation::thread("https://github.com/envoyproxy/envoy/pull/21027"), Citation::lab("dns-outage")],
    ))
}

fn refresh(advice: &Recommendation) -> Option<Reason> {
    let refresh = advice.refresh.filter(|refresh| refresh.fallback)?;
    Some(Reason::new(
        format!(
            "TTL 0 does not mean at once: Envoy then asks every {} s (meshConfig.dnsRefreshRate), later than with a \
             TTL of 5",
            refresh.refresh_s
        ),
        &[Citation::Window, Citation::lab("ttl-refresh")],
    ))
}

fn failover(advice: &Recommendation, resolution: Resolution, platform: &Platform) -> Vec<Reason> {
    let settings = &advice.settings;
    let mut caveats = Vec::new();
    let (Some(refresh), Some(traffic)) = (advice.refresh, advice.traffic) else { return caveats };
    let worst = advice.costs.first().and_then(|cost| cost.worst_failover_s);
    if let (Some(target), Some(worst)) = (settings.failover_target, worst)
        && worst > target.as_secs()
    {
        let cause = if refresh.refresh_s >= target.as_secs() {
            format!("the refresh alone takes {} s: ask for a lower TTL", refresh.refresh_s)
        } else {
            "the longest stream outlasts it: shorten it, or give it a name of its own".to_owned()
        };
        let text = format!(
            "the fail-over target of {} s cannot be kept, {worst} s is the worst case: {cause}",
            target.as_secs()
        );
        caveats.push(Reason::new(text, &[Citation::Deduced, Citation::lab("failover-time")]));
    }
    if let Some(idle) = traffic.idle_timeout_s {
        let text = format!(
            "idleTimeout {idle} s ends connections without traffic while streams may go on: streams that are silent \
             for longer need keep-alives"
        );
        caveats.push(Reason::new(text, &[Citation::thread("https://github.com/istio/istio/issues/60009")]));
    }
    if worst.is_none() {
        let text = match (settings.protocol.is_http(), resolution) {
            (true, Resolution::DnsRoundRobin) => format!(
                "up to Envoy {} a pooled connection stays on the old address for ever: give a fail-over target",
                platform.envoy().version
            ),
            _ => "a passed-through connection stays on its address as long as the application holds it: give a \
                  fail-over target, and set the lifetime of the application's pool to it"
                .to_owned(),
        };
        caveats.push(Reason::new(
            text,
            &[
                Citation::thread("https://github.com/istio/istio/issues/23905"),
                Citation::lab("keepalive-pinning"),
            ],
        ));
    }
    caveats
}

fn order_churn(advice: &Recommendation, facts: &Facts, platform: &Platform) -> Option<Reason> {
    if !facts.is_small_pool()
        || !facts.has(Trait::OrderShuffled)
        || !platform.behaves(Behaviour::LogicalOrderChurns)
    {
        return None;
    }
    let other = advice.costs.iter().find(|cost| cost.resolution == Resolution::DnsRoundRobin)?;
    Some(Reason::new(
        format!(
            "do not switch to DNS_ROUND_ROBIN to keep connections: the order of the addresses changes, and from Envoy \
             1.39 on that alone replaces the host, {} times an hour here",
            decimal(other.members_replaced_per_hour)
        ),
        &[Citation::thread("https://github.com/envoyproxy/envoy/pull/38483"), Citation::lab("order-churn")],
    ))
}

fn protocol(advice: &Recommendation) -> Vec<Reason> {
    let settings = &advice.settings;
    let mut caveats = Vec::new();
    if settings.protocol == Protocol::Tcp {
        caveats.push(Reason::new(
            format!(
                "a TCP port without `addresses` listens on 0.0.0.0:{}, whatever the host: two such entries cannot be \
                 told apart, and the first takes all traffic",
                settings.port
            ),
            &[Citation::thread("https://github.com/istio/istio/issues/58696")],
        ));
        if settings.port == 443 {
            caveats.push(Reason::new(
                "TCP on 443 captures unrelated HTTPS too: use TLS, which goes by SNI",
                &[Citation::thread("https://github.com/istio/istio/issues/11741")],
            ));
        }
    }
    if !settings.protocol.is_http() {
        caveats.push(Reason::new(
            "failed connects reach the application, since there is no request to retry: one or two retries on connect \
             failure there, with a connect timeout of 1 to 3 s",
            &[Citation::lab("dead-ip")],
        ));
    }
    caveats
}

fn presence(facts: &Facts, resolution: Resolution) -> Option<Reason> {
    (resolution == Resolution::Dns && facts.has(Trait::PartialAnswers)).then(|| {
        Reason::new(
            format!(
                "an answer holds {} of about {} addresses: an address that leaves the answer and returns has lost its \
                 ejection, so a dead one is learnt anew each time",
                decimal(facts.answer_size),
                facts.pool
            ),
            &[
                Citation::thread("https://github.com/istio/istio/issues/8673"),
                Citation::lab("ejection-memory"),
            ],
        )
    })
}

const TRAITS: &[(Trait, &str, &[Citation])] = &[
    (
        Trait::Sinkhole,
        "one resolver answers with a sinkhole address: clusters behind that resolver would connect to it",
        &[Citation::Window],
    ),
    (
        Trait::SplitHorizon,
        "the servers asked never agreed on an address: ask the one that the proxies use",
        &[Citation::Window],
    ),
    (
        Trait::Regional,
        "the answer depends on who asks: observe from where the proxies run, and give each region its own name where \
         the partner has them",
        &[Citation::Window],
    ),
    (
        Trait::Weighted,
        "addresses are drawn with unequal shares, which the refresh interval turns into phases: all proxies that ask \
         in the same TTL use the same one",
        &[Citation::Window],
    ),
    (
        Trait::CnameFlip,
        "the alias changes its target, so the pool may be another one tomorrow: watch it",
        &[Citation::Window],
    ),
    (
        Trait::Truncated,
        "the answer does not fit into a datagram: the proxies' resolver must be reachable over TCP, else the old set \
         is kept",
        &[Citation::lab("dns-outage")],
    ),
    (
        Trait::Lossy,
        "some lookups failed; Envoy keeps the addresses it has then and asks again after dnsRefreshRate",
        &[Citation::lab("dns-outage")],
    ),
    (
        Trait::HeldDraws,
        "a draw is held longer than the TTL says: a window shorter than a few such slots sees one of them",
        &[Citation::Window],
    ),
];
