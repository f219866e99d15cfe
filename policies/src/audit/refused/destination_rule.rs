//! What istiod refuses of a DestinationRule beyond the shape of its CRD, and of the parts that a Sidecar has too.

use std::collections::HashSet;

use super::Refusals;
use super::load_balancer;
use super::parts::{
    CLIENT_TLS, MATCH_LABELS, OUTLIER, PERCENT, POLICY, POOL, PORT_POLICY, RULE, SUBSET, SUBSET_NAME, TUNNEL,
    WILDCARD, duration, export_to, labels, place, port, selector, text,
};
use crate::manifest::node::Node;
use crate::manifest::spelled::{go_duration, is_dns_label, is_fqdn, is_ip, is_wildcard_domain};

pub(super) fn check(spec: &Node, refusals: &mut Refusals<'_>) {
    let host = text(spec, "host");
    refusals
        .unless(is_wildcard_domain(host), place(spec, "host"), &WILDCARD, || format!("{host:?} is no host"));
    if let Some(policy) = spec.get("trafficPolicy") {
        traffic_policy(policy, refusals);
    }
    let mut names = HashSet::new();
    for subset in spec.list("subsets") {
        let (name, at) = (text(subset, "name"), place(subset, "name"));
        refusals.unless(names.insert(name), at, &RULE, || format!("two subsets are called {name:?}"));
        refusals.unless(is_dns_label(name), at, &SUBSET_NAME, || format!("{name:?} is no name of a subset"));
        labels(subset, "labels", &SUBSET, refusals);
        if let Some(policy) = subset.get("trafficPolicy") {
            traffic_policy(policy, refusals);
        }
    }
    export_to(spec, false, spec.get("workloadSelector").is_some(), refusals);
    selector(spec, "workloadSelector.matchLabels", &MATCH_LABELS, refusals);
}

const OF_POLICY: [&str; 8] = [
    "outlierDetection",
    "connectionPool",
    "loadBalancer",
    "tls",
    "portLevelSettings",
    "tunnel",
    "proxyProtocol",
    "retryBudget",
];

fn traffic_policy(policy: &Node, refusals: &mut Refusals<'_>) {
    // An empty list is none in Go.
    let has = |key: &str| {
        policy.get(key).is_some_and(|node| key != "portLevelSettings" || !node.items().is_empty())
    };
    if !OF_POLICY.iter().any(|key| has(key)) {
        refusals.add(policy.at, &POLICY, "the traffic policy is empty");
        return;
    }
    if policy.get("tunnel").is_some() && policy.get("proxyProtocol").is_some() {
        refusals.add(place(policy, "tunnel"), &POLICY, "`tunnel` and `proxyProtocol` do not go together");
        return;
    }
    settings(policy, refusals);
    for level in policy.list("portLevelSettings") {
        if level.get("port").is_none() {
            refusals.add(level.at, &PORT_POLICY, "the port settings lack a port");
        }
        if OF_POLICY[..4].iter().any(|key| level.get(key).is_some()) {
            settings(level, refusals);
        } else {
            refusals.add(level.at, &PORT_POLICY, "the port settings set nothing");
        }
    }
    if let Some(tunnel) = policy.get("tunnel") {
        let (protocol, host) = (text(tunnel, "protocol"), text(tunnel, "targetHost"));
        refusals.unless(
            matches!(protocol, "" | "CONNECT" | "POST"),
            place(tunnel, "protocol"),
            &TUNNEL,
            || format!("{protocol:?} is neither CONNECT nor POST"),
        );
        refusals.unless(is_fqdn(host) || is_ip(host), place(tunnel, "targetHost"), &TUNNEL, || {
            format!("{host:?} is no host name and no address")
        });
        port(tunnel.get("targetPort"), tunnel.at, refusals);
    }
}

fn settings(policy: &Node, refusals: &mut Refusals<'_>) {
    let outlier = policy.get("outlierDetection");
    if let Some(outlier) = outlier {
        outlier_detection(outlier, refusals);
    }
    if let Some(pool) = policy.get("connectionPool") {
        connection_pool(pool, refusals);
    }
    if let Some(balancer) = policy.get("loadBalancer") {
        load_balancer::check(balancer, refusals);
    }
    if let Some(tls) = policy.get("tls") {
        client_tls(tls, refusals);
    }
}

