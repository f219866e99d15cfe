//! Family EA6: wildcard hosts and `DYNAMIC_DNS`, with what each version and kind of proxy can do.

use super::Findings;
use super::mesh::{Entry, EntryHost, Mesh, Port};
use super::rule::Rule;
use crate::finding::Severity;
use crate::{Citation, IstioBehaviour, ProxyKind, Resolution};

const SERVICE_ENTRY: Citation = Citation::docs(
    "https://istio.io/latest/docs/reference/config/networking/service-entry/#ServiceEntry-Resolution",
);

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA601",
        name: "wildcard-on-dns",
        severity: Severity::Error,
        what: "a wildcard host with resolution DNS or DNS_ROUND_ROBIN and no endpoints",
        why: "nobody can ask DNS for all names at once: the entry is refused",
        fix: "list the names, write `resolution: NONE` for a sidecar, or DYNAMIC_DNS (sidecars from Istio 1.30 on, waypoints \
              from 1.28 on)",
        source: &[SERVICE_ENTRY, Citation::thread("https://github.com/istio/istio/issues/13241")],
        examples: include_str!("examples/EA601.yaml"),
        check: wildcard_on_dns,
    },
    Rule {
        code: "EA602",
        name: "dynamic-dns-misused",
        severity: Severity::Error,
        what: "DYNAMIC_DNS with what it does not take: a host that is not a wildcard, addresses, endpoints, a port that is \
               neither HTTP nor TLS, or MESH_INTERNAL behind a waypoint",
        why: "it is for wildcard hosts, whose names the requests bring along: the entry is refused",
        fix: "write `resolution: DNS` for plain names, and remove addresses and endpoints",
        source: &[SERVICE_ENTRY],
        examples: include_str!("examples/EA602.yaml"),
        check: dynamic_dns_misused,
    },
    Rule {
        code: "EA603",
        name: "dynamic-dns-too-early",
        severity: Severity::Error,
        what: "DYNAMIC_DNS on a version that cannot do it yet",
        why: "HTTP through a waypoint came with Istio 1.28, TLS by SNI with 1.29 behind a flag, sidecars with 1.30",
        fix: "upgrade Istio, or list the names",
        source: &[Citation::docs(
            "https://istio.io/latest/news/releases/1.30.x/announcing-1.30/change-notes/",
        )],
        examples: include_str!("examples/EA603.yaml"),
        check: dynamic_dns_too_early,
    },
    Rule {
        code: "EA604",
        name: "dynamic-dns-behind-gateway",
        severity: Severity::Error,
        what: "DYNAMIC_DNS behind an egress gateway",
        why: "egress gateways do not support it",
        fix: "list the names, with `resolution: DNS`",
        source: &[Citation::thread("https://github.com/istio/istio/issues/61831")],
        examples: include_str!("examples/EA604.yaml"),
        check: dynamic_dns_behind_gateway,
    },
    Rule {
        code: "EA605",
        name: "wildcard-tcp",
        severity: Severity::Error,
        what: "a wildcard host with a TCP port and no addresses",
        why: "TCP carries no name, so the entry lets any address through on that port",
        fix: "list the names with `resolution: DNS`, an entry and `addresses` each, or write `protocol: TLS` where the clients \
              begin with TLS; what remains a wildcard needs the networks as `addresses`",
        source: &[
            Citation::docs("https://istio.io/latest/docs/reference/config/analysis/ist0134/"),
            Citation::thread("https://github.com/istio/istio.io/issues/2766"),
        ],
        examples: include_str!("examples/EA605.yaml"),
        check: wildcard_tcp,
    },
    Rule {
        code: "EA606",
        name: "dynamic-dns-trusts-sni",
        severity: Severity::Info,
        what: "DYNAMIC_DNS on a TLS port",
        why: "the proxy connects to whatever name the client writes into the SNI; a waypoint needs the feature flag \
              ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS for it, sidecars do not",
        fix: "list the names where the clients are not to be trusted",
        source: &[Citation::thread("https://github.com/istio/istio/pull/57972")],
        examples: include_str!("examples/EA606.yaml"),
        check: dynamic_dns_trusts_sni,
    },
    Rule {
        code: "EA607",
        name: "wildcard-in-ambient",
        severity: Severity::Warning,
        what: "a wildcard host without an address in ambient mode",
        why: "without an address DNS capture has nothing to hand out, and the traffic goes around the waypoint and its \
              policies; Istio from 1.28 on allocates one for a wildcard of DYNAMIC_DNS, and for no other",
        fix: "write `resolution: DYNAMIC_DNS` and give the entry a waypoint, or list the names",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/54981"),
            Citation::thread("https://github.com/istio/ztunnel/issues/1485"),
        ],
        examples: include_str!("examples/EA607.yaml"),
        check: wildcard_in_ambient,
    },
];

fn wildcards<'m, 'a>(entry: &'m Entry<'a>) -> impl Iterator<Item = &'m EntryHost<'a>> {
    entry.hosts.iter().filter(|host| host.name.starts_with('*'))
}

fn dynamic<'m, 'a>(mesh: &'m Mesh<'a>) -> impl Iterator<Item = &'m Entry<'a>> {
    mesh.entries.iter().filter(|entry| entry.resolution == Some(Resolution::DynamicDns))
}

