//! Family EA3: connection settings that do not reach the connection, and lifetimes held against a fail-over target.

use super::Findings;
use super::mesh::{DestRule, Entry, Mesh, Port};
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::node::{Node, Value};
use crate::{Behaviour, Citation, Resolution, ResolutionClass};

const DESTINATION_RULE: Citation = Citation::docs(
    "https://istio.io/latest/docs/reference/config/networking/destination-rule/#ConnectionPoolSettings",
);

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA301",
        name: "http-pool-on-passthrough",
        severity: Severity::Error,
        what: "connectionPool.http for a host whose ports are all TLS or TCP passthrough",
        why: "these settings act on requests, which Envoy does not see in TLS or TCP: nothing of them has effect",
        fix: "use connectionPool.tcp: idleTimeout, maxConnectionDuration, maxConnections",
        source: &[DESTINATION_RULE, Citation::thread("https://github.com/istio/istio/issues/23435")],
        examples: include_str!("examples/EA301.yaml"),
        check: http_pool_on_passthrough,
    },
    Rule {
        code: "EA302",
        name: "tcp-timeouts-not-copied",
        severity: Severity::Warning,
        what: "idleTimeout or maxConnectionDuration in portLevelSettings or in a subset",
        why: "istiod copies them to a passed-through connection from the top level of trafficPolicy only",
        fix: "move them to spec.trafficPolicy.connectionPool.tcp",
        source: &[DESTINATION_RULE, Citation::thread("https://github.com/istio/istio/issues/60009")],
        examples: include_str!("examples/EA302.yaml"),
        check: tcp_timeouts_not_copied,
    },
    Rule {
        code: "EA303",
        name: "pinned-to-the-old-address",
        severity: Severity::Warning,
        what: "DNS_ROUND_ROBIN for a single VIP on Envoy up to 1.38, without a lifetime for connections",
        why: "pooled connections are kept on the address they were opened to, however long ago DNS moved",
        fix: "write `resolution: DNS`, or set connectionPool.tcp.maxConnectionDuration",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/23905"),
            Citation::thread("https://github.com/envoyproxy/envoy/issues/35634"),
            Citation::lab("keepalive-pinning"),
        ],
        examples: include_str!("examples/EA303.yaml"),
        check: pinned,
    },
    Rule {
        code: "EA304",
        name: "failover-target-missed",
        severity: Severity::Warning,
        what: "a connection may outlive the fail-over target",
        why: "a passed-through connection stays on its address until it ends, whatever DNS says",
        fix: "set trafficPolicy.connectionPool.tcp.maxConnectionDuration to the target less the refresh interval",
        source: &[
            Citation::thread("https://github.com/envoyproxy/envoy/issues/26459"),
            Citation::lab("failover-time"),
        ],
        examples: include_str!("examples/EA304.yaml"),
        check: failover_target_missed,
    },
    Rule {
        code: "EA305",
        name: "http-route-on-passthrough",
        severity: Severity::Warning,
        what: "HTTP routes for a host whose ports are all TLS or TCP passthrough",
        why: "HTTPS is to a sidecar what TLS is: a connection that goes by its SNI, without requests to time, retry or \
              rewrite; the route is never used",
        fix: "use `tls` with sniHosts, or have the proxy start TLS: an HTTP port with `targetPort: 443`",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/19188"),
            Citation::thread("https://github.com/istio/istio/issues/33692"),
        ],
        examples: include_str!("examples/EA305.yaml"),
        check: http_route_on_passthrough,
    },
];

