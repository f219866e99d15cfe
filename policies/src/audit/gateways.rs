//! Family EA8: the chain through an egress gateway: `VirtualService` routes, `Gateway` servers and the entries at the
//! end, held against each other.

use std::collections::HashSet;

use super::Findings;
use super::mesh::Mesh;
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::Loadable;
use crate::manifest::node::{Node, Place};
use crate::{Citation, Resolution};

const EGRESS_GATEWAY: Citation =
    Citation::docs("https://istio.io/latest/docs/tasks/traffic-management/egress/egress-gateway/");

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA801",
        name: "none-behind-gateway",
        severity: Severity::Error,
        what: "an entry without resolution that a gateway routes to",
        why: "on a gateway NONE becomes an EDS cluster without members: 503 UH",
        fix: "write `resolution: DNS`",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/7426"),
            Citation::thread("https://github.com/istio/istio/issues/58688"),
        ],
        examples: include_str!("examples/EA801.yaml"),
        check: none_behind_gateway,
    },
    Rule {
        code: "EA802",
        name: "sni-not-on-gateway",
        severity: Severity::Error,
        what: "a VirtualService matches an SNI that the Gateway does not accept",
        why: "the gateway has no filter chain for it and closes the connection",
        fix: "add the host to the Gateway's servers[].hosts",
        source: &[EGRESS_GATEWAY, Citation::thread("https://github.com/istio/istio/issues/32466")],
        examples: include_str!("examples/EA802.yaml"),
        check: sni_not_on_gateway,
    },
    Rule {
        code: "EA803",
        name: "sni-without-entry",
        severity: Severity::Warning,
        what: "a VirtualService matches an SNI that no entry registers",
        why: "traffic to it is external to the mesh, so no route of the mesh applies to it",
        fix: "correct the SNI, or add the ServiceEntry to the audit",
        source: &[EGRESS_GATEWAY],
        examples: include_str!("examples/EA803.yaml"),
        check: sni_without_entry,
    },
    Rule {
        code: "EA804",
        name: "entry-hidden-from-gateway",
        severity: Severity::Error,
        what: "a gateway routes to an entry that is not exported to its namespace",
        why: "the gateway does not know the host: no cluster, no route",
        fix: "add the gateway's namespace to the entry's exportTo",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/48300"),
            Citation::thread("https://github.com/istio/istio/issues/39770"),
        ],
        examples: include_str!("examples/EA804.yaml"),
        check: entry_hidden,
    },
    Rule {
        code: "EA805",
        name: "tls-match-behind-istio-mutual",
        severity: Severity::Error,
        what: "a tls match for a gateway that ends the mesh's own TLS",
        why: "a server with mode ISTIO_MUTUAL has taken the outer TLS off, so there is no SNI left to match: the route \
              is never used",
        fix: "match with `tcp` and the port",
        source: &[EGRESS_GATEWAY, Citation::thread("https://github.com/istio/istio/issues/37293")],
        examples: include_str!("examples/EA805.yaml"),
        check: tls_behind_istio_mutual,
    },
    Rule {
        code: "EA806",
        name: "sni-not-in-hosts",
        severity: Severity::Error,
        what: "a VirtualService matches an SNI that its own hosts do not hold",
        why: "sniHosts have to lie within spec.hosts: the VirtualService is refused",
        fix: "add the name to spec.hosts",
        source: &[Citation::docs(
            "https://istio.io/latest/docs/reference/config/networking/virtual-service/#TLSMatchAttributes",
        )],
        examples: include_str!("examples/EA806.yaml"),
        check: sni_not_in_hosts,
    },
    Rule {
        code: "EA807",
        name: "gateway-not-found",
        severity: Severity::Warning,
        what: "a VirtualService names a gateway that is in another namespace",
        why: "a name without a namespace means the VirtualService's own: no gateway takes the route",
        fix: "write `namespace/name`",
        source: &[
            EGRESS_GATEWAY,
            Citation::docs("https://istio.io/latest/docs/reference/config/analysis/ist0101/"),
        ],
        examples: include_str!("examples/EA807.yaml"),
        check: gateway_not_found,
    },
    Rule {
        code: "EA808",
        name: "host-not-on-gateway",
        severity: Severity::Error,
        what: "a VirtualService routes HTTP for hosts that its Gateway does not accept",
        why: "the gateway has no route for them and answers 404",
        fix: "add the host to the Gateway's servers[].hosts",
        source: &[EGRESS_GATEWAY],
        examples: include_str!("examples/EA808.yaml"),
        check: host_not_on_gateway,
    },
];

