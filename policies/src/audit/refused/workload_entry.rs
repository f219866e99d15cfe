//! What istiod refuses of a `WorkloadEntry`, alone or as an endpoint of a `ServiceEntry`.

use super::Refusals;
use super::parts::{FQDN, PORT_NAME, WORKLOAD, labels, place, port, socket, text};
use crate::manifest::node::Node;
use crate::manifest::spelled::{is_fqdn, is_ip};

pub(super) fn check(spec: &Node, refusals: &mut Refusals<'_>) {
    endpoint(spec, None, true, refusals);
}

/// `ports` are the names of the ports that the entry has, where there is one.
pub(super) fn endpoint(spec: &Node, ports: Option<&[&str]>, names: bool, refusals: &mut Refusals<'_>) {
    let (address, at) = (text(spec, "address"), place(spec, "address"));
    if address.is_empty() && text(spec, "network").is_empty() {
        refusals.add(at, &WORKLOAD, "the address is missing");
        return;
    }
    let path = address.strip_prefix("unix://");
    if let Some(path) = path {
        socket(path, at, refusals);
        if !spec.get("ports").map_or(&[][..], Node::entries).is_empty() {
            refusals.add(place(spec, "ports"), &WORKLOAD, "a socket has no ports");
        }
        if ports.is_some_and(|ports| ports.len() != 1) {
            refusals.add(
                at,
                &WORKLOAD,
                "a socket answers for one port, and the entry has another number of them",
            );
        }
    } else if !(address.is_empty() || is_ip(address) || names && is_fqdn(address)) {
        let wanted = if names { "address and no host name" } else { "IP address, which STATIC asks for" };
        refusals.add(at, if names { &FQDN } else { &WORKLOAD }, format!("{address:?} is no {wanted}"));
    }
    named_ports(spec, ports, refusals);
    labels(spec, "labels", &WORKLOAD, refusals);
}

/// Ports by name: the names have to be the entry's.
pub(super) fn named_ports(spec: &Node, ports: Option<&[&str]>, refusals: &mut Refusals<'_>) {
    for (key, number) in spec.get("ports").map_or(&[][..], Node::entries) {
        let known = ports.is_none_or(|ports| ports.contains(&&*key.text));
        refusals.unless(known, key.at, &WORKLOAD, || format!("the entry has no port {:?}", key.text));
        if known {
            let good = crate::manifest::spelled::is_dns_label(&key.text);
            refusals.unless(good, key.at, &PORT_NAME, || format!("{:?} is no name of a port", key.text));
        }
        port(Some(number), number.at, refusals);
    }
}
