//! What several kinds of istiod's validation share: exportTo, selectors, labels, ports, addresses. The table of Go
//! functions is here too; the kinds name its rows.

use super::{GoCheck, Refusals};
use crate::manifest::node::{Node, Place};
use crate::manifest::spelled::{go_duration, is_dns_label, is_label_key, is_label_value};

macro_rules! checks {
    ($($row:ident $file:literal $function:literal $line:literal $refuses:literal;)*) => {
        $(pub(super) static $row: GoCheck =
            GoCheck { file: $file, function: $function, line: $line, refuses: $refuses };)*
        /// Every function of istiod's validation that the family answers to, by file and line.
        pub static CHECKS: &[&GoCheck] = &[$(&$row),*];
    };
}

checks! {
    METADATA "pkg/config/validation/validation.go" "validateMetadata" 206 "annotations of its own use";
    DRY_RUN "pkg/config/validation/validation.go" "checkDryRunAnnotation" 229 "the annotation istio.io/dry-run on networking kinds";
    CORS_HEADER "pkg/config/validation/validation.go" "ValidateCORSHTTPHeaderName" 273 "CORS headers that are none";
    MATCH_HEADER "pkg/config/validation/validation.go" "ValidateHTTPHeaderNameOrJwtClaimRoute" 296 "matches on headers that are none";
    ADD_HEADER "pkg/config/validation/validation.go" "ValidateHTTPHeaderWithAuthorityOperationName" 316 "setting headers with `:` in front";
    REMOVE_HEADER "pkg/config/validation/validation.go" "ValidateHTTPHeaderOperationName" 328 "removing or answering with Host and headers with `:` in front";
    HEADER_VALUE "pkg/config/validation/validation.go" "ValidateHTTPHeaderValue" 349 "header values with an open `%` or a control character";
    WEIGHT "pkg/config/validation/validation.go" "validateWeight" 364 "negative weights";
    PERCENT "pkg/config/validation/validation.go" "ValidatePercent" 372 "percentages outside of 0 to 100";
    PERCENTAGE "pkg/config/validation/validation.go" "validatePercentage" 380 "percentages outside of 0.0001 to 100";
    SOCKET "pkg/config/validation/validation.go" "ValidateUnixAddress" 390 "socket paths that are not absolute";
    SERVER "pkg/config/validation/validation.go" "validateServer" 458 "servers without hosts, and TLS settings that do not go with the protocol";
    SERVER_PORT "pkg/config/validation/validation.go" "validateServerPort" 495 "ports without number, name or known protocol";
    SERVER_BIND "pkg/config/validation/validation.go" "validateServerBind" 516 "bind addresses that are none";
    SERVER_TLS "pkg/config/validation/validation.go" "validateTLSOptions" 528 "certificates that are missing, named twice, or beside ISTIO_MUTUAL";
    EXPORT "pkg/config/validation/validation.go" "validateExportTo" 690 "entries of exportTo that repeat or contradict each other";
    SELECTOR "pkg/config/validation/validation.go" "ValidateAlphaWorkloadSelector" 754 "wildcards and empty keys in a selector";
    OUTBOUND "pkg/config/validation/validation.go" "validateSidecarOutboundTrafficPolicy" 977 "an egressProxy that its mode does not use";
    EGRESS_PORT "pkg/config/validation/validation.go" "validateSidecarEgressPortBindAndCaptureMode" 1007 "egress ports whose number, protocol and bind do not go together";
    INGRESS_PORT "pkg/config/validation/validation.go" "validateSidecarIngressPortAndBind" 1043 "ingress ports whose number, protocol or bind is none";
    POLICY "pkg/config/validation/validation.go" "validateTrafficPolicy" 1060 "empty traffic policies, and tunnel beside proxyProtocol";
    TUNNEL "pkg/config/validation/validation.go" "validateTunnelSettings" 1093 "tunnels to a host or port that is none";
    OUTLIER "pkg/config/validation/validation.go" "validateOutlierDetection" 1111 "local origin failures that nothing tells apart";
    POOL "pkg/config/validation/validation.go" "validateConnectionPool" 1137 "empty connection pools, negative limits, and h2 settings that contradict each other";
    BALANCER "pkg/config/validation/validation.go" "validateLoadBalancer" 1210 "consistent hashes and warm-ups that lack a part";
    SUBSET "pkg/config/validation/validation.go" "validateSubset" 1299 "subsets with labels that are none";
    PORT_POLICY "pkg/config/validation/validation.go" "validatePortTrafficPolicies" 1305 "port settings without port or without settings";
    MATCH_LABELS "pkg/config/validation/validation.go" "validateWorkloadSelector" 1385 "wildcards and empty keys in a selector";
    TLS_ROUTE "pkg/config/validation/validation.go" "validateTLSRoute" 2255 "TLS routes without match or destination";
    TLS_MATCH "pkg/config/validation/validation.go" "validateTLSMatch" 2272 "TLS matches without SNI host";
    SNI "pkg/config/validation/validation.go" "validateSniHost" 2297 "SNI hosts that no host of the VirtualService covers";
    TCP_ROUTE "pkg/config/validation/validation.go" "validateTCPRoute" 2322 "TCP routes without destination";
    TCP_MATCH "pkg/config/validation/validation.go" "validateTCPMatch" 2336 "matches on networks and ports that are none";
    STRING_MATCH "pkg/config/validation/validation.go" "validateStringMatch" 2352 "empty prefixes";
    REGEX "pkg/config/validation/validation.go" "validateStringRegexp" 2377 "regular expressions that RE2 does not read, or of more than 1024 bytes";
    GATEWAYS "pkg/config/validation/validation.go" "validateGatewayNames" 2397 "names of gateways that are none";
    HTTP_WEIGHTS "pkg/config/validation/validation.go" "validateHTTPRouteDestinations" 2428 "destinations whose weights are all 0";
    WEIGHTS "pkg/config/validation/validation.go" "validateRouteDestinations" 2475 "destinations whose weights are all 0";
    CORS "pkg/config/validation/validation.go" "validateCORSPolicy" 2497 "a maxAge with parts of a second";
    ORIGINS "pkg/config/validation/validation.go" "validateAllowOrigins" 2528 "origins that match nothing";
    METHOD "pkg/config/validation/validation.go" "validateCORSHTTPMethod" 2544 "methods that HTTP does not have";
    FAULT "pkg/config/validation/validation.go" "validateHTTPFaultInjection" 2551 "faults without abort and delay";
    ABORT "pkg/config/validation/validation.go" "validateHTTPFaultInjectionAbort" 2566 "aborts by HTTP/2 error";
    STATUS "pkg/config/validation/validation.go" "validateHTTPStatus" 2588 "statuses outside of 200 to 600";
    GRPC "pkg/config/validation/validation.go" "validateGRPCStatus" 2595 "gRPC statuses that are none";
    DELAY "pkg/config/validation/validation.go" "validateHTTPFaultInjectionDelay" 2604 "exponential delays";
    DESTINATION "pkg/config/validation/validation.go" "validateDestination" 2622 "destination hosts that are none";
    SUBSET_NAME "pkg/config/validation/validation.go" "validateSubsetName" 2643 "names of subsets that are none";
    PORT_NUMBER "pkg/config/validation/validation.go" "validatePortSelector" 2653 "destination ports that are none";
    RETRY "pkg/config/validation/validation.go" "validateHTTPRetry" 2664 "retries that are configured and off, and unknown conditions";
    REDIRECT "pkg/config/validation/validation.go" "validateHTTPRedirect" 2698 "redirects that change nothing or contradict themselves";
    DIRECT "pkg/config/validation/validation.go" "validateHTTPDirectResponse" 2735 "bodies of more than 1 MB";
    MIRRORS "pkg/config/validation/validation.go" "validateHTTPMirrors" 2760 "mirror percentages outside of 0 to 100";
    REWRITE "pkg/config/validation/validation.go" "validateHTTPRewrite" 2786 "rewrites that change nothing or contradict themselves";
    WORKLOAD "pkg/config/validation/validation.go" "validateWorkloadEntry" 2823 "addresses that are none, and ports that the entry lacks";
    ENTRY "pkg/config/validation/validation.go" "ValidateServiceEntry" 2951 "hosts, addresses, ports and endpoints that do not go with the resolution";
    RULE "pkg/config/validation/validation.go" "ValidateDestinationRule" 660 "hosts that are none, and subsets of one name";
    ROUTES "pkg/config/validation/validation.go" "ValidateVirtualService" 1768 "hosts that are none or cover each other, and routes that lack a part";
    GATEWAY "pkg/config/validation/validation.go" "ValidateGateway" 409 "gateways without servers, and port names that repeat";
    SIDECAR "pkg/config/validation/validation.go" "ValidateSidecar" 778 "empty sidecars, listeners that share a port, TLS that a sidecar cannot do";
    PORT_NAME "pkg/config/validation/validation.go" "ValidatePortName" 3182 "port names that are none";
    PROTOCOL "pkg/config/validation/validation.go" "ValidateProtocol" 3190 "protocols that are none";
    HTTP_ROUTE "pkg/config/validation/virtualservice.go" "validateHTTPRoute" 46 "mirror percentages outside of 0 to 100";
    AUTHORITY "pkg/config/validation/virtualservice.go" "validateAuthorityRewrite" 115 "setting the authority twice";
    HTTP_MATCH "pkg/config/validation/virtualservice.go" "validateHTTPRouteMatchRequest" 138 "matches that are none";
    CONFLICT "pkg/config/validation/virtualservice.go" "validateHTTPRouteConflict" 189 "routes that do nothing, or several things at once";
    DURATION "pkg/config/validation/agent/validation.go" "ValidateDuration" 139 "durations below 1ms or with parts of one";
    PORT "pkg/config/validation/agent/validation.go" "ValidatePort" 178 "ports outside of 1 to 65535";
    FQDN "pkg/config/validation/agent/validation.go" "ValidateFQDN" 225 "names that are none";
    CLIENT_TLS "pkg/config/validation/agent/validation.go" "ValidateTLS" 280 "certificates that are missing or named twice, and verification that is off and asked for";
    LOCALITY "pkg/config/validation/agent/validation.go" "ValidateLocalityLbSetting" 530 "localities that overlap, and weights that do not add up to 100";
    ZONE "pkg/config/validation/agent/validation.go" "ValidateZoneAwareLbSetting" 598 "failover that zone-aware balancing does itself";
    WILDCARD "pkg/config/validation/agent/validation.go" "ValidateWildcardDomain" 737 "hosts that are none";
    ADDRESS "pkg/config/validation/agent/validation.go" "ValidateIPAddress" 984 "addresses that are none";
    HOST_PART "pkg/config/validation/agent/validation.go" "validateSidecarOrGatewayHostnamePart" 1001 "short names and partial wildcards";
    SLASH_HOST "pkg/config/validation/agent/validation.go" "ValidateNamespaceSlashWildcardHostname" 1025 "hosts that lack the namespace";
    SUBNET "pkg/config/validation/agent/validation.go" "ValidateIPSubnet" 1058 "networks that are none";
    FILTER "pkg/config/validation/envoyfilter/envoyfilter.go" "validateEnvoyFilter" 55 "patches that lack a part, or whose match is for another object";
}

