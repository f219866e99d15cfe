//! What istiod refuses of a Gateway beyond the shape of its CRD, and of server TLS, which a Sidecar has too.

use std::collections::HashSet;

use super::Refusals;
use super::parts::{
    ADDRESS, GATEWAY, HOST_PART, SERVER, SERVER_BIND, SERVER_PORT, SERVER_TLS, SLASH_HOST, is_http,
    is_protocol, is_tls, place, port, socket, text,
};
use crate::manifest::node::{Node, Place};
use crate::manifest::spelled::{is_dns_label, is_ip, is_wildcard_domain};

pub(super) fn check(root: &Node, spec: &Node, refusals: &mut Refusals<'_>) {
    let converted =
        root.get("metadata.annotations").and_then(|all| all.get_key("internal.istio.io/gateway-semantics"));
    let converted = converted.and_then(Node::text) == Some("gateway");
    let name = refusals.resource.name.to_string();
    refusals.unless(converted || is_dns_label(&name), place(root, "metadata.name"), &GATEWAY, || {
        format!("{name:?} is no name of a gateway: it has a dot")
    });
    let servers = spec.list("servers");
    if servers.is_empty() {
        refusals.add(spec.at, &GATEWAY, "the gateway has no servers");
    }
    let mut names = HashSet::new();
    for node in servers {
        server(node, converted, refusals);
        if let Some(port) = node.get("port") {
            let name = text(port, "name");
            refusals.unless(names.insert(name), port.at, &GATEWAY, || {
                format!("two servers' ports are called {name:?}")
            });
        }
    }
}

fn server(node: &Node, converted: bool, refusals: &mut Refusals<'_>) {
    let hosts = node.list("hosts");
    if hosts.is_empty() {
        refusals.add(node.at, &SERVER, "the server has no hosts");
    }
    for host in hosts {
        slash_host(host, true, converted, refusals);
    }
    let (bind, number) = (text(node, "bind"), node.integer_at("port.number").unwrap_or(0));
    let Some(found) = node.get("port") else { return };
    let before = refusals.found.len();
    let protocol = text(found, "protocol");
    refusals.unless(is_protocol(protocol), place(found, "protocol"), &SERVER_PORT, || {
        format!("{protocol:?} is no protocol")
    });
    if number > 0 || !bind.starts_with("unix://") {
        port(found.get("number"), found.at, refusals);
    }
    if found.integer_at("targetPort").unwrap_or(0) > 0 {
        refusals.add(place(found, "targetPort"), &SERVER_PORT, "a gateway does not use `targetPort`");
    }
    if text(found, "name").is_empty() {
        refusals.add(found.at, &SERVER_PORT, "the port lacks a name");
    }
    let good_port = refusals.found.len() == before;
    if let Some(path) = bind.strip_prefix("unix://") {
        socket(path, place(node, "bind"), refusals);
        refusals.unless(number == 0, found.at, &SERVER_BIND, || "a socket has no port number".to_owned());
    } else if !bind.is_empty() {
        refusals.unless(is_ip(bind), place(node, "bind"), &ADDRESS, || format!("{bind:?} is no address"));
    }
    let tls = node.get("tls");
    if let Some(tls) = tls {
        server_tls(tls, refusals);
    }
    if good_port {
        goes_with(node, tls, protocol, refusals);
    }
}

/// TLS settings where the protocol is TLS, and nowhere else but for a redirect.
fn goes_with(server: &Node, tls: Option<&Node>, protocol: &str, refusals: &mut Refusals<'_>) {
    match tls {
        None if is_tls(protocol) => refusals.add(server.at, &SERVER, "a TLS port lacks `tls`"),
        Some(tls) if !is_tls(protocol) => {
            let passes = matches!(text(tls, "mode"), "" | "PASSTHROUGH" | "AUTO_PASSTHROUGH");
            let files = ["caCertificates", "privateKey", "serverCertificate"];
            if !is_http(protocol) || !passes || files.iter().any(|key| !text(tls, key).is_empty()) {
                refusals.add(tls.at, &SERVER, "`tls` on a port that is not TLS");
            }
        }
        _ => {}
    }
}

