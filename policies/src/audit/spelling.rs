//! Family EA5, continued: names and values of fields that Istio refuses or drops. What is merely newer than this table is
//! let be: only a near miss of a known name is told.

use std::collections::HashSet;

use super::Findings;
use super::mesh::Mesh;
use super::patch::replace;
use super::reach::distance;
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::Loadable;
use crate::manifest::node::{Node, Place, duration_ms};
use crate::{Citation, Resolution};

const SERVICE_ENTRY: Citation =
    Citation::docs("https://istio.io/latest/docs/reference/config/networking/service-entry/");
const DESTINATION_RULE: Citation =
    Citation::docs("https://istio.io/latest/docs/reference/config/networking/destination-rule/");

/// What mends names of fields.
pub(super) const MISSPELLED: &str = "EA516";

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: MISSPELLED,
        name: "misspelled-field",
        severity: Severity::Error,
        what: "a likely typo in the name of a field",
        why: "it is refused, or dropped without a word where validation is off, and the default applies; snake case is read \
              from a file, and dropped by an API server",
        fix: "correct the name",
        source: &[SERVICE_ENTRY, DESTINATION_RULE],
        examples: include_str!("examples/EA516.yaml"),
        check: misspelled_field,
    },
    Rule {
        code: "EA517",
        name: "value-out-of-range",
        severity: Severity::Error,
        what: "a port, a percentage or a duration that cannot be one, a number in quotes, or a port that is listed twice",
        why: "the resource is refused, and the mesh goes on with the one before it, or with none",
        fix: "correct the value: ports are 1 to 65535, percentages 0 to 100, durations carry their unit (`5s`, `1m30s`)",
        source: &[SERVICE_ENTRY, DESTINATION_RULE],
        examples: include_str!("examples/EA517.yaml"),
        check: value_out_of_range,
    },
    Rule {
        code: "EA518",
        name: "network-with-dns",
        severity: Severity::Error,
        what: "a network in the addresses of an entry that asks DNS",
        why: "only NONE and STATIC take networks: the entry is refused",
        fix: "write `resolution: NONE` to pass the network on, or single addresses",
        source: &[SERVICE_ENTRY],
        examples: include_str!("examples/EA518.yaml"),
        check: network_with_dns,
    },
];

const ENTRY: &[&str] = &[
    "hosts",
    "addresses",
    "ports",
    "location",
    "resolution",
    "endpoints",
    "workloadSelector",
    "exportTo",
    "subjectAltNames",
];
const ENDPOINT: &[&str] = &["address", "ports", "labels", "network", "locality", "weight", "serviceAccount"];
const RULE: &[&str] = &["host", "trafficPolicy", "subsets", "exportTo", "workloadSelector"];
const PORT: &[&str] = &["number", "protocol", "name", "targetPort"];
const POLICY: &[&str] = &[
    "loadBalancer",
    "connectionPool",
    "outlierDetection",
    "tls",
    "portLevelSettings",
    "tunnel",
    "proxyProtocol",
    "retryBudget",
    "port",
];
const TCP: &[&str] =
    &["maxConnections", "connectTimeout", "tcpKeepalive", "maxConnectionDuration", "idleTimeout"];
const OUTLIER: &[&str] = &[
    "splitExternalLocalOriginErrors",
    "consecutiveLocalOriginFailures",
    "consecutiveGatewayErrors",
    "consecutive5xxErrors",
    "consecutiveErrors",
    "interval",
    "baseEjectionTime",
    "maxEjectionPercent",
    "minHealthPercent",
];

const HTTP: &[&str] = &[
    "http1MaxPendingRequests",
    "http2MaxRequests",
    "maxRequestsPerConnection",
    "maxRetries",
    "idleTimeout",
    "h2UpgradePolicy",
    "useClientProtocol",
    "maxConcurrentStreams",
    "connectionKeepalive",
    "outlierDetectionHttpErrorCodes",
];
const KEEPALIVE: &[&str] = &["probes", "time", "interval"];
const TLS: &[&str] = &[
    "mode",
    "clientCertificate",
    "privateKey",
    "caCertificates",
    "caCrl",
    "credentialName",
    "subjectAltNames",
    "sni",
    "insecureSkipVerify",
];
const BALANCER: &[&str] =
    &["simple", "consistentHash", "localityLbSetting", "warmupDurationSecs", "warmup", "zoneAwareLbSetting"];