/// Annotations that istiod keeps for itself.
pub(super) fn metadata(root: &Node, refusals: &mut Refusals<'_>) {
    for (key, _) in root.get("metadata.annotations").map_or(&[][..], Node::entries) {
        let from = match &*key.text {
            "istio.io/dry-run" => &DRY_RUN,
            "internal.istio.io/webhook-always-reject"
            | "internal.istio.io/parents"
            | "internal.istio.io/parent-namespace" => &METADATA,
            _ => continue,
        };
        refusals.add(key.at, from, format!("the annotation `{}` cannot be set here", key.text));
    }
}

/// `exportTo`; a ServiceEntry may be exported to nobody, a rule with a selector to its own namespace only.
pub(super) fn export_to(spec: &Node, entry: bool, has_selector: bool, refusals: &mut Refusals<'_>) {
    let Some(list) = spec.get("exportTo") else { return };
    let own = refusals.namespace().to_owned();
    let mut seen: Vec<&str> = Vec::new();
    for node in list.items() {
        let written = node.text().unwrap_or_default();
        let meant = if written == "." { own.as_str() } else { written };
        if seen.contains(&meant) {
            refusals.add(node.at, &EXPORT, format!("`exportTo` names {meant} twice"));
        } else if entry && written == "~" || meant == "*" || is_dns_label(meant) {
            seen.push(meant);
        } else {
            refusals.add(node.at, &EXPORT, format!("{written:?} is no namespace that `exportTo` can name"));
        }
    }
    if has_selector && !seen.is_empty() && seen != [own.as_str()] {
        let text = "a rule with a workloadSelector is exported beyond its own namespace";
        refusals.add(list.at, &EXPORT, text);
    }
    for alone in ["*", "~"] {
        if seen.contains(&alone) && list.items().len() > 1 {
            refusals.add(list.at, &EXPORT, format!("`exportTo` has other entries beside {alone}"));
        }
    }
}

