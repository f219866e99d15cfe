//! Family EA5, continued: what the proxy makes of an entry's first bytes and of its name: servers that speak first, ports
//! that claim every address, a dot at the end, a selector that names nothing.

use std::collections::HashMap;

use super::Findings;
use super::mesh::{Mesh, Port};
use super::patch::replace;
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::node::Node;
use crate::{Citation, IstioBehaviour, Resolution};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA523",
        name: "server-speaks-first",
        severity: Severity::Error,
        what: "TLS, or no protocol at all, on a port where the server speaks first or TLS begins later",
        why: "the proxy waits for a TLS hello or for the client's first bytes, and the client waits for the server's: the \
              connection hangs, or meets no listener for its SNI",
        fix: "write `protocol: TCP` (MySQL: `MYSQL`) and give the entry `addresses`",
        source: &[
            Citation::docs(
                "https://istio.io/latest/docs/ops/deployment/application-requirements/#server-first-protocols",
            ),
            Citation::thread("https://github.com/istio/istio/issues/9379"),
        ],
        examples: include_str!("examples/EA523.yaml"),
        check: server_speaks_first,
    },
    Rule {
        code: "EA524",
        name: "dot-at-the-end",
        severity: Severity::Warning,
        what: "a host of an entry that ends in a dot",
        why: "hosts are compared as they are written: rules, routes, Host headers and SNIs without the dot do not meet the \
              entry",
        fix: "remove the dot",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/30108"),
            Citation::thread("https://github.com/istio/istio/issues/38377"),
        ],
        examples: include_str!("examples/EA524.yaml"),
        check: dot_at_the_end,
    },
    Rule {
        code: "EA525",
        name: "tcp-without-address",
        severity: Severity::Warning,
        what: "a TCP port without addresses, and no DNS capture that hands some out",
        why: "the listener is for every address on that port, so that connections to other hosts are sent to this one",
        fix: "list the `addresses` that the clients connect to, or switch DNS capture with address allocation on in the mesh",
        source: &[
            Citation::docs("https://istio.io/latest/docs/reference/config/analysis/ist0134/"),
            Citation::thread("https://github.com/istio/istio/issues/11741"),
        ],
        examples: include_str!("examples/EA525.yaml"),
        check: tcp_without_address,
    },
    Rule {
        code: "EA526",
        name: "selector-without-labels",
        severity: Severity::Warning,
        what: "a workloadSelector that lists no labels",
        why: "it stands for every workload: of the namespace, and on Istio before 1.31.1 and 1.30.5 of others too",
        fix: "list the labels of the workloads, or remove the selector",
        source: &[
            Citation::docs("https://istio.io/latest/news/releases/1.31.x/announcing-1.31.1/"),
            Citation::docs("https://istio.io/latest/docs/reference/config/networking/service-entry/"),
        ],
        examples: include_str!("examples/EA526.yaml"),
        check: selector_without_labels,
    },
];

/// How a protocol begins, by its usual port and by the name that such ports are given.
struct Opening {
    what: &'static str,
    ports: &'static [i64],
    names: &'static [&'static str],
    server_first: bool,
}

const OPENINGS: &[Opening] = &[
    Opening { what: "SMTP", ports: &[25, 587], names: &["smtp", "submission"], server_first: true },
    Opening { what: "IMAP", ports: &[143], names: &["imap"], server_first: true },
    Opening { what: "POP3", ports: &[110], names: &["pop3"], server_first: true },
    Opening { what: "FTP", ports: &[21], names: &["ftp"], server_first: true },
    Opening { what: "MySQL", ports: &[3306], names: &["mysql", "mariadb"], server_first: true },
    Opening { what: "SSH", ports: &[22], names: &["ssh", "sftp"], server_first: true },
    Opening { what: "PostgreSQL", ports: &[5432], names: &["postgres", "postgresql"], server_first: false },
    Opening { what: "SQL Server", ports: &[1433], names: &["mssql", "sqlserver"], server_first: false },
    Opening { what: "LDAP", ports: &[389], names: &["ldap"], server_first: false },
];

