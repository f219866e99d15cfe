//! Family EA8, continued: where routes lead. Ports and subsets that do not exist, plain HTTP into a TLS port, a Host
//! header that the partner does not know, an egress gateway from which nothing leads on.

use std::collections::{HashMap, HashSet};

use super::Findings;
use super::gateways::{Route, accepts, routes};
use super::mesh::{DestRule, Entry, Mesh, Port, full};
use super::ports::starts_tls;
use super::rule::Rule;
use crate::Citation;
use crate::finding::Severity;
use crate::manifest::Loadable;
use crate::manifest::node::Node;

const DESTINATION: Citation =
    Citation::docs("https://istio.io/latest/docs/reference/config/networking/virtual-service/#Destination");
const EGRESS_GATEWAY: Citation =
    Citation::docs("https://istio.io/latest/docs/tasks/traffic-management/egress/egress-gateway/");

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA809",
        name: "port-not-in-entry",
        severity: Severity::Error,
        what: "a route, a match or settings for a port that the entry does not have",
        why: "there is no cluster for that port: a route to it answers 503, a match never matches, settings apply to nothing",
        fix: "write a port that the entry lists, or add the port to the entry",
        source: &[DESTINATION, Citation::thread("https://github.com/istio/istio/issues/24717")],
        examples: include_str!("examples/EA809.yaml"),
        check: port_not_in_entry,
    },
    Rule {
        code: "EA810",
        name: "destination-without-port",
        severity: Severity::Warning,
        what: "a route to an entry of several ports that names none of them",
        why: "the port that the connection came in on is taken, which behind a gateway is the gateway's own",
        fix: "write destination.port.number",
        source: &[DESTINATION],
        examples: include_str!("examples/EA810.yaml"),
        check: destination_without_port,
    },
    Rule {
        code: "EA811",
        name: "subset-not-defined",
        severity: Severity::Error,
        what: "a route to a subset that no DestinationRule defines",
        why: "there is no cluster for the subset: 503",
        fix: "correct the name of the subset, or define it in the DestinationRule of the host",
        source: &[
            Citation::docs("https://istio.io/latest/docs/reference/config/analysis/ist0101/"),
            Citation::thread("https://github.com/istio/istio/issues/6335"),
        ],
        examples: include_str!("examples/EA811.yaml"),
        check: subset_not_defined,
    },
    Rule {
        code: "EA812",
        name: "plain-http-into-tls-port",
        severity: Severity::Error,
        what: "an HTTP route to a TLS port that no rule starts TLS for",
        why: "the proxy sends plain HTTP to a port that expects TLS: the partner closes the connection or answers 400",
        fix: "set tls mode SIMPLE for the port in a DestinationRule of the host",
        source: &[
            Citation::docs(
                "https://istio.io/latest/docs/tasks/traffic-management/egress/egress-tls-origination/",
            ),
            Citation::thread("https://github.com/istio/istio/issues/21064"),
        ],
        examples: include_str!("examples/EA812.yaml"),
        check: plain_http_into_tls,
    },
    Rule {
        code: "EA813",
        name: "host-header-of-another-name",
        severity: Severity::Warning,
        what: "an HTTP route to an external host that keeps the Host header of another name",
        why: "the partner gets a Host header that it does not serve, and answers 404, or 421 behind TLS",
        fix: "set `rewrite.authority` to the external host",
        source: &[Citation::docs(
            "https://istio.io/latest/docs/reference/config/networking/virtual-service/#HTTPRewrite",
        )],
        examples: include_str!("examples/EA813.yaml"),
        check: foreign_host_header,
    },
    Rule {
        code: "EA814",
        name: "no-route-onward",
        severity: Severity::Error,
        what: "traffic is sent to an egress gateway that has no route for it",
        why: "the gateway answers 404, or closes the connection: it needs a route of its own to the host",
        fix: "add a route for the gateway that leads to the external host",
        source: &[EGRESS_GATEWAY],
        examples: include_str!("examples/EA814.yaml"),
        check: no_route_onward,
    },
];

/// A destination of a route.
pub(super) struct To<'a> {
    pub(super) service: &'a Loadable,
    pub(super) route: Route<'a>,
    pub(super) destination: &'a Node,
    pub(super) host: &'a str,
}

/// Every destination of a `VirtualService`.
pub(super) fn destinations(service: &Loadable) -> impl Iterator<Item = To<'_>> {
    routes(service).flat_map(move |route| {
        let to = route.node.list("route").iter().filter_map(|to| to.get("destination"));
        let to = to.filter_map(|destination| Some((destination, destination.text_at("host")?)));
        let to = to.map(|(destination, host)| {
            let route = Route { gateways: route.gateways.clone(), ..route };
            To { service, route, destination, host }
        });
        to.collect::<Vec<_>>()
    })
}

/// Those that lead to entries, with the entries.
fn to_entries<'m, 'a>(mesh: &'m Mesh<'a>) -> impl Iterator<Item = (To<'a>, Vec<&'m Entry<'a>>)> {
    mesh.virtual_services.iter().flat_map(|service| destinations(service)).filter_map(|to| {
        let entries = mesh.entries_for(to.host);
        let known = !entries.is_empty() && entries.iter().all(|entry| !entry.ports.is_empty());
        known.then_some((to, entries))
    })
}