const SUBSET: &[&str] = &["name", "labels", "trafficPolicy"];
const SERVICE: &[&str] = &["hosts", "gateways", "http", "tls", "tcp", "exportTo"];
const HTTP_ROUTE: &[&str] = &[
    "name",
    "match",
    "route",
    "redirect",
    "directResponse",
    "delegate",
    "rewrite",
    "timeout",
    "retries",
    "fault",
    "mirror",
    "mirrors",
    "mirrorPercent",
    "mirrorPercentage",
    "corsPolicy",
    "headers",
];
const HTTP_MATCH: &[&str] = &[
    "name",
    "uri",
    "scheme",
    "method",
    "authority",
    "headers",
    "port",
    "sourceLabels",
    "gateways",
    "queryParams",
    "ignoreUriCase",
    "withoutHeaders",
    "sourceNamespace",
    "statPrefix",
];
const TLS_ROUTE: &[&str] = &["match", "route"];
const TLS_MATCH: &[&str] = &[
    "sniHosts",
    "destinationSubnets",
    "port",
    "sourceLabels",
    "gateways",
    "sourceNamespace",
    "sourceSubnet",
];
const ROUTE_TO: &[&str] = &["destination", "weight", "headers"];
const DESTINATION: &[&str] = &["host", "subset", "port"];
const RETRIES: &[&str] = &[
    "attempts",
    "perTryTimeout",
    "retryOn",
    "retryRemoteLocalities",
    "retryIgnorePreviousHosts",
    "backoff",
    "budgetInterval",
];
const GATEWAY: &[&str] = &["servers", "selector"];
const SERVER: &[&str] = &["port", "bind", "hosts", "tls", "defaultEndpoint", "name"];
const SERVER_TLS: &[&str] = &[
    "httpsRedirect",
    "mode",
    "serverCertificate",
    "privateKey",
    "caCertificates",
    "caCrl",
    "credentialName",
    "credentialNames",
    "caCertCredentialName",
    "tlsCertificates",
    "subjectAltNames",
    "verifyCertificateSpki",
    "verifyCertificateHash",
    "minProtocolVersion",
    "maxProtocolVersion",
    "cipherSuites",
];
const SIDECAR: &[&str] =
    &["workloadSelector", "ingress", "egress", "inboundConnectionPool", "outboundTrafficPolicy"];
const EGRESS: &[&str] = &["port", "bind", "captureMode", "hosts"];

/// Fields of the routes of a `VirtualService`.
fn routes<'a>(spec: &'a Node, add: &mut impl FnMut(&'a Node, &'static [&'static str])) {
    add(spec, SERVICE);
    for (list, route_fields, match_fields) in
        [("http", HTTP_ROUTE, HTTP_MATCH), ("tls", TLS_ROUTE, TLS_MATCH), ("tcp", TLS_ROUTE, TLS_MATCH)]
    {
        for route in spec.list(list) {
            add(route, route_fields);
            route.list("match").iter().for_each(|found| add(found, match_fields));
            for to in route.list("route") {
                add(to, ROUTE_TO);
                if let Some(destination) = to.get("destination") {
                    add(destination, DESTINATION);
                }
            }
            if let Some(retries) = route.get("retries") {
                add(retries, RETRIES);
            }
        }
    }
}

/// Mappings of a resource whose fields are known, by name.
fn places<'a>(mesh: &Mesh<'a>) -> Vec<(&'a Loadable, &'a Node, &'static [&'static str])> {
    let mut places = Vec::new();
    for entry in &mesh.entries {
        places.push((entry.resource, entry.spec, ENTRY));
        places.extend(entry.ports.iter().map(|port| (entry.resource, port.node, PORT)));
        places.extend(entry.endpoints.iter().map(|endpoint| (entry.resource, endpoint, ENDPOINT)));
    }
    for rule in &mesh.rules {
        places.extend(rule.resource.root.get("spec").map(|spec| (rule.resource, spec, RULE)));
        for (policy, _) in super::connections::policies(rule) {
            places.push((rule.resource, policy, POLICY));
            let below = [
                ("connectionPool.tcp", TCP),
                ("connectionPool.tcp.tcpKeepalive", KEEPALIVE),
                ("connectionPool.http", HTTP),
                ("outlierDetection", OUTLIER),
                ("tls", TLS),
                ("loadBalancer", BALANCER),
            ];
            let below = below.into_iter().filter_map(|(path, known)| Some((policy.get(path)?, known)));
            places.extend(below.map(|(node, known)| (rule.resource, node, known)));
        }
        places
            .extend(rule.resource.root.list("spec.subsets").iter().map(|node| (rule.resource, node, SUBSET)));
    }
    for service in &mesh.virtual_services {
        let Some(spec) = service.root.get("spec") else { continue };
        routes(spec, &mut |node, known| places.push((service, node, known)));
    }
    for gateway in &mesh.gateways {
        places.extend(gateway.root.get("spec").map(|spec| (*gateway, spec, GATEWAY)));
        for server in gateway.root.list("spec.servers") {
            places.push((gateway, server, SERVER));
            let below = [("port", PORT), ("tls", SERVER_TLS)].into_iter();
            places.extend(below.filter_map(|(path, known)| Some((*gateway, server.get(path)?, known))));
        }
    }
    for sidecar in &mesh.sidecars {
        places.extend(sidecar.root.get("spec").map(|spec| (*sidecar, spec, SIDECAR)));
        places.extend(sidecar.root.list("spec.egress").iter().map(|node| (*sidecar, node, EGRESS)));
    }
    for workload in &mesh.workloads {
        places.extend(workload.root.get("spec").map(|spec| (*workload, spec, ENDPOINT)));
    }
    places
}