fn opening(port: &Port<'_>) -> Option<&'static Opening> {
    let name = port.node.text_at("name").unwrap_or_default().to_ascii_lowercase();
    let name = name.split('-').next().unwrap_or_default();
    let is = |opening: &&Opening| {
        port.number.is_some_and(|number| opening.ports.contains(&number)) || opening.names.contains(&name)
    };
    OPENINGS.iter().find(is)
}

fn server_speaks_first(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in &mesh.entries {
        for port in &entry.ports {
            let Some(opening) = opening(port) else { continue };
            let number = port.number.unwrap_or_default();
            let (text, severity) = match (port.is_tls(), port.is_detected(), opening.server_first) {
                (true, _, true) => (
                    format!(
                        "port {number} is {}: the server speaks first, in plain text, before any TLS",
                        opening.what
                    ),
                    Severity::Error,
                ),
                (true, _, false) => (
                    format!(
                        "port {number} is {}: TLS begins inside of its own protocol, without an SNI to go by",
                        opening.what
                    ),
                    Severity::Warning,
                ),
                (false, true, true) => (
                    format!(
                        "port {number} is {}, whose server speaks first, and no protocol is named",
                        opening.what
                    ),
                    Severity::Error,
                ),
                _ => continue,
            };
            let at = port.node.get("protocol").map_or(port.node.at, |protocol| protocol.at);
            found.add(entry.resource, at, text).about(number.to_string()).severity(severity);
        }
    }
}

fn dot_at_the_end(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in &mesh.entries {
        for host in entry.hosts.iter().filter(|host| host.name.len() > 1 && host.name.ends_with('.')) {
            let bare = host.name.trim_end_matches('.');
            let text = format!("{} ends in a dot: what names {bare} does not meet it", host.name);
            let new = if bare.starts_with('*') { format!("\"{bare}\"") } else { bare.to_owned() };
            // Another entry may have the name without the dot already.
            let edit = replace(host.at, new).filter(|_| mesh.entries_for(bare).is_empty());
            found.add(entry.resource, host.at, text).about(host.name).edit(edit);
        }
    }
}

fn tcp_without_address(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let open = |port: &Port<'_>| port.is_tcp() || port.is_detected();
    let mut users: HashMap<i64, usize> = HashMap::new();
    let without = || mesh.entries.iter().filter(|entry| !entry.has_vip);
    for port in without().flat_map(|entry| &entry.ports).filter(|port| open(port)) {
        *users.entry(port.number.unwrap_or_default()).or_default() += 1;
    }
    for entry in without().filter(|entry| entry.hosts.len() == 1 && !entry.has_wildcard()) {
        // NONE is EA508's, a port that others use too EA404's, TCP on 443 EA501's.
        if matches!(entry.resolution, None | Some(Resolution::None | Resolution::DynamicDns)) {
            continue;
        }
        for port in entry.ports.iter().filter(|port| open(port)) {
            let number = port.number.unwrap_or_default();
            if users.get(&number) == Some(&1) && number != 443 {
                let text =
                    format!("port {number} claims the connections to every address, other hosts' among them");
                found.add(entry.resource, port.node.at, text).about(number.to_string());
            }
        }
    }
}

fn selector_without_labels(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let mended = mesh.context.platform.istio_does(IstioBehaviour::EmptySelectorMended);
    let whose = if mended { "of the namespace" } else { "of the mesh, on this Istio" };
    let entries = mesh.entries.iter().map(|entry| entry.resource);
    let rules = mesh.rules.iter().map(|rule| rule.resource);
    let rest = mesh.sidecars.iter().chain(&mesh.filters).copied();
    for resource in entries.chain(rules).chain(rest) {
        let Some((key, selector)) = resource.root.get("spec").and_then(|spec| spec.entry("workloadSelector"))
        else {
            continue;
        };
        let labels = ["labels", "matchLabels"].iter().filter_map(|key| selector.get(key));
        if labels.flat_map(Node::entries).next().is_none() {
            found.add(resource, key.at, format!("no labels are listed, so every workload {whose} is meant"));
        }
    }
}
