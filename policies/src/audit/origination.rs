//! Family EA5, continued: TLS that the proxy starts, and what comes of it: to a port that is plain, with a certificate
//! that nobody reads, or without a look at the partner's.

use super::Findings;
use super::mesh::{DestRule, Entry, Mesh, Port};
use super::ports::{starts_for_all, starts_tls};
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::node::Node;
use crate::{Citation, ProxyKind};

const CLIENT_TLS: Citation = Citation::docs(
    "https://istio.io/latest/docs/reference/config/networking/destination-rule/#ClientTLSSettings",
);
const ORIGINATION: Citation =
    Citation::docs("https://istio.io/latest/docs/tasks/traffic-management/egress/egress-tls-origination/");

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA519",
        name: "tls-to-plain-port",
        severity: Severity::Error,
        what: "a rule starts TLS for port 80, and the entry sends it to port 80",
        why: "the partner's port 80 answers in plain text: the handshake fails, 503 with WRONG_VERSION_NUMBER",
        fix: "add `targetPort: 443` to the entry's port",
        source: &[ORIGINATION, Citation::thread("https://github.com/istio/istio/issues/35661")],
        examples: include_str!("examples/EA519.yaml"),
        check: tls_to_plain_port,
    },
    Rule {
        code: "EA520",
        name: "credential-without-selector",
        severity: Severity::Error,
        what: "credentialName in a rule without workloadSelector for a host that no gateway routes to",
        why: "sidecars read a credentialName in a rule with a workloadSelector only; without one istiod leaves TLS out \
              altogether, and the request leaves in plain text",
        fix: "add `workloadSelector` to the rule, or route through an egress gateway",
        source: &[CLIENT_TLS, Citation::thread("https://github.com/istio/istio/issues/31738")],
        examples: include_str!("examples/EA520.yaml"),
        check: credential_without_selector,
    },
    Rule {
        code: "EA521",
        name: "nothing-is-verified",
        severity: Severity::Warning,
        what: "insecureSkipVerify beside names or a CA to verify",
        why: "with insecureSkipVerify the partner's certificate is not looked at: the subjectAltNames and the CA have no \
              effect",
        fix: "remove insecureSkipVerify, and name the CA with caCertificates where it is not a public one",
        source: &[CLIENT_TLS, Citation::thread("https://github.com/istio/istio/issues/32539")],
        examples: include_str!("examples/EA521.yaml"),
        check: nothing_is_verified,
    },
    Rule {
        code: "EA522",
        name: "direct-tls-meets-origination",
        severity: Severity::Info,
        what: "TLS that is started for requests of a route, for a port where pods may speak TLS themselves",
        why: "the settings hold for every connection to the port: a pod that does not take the route gets TLS inside of TLS",
        fix: "put the settings into a subset that the route alone names",
        source: &[ORIGINATION, Citation::thread("https://github.com/istio/istio/issues/43415")],
        examples: include_str!("examples/EA522.yaml"),
        check: direct_tls,
    },
];

/// Connections to the port go to port 80 of the partner.
fn ends_on_80(entry: &Entry<'_>, port: &Port<'_>) -> bool {
    let name = port.node.text_at("name").unwrap_or_default();
    let moved = |endpoint: &Node| endpoint.get("ports").is_some_and(|ports| ports.get_key(name).is_some());
    port.number == Some(80)
        && port.target.is_none_or(|target| target == 80)
        && !entry.endpoints.iter().any(moved)
}

fn tls_to_plain_port(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for rule in &mesh.rules {
        for entry in mesh.entries_of(rule) {
            let plain = entry.ports.iter().find(|port| port.is_http() && ends_on_80(entry, port));
            let Some((port, at)) = plain.and_then(|port| Some((port, starts_tls(rule, 80)?))) else {
                continue;
            };
            // Names beside a wildcard rule may be fewer than its entries.
            let text = format!("TLS is started to port 80 of {}, which is plain HTTP", rule.host);
            found.add(rule.resource, at, text).about(rule.host).with(entry.resource, port.node.at);
        }
    }
}

/// The `tls` settings of a rule, at any level.
fn tls_of<'a>(rule: &DestRule<'a>) -> impl Iterator<Item = &'a Node> {
    super::connections::policies(rule).filter_map(|(policy, _)| policy.get("tls"))
}

fn credential_without_selector(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if mesh.context.platform.proxy_kind == ProxyKind::Ambient {
        return;
    }
    let routed: std::collections::HashSet<&str> = super::gateways::hops(mesh).map(|hop| hop.host).collect();
    for rule in mesh.rules.iter().filter(|rule| rule.selector.is_none() && !rule.entries.is_empty()) {
        let by_gateway = |entry: &Entry<'_>| entry.hosts.iter().any(|host| routed.contains(host.name));
        if routed.contains(rule.host) || mesh.entries_of(rule).any(by_gateway) {
            continue;
        }
        for tls in tls_of(rule).filter(|tls| matches!(tls.text_at("mode"), Some("SIMPLE" | "MUTUAL"))) {
            let Some((key, value)) = tls.entry("credentialName") else { continue };
            let name = value.text().unwrap_or_default();
            // Everybody may read a ConfigMap.
            if name.is_empty() || name.starts_with("configmap://") {
                continue;
            }
            let text = format!("sidecars do not use {name}, and send to {} without TLS", rule.host);
            found.add(rule.resource, key.at, text).about(rule.host);
        }
    }
}

fn nothing_is_verified(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for rule in &mesh.rules {
        let of_entry = mesh.entries_of(rule).any(|entry| !entry.spec.list("subjectAltNames").is_empty());
        for tls in tls_of(rule).filter(|tls| tls.is_true("insecureSkipVerify")) {
            let names = of_entry || !tls.list("subjectAltNames").is_empty();
            let what = match (names, tls.get("caCertificates").is_some()) {
                (true, _) => "the subjectAltNames are not verified",
                (false, true) => "the caCertificates are not used",
                (false, false) => continue,
            };
            let at = tls.entry("insecureSkipVerify").map_or(tls.at, |(key, _)| key.at);
            found.add(rule.resource, at, format!("{what}: insecureSkipVerify is set")).about(rule.host);
        }
    }
}

fn direct_tls(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let http = super::gateways::http_destinations(mesh);
    for rule in mesh.rules.iter().filter(|rule| http.contains(rule.host) && rule.selector.is_none()) {
        for entry in mesh.entries_of(rule) {
            for port in entry.ports.iter().filter(|port| port.is_tls()) {
                let number = port.number.unwrap_or_default();
                let Some(at) = starts_for_all(rule, number) else { continue };
                let text =
                    format!("a pod that speaks TLS to port {number} of {} gets TLS inside of TLS", rule.host);
                found
                    .add(rule.resource, at, text)
                    .about(number.to_string())
                    .with(entry.resource, entry.spec.at);
            }
        }
    }
}