/// `workloadSelector.labels`.
pub(super) fn selector(spec: &Node, path: &str, from: &'static GoCheck, refusals: &mut Refusals<'_>) {
    for (key, value) in spec.get(path).map_or(&[][..], Node::entries) {
        if key.text.is_empty()
            || key.text.contains('*')
            || value.text().is_some_and(|text| text.contains('*'))
        {
            refusals.add(key.at, from, "a selector has an empty key or a wildcard");
        }
    }
}

/// Labels that are matched or set.
pub(super) fn labels(node: &Node, path: &str, from: &'static GoCheck, refusals: &mut Refusals<'_>) {
    for (key, value) in node.get(path).map_or(&[][..], Node::entries) {
        refusals
            .unless(is_label_key(&key.text), key.at, from, || format!("{:?} is no key of a label", key.text));
        let text = value.text().unwrap_or_default();
        refusals.unless(is_label_value(text), value.at, from, || format!("{text:?} is no value of a label"));
    }
}

/// 1 to 65535; a number that is not there counts as 0.
pub(super) fn port(number: Option<&Node>, otherwise: Place, refusals: &mut Refusals<'_>) {
    let found = number.and_then(Node::integer).unwrap_or(0);
    let at = number.map_or(otherwise, |node| node.at);
    refusals.unless((1..=65535).contains(&found), at, &PORT, || format!("{found} is no port"));
}