fn has(entries: &[&Entry<'_>], port: i64) -> bool {
    entries.iter().any(|entry| entry.ports.iter().any(|known| known.number == Some(port)))
}

/// `80, 443`.
fn listed(entries: &[&Entry<'_>]) -> String {
    let mut numbers: Vec<i64> =
        entries.iter().flat_map(|entry| &entry.ports).filter_map(|port| port.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn port_not_in_entry(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (to, entries) in to_entries(mesh) {
        let Some(node) = to.destination.get("port.number") else { continue };
        let Some(port) = node.integer().filter(|port| !has(&entries, *port)) else { continue };
        let text = format!("the entry for {} has no port {port}, it has {}", to.host, listed(&entries));
        found
            .add(to.service, node.at, text)
            .about(format!("{} {port}", to.host))
            .with(entries[0].resource, entries[0].spec.at);
    }
    for service in &mesh.virtual_services {
        let hosts = service.root.list("spec.hosts").iter().filter_map(Node::text);
        let entries: Vec<&Entry<'_>> = hosts.flat_map(|host| mesh.entries_for(host)).collect();
        if entries.is_empty() || entries.iter().any(|entry| entry.ports.is_empty()) {
            continue;
        }
        // A gateway matches its own ports.
        for matched in routes(service).filter(Route::is_mesh).flat_map(|route| route.node.list("match")) {
            let mut own = matched.list("gateways").iter().filter_map(Node::text).peekable();
            if own.peek().is_some() && !own.any(|gateway| gateway == "mesh") {
                continue;
            }
            let Some(node) = matched.get("port") else { continue };
            let Some(port) = node.integer().filter(|port| !has(&entries, *port)) else { continue };
            let text =
                format!("no connection to port {port} ever meets this: the hosts have {}", listed(&entries));
            found.add(service, node.at, text).about(format!("match {port}")).severity(Severity::Warning);
        }
    }
    for rule in &mesh.rules {
        let entries: Vec<&Entry<'_>> = mesh.entries_of(rule).collect();
        if entries.is_empty() || entries.iter().any(|entry| entry.ports.is_empty()) {
            continue;
        }
        for (policy, _) in super::connections::policies(rule) {
            let Some(node) = policy.get("port.number") else { continue };
            let Some(port) = node.integer().filter(|port| !has(&entries, *port)) else { continue };
            let text =
                format!("settings for port {port} apply to nothing: {} has {}", rule.host, listed(&entries));
            found.add(rule.resource, node.at, text).about(port.to_string()).severity(Severity::Warning);
        }
    }
}

fn destination_without_port(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (to, entries) in to_entries(mesh) {
        if to.destination.get("port").is_none() && entries.iter().all(|entry| entry.ports.len() > 1) {
            let text = format!("{} has ports {}, and the route names none", to.host, listed(&entries));
            found
                .add(to.service, to.destination.at, text)
                .about(to.host)
                .with(entries[0].resource, entries[0].spec.at);
        }
    }
}

fn subset_not_defined(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let mut rules: HashMap<String, Vec<&DestRule<'_>>> = HashMap::new();
    for rule in &mesh.rules {
        rules.entry(full(rule.host, &rule.resource.namespace).into_owned()).or_default().push(rule);
    }
    for to in mesh.virtual_services.iter().flat_map(|service| destinations(service)) {
        let Some((node, subset)) = to.destination.get("subset").and_then(|node| Some((node, node.text()?)))
        else {
            continue;
        };
        let host = full(to.host, &to.service.namespace);
        let about = rules.get(&*host).map_or(&[][..], Vec::as_slice);
        let wide: Vec<_> = if about.is_empty() { mesh.rules_for(to.host).collect() } else { about.to_vec() };
        // The rules of a Service need not be among the files.
        if subset.is_empty() || (wide.is_empty() && mesh.entries_for(to.host).is_empty()) {
            continue;
        }
        let subsets = wide.iter().flat_map(|rule| rule.resource.root.list("spec.subsets"));
        let names: Vec<&str> = subsets.filter_map(|defined| defined.text_at("name")).collect();
        if names.contains(&subset) {
            continue;
        }
        let text = if names.is_empty() {
            format!("no rule of {} defines subsets: {subset:?} is missing", to.host)
        } else {
            format!("no rule of {} defines subset {subset:?}, only {}", to.host, names.join(", "))
        };
        let draft = found.add(to.service, node.at, text).about(format!("{} {subset}", to.host));
        if let Some(rule) = wide.first() {
            draft.with(rule.resource, rule.host_at);
        }
    }
}

/// Ports that a destination may mean.
fn meant<'m, 'a>(to: &To<'_>, entries: &[&'m Entry<'a>]) -> Vec<&'m Port<'a>> {
    let ports = entries.iter().flat_map(|entry| &entry.ports);
    match to.destination.integer_at("port.number") {
        Some(number) => ports.filter(|port| port.number == Some(number)).collect(),
        None if entries.iter().all(|entry| entry.ports.len() == 1) => ports.collect(),
        None => Vec::new(),
    }
}

fn plain_http_into_tls(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (to, entries) in to_entries(mesh).filter(|(to, _)| to.route.protocol == "http") {
        let ports = meant(&to, &entries);
        let starts = |port: &&Port<'_>| {
            let number = port.number.unwrap_or_default();
            mesh.rules_for(to.host).any(|rule| starts_tls(rule, number).is_some())
        };
        if ports.is_empty() || !ports.iter().all(|port| port.is_tls()) || ports.iter().any(starts) {
            continue;
        }
        // Sidecars never use a route of a host that is TLS passthrough (EA305).
        let mut hosts = to.service.root.list("spec.hosts").iter().filter_map(Node::text);
        let of_itself = to.route.gateways.iter().all(|gateway| *gateway == "mesh")
            && hosts.any(|host| host == to.host)
            && entries.iter().all(|entry| entry.is_passthrough());
        if of_itself {
            continue;
        }
        let number = ports[0].number.unwrap_or_default();
        let text = format!("plain HTTP goes to TLS port {number} of {}: no rule starts TLS there", to.host);
        found
            .add(to.service, to.destination.at, text)
            .about(format!("{} {number}", to.host))
            .with(entries[0].resource, entries[0].spec.at);
    }
}

/// The request's Host header is set on the way.
fn sets_host(to: &To<'_>) -> bool {
    let set = |node: &Node| {
        let headers = node.get("headers.request.set").map_or(&[][..], Node::entries);
        headers
            .iter()
            .any(|(key, _)| ["host", ":authority"].iter().any(|name| key.text.eq_ignore_ascii_case(name)))
    };
    let own = |listed: &&Node| listed.get("destination").is_some_and(|node| node.at == to.destination.at);
    to.route.node.get("rewrite.authority").is_some()
        || set(to.route.node)
        || to.route.node.list("route").iter().find(own).is_some_and(set)
}

fn foreign_host_header(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (to, entries) in to_entries(mesh).filter(|(to, _)| to.route.protocol == "http") {
        let inside = |entry: &&Entry<'_>| entry.spec.text_at("location") == Some("MESH_INTERNAL");
        let hosts: Vec<&str> = to.service.root.list("spec.hosts").iter().filter_map(Node::text).collect();
        let of_itself = hosts.iter().any(|host| accepts(host, to.host));
        if hosts.is_empty() || of_itself || sets_host(&to) || entries.iter().all(inside) {
            continue;
        }
        let text = format!("{} gets requests with the Host header of {}", to.host, hosts[0]);
        found
            .add(to.service, to.destination.at, text)
            .about(to.host)
            .hint(format!("set `rewrite: {{authority: {}}}` in the route", to.host));
    }
}

/// Names of Services that are egress gateways: by what the Gateways select, else by how such Services are called.
fn is_egress_gateway(mesh: &Mesh<'_>, host: &str) -> bool {
    let service = host.split('.').next().unwrap_or_default();
    let called = service.contains("egress") && !super::mesh::is_external(host);
    called
        || mesh.gateways.iter().any(|gateway| {
            let labels =
                ["istio", "app"].iter().filter_map(|key| gateway.root.get("spec.selector")?.text_at(key));
            let mut labels = labels.filter(|label| label.contains("egress"));
            labels.any(|label| service == label || service.strip_prefix("istio-") == Some(label))
        })
}

fn no_route_onward(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if mesh.routes_elsewhere {
        return;
    }
    let (mut exact, mut wide): (HashSet<&str>, Vec<&str>) = (HashSet::new(), Vec::new());
    for service in &mesh.virtual_services {
        let onward = destinations(service).any(|to| {
            to.route.gateways.iter().any(|name| *name != "mesh") && !is_egress_gateway(mesh, to.host)
        });
        if onward {
            for host in service.root.list("spec.hosts").iter().filter_map(Node::text) {
                if host.starts_with('*') {
                    wide.push(host);
                } else {
                    exact.insert(host);
                }
            }
        }
    }
    let severity = if mesh.gateways.is_empty() { Severity::Warning } else { Severity::Error };
    let mut told = HashSet::new();
    for to in mesh.virtual_services.iter().flat_map(|service| destinations(service)) {
        let only_gateways = !to.route.is_mesh();
        if only_gateways || !is_egress_gateway(mesh, &full(to.host, &to.service.namespace)) {
            continue;
        }
        for host in to.service.root.list("spec.hosts") {
            let name = host.text().unwrap_or_default();
            let leads =
                exact.contains(name) || wide.iter().any(|listed| *listed == name || accepts(listed, name));
            if !leads && told.insert((to.service.file.as_ref(), to.service.name.as_ref(), name)) {
                let text = format!("{} is sent to {}, and no route of a gateway leads on", name, to.host);
                found.add(to.service, to.destination.at, text).about(name).severity(severity);
            }
        }
    }
}
