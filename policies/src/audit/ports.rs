//! Family EA5: an entry that says something else than its author meant: protocol against port, fields in the wrong
//! place, values that Istio does not know.

use std::collections::HashSet;

use super::Findings;
use super::mesh::{DestRule, Entry, Mesh, Port};
use super::patch::replace;
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::node::{Node, Place};
use crate::{Citation, Resolution};

const SERVICE_ENTRY: Citation =
    Citation::docs("https://istio.io/latest/docs/reference/config/networking/service-entry/");

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA501",
        name: "tcp-on-443",
        severity: Severity::Error,
        what: "protocol TCP on port 443",
        why: "without addresses it claims every connection to port 443, those to other names included; an entry with \
              addresses, listed or allocated, claims those alone and is let be",
        fix: "write `protocol: TLS`, which goes by SNI",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/11741"),
            Citation::thread("https://github.com/istio/istio/issues/29992"),
        ],
        examples: include_str!("examples/EA501.yaml"),
        check: tcp_on_443,
    },
    Rule {
        code: "EA502",
        name: "http-on-443",
        severity: Severity::Error,
        what: "protocol HTTP on port 443",
        why: "Envoy then expects plain HTTP where clients speak TLS, and other entries' TLS on 443 breaks with it",
        fix: "write `protocol: TLS`; for TLS by the proxy use HTTP on port 80 with `targetPort: 443`",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/16458"),
            Citation::thread("https://github.com/istio/istio.io/issues/11396"),
        ],
        examples: include_str!("examples/EA502.yaml"),
        check: http_on_443,
    },
    Rule {
        code: "EA503",
        name: "double-tls",
        severity: Severity::Error,
        what: "the rule starts TLS over a port that carries TLS of the application already",
        why: "the partner gets TLS inside of TLS and closes the connection",
        fix: "remove `tls` from the rule, or give the entry an HTTP port with `targetPort: 443`",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/17031"),
            Citation::docs(
                "https://istio.io/latest/docs/tasks/traffic-management/egress/egress-tls-origination/",
            ),
        ],
        examples: include_str!("examples/EA503.yaml"),
        check: double_tls,
    },
    Rule {
        code: "EA504",
        name: "misplaced-field",
        severity: Severity::Error,
        what: "a field that belongs elsewhere",
        why: "it is refused, or dropped without a word, and the default applies",
        fix: "move the field to where it belongs",
        source: &[SERVICE_ENTRY, Citation::thread("https://github.com/istio/istio/issues/7837")],
        examples: include_str!("examples/EA504.yaml"),
        check: misplaced_field,
    },
    Rule {
        code: "EA505",
        name: "round-robin-with-endpoints",
        severity: Severity::Error,
        what: "DNS_ROUND_ROBIN with several endpoints or a workloadSelector",
        why: "LOGICAL_DNS takes exactly one endpoint: Envoy rejects the cluster, or istiod leaves it out",
        fix: "keep one endpoint, or write `resolution: DNS`",
        source: &[Citation::thread("https://github.com/istio/istio/issues/42184"), SERVICE_ENTRY],
        examples: include_str!("examples/EA505.yaml"),
        check: round_robin_with_endpoints,
    },
    Rule {
        code: "EA506",
        name: "unknown-resolution",
        severity: Severity::Error,
        what: "a resolution that Istio does not know",
        why: "the entry is refused; Istio's names are not Envoy's, and they are upper case",
        fix: "write NONE, STATIC, DNS, DNS_ROUND_ROBIN or DYNAMIC_DNS",
        source: &[SERVICE_ENTRY],
        examples: include_str!("examples/EA506.yaml"),
        check: unknown_resolution,
    },
    Rule {
        code: "EA507",
        name: "none-with-target-port",
        severity: Severity::Warning,
        what: "a targetPort on an entry without resolution",
        why: "with NONE the connection goes where the application sent it, port included",
        fix: "remove targetPort, or write `resolution: DNS`",
        source: &[Citation::thread("https://github.com/istio/istio/issues/57531")],
        examples: include_str!("examples/EA507.yaml"),
        check: none_with_target_port,
    },
    Rule {
        code: "EA508",
        name: "none-tcp-without-addresses",
        severity: Severity::Warning,
        what: "TCP without resolution and without addresses",
        why: "any address is let through on that port, under the entry's name",
        fix: "list the `addresses`, or write `resolution: DNS`",
        source: &[
            Citation::docs("https://istio.io/latest/docs/reference/config/analysis/ist0134/"),
            Citation::thread("https://github.com/istio/istio/issues/34792"),
        ],
        examples: include_str!("examples/EA508.yaml"),
        check: none_tcp_without_addresses,
    },
    Rule {
        code: "EA509",
        name: "static-without-endpoints",
        severity: Severity::Error,
        what: "STATIC without endpoints and without a workloadSelector",
        why: "the cluster has no members",
        fix: "list the endpoints, or write `resolution: DNS`",
        source: &[SERVICE_ENTRY],
        examples: include_str!("examples/EA509.yaml"),
        check: static_without_endpoints,
    },
    Rule {
        code: "EA510",
        name: "no-host-name",
        severity: Severity::Error,
        what: "a host that is no DNS name",
        why: "a host is a name alone: no scheme, no port, no path, no address",
        fix: "write the bare name",
        source: &[SERVICE_ENTRY],
        examples: include_str!("examples/EA510.yaml"),
        check: super::hosts::no_host_name,
    },
    Rule {
        code: "EA511",
        name: "several-hosts-on-tcp",
        severity: Severity::Error,
        what: "several hosts on a port that is neither HTTP nor TLS",
        why: "nothing in the traffic says which host is meant: Istio refuses the entry, and where it did not, by address only the first host is ever reached",
        fix: "give each host an entry and `addresses` of its own, or write `protocol: TLS` where the clients speak TLS, \
              which goes by SNI; entries without addresses take DNS capture with address allocation",
        source: &[SERVICE_ENTRY, Citation::thread("https://github.com/istio/istio/issues/30771")],
        examples: include_str!("examples/EA511.yaml"),
        check: several_hosts_on_tcp,
    },
    Rule {
        code: "EA512",
        name: "static-endpoint-is-a-name",
        severity: Severity::Error,
        what: "STATIC with an endpoint that is a name",
        why: "STATIC looks nothing up: an endpoint has to be an IP address or a unix socket, and the entry is refused",
        fix: "write `resolution: DNS`, or the addresses",
        source: &[SERVICE_ENTRY],
        examples: include_str!("examples/EA512.yaml"),
        check: static_endpoint_is_a_name,
    },
    Rule {
        code: "EA513",
        name: "unix-endpoint-without-static",
        severity: Severity::Error,
        what: "a unix socket as endpoint with a resolution other than STATIC",
        why: "a socket cannot be looked up: the entry is refused",
        fix: "write `resolution: STATIC`",
        source: &[SERVICE_ENTRY],
        examples: include_str!("examples/EA513.yaml"),
        check: unix_endpoint_without_static,
    },
    Rule {
        code: "EA514",
        name: "selector-picks-nothing",
        severity: Severity::Warning,
        what: "a workloadSelector that none of the namespace's workload entries answers to",
        why: "unless pods answer to it, the cluster has no members",
        fix: "correct the labels of the selector or of the WorkloadEntry",
        source: &[SERVICE_ENTRY],
        examples: include_str!("examples/EA514.yaml"),
        check: selector_picks_nothing,
    },
    Rule {
        code: "EA515",
        name: "addresses-too-wide",
        severity: Severity::Warning,
        what: "addresses that hold a large part of all there are",
        why: "the entry takes the traffic of every other destination in that range; Istio from 1.32 on warns too",
        fix: "list the partner's own ranges",
        source: &[
            SERVICE_ENTRY,
            Citation::docs("https://istio.io/latest/news/releases/1.32.x/announcing-1.32/change-notes/"),
        ],
        examples: include_str!("examples/EA515.yaml"),
        check: addresses_too_wide,
    },
];