/// Every policy of a rule, and whether it is the one at the top level.
pub(super) fn policies<'a>(rule: &DestRule<'a>) -> impl Iterator<Item = (&'a Node, bool)> + use<'a> {
    let ports = |policy: &'a Node| policy.list("portLevelSettings").iter();
    let subsets =
        rule.resource.root.list("spec.subsets").iter().filter_map(|subset| subset.get("trafficPolicy"));
    let top = rule.policy.into_iter();
    let below = top
        .clone()
        .flat_map(ports)
        .chain(subsets.flat_map(move |policy| [policy].into_iter().chain(ports(policy))));
    top.map(|policy| (policy, true)).chain(below.map(|policy| (policy, false)))
}

fn http_pool_on_passthrough(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for rule in &mesh.rules {
        let mut entries = mesh.entries_of(rule).peekable();
        if entries.peek().is_none() || !entries.all(Entry::is_passthrough) {
            continue;
        }
        for (policy, _) in policies(rule) {
            let Some((key, pool)) = policy.get("connectionPool").and_then(|pool| pool.entry("http")) else {
                continue;
            };
            if !matches!(&pool.value, Value::Map(entries) if !entries.is_empty()) {
                continue;
            }
            let text = format!(
                "connectionPool.http has no effect: the ports of {} are TLS or TCP passthrough",
                rule.host
            );
            let severity = match policy.get("connectionPool.tcp") {
                Some(_) => Severity::Warning,
                None => Severity::Error,
            };
            found.add(rule.resource, key.at, text).severity(severity);
        }
    }
}

fn tcp_timeouts_not_copied(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for rule in mesh.rules.iter().filter(|rule| mesh.entries_of(rule).any(Entry::is_passthrough)) {
        for (policy, _) in policies(rule).filter(|(_, top)| !top) {
            for name in ["idleTimeout", "maxConnectionDuration"] {
                let tcp = policy.get("connectionPool.tcp");
                if let Some((key, _)) = tcp.and_then(|tcp| tcp.entry(name)) {
                    let text = format!("{name} is not copied to the connections of {} from here", rule.host);
                    found.add(rule.resource, key.at, text).about(name);
                }
            }
        }
    }
}

/// Seconds, from the top level of the rules about a host.
fn lifetime(mesh: &Mesh<'_>, host: &str) -> Option<u64> {
    let of = |rule: &DestRule<'_>| rule.policy?.duration_ms("connectionPool.tcp.maxConnectionDuration");
    mesh.rules_for(host).filter_map(of).min().map(|ms| ms.div_ceil(1000))
}

fn pinned(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if mesh.context.platform.behaves(Behaviour::LogicalFlipDrains) {
        return;
    }
    for entry in mesh.entries.iter().filter(|entry| entry.resolution == Some(Resolution::DnsRoundRobin)) {
        let single = entry.observed().filter(|(_, advice)| advice.class == ResolutionClass::SingleVip);
        for (host, _) in single.filter(|(host, _)| lifetime(mesh, host.name).is_none()) {
            let text = format!(
                "connections to {} stay on their address for ever on Envoy {}",
                host.name,
                mesh.context.platform.envoy().version
            );
            found.add(entry.resource, entry.resolution_at(), text).about(host.name).observed();
        }
    }
}

fn failover_target_missed(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let Some(target) = mesh.context.failover_target.map(|target| target.as_secs()) else { return };
    let longest = mesh.context.longest_stream.map_or(0, |stream| stream.as_secs());
    for entry in mesh.entries.iter().filter(|entry| entry.is_passthrough()) {
        for (host, advice) in entry.observed() {
            let Some(cost) = advice.costs.iter().find(|cost| Some(cost.resolution) == entry.resolution)
            else {
                continue;
            };
            let refresh = cost.refresh_s;
            let (held, text) = match lifetime(mesh, host.name) {
                None => (None, "as long as the application holds it".to_owned()),
                Some(lifetime) => {
                    let worst = refresh + lifetime.max(longest);
                    (Some(worst), format!("up to {worst} s after the change"))
                }
            };
            if held.is_some_and(|worst| worst <= target) {
                continue;
            }
            let text = format!(
                "a connection to {} may stay on the old address {text}; the target is {target} s",
                host.name
            );
            let hint = match target.checked_sub(refresh) {
                Some(left) if left > 0 => {
                    format!(
                        "set trafficPolicy.connectionPool.tcp.maxConnectionDuration: {left}s, at the top level"
                    )
                }
                _ => format!("the refresh alone takes {refresh} s: ask for a lower TTL"),
            };
            found.add(entry.resource, host.at, text).about(host.name).hint(hint).observed();
        }
    }
}

fn http_route_on_passthrough(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for service in &mesh.virtual_services {
        for (route, host) in super::gateways::sidecar_http(service) {
            let name = host.text().unwrap_or_default();
            let entries = mesh.entries_for(name);
            if name.starts_with('*')
                || entries.is_empty()
                || !entries.iter().all(|entry| entry.is_passthrough())
            {
                continue;
            }
            let text =
                format!("no request to {name} ever meets this route: its ports are TLS or TCP passthrough");
            let draft = found.add(service, route.at, text).about(name);
            if entries.iter().all(|entry| entry.ports.iter().all(Port::is_tcp)) {
                draft
                    .hint("write `protocol: HTTP` for the entry's port where the clients speak plain HTTP, else use `tcp`")
                    .with(entries[0].resource, entries[0].spec.at);
            } else {
                draft.with(entries[0].resource, entries[0].spec.at);
            }
        }
    }
}
