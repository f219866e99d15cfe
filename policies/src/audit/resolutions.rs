//! Family EA1: the entry's resolution held against what DNS answers. Needs observations; silent without.

use super::Findings;
use super::mesh::{Entry, Mesh};
use super::patch::replace;
use super::rule::Rule;
use crate::finding::Severity;
use crate::recommend::{Cost, decimal};
use crate::{Behaviour, Citation, Recommendation, Resolution, ResolutionClass, Trait};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA101",
        name: "rotating-pool-on-dns",
        severity: Severity::Warning,
        what: "resolution: DNS for a name that hands out a few addresses of a large pool",
        why: "every answer is taken for the whole list, so members that are well are dropped and added for ever",
        fix: "write `resolution: DNS_ROUND_ROBIN`, and no outlierDetection beside it",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/35475"),
            Citation::thread("https://github.com/envoyproxy/envoy/issues/15457"),
            Citation::lab("rotation-churn"),
        ],
        examples: include_str!("examples/EA101.yaml"),
        check: rotating_pool_on_dns,
    },
    Rule {
        code: "EA102",
        name: "small-pool-on-round-robin",
        severity: Severity::Warning,
        what: "resolution: DNS_ROUND_ROBIN for a name with a small, fixed pool",
        why: "only the first address is used, a fail-over leaves no trace up to Envoy 1.38, and from 1.39 on a changed \
              order alone replaces the host",
        fix: "write `resolution: DNS`",
        source: &[
            Citation::docs(
                "https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/service_discovery",
            ),
            Citation::lab("multi-a-spread"),
            Citation::lab("flip-record"),
        ],
        examples: include_str!("examples/EA102.yaml"),
        check: small_pool_on_round_robin,
    },
    Rule {
        code: "EA103",
        name: "mixed-classes",
        severity: Severity::Error,
        what: "one ServiceEntry holds names that need different resolutions",
        why: "resolution is a field of the entry, not of the host, so one of the names gets the wrong one",
        fix: "split the entry by resolution",
        source: &[Citation::docs(
            "https://istio.io/latest/docs/reference/config/networking/service-entry/#ServiceEntry-Resolution",
        )],
        examples: include_str!("examples/EA103.yaml"),
        check: mixed_classes,
    },
    Rule {
        code: "EA104",
        name: "empty-answers-on-dns",
        severity: Severity::Warning,
        what: "resolution: DNS for a name whose good answers are interrupted by NXDOMAIN or empty ones",
        why: "such an answer empties the cluster: 503 UH until the next good answer",
        fix: "have the DNS side keep an answer, or write `resolution: DNS_ROUND_ROBIN`, which keeps its last address",
        source: &[
            Citation::thread("https://github.com/envoyproxy/envoy/pull/21027"),
            Citation::thread("https://github.com/envoyproxy/envoy/issues/20890"),
            Citation::lab("dns-outage"),
        ],
        examples: include_str!("examples/EA104.yaml"),
        check: empty_answers,
    },
    Rule {
        code: "EA105",
        name: "dead-name",
        severity: Severity::Error,
        what: "a name that nothing answers for",
        why: "every proxy that sees the entry keeps asking, used or not, and requests to it fail",
        fix: "correct the name or remove it; if it resolves only inside of the mesh's network, observe it from there",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/35603"),
            Citation::thread("https://github.com/envoyproxy/envoy/issues/20885"),
        ],
        examples: include_str!("examples/EA105.yaml"),
        check: dead_name,
    },
    Rule {
        code: "EA106",
        name: "ipv6-only-name",
        severity: Severity::Error,
        what: "a name with AAAA records only, for proxies that ask for A only",
        why: "Istio gives clusters of IPv4 pods the lookup family V4_ONLY, so the cluster stays empty",
        fix: "enable dual stack for the workloads, or ask the partner for an A record",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/42097"),
            Citation::thread("https://github.com/istio/istio/issues/50823"),
        ],
        examples: include_str!("examples/EA106.yaml"),
        check: ipv6_only,
    },
    Rule {
        code: "EA107",
        name: "ttl-zero",
        severity: Severity::Warning,
        what: "a record with TTL 0",
        why: "Envoy does not ask at once then but every meshConfig.dnsRefreshRate, 60 s by default: slower than with a \
              TTL of 5",
        fix: "ask the partner for a small TTL above 0, or lower meshConfig.dnsRefreshRate",
        source: &[
            Citation::thread("https://github.com/envoyproxy/envoy/issues/6876"),
            Citation::lab("ttl-refresh"),
        ],
        examples: include_str!("examples/EA107.yaml"),
        check: ttl_zero,
    },
    Rule {
        code: "EA108",
        name: "sinkhole",
        severity: Severity::Warning,
        what: "a resolver answers with a sinkhole or otherwise unroutable address",
        why: "proxies behind that resolver connect to nothing",
        fix: "ask those who run the resolver to let the name through",
        source: &[Citation::Deduced],
        examples: include_str!("examples/EA108.yaml"),
        check: sinkhole,
    },
    Rule {
        code: "EA109",
        name: "resolvers-disagree",
        severity: Severity::Warning,
        what: "servers that answer with different addresses for one name",
        why: "what a proxy connects to depends on the resolver of its node, and an audit from elsewhere judges answers \
              that the proxies never see",
        fix: "observe the name by the resolver that the proxies use: `--resolver ADDR`",
        source: &[Citation::Deduced],
        examples: include_str!("examples/EA109.yaml"),
        check: resolvers_disagree,
    },
];