fn outlier_detection(outlier: &Node, refusals: &mut Refusals<'_>) {
    duration(outlier, "baseEjectionTime", refusals);
    duration(outlier, "interval", refusals);
    let local = "consecutiveLocalOriginFailures";
    if !outlier.is_true("splitExternalLocalOriginErrors") && outlier.integer_at(local).unwrap_or(0) > 0 {
        let text = format!("`{local}` is set, and `splitExternalLocalOriginErrors` is not true");
        refusals.add(outlier.at, &OUTLIER, text);
    }
    for key in ["maxEjectionPercent", "minHealthPercent"] {
        let percent = outlier.integer_at(key).unwrap_or(0);
        refusals.unless((0..=100).contains(&percent), place(outlier, key), &PERCENT, || {
            format!("`{key}` is {percent}, which is no percentage")
        });
    }
}

/// Also `inboundConnectionPool` of a Sidecar and `connectionPool` of its listeners.
pub(super) fn connection_pool(pool: &Node, refusals: &mut Refusals<'_>) {
    let (http, tcp) = (pool.get("http"), pool.get("tcp"));
    if http.is_none() && tcp.is_none() {
        refusals.add(pool.at, &POOL, "the connection pool is empty");
        return;
    }
    let mut not_negative = |node: &Node, keys: &[&str]| {
        for key in keys {
            let number = node.integer_at(key).unwrap_or(0);
            refusals.unless(number >= 0, place(node, key), &POOL, || format!("`{key}` is negative"));
        }
    };
    if let Some(http) = http {
        let keys = [
            "http1MaxPendingRequests",
            "http2MaxRequests",
            "maxRequestsPerConnection",
            "maxRetries",
            "maxConcurrentStreams",
        ];
        not_negative(http, &keys);
    }
    if let Some(tcp) = tcp {
        not_negative(tcp, &["maxConnections"]);
    }
    if let Some(http) = http {
        duration(http, "idleTimeout", refusals);
        if text(http, "h2UpgradePolicy") == "UPGRADE" && http.is_true("useClientProtocol") {
            let text = "`useClientProtocol` and `h2UpgradePolicy: UPGRADE` do not go together";
            refusals.add(place(http, "useClientProtocol"), &POOL, text);
        }
        if let Some(alive) = http.get("http2KeepAlive") {
            for key in ["interval", "timeout"] {
                refusals.unless(alive.get(key).is_some(), alive.at, &POOL, || {
                    format!("`http2KeepAlive` lacks `{key}`")
                });
                duration(alive, key, refusals);
            }
        }
    }
    if let Some(tcp) = tcp {
        duration(tcp, "connectTimeout", refusals);
        duration(tcp, "maxConnectionDuration", refusals);
        // Below a millisecond it means that there is no limit.
        let off = tcp.text_at("idleTimeout").and_then(go_duration).is_some_and(|time| time.as_millis() == 0);
        if !off {
            duration(tcp, "idleTimeout", refusals);
        }
        if let Some(alive) = tcp.get("tcpKeepalive") {
            duration(alive, "time", refusals);
            duration(alive, "interval", refusals);
        }
    }
}

fn client_tls(tls: &Node, refusals: &mut Refusals<'_>) {
    let set = |key: &str| !text(tls, key).is_empty();
    let (mode, credential) = (text(tls, "mode"), text(tls, "credentialName"));
    if let Some(map) = credential.strip_prefix("configmap://") {
        let own = refusals.namespace().to_owned();
        let mut parts = map.split('/');
        let good = parts.next() == Some(&*own) && parts.next().is_some_and(|name| !name.is_empty());
        refusals.unless(good, place(tls, "credentialName"), &CLIENT_TLS, || {
            format!("{credential:?} is not configmap://{own}/ and a name")
        });
    }
    let names = !tls.list("subjectAltNames").is_empty();
    if tls.is_true("insecureSkipVerify") {
        let asked = set("caCertificates") || names || (mode == "SIMPLE" && !credential.is_empty());
        if asked && matches!(mode, "SIMPLE" | "MUTUAL") {
            let text = "`insecureSkipVerify` beside what the server is to be verified by";
            refusals.add(place(tls, "insecureSkipVerify"), &CLIENT_TLS, text);
        }
    }
    if matches!(mode, "SIMPLE" | "MUTUAL") && !credential.is_empty() {
        if ["clientCertificate", "caCertificates", "privateKey", "caCrl"].iter().any(|key| set(key)) {
            refusals.add(
                place(tls, "credentialName"),
                &CLIENT_TLS,
                "`credentialName` beside files of certificates",
            );
        }
        return;
    }
    if mode == "MUTUAL" {
        for key in ["clientCertificate", "privateKey"] {
            refusals.unless(set(key), place(tls, "mode"), &CLIENT_TLS, || format!("MUTUAL lacks `{key}`"));
        }
    }
}