fn wildcard_on_dns(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in mesh.entries.iter().filter(|entry| entry.asks_for_hosts()) {
        for host in wildcards(entry) {
            let resolution = entry.resolution.map_or("", Resolution::as_str);
            let text = format!("{} is a wildcard, and {resolution} cannot look it up", host.name);
            let draft = found.add(entry.resource, host.at, text).about(host.name);
            if mesh.context.platform.proxy_kind == ProxyKind::Ambient {
                draft.hint("write `resolution: DYNAMIC_DNS` and give the entry a waypoint (Istio 1.28 and later), or list the names");
            }
        }
    }
}

fn dynamic_dns_misused(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in dynamic(mesh) {
        for host in entry.hosts.iter().filter(|host| !host.name.starts_with('*')) {
            let text = format!("{} is not a wildcard, and DYNAMIC_DNS takes nothing else", host.name);
            found.add(entry.resource, host.at, text).about(host.name);
        }
        for field in ["endpoints", "addresses"] {
            if let Some((key, _)) = entry.spec.entry(field).filter(|(_, value)| !value.items().is_empty()) {
                let text = format!("{field} are refused beside DYNAMIC_DNS: the address comes from the name");
                found.add(entry.resource, key.at, text).about(field).hint(format!("remove {field}"));
            }
        }
        let taken = |port: &&Port<'_>| {
            ["HTTP", "HTTP2", "GRPC", "TLS"].iter().any(|known| port.is(known)) || port.is_detected()
        };
        for port in entry.ports.iter().filter(|port| !taken(port)) {
            let at = port.node.get("protocol").map_or(port.node.at, |protocol| protocol.at);
            let text = format!("DYNAMIC_DNS takes HTTP, HTTP2, GRPC and TLS, and not {}", port.protocol);
            let draft =
                found.add(entry.resource, at, text).about(port.number.unwrap_or_default().to_string());
            if port.is("HTTPS") {
                draft.hint("write `protocol: TLS`").edit(super::patch::replace(at, "TLS"));
            } else {
                draft.hint("list the names with `resolution: DNS`: TCP brings no name along");
            }
        }
        let internal = entry.spec.text_at("location") != Some("MESH_EXTERNAL");
        if let (Some(waypoint), true) = (entry.waypoint(), internal) {
            let at = entry.spec.get("location").map_or(entry.spec.at, |location| location.at);
            let text = format!(
                "MESH_INTERNAL, the default, with DYNAMIC_DNS behind the waypoint {waypoint:?} is refused"
            );
            found.add(entry.resource, at, text).about("location").hint("write `location: MESH_EXTERNAL`");
        }
    }
}

fn dynamic_dns_too_early(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let platform = &mesh.context.platform;
    let istio = platform.istio();
    let sidecar = platform.proxy_kind == ProxyKind::Sidecar;
    for entry in dynamic(mesh) {
        let tls = entry.ports.iter().any(Port::is_tls);
        let (wanted, what) = match (sidecar, tls) {
            (true, _) => (IstioBehaviour::DynamicDnsInSidecars, "in sidecars"),
            (false, true) => (IstioBehaviour::DynamicDnsByName, "for TLS"),
            (false, false) => (IstioBehaviour::DynamicDns, "at all"),
        };
        if !platform.istio_does(wanted) {
            let since = wanted.row().since;
            let text = format!("Istio {istio} cannot do DYNAMIC_DNS {what}: that takes {since}");
            found.add(entry.resource, entry.resolution_at(), text);
        }
    }
}

fn dynamic_dns_behind_gateway(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for hop in super::gateways::hops(mesh) {
        for entry in mesh
            .entries_for(hop.host)
            .into_iter()
            .filter(|entry| entry.resolution == Some(Resolution::DynamicDns))
        {
            let text = format!("{} is routed to by a gateway", hop.host);
            found.add(entry.resource, entry.resolution_at(), text).about(hop.host).with(hop.service, hop.at);
        }
    }
}

fn wildcard_tcp(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let open = |entry: &&Entry<'_>| !entry.has_addresses() && entry.endpoints.is_empty();
    // A TCP port of DYNAMIC_DNS is refused (EA602).
    let open = |entry: &&Entry<'_>| open(entry) && entry.resolution != Some(Resolution::DynamicDns);
    for entry in mesh.entries.iter().filter(open) {
        let Some(host) = wildcards(entry).next() else { continue };
        for port in entry.ports.iter().filter(|port| port.is_tcp()) {
            let number = port.number.unwrap_or_default();
            let text = format!("TCP port {number} of {} takes any address", host.name);
            found.add(entry.resource, port.node.at, text).about(number.to_string());
        }
    }
}

fn dynamic_dns_trusts_sni(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in dynamic(mesh).filter(|entry| entry.ports.iter().any(Port::is_tls)) {
        let text = "the client's SNI decides where the proxy connects to";
        let text = match mesh.context.platform.proxy_kind {
            ProxyKind::Ambient => {
                format!("{text}, and the waypoint needs ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS")
            }
            _ => text.to_owned(),
        };
        found.add(entry.resource, entry.resolution_at(), text);
    }
}

fn wildcard_in_ambient(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if mesh.context.platform.proxy_kind != ProxyKind::Ambient {
        return;
    }
    // One that cannot be looked up is refused (EA601), and this is no remedy for it.
    let mut open: Vec<&Entry<'_>> = mesh.entries.iter().filter(|entry| !entry.has_vip).collect();
    open.retain(|entry| !entry.asks_for_hosts());
    for entry in open {
        for host in wildcards(entry) {
            let text = format!("{} has no address, so a waypoint never sees its traffic", host.name);
            found.add(entry.resource, host.at, text).about(host.name);
        }
    }
}
