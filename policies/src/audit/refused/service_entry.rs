//! What istiod refuses of a ServiceEntry beyond the shape of its CRD.

use std::collections::HashSet;

use super::Refusals;
use super::parts::{
    ENTRY, FQDN, SELECTOR, SUBNET, WILDCARD, export_to, is_http, is_tls, labels, place, port, port_name,
    protocol, selector, text,
};
use super::workload_entry::{endpoint, named_ports};
use crate::manifest::node::Node;
use crate::manifest::spelled::{is_fqdn, is_ip, is_ip_or_network, is_wildcard_domain};

pub(super) fn check(root: &Node, spec: &Node, refusals: &mut Refusals<'_>) {
    selector(spec, "workloadSelector.labels", &SELECTOR, refusals);
    let hosts = spec.list("hosts");
    refusals.unless(!hosts.is_empty(), place(spec, "hosts"), &ENTRY, || {
        "an entry has one host at least".to_owned()
    });
    for host in hosts {
        let name = host.text().unwrap_or_default();
        refusals.unless(name != "*" && is_wildcard_domain(name), host.at, &WILDCARD, || {
            format!("{name:?} is no host")
        });
    }
    let resolution = match text(spec, "resolution") {
        "" => "NONE",
        given => given,
    };
    for address in spec.list("addresses") {
        let written = address.text().unwrap_or_default();
        refusals.unless(is_ip_or_network(written), address.at, &SUBNET, || {
            format!("{written:?} is neither an address nor a network")
        });
    }
    ports(spec, refusals);
    match resolution {
        "STATIC" => {
            let names = port_names(spec);
            spec.list("endpoints").iter().for_each(|node| endpoint(node, Some(&names), false, refusals));
        }
        "DNS" | "DNS_ROUND_ROBIN" => by_dns(spec, resolution, refusals),
        "DYNAMIC_DNS" => dynamic(root, spec, refusals),
        _ => {}
    }
    let tcp = spec.list("ports").iter().find(|port| {
        let protocol = text(port, "protocol");
        !is_http(protocol) && !is_tls(protocol)
    });
    if let Some(port) = tcp.filter(|_| resolution != "NONE" && hosts.len() > 1) {
        refusals.add(
            port.at,
            &ENTRY,
            "several hosts on a port that is neither HTTP nor TLS: nothing tells them apart",
        );
    }
    export_to(spec, true, false, refusals);
}

fn port_names(spec: &Node) -> Vec<&str> {
    let mut names: Vec<&str> = spec.list("ports").iter().map(|port| text(port, "name")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn ports(spec: &Node, refusals: &mut Refusals<'_>) {
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for node in spec.list("ports") {
        let name = text(node, "name");
        refusals.unless(names.insert(name), node.at, &ENTRY, || format!("two ports are called {name:?}"));
        let number = node.integer_at("number").unwrap_or(0);
        refusals.unless(numbers.insert(number), node.at, &ENTRY, || format!("port {number} is listed twice"));
        super::parts::optional_port(node.get("targetPort"), refusals);
        port_name(name, place(node, "name"), refusals);
        protocol(node, refusals);
        port(node.get("number"), node.at, refusals);
    }
}

fn by_dns(spec: &Node, resolution: &str, refusals: &mut Refusals<'_>) {
    let endpoints = spec.list("endpoints");
    if endpoints.is_empty() {
        let wild = spec.list("hosts").iter().find(|host| !is_fqdn(host.text().unwrap_or_default()));
        if let Some(host) = wild {
            let name = host.text().unwrap_or_default();
            refusals.add(
                host.at,
                &ENTRY,
                format!("{name:?} cannot be looked up, and the entry has no endpoints"),
            );
        }
    }
    if resolution == "DNS_ROUND_ROBIN" && endpoints.len() > 1 {
        refusals.add(place(spec, "endpoints"), &ENTRY, "DNS_ROUND_ROBIN takes one endpoint at most");
    }
    let names = port_names(spec);
    for node in endpoints {
        let (address, at) = (text(node, "address"), place(node, "address"));
        refusals.unless(is_ip(address) || is_fqdn(address), at, &FQDN, || {
            format!("{address:?} is no address and no host name")
        });
        labels(node, "labels", &ENTRY, refusals);
        named_ports(node, Some(&names), refusals);
    }
}

fn dynamic(root: &Node, spec: &Node, refusals: &mut Refusals<'_>) {
    for host in spec.list("hosts") {
        let name = host.text().unwrap_or_default();
        refusals.unless(name.starts_with('*'), host.at, &ENTRY, || {
            format!("{name:?} is no wildcard, which DYNAMIC_DNS asks for")
        });
    }
    for key in ["addresses", "endpoints"] {
        if !spec.list(key).is_empty() {
            refusals.add(place(spec, key), &ENTRY, format!("DYNAMIC_DNS takes no `{key}`"));
        }
    }
    for port in spec.list("ports") {
        let protocol = text(port, "protocol");
        let taken = ["http", "tls", "grpc", "http2"].iter().any(|known| protocol.eq_ignore_ascii_case(known));
        refusals.unless(taken, place(port, "protocol"), &ENTRY, || {
            format!("DYNAMIC_DNS takes HTTP, HTTP2, GRPC and TLS, and the port is {protocol:?}")
        });
    }
    let labels = root.get("metadata.labels");
    let waypoint = labels.and_then(|labels| labels.get_key("istio.io/use-waypoint")).and_then(Node::text);
    let waypoint = waypoint.is_some_and(|name| !name.is_empty() && !name.eq_ignore_ascii_case("none"));
    if waypoint && text(spec, "location") == "MESH_INTERNAL" {
        refusals.add(place(spec, "location"), &ENTRY, "DYNAMIC_DNS with MESH_INTERNAL cannot use a waypoint");
    }
}
