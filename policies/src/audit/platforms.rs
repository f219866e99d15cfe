//! Family EA9: what the platform makes of the entries: load on DNS, ambient mode, filters, known faults of a version.

use super::Findings;
use super::mesh::{Entry, Mesh};
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::Loadable;
use crate::manifest::node::{Node, Value};
use crate::{Citation, IstioBehaviour, ProxyKind, Resolution};

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
    Rule {
        code: "EA910",
        name: "h2-upgrade-reaches-external-hosts",
        severity: Severity::Warning,
        what: "meshConfig.h2UpgradePolicy UPGRADE, and entries with plain HTTP ports",
        why: "requests to those ports are sent as HTTP/2 without a handshake, which a server of HTTP/1.1 does not understand",
        fix: "set `connectionPool.http.h2UpgradePolicy: DO_NOT_UPGRADE` in a DestinationRule of each such host",
        source: &[Citation::thread("https://github.com/istio/istio/issues/39566")],
        examples: include_str!("examples/EA910.yaml"),
        check: h2_upgrade,
    },
    Rule {
        code: "EA911",
        name: "visibility-and-export",
        severity: Severity::Warning,
        what: "meshConfig.serviceEntryVisibility, on an Istio that drops it or over entries that are exported further",
        why: "where it is in force it decides who sees an entry, and exportTo does not; before Istio 1.31 it is dropped",
        fix: "match exportTo and serviceEntryVisibility; for sidecars set `applyToSidecars: true`",
        source: &[Citation::docs("https://istio.io/latest/docs/reference/config/istio.mesh.v1alpha1/")],
        examples: include_str!("examples/EA911.yaml"),
        check: visibility,
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
    if !mesh.context.platform.istio_does(IstioBehaviour::LosesRoundRobinEntries) {
        return;
    }
    let istio = mesh.context.platform.istio();
    for entry in round_robin(mesh) {
        let text = format!("Istio {istio} may leave this entry out until it is edited");
        found.add(entry.resource, entry.resolution_at(), text);
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
            Some(("ALLOW_ANY_DYNAMIC_DNS", at)) => {
                let since = IstioBehaviour::AllowAnyDynamicDns;
                let text = if !by_default {
                    "ALLOW_ANY_DYNAMIC_DNS is a mode of the whole mesh: a Sidecar that has it is refused"
                        .to_owned()
                } else if mesh.context.platform.istio_does(since) {
                    "ALLOW_ANY_DYNAMIC_DNS: plain HTTP to hosts without an entry is looked up by its Host header, \
                     everything else is let through to the address"
                        .to_owned()
                } else {
                    let (istio, since) = (mesh.context.platform.istio(), since.row().since);
                    format!("Istio {istio} does not know ALLOW_ANY_DYNAMIC_DNS: that takes {since}")
                };
                (text, at)
            }
            Some((mode, at)) => (format!("{mode}: hosts without an entry are let through"), at),
            None if by_default => {
                ("ALLOW_ANY, the default: hosts without an entry are let through".to_owned(), node.at)
            }
            None => continue,
        };
        found.add(resource, at, text);
    }
}

fn h2_upgrade(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let Some((config, policy)) =
        mesh.configs.first().and_then(|config| Some((config, config.node.get("h2UpgradePolicy")?)))
    else {
        return;
    };
    if policy.text() != Some("UPGRADE") {
        return;
    }
    let kept = |host: &str, number: Option<i64>| {
        mesh.rules_for(host).flat_map(super::connections::policies).any(|(policy, _)| {
            let meant = policy.integer_at("port.number").is_none_or(|port| Some(port) == number);
            meant && policy.text_at("connectionPool.http.h2UpgradePolicy") == Some("DO_NOT_UPGRADE")
        })
    };
    for entry in mesh.entries.iter().filter(|entry| entry.spec.text_at("location") == Some("MESH_EXTERNAL")) {
        for port in entry.ports.iter().filter(|port| port.is("HTTP")) {
            let Some(host) = entry.hosts.iter().find(|host| !kept(host.name, port.number)) else { continue };
            let number = port.number.unwrap_or_default();
            let text = format!("requests to port {number} of {} are sent as HTTP/2", host.name);
            found
                .add(entry.resource, port.node.at, text)
                .about(number.to_string())
                .with(config.resource, policy.at);
        }
    }
}

fn visibility(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let Some(config) = mesh.configs.first() else { return };
    let Some(node) = config.node.get("serviceEntryVisibility") else { return };
    let platform = &mesh.context.platform;
    if !platform.istio_does(IstioBehaviour::ServiceEntryVisibility) {
        let (istio, since) = (platform.istio(), IstioBehaviour::ServiceEntryVisibility.row().since);
        let text = format!("Istio {istio} drops serviceEntryVisibility: that takes {since}");
        found.add(config.resource, node.at, text);
        return;
    }
    let Some(default) = super::mesh::visibility(mesh.configs.first(), platform) else { return };
    for entry in &mesh.entries {
        // What the namespaces' own labels decide is not in the files.
        let wide = match entry.spec.list("exportTo") {
            [] => false,
            names => names.iter().filter_map(Node::text).any(|name| !matches!(name, "." | "~")),
        };
        if wide {
            let at = entry.spec.get("exportTo").map_or(entry.spec.at, |export| export.at);
            let text = format!("exportTo is not read: serviceEntryVisibility {default} decides");
            found.add(entry.resource, at, text).with(config.resource, node.at);
        }
    }
}

fn connect_strategy(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let ambient = mesh.context.platform.proxy_kind == ProxyKind::Ambient;
    let platform = &mesh.context.platform;
    let early = (!platform.istio_does(IstioBehaviour::ConnectStrategy)).then(|| platform.istio());
    for entry in &mesh.entries {
        let metadata = ["metadata.annotations", "metadata.labels"].into_iter();
        let mut found_at = metadata.filter_map(|path| entry.resource.root.get(path));
        let Some((key, _)) = found_at.find_map(|map| map.entry("istio.io/connect-strategy")) else {
            continue;
        };
        let text = match (early, ambient) {
            (Some(istio), _) => {
                let since = IstioBehaviour::ConnectStrategy.row().since;
                format!("Istio {istio} does not know it: that takes {since}")
            }
            (None, true) => "ztunnel does not read it: that takes a waypoint".to_owned(),
            (None, false) => continue,
        };
        found.add(entry.resource, key.at, text);
    }
}