/// `namespace/host`; a gateway takes a host alone, too.
pub(super) fn slash_host(node: &Node, gateway: bool, converted: bool, refusals: &mut Refusals<'_>) {
    let written = node.text().unwrap_or_default();
    let Some((namespace, host)) = written.split_once('/') else {
        if gateway {
            host_part(written, node.at, true, refusals);
        } else {
            refusals.add(node.at, &SLASH_HOST, format!("{written:?} is not of the form namespace/host"));
        }
        return;
    };
    let bare = if gateway { namespace } else { namespace.strip_prefix('~').unwrap_or(namespace) };
    let nobody = if gateway { converted && namespace == "~" } else { namespace == "~" };
    let good = !namespace.is_empty() && (nobody || matches!(bare, "*" | ".") || is_dns_label(bare));
    if !good || host.is_empty() {
        refusals.add(node.at, &SLASH_HOST, format!("{written:?} is not of the form namespace/host"));
        return;
    }
    host_part(host, node.at, gateway, refusals);
}

fn host_part(host: &str, at: Place, gateway: bool, refusals: &mut Refusals<'_>) {
    let long = host == "*" || host.contains('.');
    let good = is_wildcard_domain(host) || (gateway && is_ip(host));
    let partial = host.contains('*') && host.len() != 1 && !host.starts_with("*.");
    if !long || !good || partial {
        refusals.add(at, &HOST_PART, format!("{host:?} is no full name, and no wildcard of one"));
    }
}

pub(super) fn server_tls(tls: &Node, refusals: &mut Refusals<'_>) {
    let set = |key: &str| !text(tls, key).is_empty();
    let several = |key: &str| !tls.list(key).is_empty();
    let mode = match text(tls, "mode") {
        "" => "PASSTHROUGH",
        mode => mode,
    };
    let at = place(tls, "mode");
    if mode == "ISTIO_MUTUAL" {
        let keys = ["serverCertificate", "privateKey", "caCertificates", "credentialName"];
        let lists = ["tlsCertificates", "credentialNames"];
        for key in keys.into_iter().filter(|key| set(key)).chain(lists.into_iter().filter(|key| several(key)))
        {
            refusals.add(place(tls, key), &SERVER_TLS, format!("ISTIO_MUTUAL beside `{key}`"));
        }
        return;
    }
    let credentials = set("credentialName") || several("credentialNames");
    let sources = [
        set("serverCertificate") && set("privateKey"),
        set("credentialName"),
        several("credentialNames"),
        several("tlsCertificates"),
    ];
    if sources.iter().filter(|source| **source).count() > 1 {
        refusals.add(tls.at, &SERVER_TLS, "the certificate is named in several ways");
    }
    let verifies = matches!(mode, "MUTUAL" | "OPTIONAL_MUTUAL");
    if (verifies || mode == "SIMPLE") && credentials {
        return;
    }
    if verifies || mode == "SIMPLE" {
        if verifies && !set("caCertificates") {
            refusals.add(at, &SERVER_TLS, format!("{mode} lacks `caCertificates`"));
        }
        let listed = tls.list("tlsCertificates");
        let pairs: Vec<&Node> = if listed.is_empty() { vec![tls] } else { listed.iter().collect() };
        for pair in pairs {
            for key in
                ["serverCertificate", "privateKey"].into_iter().filter(|key| text(pair, key).is_empty())
            {
                refusals.add(
                    if listed.is_empty() { at } else { pair.at },
                    &SERVER_TLS,
                    format!("{mode} lacks `{key}`"),
                );
            }
        }
    }
    if set("caCrl") && (set("credentialName") || mode == "SIMPLE") {
        refusals.add(place(tls, "caCrl"), &SERVER_TLS, "`caCrl` beside `credentialName`, or with SIMPLE");
    }
}