/// A port that may be left out, which 0 means too.
pub(super) fn optional_port(number: Option<&Node>, refusals: &mut Refusals<'_>) {
    if let Some(node) = number.filter(|node| node.integer() != Some(0)) {
        port(Some(node), node.at, refusals);
    }
}

pub(super) fn port_name(name: &str, at: Place, refusals: &mut Refusals<'_>) {
    refusals.unless(is_dns_label(name), at, &PORT_NAME, || format!("{name:?} is no name of a port"));
}

/// Istio's protocols, any case.
pub(super) fn is_protocol(text: &str) -> bool {
    const KNOWN: [&str; 12] = [
        "tcp",
        "udp",
        "grpc",
        "grpc-web",
        "http",
        "http_proxy",
        "http2",
        "https",
        "tls",
        "mongo",
        "redis",
        "mysql",
    ];
    KNOWN.iter().any(|known| text.eq_ignore_ascii_case(known))
}

pub(super) fn is_http(text: &str) -> bool {
    ["http", "http2", "http_proxy", "grpc", "grpc-web"].iter().any(|known| text.eq_ignore_ascii_case(known))
}

pub(super) fn is_tls(text: &str) -> bool {
    ["https", "tls"].iter().any(|known| text.eq_ignore_ascii_case(known))
}

/// An empty one means that Istio finds out.
pub(super) fn protocol(port: &Node, refusals: &mut Refusals<'_>) {
    if let Some(node) = port.get("protocol").filter(|node| node.text() != Some("")) {
        let text = node.text().unwrap_or_default();
        refusals.unless(is_protocol(text), node.at, &PROTOCOL, || format!("{text:?} is no protocol"));
    }
}

/// Durations: at least 1ms, and no parts of one.
pub(super) fn duration(node: &Node, path: &str, refusals: &mut Refusals<'_>) {
    let Some(found) = node.get(path) else { return };
    let text = found.text().unwrap_or_default();
    let good =
        go_duration(text).is_some_and(|time| time.as_millis() >= 1 && time.subsec_nanos() % 1_000_000 == 0);
    refusals.unless(good, found.at, &DURATION, || {
        format!("`{path}` is {text:?}, and has to be whole milliseconds, one at least")
    });
}

/// A path behind `unix://`.
pub(super) fn socket(path: &str, at: Place, refusals: &mut Refusals<'_>) {
    let good = path.starts_with('@') || (path.starts_with('/') && !path.ends_with('/'));
    refusals.unless(good, at, &SOCKET, || format!("{path:?} is no absolute path of a socket"));
}

/// Text under a key; empty where it is absent.
pub(super) fn text<'n>(node: &'n Node, path: &str) -> &'n str {
    node.text_at(path).unwrap_or_default()
}

/// Where a field stands, else its parent.
pub(super) fn place(node: &Node, path: &str) -> Place {
    node.get(path).map_or(node.at, |found| found.at)
}