/// A route that a gateway takes to a host.
pub(super) struct Hop<'a> {
    pub(super) service: &'a Loadable,
    /// The gateway, where its manifest was read.
    pub(super) gateway: Option<&'a Loadable>,
    /// Where it leads.
    pub(super) host: &'a str,
    pub(super) at: Place,
}

/// One route of a `VirtualService` and the gateways that take it.
pub(super) struct Route<'a> {
    pub(super) protocol: &'static str,
    pub(super) node: &'a Node,
    /// Names as they are written; `mesh` stands for the sidecars.
    pub(super) gateways: Vec<&'a str>,
}

impl Route<'_> {
    /// Sidecars take it.
    pub(super) fn is_mesh(&self) -> bool {
        self.gateways.is_empty() || self.gateways.contains(&"mesh")
    }

    /// It leads to Services of the cluster alone.
    fn stays_inside(&self) -> bool {
        let mut to =
            self.node.list("route").iter().filter_map(|to| to.text_at("destination.host")).peekable();
        to.peek().is_some() && to.all(|host| !super::mesh::is_external(host))
    }
}

pub(super) fn routes(service: &Loadable) -> impl Iterator<Item = Route<'_>> {
    ["http", "tls", "tcp"].into_iter().flat_map(move |protocol| {
        service.root.list(&format!("spec.{protocol}")).iter().map(move |route| {
            let matched = route.list("match").iter().flat_map(|found| found.list("gateways"));
            let mut gateways: Vec<&str> = matched.filter_map(Node::text).collect();
            if gateways.is_empty() {
                gateways = service.root.list("spec.gateways").iter().filter_map(Node::text).collect();
            }
            Route { protocol, node: route, gateways }
        })
    })
}

/// A gateway by the name that a `VirtualService` gives it: `name` or `namespace/name`.
fn gateway<'a>(mesh: &Mesh<'a>, service: &Loadable, name: &str) -> Option<&'a Loadable> {
    let (namespace, name) = name.split_once('/').unwrap_or((&service.namespace, name));
    let namespace = if namespace == "." { &*service.namespace } else { namespace };
    mesh.gateways.iter().copied().find(|gateway| *gateway.name == *name && *gateway.namespace == *namespace)
}

/// Every route from a gateway to a host.
pub(super) fn hops<'m, 'a>(mesh: &'m Mesh<'a>) -> impl Iterator<Item = Hop<'a>> + use<'m, 'a> {
    mesh.virtual_services.iter().copied().flat_map(move |service| {
        routes(service).flat_map(move |route| {
            let named: Vec<&str> = route.gateways.into_iter().filter(|name| *name != "mesh").collect();
            route.node.list("route").iter().filter_map(|to| to.get("destination.host")).flat_map(
                move |host| {
                    let name = host.text().unwrap_or_default();
                    let hop = move |found: &str| Hop {
                        service,
                        gateway: gateway(mesh, service, found),
                        host: name,
                        at: host.at,
                    };
                    named.clone().into_iter().map(hop)
                },
            )
        })
    })
}

