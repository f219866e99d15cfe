//! What istiod refuses of a Sidecar beyond the shape of its CRD.

use std::collections::HashSet;

use super::Refusals;
use super::destination::destination;
use super::destination_rule::connection_pool;
use super::gateway::{server_tls, slash_host};
use super::parts::{
    ADDRESS, EGRESS_PORT, FQDN, OUTBOUND, SELECTOR, SIDECAR, is_tls, place, port, port_name, protocol,
    selector, socket, text,
};
use crate::manifest::node::Node;
use crate::manifest::spelled::{is_fqdn, is_ip};

pub(super) fn check(spec: &Node, refusals: &mut Refusals<'_>) {
    selector(spec, "workloadSelector.labels", &SELECTOR, refusals);
    let (ingress, egress) = (spec.list("ingress"), spec.list("egress"));
    let bare = spec.get("outboundTrafficPolicy").is_none() && spec.get("inboundConnectionPool").is_none();
    if ingress.is_empty() && egress.is_empty() && bare {
        refusals.add(spec.at, &SIDECAR, "the sidecar is empty");
        return;
    }
    let mut ports = HashSet::new();
    for listener in ingress {
        inbound(listener, &mut ports, refusals);
    }
    if let Some(pool) = spec.get("inboundConnectionPool") {
        connection_pool(pool, refusals);
    }
    let (mut ports, mut sockets, mut open) = (HashSet::new(), HashSet::new(), false);
    for (index, listener) in egress.iter().enumerate() {
        match listener.get("port") {
            None if open || index + 1 < egress.len() => {
                refusals.add(listener.at, &SIDECAR, "the listener without a port is not the last one");
            }
            None => open = true,
            Some(found) => {
                outbound(listener, found, refusals);
                let (number, bind) = (found.integer_at("number").unwrap_or(0), text(listener, "bind"));
                let free = if number == 0 { sockets.insert(bind) } else { ports.insert(number) };
                refusals
                    .unless(free, found.at, &SIDECAR, || "two listeners share a port or a socket".to_owned());
            }
        }
        if listener.list("hosts").is_empty() {
            refusals.add(listener.at, &SIDECAR, "the listener has no hosts");
        }
        for host in listener.list("hosts") {
            slash_host(host, false, false, refusals);
        }
    }
    if let Some(policy) = spec.get("outboundTrafficPolicy") {
        proxy(policy, refusals);
    }
}

fn inbound(listener: &Node, ports: &mut HashSet<i64>, refusals: &mut Refusals<'_>) {
    let Some(found) = listener.get("port") else { return };
    target_port(found, refusals);
    named(found, refusals);
    protocol(found, refusals);
    port(found.get("number"), found.at, refusals);
    bound(listener, refusals);
    let free = ports.insert(found.integer_at("number").unwrap_or(0));
    refusals.unless(free, found.at, &SIDECAR, || "two listeners share a port".to_owned());
    if let Some(endpoint) = listener.get("defaultEndpoint").filter(|node| node.text() != Some("")) {
        default_endpoint(endpoint, refusals);
    }
    if let Some(tls) = listener.get("tls") {
        for key in ["subjectAltNames", "credentialNames", "tlsCertificates"] {
            if !tls.list(key).is_empty() {
                refusals.add(place(tls, key), &SIDECAR, format!("a sidecar does not take `{key}`"));
            }
        }
        if tls.is_true("httpsRedirect") || !text(tls, "credentialName").is_empty() {
            refusals.add(tls.at, &SIDECAR, "a sidecar takes neither `httpsRedirect` nor `credentialName`");
        }
        let mode = text(tls, "mode");
        if matches!(mode, "ISTIO_MUTUAL" | "AUTO_PASSTHROUGH") {
            refusals.add(place(tls, "mode"), &SIDECAR, format!("a sidecar does not take {mode}"));
        }
        if !is_tls(text(found, "protocol")) {
            refusals.add(tls.at, &SIDECAR, "`tls` on a port that is not TLS");
        }
        server_tls(tls, refusals);
    }
    if let Some(pool) = listener.get("connectionPool") {
        connection_pool(pool, refusals);
    }
}

fn target_port(found: &Node, refusals: &mut Refusals<'_>) {
    if found.integer_at("targetPort").unwrap_or(0) > 0 {
        refusals.add(place(found, "targetPort"), &SIDECAR, "a sidecar does not use `targetPort`");
    }
}

fn named(found: &Node, refusals: &mut Refusals<'_>) {
    let name = text(found, "name");
    if !name.is_empty() {
        port_name(name, place(found, "name"), refusals);
    }
}

fn bound(listener: &Node, refusals: &mut Refusals<'_>) {
    let bind = text(listener, "bind");
    refusals.unless(bind.is_empty() || is_ip(bind), place(listener, "bind"), &ADDRESS, || {
        format!("{bind:?} is no address")
    });
}

fn outbound(listener: &Node, found: &Node, refusals: &mut Refusals<'_>) {
    target_port(found, refusals);
    named(found, refusals);
    protocol(found, refusals);
    if found.integer_at("number").unwrap_or(0) != 0 {
        port(found.get("number"), found.at, refusals);
        bound(listener, refusals);
        return;
    }
    match text(listener, "bind").strip_prefix("unix://") {
        Some(path) => socket(path, place(listener, "bind"), refusals),
        None => refusals.add(found.at, &EGRESS_PORT, "port 0 without a socket in `bind`"),
    }
    if !matches!(text(listener, "captureMode"), "" | "DEFAULT" | "NONE") {
        refusals.add(place(listener, "captureMode"), &EGRESS_PORT, "a socket cannot be captured");
    }
}

/// `127.0.0.1:8080`, `0.0.0.0:8080`, `[::1]:8080`, `:8080` or a socket.
fn default_endpoint(node: &Node, refusals: &mut Refusals<'_>) {
    let written = node.text().unwrap_or_default();
    if let Some(path) = written.strip_prefix("unix://") {
        socket(path, node.at, refusals);
        return;
    }
    let split = match written.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").filter(|(host, _)| !host.contains(['[', ']'])),
        None => written.split_once(':'),
    };
    let good = split.is_some_and(|(host, port)| {
        let digits = port.strip_prefix('+').unwrap_or(port);
        matches!(host, "" | "127.0.0.1" | "0.0.0.0" | "::1" | "::")
            && digits.bytes().all(|b| b.is_ascii_digit())
            && digits.parse::<u32>().is_ok_and(|port| (1..=65535).contains(&port))
    });
    refusals.unless(good, node.at, &SIDECAR, || {
        format!("{written:?} is no address of the pod's own with a port")
    });
}

fn proxy(policy: &Node, refusals: &mut Refusals<'_>) {
    let Some(proxy) = policy.get("egressProxy") else { return };
    if text(policy, "mode") != "ALLOW_ANY" {
        refusals.add(proxy.at, &OUTBOUND, "`egressProxy` works with ALLOW_ANY only");
        return;
    }
    let host = text(proxy, "host");
    refusals.unless(is_fqdn(host), place(proxy, "host"), &FQDN, || format!("{host:?} is no full name"));
    if proxy.get("port").is_none() {
        refusals.add(proxy.at, &OUTBOUND, "`egressProxy` lacks `port`");
        return;
    }
    destination(proxy, refusals);
}