/// Hosts of the entry, sorted by the resolution that they need.
fn wanted<'m>(entry: &'m Entry<'_>, resolution: Resolution) -> Vec<(&'m str, &'m Recommendation)> {
    let of = entry.observed().filter(|(_, advice)| advice.resolution == Some(resolution));
    of.map(|(host, advice)| (host.name, advice)).collect()
}

fn is_mixed(entry: &Entry<'_>) -> bool {
    !wanted(entry, Resolution::Dns).is_empty() && !wanted(entry, Resolution::DnsRoundRobin).is_empty()
}

fn pattern(host: &str, advice: &Recommendation) -> String {
    match advice.pattern {
        Some(pattern) => format!(
            "{host} answers with {} of about {} addresses",
            decimal(pattern.answer_size),
            pattern.pool
        ),
        None => host.to_owned(),
    }
}

fn price(cost: &Cost) -> String {
    let members = decimal(cost.members_replaced_per_hour);
    let replaces = format!("{} replaces {members} members an hour", cost.resolution);
    if cost.reconnects_per_hour == 0.0 {
        return replaces;
    }
    format!("{replaces} and closes {} pooled connections per worker", decimal(cost.reconnects_per_hour))
}

fn against(mesh: &Mesh<'_>, found: &mut Findings<'_>, is: Resolution, should: Resolution) {
    for entry in mesh.entries.iter().filter(|entry| entry.resolution == Some(is) && !is_mixed(entry)) {
        for (host, advice) in wanted(entry, should) {
            let costs: Vec<String> = advice.costs.iter().rev().map(price).collect();
            let text =
                format!("{}: on Envoy {} {}", pattern(host, advice), advice.envoy.version, costs.join(", "));
            found
                .add(entry.resource, entry.resolution_at(), text)
                .about(host)
                .observed()
                .edit(replace(entry.resolution_at(), should.as_str()).filter(|_| is != should));
        }
    }
}

fn rotating_pool_on_dns(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    against(mesh, found, Resolution::Dns, Resolution::DnsRoundRobin);
}

fn small_pool_on_round_robin(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    against(mesh, found, Resolution::DnsRoundRobin, Resolution::Dns);
}

fn mixed_classes(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let names = |of: Vec<(&str, &Recommendation)>| {
        of.into_iter().map(|(host, _)| host).collect::<Vec<_>>().join(", ")
    };
    for entry in mesh.entries.iter().filter(|entry| is_mixed(entry)) {
        let (dns, round_robin) = (wanted(entry, Resolution::Dns), wanted(entry, Resolution::DnsRoundRobin));
        let text = format!("DNS fits {}, DNS_ROUND_ROBIN fits {}", names(dns), names(round_robin));
        found.add(entry.resource, entry.resolution_at(), text).observed();
    }
}

fn empty_answers(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if !mesh.context.platform.behaves(Behaviour::EmptyAnswerEmptiesStrict) {
        return;
    }
    let refresh = mesh.context.platform.refresh_rate().as_secs();
    for entry in mesh.entries.iter().filter(|entry| entry.resolution == Some(Resolution::Dns)) {
        for (host, _) in entry.observed().filter(|(_, advice)| advice.traits.contains(&Trait::EmptyAnswers)) {
            let text = format!(
                "{} answered NXDOMAIN or nothing between good answers: each empties the cluster for up to {refresh} s",
                host.name
            );
            found.add(entry.resource, host.at, text).about(host.name).observed();
        }
    }
}

fn dead_name(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in &mesh.entries {
        let dead = entry.observed().filter(|(_, advice)| advice.class == ResolutionClass::Unresolvable);
        for (host, _) in dead.filter(|(host, _)| !host.v6_only) {
            let text = format!("{} was never answered with an address", host.name);
            found.add(entry.resource, host.at, text).about(host.name).observed();
        }
    }
}

fn ipv6_only(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in &mesh.entries {
        for (host, _) in entry.observed().filter(|(host, _)| host.v6_only) {
            let text = format!("{} has AAAA records only, and the proxies ask for A only", host.name);
            found.add(entry.resource, host.at, text).about(host.name).observed();
        }
    }
}

fn ttl_zero(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in &mesh.entries {
        for (host, advice) in entry.observed() {
            let Some(refresh) = advice.refresh.filter(|refresh| refresh.fallback) else { continue };
            let text = format!("{} has TTL 0: Envoy asks every {} s", host.name, refresh.refresh_s);
            found.add(entry.resource, host.at, text).about(host.name).observed();
        }
    }
}

fn sinkhole(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in &mesh.entries {
        for (host, _) in entry.observed().filter(|(_, advice)| advice.traits.contains(&Trait::Sinkhole)) {
            let text = format!("one resolver answers {} with an address that leads nowhere", host.name);
            found.add(entry.resource, host.at, text).about(host.name).observed();
        }
    }
}

fn resolvers_disagree(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in &mesh.entries {
        for (host, advice) in entry.observed() {
            let (text, severity) = if advice.traits.contains(&Trait::SplitHorizon) {
                let text = "the zone's own servers and the resolver never agreed on an address of";
                (format!("{text} {}", host.name), Severity::Warning)
            } else if advice.traits.contains(&Trait::Regional) {
                let text = format!("{} answers with other addresses in other places", host.name);
                (text, Severity::Info)
            } else {
                continue;
            };
            found.add(entry.resource, host.at, text).about(host.name).severity(severity).observed();
        }
    }
}