/// Hosts that some proxy reaches by an HTTP route: what the application sends there is HTTP, whatever the port says.
/// Routes of sidecars for a host that passes bytes on are never used and tell nothing.
pub(super) fn http_destinations<'a>(mesh: &Mesh<'a>) -> HashSet<&'a str> {
    let used = |service: &&Loadable| {
        let mut unused = sidecar_http(service).peekable();
        unused.peek().is_none()
            || !unused.all(|(_, host)| {
                let entries = mesh.entries_for(host.text().unwrap_or_default());
                !entries.is_empty() && entries.iter().all(|entry| entry.is_passthrough())
            })
    };
    let of = mesh.virtual_services.iter().copied().filter(used).flat_map(routes);
    of.filter(|route| route.protocol == "http")
        .flat_map(|route| route.node.list("route").iter().filter_map(|to| to.text_at("destination.host")))
        .collect()
}

/// HTTP routes that sidecars take, with the hosts that they are for.
pub(super) fn sidecar_http(service: &Loadable) -> impl Iterator<Item = (&Node, &Node)> {
    let taken = |route: &Route<'_>| route.protocol == "http" && route.is_mesh();
    let hosts = service.root.list("spec.hosts").iter();
    routes(service)
        .find(taken)
        .into_iter()
        .flat_map(move |route| hosts.clone().map(move |host| (route.node, host)))
}

fn none_behind_gateway(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for hop in hops(mesh) {
        for entry in mesh.entries_for(hop.host) {
            if entry.resolution == Some(Resolution::None) {
                let text = format!("{} has no resolution, and a gateway routes to it", hop.host);
                let draft = found
                    .add(entry.resource, entry.resolution_at(), text)
                    .about(hop.host)
                    .with(hop.service, hop.at);
                if entry.hosts.iter().any(|host| host.name.starts_with('*')) {
                    draft.hint(
                        "list the names behind the gateway in an entry with `resolution: DNS`; a wildcard cannot be \
                         looked up, so leave it to the sidecars",
                    );
                }
            }
        }
    }
}

/// `namespace/host`, `*` and `*.example` are what a server may list.
pub(super) fn accepts(listed: &str, host: &str) -> bool {
    let listed = bare(listed);
    match listed.strip_prefix('*') {
        Some(suffix) => host.ends_with(suffix),
        None => listed == host,
    }
}

/// Without its namespace.
fn bare(listed: &str) -> &str {
    listed.split_once('/').map_or(listed, |(_, host)| host)
}

/// Every SNI that a route matches, with the route.
fn snis(service: &Loadable) -> impl Iterator<Item = (Route<'_>, &Node)> {
    routes(service).filter(|route| route.protocol == "tls").flat_map(|route| {
        let matches = route.node.list("match").iter();
        let listed = matches.flat_map(|found| found.list("sniHosts"));
        listed
            .map(|sni| {
                let route = Route { gateways: route.gateways.clone(), ..route };
                (route, sni)
            })
            .collect::<Vec<_>>()
    })
}

fn sni_not_on_gateway(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for service in &mesh.virtual_services {
        for (route, sni) in snis(service) {
            let name = sni.text().unwrap_or_default();
            for gateway in route.gateways.iter().filter_map(|found| gateway(mesh, service, found)) {
                let mut hosts =
                    gateway.root.list("spec.servers").iter().flat_map(|server| server.list("hosts"));
                if !hosts.any(|host| host.text().is_some_and(|host| accepts(host, name))) {
                    let text = format!("gateway {} does not accept {name}", gateway.name);
                    found.add(service, sni.at, text).about(name).with(gateway, gateway.root.at);
                }
            }
        }
    }
}

fn sni_without_entry(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if mesh.entries.is_empty() {
        return;
    }
    for service in &mesh.virtual_services {
        let mut told = Vec::new();
        // What a gateway hands to a Service of the cluster takes no entry.
        for (_, sni) in snis(service).filter(|(route, _)| route.is_mesh() || !route.stays_inside()) {
            let name = sni.text().unwrap_or_default();
            if name.starts_with('*') || told.contains(&name) || !mesh.entries_for(name).is_empty() {
                continue;
            }
            told.push(name);
            found.add(service, sni.at, format!("no entry registers {name}")).about(name);
        }
    }
}

