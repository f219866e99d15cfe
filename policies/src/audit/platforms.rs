//! Family EA9: what the platform makes of the entries: load on DNS, ambient mode, filters, known faults of a version.

use super::Findings;
use super::mesh::{Entry, Mesh};
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::node::{Node, Value};
use crate::{Citation, ProxyKind, Resolution, Version};

/// Queries per second for one name that are worth a word.
const LOUD_QPS: u64 = 50;
/// Names per proxy from which their first lookups come as a burst.
const MANY_NAMES: usize = 200;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA901",
        name: "refresh-load",
        severity: Severity::Warning,
        what: "a short TTL times many proxies",
        why: "every proxy that sees the entry asks at every refresh, used or not",
        fix: "limit exportTo to the namespaces that use the name, or ask for a longer TTL",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/35603"),
            Citation::thread("https://github.com/istio/istio/issues/53319"),
        ],
        examples: include_str!("examples/EA901.yaml"),
        check: refresh_load,
    },
    Rule {
        code: "EA902",
        name: "many-names",
        severity: Severity::Warning,
        what: "more than 200 names that every proxy looks up",
        why: "a proxy asks for all of them at start, and a resolver that drops queries leaves clusters empty",
        fix: "limit exportTo, or Sidecar.egress.hosts, to the namespaces that use the names",
        source: &[Citation::thread("https://github.com/envoyproxy/envoy/pull/45073")],
        examples: include_str!("examples/EA902.yaml"),
        check: many_names,
    },
    Rule {
        code: "EA903",
        name: "round-robin-in-ambient",
        severity: Severity::Info,
        what: "DNS_ROUND_ROBIN where ztunnel resolves",
        why: "ztunnel looks up on demand and balances over all addresses; the entry also needs DNS capture",
        fix: "nothing is lost: `resolution: DNS` says what happens",
        source: &[Citation::thread("https://github.com/istio/ztunnel/pull/612")],
        examples: include_str!("examples/EA903.yaml"),
        check: round_robin_in_ambient,
    },
    Rule {
        code: "EA904",
        name: "health-checks-keep-withdrawn-addresses",
        severity: Severity::Warning,
        what: "an EnvoyFilter adds health checks without ignore_health_on_host_removal",
        why: "an address that DNS has withdrawn stays in the cluster as long as it answers its checks",
        fix: "set `ignore_health_on_host_removal: true` beside health_checks",
        source: &[
            Citation::thread("https://github.com/envoyproxy/envoy/issues/41771"),
            Citation::thread("https://github.com/envoyproxy/envoy/issues/18151"),
        ],
        examples: include_str!("examples/EA904.yaml"),
        check: health_checks,
    },
    Rule {
        code: "EA905",
        name: "round-robin-lost-on-1-20",
        severity: Severity::Warning,
        what: "DNS_ROUND_ROBIN on Istio 1.20 or 1.21",
        why: "early releases of both lines leave new entries of this kind out until they are edited",
        fix: "take a release of 2024-03 or later of the line, or a newer line",
        source: &[Citation::thread("https://github.com/istio/istio/issues/49315")],
        examples: include_str!("examples/EA905.yaml"),
        check: round_robin_lost,
    },
];

fn round_robin<'m, 'a>(mesh: &'m Mesh<'a>) -> impl Iterator<Item = &'m Entry<'a>> {
    mesh.entries.iter().filter(|entry| entry.resolution == Some(Resolution::DnsRoundRobin))
}

fn refresh_load(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let proxies = u64::from(mesh.context.proxies);
    for entry in &mesh.entries {
        for (host, advice) in entry.observed() {
            let Some(refresh) = advice.refresh else { continue };
            let per_second = proxies / refresh.refresh_s.max(1);
            if per_second >= LOUD_QPS {
                let text = format!(
                    "{}: {proxies} proxies that ask every {} s send {per_second} queries a second, before search \
                     lists multiply them",
                    host.name, refresh.refresh_s
                );
                found.add(entry.resource, host.at, text).about(host.name).observed();
            }
        }
    }
}

fn many_names(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let everywhere = |entry: &&Entry<'_>| entry.is_dns() && entry.scope == super::mesh::Scope::Everywhere;
    let mut seen = mesh.entries.iter().filter(everywhere).peekable();
    let Some(first) = seen.peek().copied() else { return };
    let names: usize = seen.map(|entry| entry.hosts.len()).sum();
    if names > MANY_NAMES {
        let text = format!("{names} names are looked up by every proxy, from here on");
        found.add(first.resource, first.spec.at, text).about("all");
    }
}

fn round_robin_in_ambient(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if mesh.context.platform.proxy_kind == ProxyKind::Ambient {
        for entry in round_robin(mesh) {
            found.add(
                entry.resource,
                entry.resolution_at(),
                "ztunnel makes no difference between this and DNS",
            );
        }
    }
}

fn health_checks(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for filter in &mesh.filters {
        for patch in
            filter.root.list("spec.configPatches").iter().filter_map(|patch| patch.get("patch.value"))
        {
            let Some(at) = key(patch, "health_checks") else { continue };
            if key(patch, "ignore_health_on_host_removal").is_none() {
                found.add(filter, at, "health checks keep addresses that DNS has withdrawn");
            }
        }
    }
}

/// A key anywhere below.
fn key(node: &Node, wanted: &str) -> Option<crate::manifest::node::Place> {
    match &node.value {
        Value::List(items) => items.iter().find_map(|item| key(item, wanted)),
        Value::Map(entries) => {
            entries.iter().find_map(
                |(found, value)| {
                    if &*found.text == wanted { Some(found.at) } else { key(value, wanted) }
                },
            )
        }
        _ => None,
    }
}

fn round_robin_lost(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let affected = [Version::new(1, 20), Version::new(1, 21)];
    let Some(istio) = mesh.context.platform.istio_version else { return };
    if affected.contains(&istio.line()) {
        for entry in round_robin(mesh) {
            let text = format!("Istio {istio} may leave this entry out until it is edited");
            found.add(entry.resource, entry.resolution_at(), text);
        }
    }
}
