//! Pure: the ingress gateway's Envoy -> its bootstrap. One HTTP listener, one raw TCP listener and a statistics
//! listener, as a gateway pod has them; the cluster is static, for it is not what this lab is about.

use std::net::SocketAddr;

use serde_json::{Value, json};

/// Names of the listeners.
pub const HTTP: &str = "front";
/// The raw TCP one.
pub const TCP: &str = "tcp";
/// The one that a scraper would use.
pub const STATS: &str = "stats";
/// The cluster of the configuration's server.
pub const XDS: &str = "xds";

/// The bootstrap. `http` and `tcp` are where to listen; port 0 lets Envoy choose. With `xds` it keeps a stream of
/// configuration open to there, as every proxy of a mesh does.
#[must_use]
pub fn bootstrap(
    http: SocketAddr,
    tcp: SocketAddr,
    backend: SocketAddr,
    raw_backend: SocketAddr,
    xds: Option<SocketAddr>,
) -> Value {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut config = json!({
        "node": { "id": "igw", "cluster": "igw" },
        "admin": { "address": address(any) },
        "static_resources": {
            "listeners": [
                listener(HTTP, http, &manager("ingress", "web")),
                listener(TCP, tcp, &tcp_proxy()),
                listener(STATS, any, &manager("stats", "admin-like")),
            ],
            "clusters": [
                cluster("web", backend),
                cluster("raw", raw_backend),
                cluster("admin-like", backend),
            ],
        },
    });
    if let (Some(at), Some(clusters)) = (xds, config["static_resources"]["clusters"].as_array_mut()) {
        clusters.push(xds_cluster(at));
        config["dynamic_resources"] = json!({
            "ads_config": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "grpc_services": [{ "envoy_grpc": { "cluster_name": XDS } }],
            },
            // Envoy serves its static listeners without waiting for a server that sends nothing.
            "cds_config": { "ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0.2s" },
        });
    }
    config
}

fn listener(name: &str, at: SocketAddr, filter: &Value) -> Value {
    json!({ "name": name, "address": address(at), "filter_chains": [{ "filters": [filter] }] })
}

fn manager(stat_prefix: &str, cluster: &str) -> Value {
    json!({
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": stat_prefix,
            "codec_type": "AUTO",
            "stream_idle_timeout": "0s",
            "upgrade_configs": [{ "upgrade_type": "websocket" }],
            "route_config": { "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [{
                "match": { "prefix": "/" },
                "route": { "cluster": cluster, "timeout": "0s" },
            }]}]},
            "http_filters": [{
                "name": "envoy.filters.http.router",
                "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
            }],
        },
    })
}

fn tcp_proxy() -> Value {
    json!({
        "name": "envoy.filters.network.tcp_proxy",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": "raw",
            "cluster": "raw",
        },
    })
}

fn cluster(name: &str, at: SocketAddr) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": [{
            "endpoint": { "address": address(at) },
        }]}]},
        "circuit_breakers": { "thresholds": [{
            "max_connections": 100_000, "max_pending_requests": 100_000, "max_requests": 100_000,
        }]},
    })
}

fn xds_cluster(at: SocketAddr) -> Value {
    let mut cluster = cluster(XDS, at);
    cluster["typed_extension_protocol_options"] = json!({
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": { "http2_protocol_options": {} },
        },
    });
    cluster
}

fn address(addr: SocketAddr) -> Value {
    json!({ "socket_address": { "address": addr.ip().to_string(), "port_value": addr.port() } })
}
