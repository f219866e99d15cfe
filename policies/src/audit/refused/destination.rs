//! What istiod refuses of destinations, their weights and the names of gateways, in any route and in a Sidecar.

use super::Refusals;
use super::parts::{DESTINATION, FQDN, GATEWAYS, PORT_NUMBER, SUBSET_NAME, WEIGHT, place, text};
use crate::manifest::node::Node;
use crate::manifest::spelled::{is_dns_label, is_fqdn, is_wildcard_domain};

/// Names of gateways: `namespace/name`, else a name. Istio stops at the first one without a namespace.
pub(super) fn gateway_names(gateways: &[Node], refusals: &mut Refusals<'_>) {
    for gateway in gateways {
        let written = gateway.text().unwrap_or_default();
        let Some((namespace, name)) = written.split_once('/') else {
            refusals.unless(is_fqdn(written), gateway.at, &FQDN, || {
                format!("{written:?} is no name of a gateway")
            });
            return;
        };
        refusals.unless(is_dns_label(namespace) && is_dns_label(name), gateway.at, &GATEWAYS, || {
            format!("{written:?} is no namespace and name of a gateway")
        });
    }
}

/// Weights are not negative, and several are not all 0. The sum is one of 32 bits, as Istio's is.
pub(super) fn weights(routes: &[Node], from: &'static super::GoCheck, refusals: &mut Refusals<'_>) {
    let mut sum = 0_i32;
    for route in routes {
        let weight = route.integer_at("weight").unwrap_or(0);
        refusals.unless(weight >= 0, place(route, "weight"), &WEIGHT, || "the weight is negative".to_owned());
        sum = sum.wrapping_add(i32::try_from(weight).unwrap_or(0));
    }
    if let [first, _, ..] = routes {
        refusals.unless(sum != 0, first.at, from, || "the weights are all 0".to_owned());
    }
}

/// Host, subset and port of a destination.
pub(super) fn destination(node: &Node, refusals: &mut Refusals<'_>) {
    let (host, subset) = (text(node, "host"), text(node, "subset"));
    refusals.unless(host != "*" && is_wildcard_domain(host), place(node, "host"), &DESTINATION, || {
        format!("{host:?} is no host of a destination")
    });
    refusals.unless(subset.is_empty() || is_dns_label(subset), place(node, "subset"), &SUBSET_NAME, || {
        format!("{subset:?} is no name of a subset")
    });
    if let Some(port) = node.get("port") {
        let number = port.integer_at("number").unwrap_or(0);
        refusals
            .unless((1..=65535).contains(&number), port.at, &PORT_NUMBER, || format!("{number} is no port"));
    }
}
