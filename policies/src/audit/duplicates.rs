//! Family EA4: resources that get in each other's way: one host in several entries, one TCP port for several hosts.

use std::collections::HashMap;

use super::Findings;
use super::mesh::{Entry, Mesh, Port, Scope, same_namespace};
use super::rule::Rule;
use crate::finding::Severity;
use crate::{Citation, IstioBehaviour, Resolution};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA401",
        name: "same-host-other-resolution",
        severity: Severity::Error,
        what: "one host in two entries with different resolutions",
        why: "istiod merges the two in an order that changed between releases: 503 UH, or addresses of both mixed",
        fix: "keep one entry for the host",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/38996"),
            Citation::thread("https://github.com/istio/istio/issues/55714"),
        ],
        examples: include_str!("examples/EA401.yaml"),
        check: other_resolution,
    },
    Rule {
        code: "EA402",
        name: "same-host-same-port",
        severity: Severity::Error,
        what: "one host and port in two entries",
        why: "only one of the two is used",
        fix: "keep one entry for the host",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/60447"),
            Citation::thread("https://github.com/istio/istio/issues/31483"),
        ],
        examples: include_str!("examples/EA402.yaml"),
        check: same_port,
    },
    Rule {
        code: "EA403",
        name: "same-host-other-port",
        severity: Severity::Warning,
        what: "one host in two entries of a namespace, with different ports",
        why: "one of the two ports works at random, or answers 503 UH",
        fix: "put the ports into one entry",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/49550"),
            Citation::thread("https://github.com/istio/istio/issues/55266"),
        ],
        examples: include_str!("examples/EA403.yaml"),
        check: other_port,
    },
    Rule {
        code: "EA404",
        name: "tcp-port-collision",
        severity: Severity::Error,
        what: "two entries share a TCP port, and neither has addresses",
        why: "such a port listens on 0.0.0.0 and host names are not looked at: the first entry gets all traffic",
        fix: "give each host an entry with the `addresses` that its clients connect to, or write `protocol: TLS` where they \
              speak TLS, which goes by SNI, or switch DNS capture with address allocation on in the mesh",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/11741"),
            Citation::thread("https://github.com/istio/istio/issues/58696"),
        ],
        examples: include_str!("examples/EA404.yaml"),
        check: tcp_port_collision,
    },
    Rule {
        code: "EA405",
        name: "two-round-robin-entries",
        severity: Severity::Error,
        what: "one host in two DNS_ROUND_ROBIN entries",
        why: "LOGICAL_DNS takes exactly one endpoint: the cluster is rejected, or the older entry alone is used",
        fix: "keep one entry for the host",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/49315"),
            Citation::thread("https://github.com/istio/istio/pull/41811"),
        ],
        examples: include_str!("examples/EA405.yaml"),
        check: two_round_robin,
    },
    Rule {
        code: "EA406",
        name: "service-and-entry",
        severity: Severity::Warning,
        what: "a Kubernetes Service and a ServiceEntry with one name",
        why: "which of the two is used depends on Istio's version",
        fix: "rename one of them",
        source: &[Citation::thread("https://github.com/istio/istio/issues/30782")],
        examples: include_str!("examples/EA406.yaml"),
        check: service_and_entry,
    },
    Rule {
        code: "EA407",
        name: "same-port-other-protocol",
        severity: Severity::Error,
        what: "one host and port in two entries, with protocols that Envoy treats differently",
        why: "one port has one listener: the protocol of the entry that wins is spoken to the clients of both",
        fix: "keep one entry for the host; TLS and HTTPS are the same here",
        source: &[
            Citation::docs("https://istio.io/latest/docs/reference/config/analysis/"),
            Citation::thread("https://github.com/istio/istio/pull/60477"),
        ],
        examples: include_str!("examples/EA407.yaml"),
        check: other_protocol,
    },
    Rule {
        code: "EA408",
        name: "defined-twice",
        severity: Severity::Warning,
        what: "one object is defined twice in a file",
        why: "applied together the last one wins, and the first one is never in force",
        fix: "remove one of the two, or rename it",
        source: &[Citation::Deduced],
        examples: include_str!("examples/EA408.yaml"),
        check: defined_twice,
    },
    Rule {
        code: "EA409",
        name: "external-name-beside-entry",
        severity: Severity::Warning,
        what: "a Service of type ExternalName for a host that an entry registers",
        why: "the Service is an alias of the entry: rules and routes that name it are not read, and its clients send its own \
              name as Host header and SNI, which the partner does not serve",
        fix: "have the clients use the external name, and remove the Service",
        source: &[
            Citation::docs(
                "https://istio.io/latest/docs/ops/configuration/traffic-management/traffic-routing/",
            ),
            Citation::docs("https://istio.io/latest/news/releases/1.21.x/announcing-1.21/change-notes/"),
        ],
        examples: include_str!("examples/EA409.yaml"),
        check: external_name,
    },
];

