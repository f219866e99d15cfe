//! What istiod refuses of a VirtualService beyond the shape of its CRD: hosts, TLS and TCP routes. `http_route` has the
//! HTTP routes.

use super::Refusals;
use super::destination::{destination, gateway_names, weights};
use super::http_route;
use super::parts::{
    ROUTES, SNI, SUBNET, TCP_MATCH, TCP_ROUTE, TLS_MATCH, TLS_ROUTE, WEIGHTS, WILDCARD, export_to, labels,
    optional_port, place,
};
use crate::manifest::node::Node;
use crate::manifest::spelled::{is_ip, is_ip_or_network, is_wildcard_domain, is_within, overlap};

pub(super) fn check(spec: &Node, refusals: &mut Refusals<'_>) {
    let hosts = spec.list("hosts");
    let gateways = spec.list("gateways");
    if hosts.is_empty() {
        for key in ["gateways", "tls", "tcp"].into_iter().filter(|key| !spec.list(key).is_empty()) {
            refusals.add(
                place(spec, key),
                &ROUTES,
                format!("without hosts it is a delegate, which takes no `{key}`"),
            );
        }
    }
    gateway_names(gateways, refusals);
    let on_gateway = !gateways.is_empty() && !mesh(gateways);
    if !on_gateway {
        http_route::claims(spec, refusals);
    }
    virtual_hosts(spec, hosts, on_gateway, refusals);
    if ["http", "tcp", "tls"].iter().all(|key| spec.list(key).is_empty()) {
        refusals.add(spec.at, &ROUTES, "there is no route: `http`, `tcp` and `tls` are empty");
    }
    for route in spec.list("http") {
        http_route::check(route, hosts.is_empty(), refusals);
    }
    for route in spec.list("tls") {
        tls_route(route, hosts, on_gateway || gateways.is_empty(), refusals);
    }
    for route in spec.list("tcp") {
        for found in route.list("match") {
            networks(found, refusals);
            labels(found, "sourceLabels", &TCP_MATCH, refusals);
            gateway_names(found.list("gateways"), refusals);
        }
        if route.list("route").is_empty() {
            refusals.add(route.at, &TCP_ROUTE, "the TCP route leads nowhere");
        }
        weighted(route, refusals);
    }
    export_to(spec, false, false, refusals);
}

fn mesh(gateways: &[Node]) -> bool {
    gateways.iter().any(|gateway| gateway.text() == Some("mesh"))
}

fn virtual_hosts(spec: &Node, hosts: &[Node], on_gateway: bool, refusals: &mut Refusals<'_>) {
    let by_sni = spec
        .list("tls")
        .iter()
        .flat_map(|route| route.list("match"))
        .any(|one| !one.list("sniHosts").is_empty());
    let before = refusals.found.len();
    for host in hosts {
        let name = host.text().unwrap_or_default();
        let good = if on_gateway { is_gateway_domain(name, by_sni) } else { is_wildcard_domain(name) };
        if !good {
            refusals.unless(is_ip(name), host.at, &WILDCARD, || format!("{name:?} is no host"));
        } else if !on_gateway && name == "*" {
            refusals.add(host.at, &ROUTES, "`*` cannot be routed inside of the mesh, only at a gateway");
        }
    }
    if refusals.found.len() > before {
        return;
    }
    for (index, host) in hosts.iter().enumerate() {
        let name = host.text().unwrap_or_default();
        if let Some(other) = hosts[..index].iter().filter_map(Node::text).find(|other| overlap(name, other)) {
            refusals.add(host.at, &ROUTES, format!("the hosts {other} and {name} overlap"));
        }
    }
}

/// A name that istiod makes up for a gateway's SNI, `outbound_.80_._.host`, or a host.
fn is_gateway_domain(name: &str, by_sni: bool) -> bool {
    if !by_sni || !name.starts_with("outbound_") {
        return is_wildcard_domain(name);
    }
    let parts: Vec<&str> = name.splitn(4, '_').collect();
    let [direction, port, _, host] = parts[..] else { return false };
    direction == "outbound"
        && name.len() <= 255
        && port.contains(|c: char| c.is_ascii_digit())
        && host.contains(|c: char| c.is_ascii_alphabetic())
}

fn tls_route(route: &Node, hosts: &[Node], on_gateway: bool, refusals: &mut Refusals<'_>) {
    if route.list("match").is_empty() {
        refusals.add(route.at, &TLS_ROUTE, "the TLS route matches nothing");
    }
    for found in route.list("match") {
        if found.list("sniHosts").is_empty() {
            refusals.add(found.at, &TLS_MATCH, "the match has no `sniHosts`");
        }
        for sni in found.list("sniHosts") {
            sni_host(sni, hosts, on_gateway, refusals);
        }
        networks(found, refusals);
        labels(found, "sourceLabels", &TLS_MATCH, refusals);
        gateway_names(found.list("gateways"), refusals);
    }
    if route.list("route").is_empty() {
        refusals.add(route.at, &TLS_ROUTE, "the TLS route leads nowhere");
    }
    weighted(route, refusals);
}

fn sni_host(sni: &Node, hosts: &[Node], on_gateway: bool, refusals: &mut Refusals<'_>) {
    let name = sni.text().unwrap_or_default();
    let good = if on_gateway { is_gateway_domain(name, true) } else { is_wildcard_domain(name) };
    if !good {
        refusals.unless(is_ip(name), sni.at, &SNI, || format!("{name:?} is no host"));
        return;
    }
    let covered = hosts.iter().filter_map(Node::text).any(|host| is_within(name, host));
    refusals.unless(covered, sni.at, &SNI, || {
        format!("no host of the VirtualService covers the SNI host {name}")
    });
}

fn networks(found: &Node, refusals: &mut Refusals<'_>) {
    for network in found.list("destinationSubnets") {
        let text = network.text().unwrap_or_default();
        refusals.unless(is_ip_or_network(text), network.at, &SUBNET, || format!("{text:?} is no network"));
    }
    optional_port(found.get("port"), refusals);
}

/// Destinations of a TLS or TCP route.
fn weighted(route: &Node, refusals: &mut Refusals<'_>) {
    let routes = route.list("route");
    for one in routes {
        if let Some(found) = one.get("destination") {
            destination(found, refusals);
        } else {
            refusals.add(one.at, &WEIGHTS, "the route lacks a destination");
        }
    }
    weights(routes, &WEIGHTS, refusals);
}
