//! Pure: a cell's plan -> the resources that make istiod send its cluster. What the lab's bootstrap writes by itself,
//! in the words of the mesh: resolution and port in a ServiceEntry, the rest in a DestinationRule, and the lab DNS as
//! the only resolver in an `EnvoyFilter`.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::{HOST, Plan, mesh_port};
use crate::experiments::evidence::EgressCell;
use crate::lab::envoy::bootstrap::{HttpVersion, Layer};
use policies::Resolution;

/// What each of them is called.
pub const NAME: &str = "egress-audit-lab";
/// By which label they are known.
pub const OWNER: (&str, &str) = ("app.kubernetes.io/managed-by", "egress-audit");

/// Where the lab is in the mesh.
#[derive(Debug, Clone)]
pub struct Ground<'a> {
    /// The namespace of the client, beyond which nothing is exported.
    pub namespace: &'a str,
    /// The lab DNS.
    pub resolver: SocketAddr,
    /// The port that every backend listens on.
    pub backend_port: u16,
}

/// Why an experiment cannot run in a mesh.
#[must_use]
pub fn obstacle(plan: &Plan) -> Option<&'static str> {
    let usual = Plan::pair(Duration::from_secs(40));
    if plan.backends > usual.backends {
        Some("it wants more than two backends")
    } else if plan.refresh != usual.refresh {
        Some("it wants another `dnsRefreshRate`, which is the mesh's")
    } else if plan.close_on_host_set_change {
        Some("it wants `close_connections_on_host_set_change`, which Istio never sets")
    } else {
        None
    }
}

/// `EnvoyFilter`, DestinationRule and ServiceEntry, in the order in which they are to be applied.
#[must_use]
pub fn resources(cell: &EgressCell, plan: &Plan, ground: &Ground<'_>) -> [Value; 3] {
    [filter(ground), rule(cell, plan, ground), entry(cell, ground)]
}

fn named(api_version: &str, kind: &str, ground: &Ground<'_>, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("networking.istio.io/{api_version}"),
        "kind": kind,
        "metadata": { "name": NAME, "namespace": ground.namespace, "labels": { OWNER.0: OWNER.1 } },
        "spec": spec,
    })
}

fn entry(cell: &EgressCell, ground: &Ground<'_>) -> Value {
    let resolution = match cell.resolution {
        Resolution::Dns => "DNS",
        _ => "DNS_ROUND_ROBIN",
    };
    let (name, protocol) = match cell.path {
        Layer::Passthrough => ("tls", "TLS"),
        Layer::Http => ("http", "HTTP"),
    };
    let port = json!({
        "number": mesh_port(cell.path), "name": name, "protocol": protocol, "targetPort": ground.backend_port,
    });
    named(
        "v1",
        "ServiceEntry",
        ground,
        &json!({
            "hosts": [HOST], "location": "MESH_EXTERNAL", "resolution": resolution, "exportTo": ["."], "ports": [port],
        }),
    )
}

fn rule(cell: &EgressCell, plan: &Plan, ground: &Ground<'_>) -> Value {
    let mut policy =
        json!({ "connectionPool": { "tcp": { "connectTimeout": length(plan.connect_timeout) } } });
    if let Some(limit) = plan.max_connection_duration {
        policy["connectionPool"]["tcp"]["maxConnectionDuration"] = json!(length(limit));
    }
    if let Some(outlier) = plan.outlier {
        policy["outlierDetection"] = json!({
            "splitExternalLocalOriginErrors": true,
            "consecutiveLocalOriginFailures": outlier.failures,
            "interval": length(outlier.interval),
            "baseEjectionTime": length(outlier.base_ejection),
            "maxEjectionPercent": outlier.max_percent,
        });
    }
    if cell.path == Layer::Http {
        // The backends' CAs are their own, and a proxy reads a CA from its own disk only.
        policy["tls"] = json!({ "mode": "SIMPLE", "sni": HOST, "insecureSkipVerify": true });
    }
    if cell.path == Layer::Http && cell.http == HttpVersion::H2 {
        policy["connectionPool"]["http"] = json!({ "h2UpgradePolicy": "UPGRADE" });
    }
    named(
        "v1",
        "DestinationRule",
        ground,
        &json!({
            "host": HOST, "exportTo": ["."], "trafficPolicy": policy,
        }),
    )
}

/// istiod's own clusters name no resolver, so that a proxy asks those of the pod's `/etc/resolv.conf`.
fn filter(ground: &Ground<'_>) -> Value {
    let resolver = json!({ "socket_address": {
        "address": ground.resolver.ip().to_string(), "port_value": ground.resolver.port(),
    }});
    let cares = json!({
        "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
        "resolvers": [resolver], "use_resolvers_as_fallback": false, "udp_max_queries": 100,
    });
    named(
        "v1alpha3",
        "EnvoyFilter",
        ground,
        &json!({ "configPatches": [{
            "applyTo": "CLUSTER",
            "match": { "context": "ANY", "cluster": { "service": HOST } },
            "patch": { "operation": "MERGE", "value": { "typed_dns_resolver_config": {
                "name": "envoy.network.dns_resolver.cares", "typed_config": cares,
            }}},
        }]}),
    )
}

/// A duration as Istio's API takes it.
fn length(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}