/// How two entries with one host relate; the first that holds.
#[derive(PartialEq, Eq)]
enum Relation {
    TwoRoundRobin,
    OtherResolution,
    OtherProtocol,
    SamePort,
    OtherPort,
}

/// Pairs of entries for one host that somebody sees both of: host, the one before, the one after.
fn pairs<'m, 'a>(mesh: &'m Mesh<'a>, wanted: &Relation) -> Vec<(&'a str, &'m Entry<'a>, &'m Entry<'a>)> {
    let mut pairs = Vec::new();
    for (host, entries) in mesh.duplicates() {
        for (index, later) in entries.iter().enumerate().skip(1) {
            let earlier =
                entries[..index].iter().find(|earlier| relation(earlier, later).as_ref() == Some(wanted));
            pairs.extend(earlier.map(|earlier| (host, *earlier, *later)));
        }
    }
    pairs
}

fn relation(one: &Entry<'_>, two: &Entry<'_>) -> Option<Relation> {
    // The same object twice, as in a base and its overlay, is no duplicate; with an unknown namespace nobody can tell.
    let same_namespace = same_namespace(one.resource, two.resource)?;
    if (same_namespace && one.resource.name == two.resource.name) || !one.scope.overlaps(&two.scope) {
        return None;
    }
    if one.resolution != two.resolution {
        return Some(Relation::OtherResolution);
    }
    if one.resolution == Some(Resolution::DnsRoundRobin) {
        return Some(Relation::TwoRoundRobin);
    }
    if let Some((one, two)) = shared_port(one, two) {
        let relation =
            if one.family() == two.family() { Relation::SamePort } else { Relation::OtherProtocol };
        return Some(relation);
    }
    same_namespace.then_some(Relation::OtherPort)
}

/// Ports of one number; those that differ in protocol first.
fn shared_port<'m, 'a>(one: &'m Entry<'a>, two: &'m Entry<'a>) -> Option<(&'m Port<'a>, &'m Port<'a>)> {
    let pairs = one.ports.iter().flat_map(|port| two.ports.iter().map(move |other| (port, other)));
    let shared = pairs.filter(|(port, other)| port.number.is_some() && port.number == other.number);
    shared.min_by_key(|(port, other)| port.family() == other.family())
}

