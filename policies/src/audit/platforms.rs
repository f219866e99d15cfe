//! Family EA9: what the platform makes of the entries: load on DNS, ambient mode, filters, known faults of a version.

use super::Findings;
use super::mesh::{Entry, Mesh};
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::Loadable;
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
    Rule {
        code: "EA906",
        name: "switch-that-cuts-nothing",
        severity: Severity::Info,
        what: "an EnvoyFilter sets close_connections_on_host_set_change",
        why: "it drains connections and cuts none: a passed-through session or a stream stays on the old address until \
              it ends",
        fix: "set trafficPolicy.connectionPool.tcp.maxConnectionDuration and idleTimeout, at the top level",
        source: &[
            Citation::thread("https://github.com/envoyproxy/envoy/issues/26459"),
            Citation::thread("https://github.com/envoyproxy/envoy/issues/8867"),
        ],
        examples: include_str!("examples/EA906.yaml"),
        check: switch_that_cuts_nothing,
    },
    Rule {
        code: "EA907",
        name: "refresh-rate-raised",
        severity: Severity::Warning,
        what: "meshConfig.dnsRefreshRate above 60 s",
        why: "names are looked up again after their TTL, whatever it says; it is the wait after a failed lookup and for \
              TTL 0, so that raising it saves no queries and makes outages of DNS longer",
        fix: "leave it at 60s, or lower it where a partner answers with TTL 0",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/37066"),
            Citation::lab("ttl-refresh"),
        ],
        examples: include_str!("examples/EA907.yaml"),
        check: refresh_rate_raised,
    },
    Rule {
        code: "EA908",
        name: "no-allow-list",
        severity: Severity::Info,
        what: "outboundTrafficPolicy lets hosts through that no entry registers",
        why: "under ALLOW_ANY, the default, entries give names settings and metrics but keep nothing out: a mistyped \
              or removed entry is not noticed, and its host is reached without the settings",
        fix: "write `outboundTrafficPolicy: {mode: REGISTRY_ONLY}` where entries are to be the list of what is allowed",
        source: &[Citation::docs(
            "https://istio.io/latest/docs/tasks/traffic-management/egress/egress-control/",
        )],
        examples: include_str!("examples/EA908.yaml"),
        check: no_allow_list,
    },
    Rule {
        code: "EA909",
        name: "connect-strategy-without-effect",
        severity: Severity::Warning,
        what: "istio.io/connect-strategy where nothing reads it",
        why: "proxies race connects to several addresses from Istio 1.30 on, in ambient mode in a waypoint only",
        fix: "upgrade Istio, or give the entry a waypoint",
        source: &[Citation::docs(
            "https://istio.io/latest/news/releases/1.30.x/announcing-1.30/change-notes/",
        )],
        examples: include_str!("examples/EA909.yaml"),
        check: connect_strategy,
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
    if mesh.sidecars.iter().any(|sidecar| limits_all(sidecar, &mesh.context.root_namespace)) {
        return;
    }
    let everywhere = |entry: &&Entry<'_>| entry.is_dns() && entry.scope == super::mesh::Scope::Everywhere;
    let mut seen = mesh.entries.iter().filter(everywhere).peekable();
    let Some(first) = seen.peek().copied() else { return };
    let names: usize = seen.map(|entry| entry.hosts.len()).sum();
    if names > MANY_NAMES {
        let text = format!("{names} names are looked up by every proxy, from here on");
        found.add(first.resource, first.spec.at, text).about("all");
    }
}

/// The mesh's default `Sidecar`, and it does not import everything.
fn limits_all(sidecar: &Loadable, root: &str) -> bool {
    let mut hosts =
        sidecar.root.list("spec.egress").iter().flat_map(|egress| egress.list("hosts")).peekable();
    *sidecar.namespace == *root
        && sidecar.root.get("spec.workloadSelector").is_none()
        && hosts.peek().is_some()
        && hosts.all(|host| host.text() != Some("*/*"))
}

fn round_robin_in_ambient(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    // Where the pool does rotate it is what a waypoint, an Envoy, wants.
    let fits = |entry: &Entry<'_>| {
        entry.observed().any(|(_, advice)| advice.resolution == Some(Resolution::DnsRoundRobin))
    };
    if mesh.context.platform.proxy_kind == ProxyKind::Ambient {
        for entry in round_robin(mesh).filter(|entry| !fits(entry)) {
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

fn switch_that_cuts_nothing(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for filter in &mesh.filters {
        let patches = filter.root.list("spec.configPatches").iter();
        let at = patches.filter_map(|patch| patch.get("patch.value"));
        for at in at.filter_map(|value| key(value, "close_connections_on_host_set_change")) {
            found.add(filter, at, "connections are drained when the addresses change, and none is cut");
        }
    }
}

fn refresh_rate_raised(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    /// Istio's default.
    const USUAL_MS: u64 = 60_000;
    for config in &mesh.configs {
        let Some(ms) = config.node.duration_ms("dnsRefreshRate").filter(|ms| *ms > USUAL_MS) else {
            continue;
        };
        let at = config.node.get("dnsRefreshRate").map_or(config.node.at, |rate| rate.at);
        let text = format!("after a failed lookup a name is left alone for {} s", ms / 1000);
        found.add(config.resource, at, text);
    }
}

fn no_allow_list(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let configs = mesh.configs.iter().map(|config| (config.resource, config.node, true));
    let sidecars =
        mesh.sidecars.iter().filter_map(|sidecar| Some((*sidecar, sidecar.root.get("spec")?, false)));
    for (resource, node, by_default) in configs.chain(sidecars) {
        let mode = node.get("outboundTrafficPolicy.mode");
        let (text, at) = match mode.and_then(|mode| Some((mode.text()?, mode.at))) {
            Some(("REGISTRY_ONLY", _)) => continue,
            Some((mode, at)) => (format!("{mode}: hosts without an entry are let through"), at),
            None if by_default => {
                ("ALLOW_ANY, the default: hosts without an entry are let through".to_owned(), node.at)
            }
            None => continue,
        };
        found.add(resource, at, text);
    }
}

fn connect_strategy(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let ambient = mesh.context.platform.proxy_kind == ProxyKind::Ambient;
    let early = mesh.context.platform.istio_version.filter(|istio| *istio < Version::new(1, 30));
    for entry in &mesh.entries {
        let metadata = ["metadata.annotations", "metadata.labels"].into_iter();
        let mut found_at = metadata.filter_map(|path| entry.resource.root.get(path));
        let Some((key, _)) = found_at.find_map(|map| map.entry("istio.io/connect-strategy")) else {
            continue;
        };
        let text = match (early, ambient) {
            (Some(istio), _) => format!("Istio {istio} does not know it: that takes 1.30"),
            (None, true) => "ztunnel does not read it: that takes a waypoint".to_owned(),
            (None, false) => continue,
        };
        found.add(entry.resource, key.at, text);
    }
}