fn ports<'m, 'a>(
    mesh: &'m Mesh<'a>,
    wanted: impl Fn(&Port<'_>) -> bool + 'm,
) -> impl Iterator<Item = (&'m Entry<'a>, &'m Port<'a>)> {
    let all = mesh.entries.iter().flat_map(|entry| entry.ports.iter().map(move |port| (entry, port)));
    all.filter(move |(_, port)| wanted(port))
}

fn protocol_at(port: &Port<'_>) -> Place {
    port.node.get("protocol").map_or(port.node.at, |protocol| protocol.at)
}

fn tcp_on_443(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let is = |port: &Port<'_>| port.number == Some(443) && port.is("TCP");
    for (entry, port) in ports(mesh, is).filter(|(entry, _)| !entry.has_vip) {
        let at = protocol_at(port);
        found
            .add(entry.resource, at, "TCP on 443 claims every connection to port 443")
            .edit(replace(at, "TLS"));
    }
}

fn http_on_443(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (entry, port) in ports(mesh, |port| port.number == Some(443) && port.is_http()) {
        // The proxy starts TLS there: clients do speak plain HTTP.
        if entry
            .hosts
            .iter()
            .any(|host| mesh.rules_for(host.name).any(|rule| starts_tls(rule, 443).is_some()))
        {
            continue;
        }
        let at = protocol_at(port);
        let text = format!("{} on 443: clients speak TLS there", port.protocol);
        found.add(entry.resource, at, text).edit(replace(at, "TLS"));
    }
}

/// Where a rule starts TLS for a port, by itself or in a subset. Settings of the port replace those above it.
pub(super) fn starts_tls(rule: &DestRule<'_>, port: i64) -> Option<Place> {
    let subsets = rule.resource.root.list("spec.subsets").iter();
    let mut subsets = subsets.filter_map(|subset| subset.get("trafficPolicy"));
    starts_for_all(rule, port).or_else(|| subsets.find_map(|policy| started_by(policy, port)))
}

/// Where it does so for whoever connects, and not for a subset alone.
pub(super) fn starts_for_all(rule: &DestRule<'_>, port: i64) -> Option<Place> {
    started_by(rule.policy?, port)
}

fn started_by(policy: &Node, port: i64) -> Option<Place> {
    let mut own = policy.list("portLevelSettings").iter();
    let of_port = own.find(|own| own.integer_at("port.number") == Some(port));
    let mode = of_port.unwrap_or(policy).get("tls.mode")?;
    matches!(mode.text(), Some("SIMPLE" | "MUTUAL")).then_some(mode.at)
}

fn double_tls(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let http = super::gateways::http_destinations(mesh);
    for rule in mesh.rules.iter().filter(|rule| !http.contains(rule.host)) {
        for entry in mesh.entries_of(rule) {
            let mut started: Vec<(Place, &Port<'_>)> = Vec::new();
            for port in &entry.ports {
                started.extend(port.number.and_then(|number| starts_tls(rule, number)).map(|at| (at, port)));
            }
            let Some((at, _)) = started.first() else { continue };
            // With a plain port beside it, the TLS may be meant for that one.
            if started.iter().all(|(_, port)| port.is_tls()) {
                let text = format!("{} carries TLS of the application already", rule.host);
                found.add(rule.resource, *at, text).with(entry.resource, entry.spec.at);
            }
        }
    }
}

/// Field, where it was found, where it belongs.
const MISPLACED: &[(&str, &str, &str)] = &[
    ("resolution", "ports", "spec"),
    ("location", "ports", "spec"),
    ("endpoints", "ports", "spec"),
    ("hosts", "ports", "spec"),
    ("exportTo", "ports", "spec"),
    ("exportTo", "metadata", "spec"),
    ("resolution", "metadata", "spec"),
    ("hosts", "metadata", "spec"),
    ("protocol", "spec", "spec.ports[]"),
    ("targetPort", "spec", "spec.ports[]"),
];
const MISPLACED_IN_RULE: &[(&str, &str, &str)] = &[
    ("connectionPool", "spec", "spec.trafficPolicy"),
    ("outlierDetection", "spec", "spec.trafficPolicy"),
    ("loadBalancer", "spec", "spec.trafficPolicy"),
    ("tls", "spec", "spec.trafficPolicy"),
    ("connectTimeout", "trafficPolicy", "trafficPolicy.connectionPool.tcp"),
    ("idleTimeout", "trafficPolicy", "trafficPolicy.connectionPool.tcp"),
    ("maxConnectionDuration", "trafficPolicy", "trafficPolicy.connectionPool.tcp"),
    ("connectTimeout", "connectionPool", "connectionPool.tcp"),
    ("idleTimeout", "connectionPool", "connectionPool.tcp"),
    ("maxConnectionDuration", "connectionPool", "connectionPool.tcp"),
    ("maxEjectionPercent", "trafficPolicy", "trafficPolicy.outlierDetection"),
    ("consecutive5xxErrors", "trafficPolicy", "trafficPolicy.outlierDetection"),
    ("outlierDetection", "connectionPool", "trafficPolicy"),
];

fn misplaced_field(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let mut look = |resource, parent: Option<&Node>, name: &str, table: &[(&str, &str, &str)]| {
        for (field, _, home) in table.iter().filter(|(_, place, _)| *place == name) {
            if let Some((key, _)) = parent.and_then(|parent| parent.entry(field)) {
                let text = format!("`{field}` under {name} is not read there, it belongs to {home}");
                found.add(resource, key.at, text).about(*field).hint(format!("move `{field}` to {home}"));
            }
        }
    };
    for entry in &mesh.entries {
        look(entry.resource, Some(entry.spec), "spec", MISPLACED);
        look(entry.resource, entry.resource.root.get("metadata"), "metadata", MISPLACED);
        for port in &entry.ports {
            look(entry.resource, Some(port.node), "ports", MISPLACED);
        }
    }
    for rule in &mesh.rules {
        look(rule.resource, rule.resource.root.get("spec"), "spec", MISPLACED_IN_RULE);
        for (policy, _) in super::connections::policies(rule) {
            look(rule.resource, Some(policy), "trafficPolicy", MISPLACED_IN_RULE);
            look(rule.resource, policy.get("connectionPool"), "connectionPool", MISPLACED_IN_RULE);
        }
    }
}

fn round_robin_with_endpoints(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in mesh.entries.iter().filter(|entry| entry.resolution == Some(Resolution::DnsRoundRobin)) {
        let selector = entry.spec.entry("workloadSelector").map(|(key, _)| key.at);
        let several =
            entry.spec.entry("endpoints").filter(|_| entry.endpoints.len() > 1).map(|(key, _)| key.at);
        if let Some(at) = several {
            let text = format!("{} endpoints, where DNS_ROUND_ROBIN takes one", entry.endpoints.len());
            found.add(entry.resource, at, text).edit(replace(entry.resolution_at(), "DNS"));
        } else if let Some(at) = selector {
            found.add(entry.resource, at, "a workloadSelector, where DNS_ROUND_ROBIN takes one endpoint");
        }
    }
}

fn unknown_resolution(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in mesh.entries.iter().filter(|entry| entry.resolution.is_none()) {
        let at = entry.resolution_at();
        let written = entry.spec.text_at("resolution").unwrap_or_default();
        let meant = match written.to_ascii_uppercase().replace('-', "_").as_str() {
            "STRICT_DNS" | "STRICT" => Some(Resolution::Dns),
            "LOGICAL_DNS" | "LOGICAL" | "ROUND_ROBIN" => Some(Resolution::DnsRoundRobin),
            upper => Resolution::parse(upper),
        };
        let text = format!("resolution {:?} is none of Istio's", crate::manifest::clip(written));
        let draft = found.add(entry.resource, at, text);
        if let Some(meant) = meant {
            draft.hint(format!("write `resolution: {meant}`")).edit(replace(at, meant.as_str()));
        }
    }
}

fn none_with_target_port(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let is = |port: &Port<'_>| port.target.is_some_and(|target| Some(target) != port.number);
    for (entry, port) in ports(mesh, is).filter(|(entry, _)| entry.resolution == Some(Resolution::None)) {
        let at = port.node.get("targetPort").map_or(port.node.at, |target| target.at);
        let text =
            format!("targetPort {} is not used: there is no resolution", port.target.unwrap_or_default());
        let draft = found.add(entry.resource, at, text).about(port.number.unwrap_or_default().to_string());
        if entry.has_wildcard() {
            draft.hint("remove targetPort, or list the names with `resolution: DNS`");
        }
    }
}

fn none_tcp_without_addresses(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (entry, port) in ports(mesh, |port: &Port<'_>| port.is_tcp()) {
        // A wildcard is EA605's, with a remedy of its own.
        if entry.resolution == Some(Resolution::None) && !entry.has_addresses() && !entry.has_wildcard() {
            let number = port.number.unwrap_or_default();
            let text = format!("any address is let through on TCP port {number}");
            found.add(entry.resource, port.node.at, text).about(number.to_string());
        }
    }
}

fn static_without_endpoints(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in mesh.entries.iter().filter(|entry| entry.resolution == Some(Resolution::Static)) {
        if entry.endpoints.is_empty() && entry.spec.get("workloadSelector").is_none() {
            let text = if entry.has_addresses() {
                "STATIC, and no endpoint is listed: `addresses` are what clients connect to"
            } else {
                "STATIC, and no endpoint is listed"
            };
            let draft = found.add(entry.resource, entry.resolution_at(), text);
            if entry.has_wildcard() {
                draft.hint("list the endpoints, or write `resolution: NONE`; a wildcard cannot be looked up");
            } else if entry.has_addresses() {
                draft.hint("list the addresses as endpoints too, or write `resolution: DNS`");
            }
        }
    }
}

fn several_hosts_on_tcp(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in mesh.entries.iter().filter(|entry| entry.hosts.len() > 1) {
        // NONE passes on by address, whatever the host.
        let passed_on = matches!(entry.resolution, None | Some(Resolution::None));
        let Some(port) = entry.ports.iter().find(|port| port.is_tcp()) else { continue };
        if entry.has_addresses() || !passed_on {
            let text = format!("nothing tells the {} hosts apart on this port", entry.hosts.len());
            found.add(entry.resource, port.node.at, text);
        }
    }
}

fn endpoints<'m, 'a>(entry: &'m Entry<'a>) -> impl Iterator<Item = (&'a str, Place)> + use<'m, 'a> {
    entry.endpoints.iter().filter_map(|endpoint| {
        let address = endpoint.get("address")?;
        Some((address.text()?, address.at))
    })
}

fn static_endpoint_is_a_name(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in mesh.entries.iter().filter(|entry| entry.resolution == Some(Resolution::Static)) {
        let named =
            |address: &str| address.parse::<std::net::IpAddr>().is_err() && !address.starts_with("unix:");
        for (address, at) in endpoints(entry).filter(|(address, _)| named(address) && !address.is_empty()) {
            found.add(entry.resource, at, format!("STATIC cannot look {address} up")).about(address);
        }
        for workload in &entry.workloads {
            let Some(node) = workload.root.get("spec.address") else { continue };
            let address = node.text().unwrap_or_default();
            if named(address) && !address.is_empty() {
                let text = format!("{} is STATIC and cannot look {address} up", entry.resource.name);
                found.add(workload, node.at, text).about(address).with(entry.resource, entry.spec.at);
            }
        }
    }
}

fn unix_endpoint_without_static(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in mesh.entries.iter().filter(|entry| entry.resolution != Some(Resolution::Static)) {
        for (address, at) in endpoints(entry).filter(|(address, _)| address.starts_with("unix:")) {
            found
                .add(entry.resource, at, format!("{address} is a socket, which nobody can look up"))
                .about(address)
                .edit(
                    replace(entry.resolution_at(), "STATIC")
                        .filter(|_| entry.spec.get("resolution").is_some()),
                );
        }
    }
}

fn selector_picks_nothing(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let placed: HashSet<&str> = mesh.workloads.iter().map(|workload| &*workload.namespace).collect();
    for entry in mesh.entries.iter().filter(|entry| entry.workloads.is_empty()) {
        let Some((key, _)) = entry.spec.entry("workloadSelector") else { continue };
        if placed.contains(&*entry.resource.namespace) {
            let text = "no WorkloadEntry of the namespace carries these labels";
            found.add(entry.resource, key.at, text);
        }
    }
}

fn addresses_too_wide(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in &mesh.entries {
        for (address, at) in
            entry.spec.list("addresses").iter().filter_map(|node| Some((node.text()?, node.at)))
        {
            let Ok(range) = address.parse::<ipnet::IpNet>() else { continue };
            if range.prefix_len() < if range.addr().is_ipv4() { 8 } else { 16 } {
                found
                    .add(entry.resource, at, format!("{address} holds other destinations too"))
                    .about(address);
            }
        }
    }
}