fn winner(mesh: &Mesh<'_>) -> &'static str {
    let platform = &mesh.context.platform;
    match (platform.istio_does(IstioBehaviour::OldestEntryWins), platform.istio_version) {
        (true, Some(_)) => "Istio from 1.30 on prefers the oldest entry",
        (true, None) => "Istio goes by the order of the namespaces before 1.30, by age from 1.30 on",
        (false, _) => "Istio before 1.30 goes by the alphabetical order of the namespaces",
    }
}

fn report(
    mesh: &Mesh<'_>,
    found: &mut Findings<'_>,
    wanted: &Relation,
    what: impl Fn(&Entry<'_>, &Entry<'_>) -> String,
) {
    for (host, earlier, later) in pairs(mesh, wanted) {
        let text = format!(
            "{host} is also in {}/{}: {}; {}",
            earlier.resource.namespace,
            earlier.resource.name,
            what(earlier, later),
            winner(mesh)
        );
        let at = later.host(host).map_or(later.spec.at, |host| host.at);
        let earlier_at = earlier.host(host).map_or(earlier.spec.at, |host| host.at);
        found.add(later.resource, at, text).about(host).with(earlier.resource, earlier_at);
    }
}

fn other_resolution(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let name = |entry: &Entry<'_>| entry.resolution.map_or("an unknown resolution", Resolution::as_str);
    report(mesh, found, &Relation::OtherResolution, |one, two| {
        format!("{} there, {} here", name(one), name(two))
    });
}

fn same_port(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    report(mesh, found, &Relation::SamePort, |one, two| {
        format!(
            "both with port {}",
            shared_port(one, two).and_then(|(port, _)| port.number).unwrap_or_default()
        )
    });
}

fn other_protocol(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    report(mesh, found, &Relation::OtherProtocol, |one, two| match shared_port(one, two) {
        Some((there, here)) => {
            let number = here.number.unwrap_or_default();
            format!("port {number} is {} there, {} here", there.protocol, here.protocol)
        }
        None => String::new(),
    });
}

fn other_port(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    report(mesh, found, &Relation::OtherPort, |_, _| "with other ports".to_owned());
}

fn two_round_robin(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    report(mesh, found, &Relation::TwoRoundRobin, |_, _| "both DNS_ROUND_ROBIN".to_owned());
}

fn defined_twice(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (before, after) in &mesh.twice {
        let text = format!("{} {} is defined twice, and the last one wins", after.kind, after.name);
        found.add(after, after.root.at, text).with(before, before.root.at);
    }
}

fn external_name(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for service in &mesh.services {
        let Some(node) = service.root.get("spec.externalName") else { continue };
        if service.root.text_at("spec.type") != Some("ExternalName") {
            continue;
        }
        let host = node.text().unwrap_or_default().trim_end_matches('.');
        if let Some(entry) = mesh.entries_for(host).first() {
            let text = format!(
                "clients of {} reach {host} with a Host header and an SNI that are not its own",
                service.name
            );
            found.add(service, node.at, text).about(host).with(entry.resource, entry.spec.at);
        }
    }
}

fn tcp_port_collision(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let mut taken: HashMap<i64, Users<'_>> = HashMap::new();
    for entry in mesh.entries.iter().filter(|entry| !entry.has_vip) {
        // Without a protocol the proxy takes for TCP what it does not recognise.
        for port in entry.ports.iter().filter(|port| port.is_tcp() || port.is_detected()) {
            let number = port.number.unwrap_or_default();
            let users = taken.entry(number).or_default();
            if let Some(other) = users.in_the_way_of(entry) {
                let text = format!(
                    "TCP port {number} is taken by {}/{} already, for any address",
                    other.resource.namespace, other.resource.name
                );
                found
                    .add(entry.resource, port.node.at, text)
                    .about(number.to_string())
                    .with(other.resource, other.spec.at);
            }
            users.add(entry);
        }
    }
}

/// The first few entries that use a port, by the namespaces that see them.
#[derive(Default)]
struct Users<'m> {
    everywhere: Vec<&'m Entry<'m>>,
    by_namespace: HashMap<&'m str, Vec<&'m Entry<'m>>>,
}

impl<'m> Users<'m> {
    /// A namespace's first few show that there is a collision; more would only make the search longer.
    const MOST: usize = 4;

    fn add(&mut self, entry: &'m Entry<'m>) {
        let keep = |slot: &mut Vec<&'m Entry<'m>>| {
            if slot.len() < Self::MOST {
                slot.push(entry);
            }
        };
        match &entry.scope {
            Scope::Everywhere => keep(&mut self.everywhere),
            Scope::Namespaces(names) => {
                for name in names {
                    keep(self.by_namespace.entry(name).or_default());
                }
            }
        }
    }

    /// One that some namespace sees together with this entry, and that is about another host.
    fn in_the_way_of(&self, entry: &Entry<'_>) -> Option<&'m Entry<'m>> {
        let other = |user: &&'m Entry<'m>| user.hosts.iter().all(|host| entry.host(host.name).is_none());
        let everywhere = self.everywhere.iter().copied().find(other);
        everywhere.or_else(|| match &entry.scope {
            Scope::Everywhere => self.by_namespace.values().flatten().copied().find(other),
            Scope::Namespaces(names) => {
                names.iter().filter_map(|name| self.by_namespace.get(name)).flatten().copied().find(other)
            }
        })
    }
}

fn service_and_entry(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for service in &mesh.services {
        let namespace = if service.namespace.is_empty() { "default" } else { &service.namespace };
        let name = format!("{}.{namespace}.svc.cluster.local", service.name);
        for entry in mesh.entries_for(&name) {
            let Some(host) = entry.host(&name) else { continue };
            let platform = &mesh.context.platform;
            let wins = match (platform.istio_does(IstioBehaviour::OldestEntryWins), platform.istio_version) {
                (true, Some(_)) => "the Service is used",
                (true, None) => "the Service is used from Istio 1.30 on",
                (false, _) => "the order of the namespaces decides",
            };
            let text = format!("{name} is a Kubernetes Service too: {wins}");
            found.add(entry.resource, host.at, text).about(&name).with(service, service.root.at);
        }
    }
}