fn entry_hidden(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for hop in hops(mesh) {
        let Some(gateway) = hop.gateway else { continue };
        let entries = mesh.entries_for(hop.host);
        if entries.is_empty() || entries.iter().any(|entry| entry.scope.sees(&gateway.namespace)) {
            continue;
        }
        for entry in entries {
            let at = entry.spec.get("exportTo").map_or(entry.spec.at, |export| export.at);
            let text = format!(
                "{} is not exported to {:?}, where gateway {} is",
                hop.host, gateway.namespace, gateway.name
            );
            found.add(entry.resource, at, text).about(hop.host).with(gateway, gateway.root.at);
        }
    }
}

fn tls_behind_istio_mutual(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for service in &mesh.virtual_services {
        for route in routes(service).filter(|route| route.protocol == "tls") {
            for gateway in route.gateways.iter().filter_map(|found| gateway(mesh, service, found)) {
                let mut servers = gateway.root.list("spec.servers").iter().peekable();
                let ends = |server: &Node| server.text_at("tls.mode") == Some("ISTIO_MUTUAL");
                if servers.peek().is_some() && servers.all(ends) {
                    let text =
                        format!("gateway {} ends the mesh's TLS: there is no SNI to match", gateway.name);
                    found
                        .add(service, route.node.at, text)
                        .about(&*gateway.name)
                        .with(gateway, gateway.root.at);
                }
            }
        }
    }
}

fn sni_not_in_hosts(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for service in &mesh.virtual_services {
        let hosts: Vec<&str> = service.root.list("spec.hosts").iter().filter_map(Node::text).collect();
        for (_, sni) in snis(service).filter(|_| !hosts.is_empty()) {
            let name = sni.text().unwrap_or_default();
            if !hosts.iter().any(|host| accepts(host, name)) {
                found.add(service, sni.at, format!("{name} is not among the hosts")).about(name);
            }
        }
    }
}

fn gateway_not_found(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for service in &mesh.virtual_services {
        for named in service.root.list("spec.gateways") {
            let Some(name) = named.text().filter(|name| *name != "mesh") else { continue };
            let alike = |other: &&&Loadable| Some(&*other.name) == name.rsplit('/').next();
            let Some(other) = mesh.gateways.iter().find(alike) else { continue };
            // A namespace that is left to `kubectl` may be the one that is meant.
            let known = |namespace: &str| !namespace.is_empty();
            let unknown = !known(&other.namespace) || (!known(&service.namespace) && !name.contains('/'));
            if gateway(mesh, service, name).is_none() && !unknown {
                let meant = format!("{}/{}", other.namespace, other.name);
                let text = format!("gateway {} is in {:?}", other.name, &*other.namespace);
                let edit =
                    (!other.namespace.is_empty()).then(|| super::patch::replace(named.at, &*meant)).flatten();
                found
                    .add(service, named.at, text)
                    .about(name)
                    .hint(format!("write {meant}"))
                    .with(other, other.root.at)
                    .edit(edit);
            }
        }
    }
}

fn host_not_on_gateway(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for service in &mesh.virtual_services {
        let named: HashSet<&str> = routes(service)
            .filter(|route| route.protocol == "http")
            .flat_map(|route| route.gateways)
            .collect();
        for gateway in named.iter().filter_map(|name| gateway(mesh, service, name)) {
            let servers = gateway.root.list("spec.servers").iter();
            let listed: Vec<&str> =
                servers.flat_map(|server| server.list("hosts")).filter_map(Node::text).collect();
            let fits = |host: &str| listed.iter().any(|one| accepts(one, host) || accepts(host, bare(one)));
            let hosts = service.root.list("spec.hosts");
            let Some(first) = hosts.first().filter(|_| !listed.is_empty()) else { continue };
            if !hosts.iter().filter_map(Node::text).any(fits) {
                let text = format!("gateway {} accepts none of the hosts", gateway.name);
                found.add(service, first.at, text).about(&*gateway.name).with(gateway, gateway.root.at);
            }
        }
    }
}