fn misspelled_field(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (resource, node, known) in places(mesh) {
        for (key, _) in node.entries().iter().filter(|(key, _)| !known.contains(&&*key.text)) {
            let written = key.text.to_ascii_lowercase().replace(['_', '-'], "");
            let exact = |name: &str| node.entries().iter().any(|(other, _)| &*other.text == name);
            let near = known.iter().filter(|name| !exact(name));
            // One stroke in a short name, up to three in a long one: `to` is near to everything.
            let most = match written.len() {
                0..6 => 1,
                6..12 => 2,
                _ => 3,
            };
            let near =
                near.filter_map(|name| Some((distance(&name.to_ascii_lowercase(), &written, most)?, name)));
            let Some((strokes, meant)) = near.min().filter(|_| written.len() > 2) else { continue };
            // Istio reads snake case where it reads the file itself.
            let snake = strokes == 0 && node.entry(meant).is_some_and(|(found, _)| found.at == key.at);
            let clipped = crate::manifest::clip(&key.text);
            let (text, severity) = if snake {
                (format!("`{clipped}` is snake case: an API server drops it"), Severity::Info)
            } else {
                (format!("`{clipped}` is likely a typo"), Severity::Error)
            };
            found
                .add(resource, key.at, text)
                .about(&*key.text)
                .severity(severity)
                .hint(format!("write `{meant}`, if that is what is meant"))
                .edit(replace(key.at, *meant));
        }
    }
}

fn value_out_of_range(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let mut tell = |resource: &Loadable, at: Place, about: &str, text: String| {
        found.add(resource, at, text).about(about);
    };
    for entry in &mesh.entries {
        let mut numbers = HashSet::new();
        for port in &entry.ports {
            for key in ["number", "targetPort"] {
                let Some(node) = port.node.get(key) else { continue };
                if !node.integer().is_some_and(|number| (1..=65535).contains(&number)) {
                    tell(entry.resource, node.at, key, format!("{key} is no port"));
                } else if node.text().is_some() {
                    tell(entry.resource, node.at, key, format!("{key} is text, and has to be a number"));
                } else if key == "number" && !numbers.insert(port.number) {
                    let number = port.number.unwrap_or_default();
                    tell(entry.resource, node.at, "twice", format!("port {number} is listed twice"));
                }
            }
        }
    }
    for (resource, node, known) in places(mesh) {
        for (key, value) in node.entries().iter().filter(|(key, _)| known.contains(&&*key.text)) {
            let (name, whole) = (&*key.text, value.integer());
            // A keepalive's interval and an HTTP pool's timeouts are durations as well.
            let text = match name {
                "maxEjectionPercent" | "minHealthPercent"
                    if !whole.is_some_and(|percent| (0..=100).contains(&percent)) =>
                {
                    format!("{name} is no percentage")
                }
                "maxEjectionPercent" | "minHealthPercent" if value.text().is_some() => {
                    format!("{name} is text, and has to be a number")
                }
                "connectTimeout"
                | "idleTimeout"
                | "maxConnectionDuration"
                | "interval"
                | "baseEjectionTime"
                    if whole.is_some() || value.text().is_some_and(|text| duration_ms(text).is_none()) =>
                {
                    format!("{name} is no duration: its unit is missing or unknown")
                }
                _ => continue,
            };
            tell(resource, value.at, name, text);
        }
    }
}

fn network_with_dns(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for entry in mesh
        .entries
        .iter()
        .filter(|entry| !matches!(entry.resolution, None | Some(Resolution::None | Resolution::Static)))
    {
        for node in entry.spec.list("addresses") {
            if let Some(address) = node.text().filter(|address| address.contains('/')) {
                let text = format!("{address} is a network, and the entry asks DNS");
                found.add(entry.resource, node.at, text).about(address);
            }
        }
    }
}
