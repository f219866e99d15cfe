//! The one listener of a lab Envoy: SNI passthrough, or HTTP with Istio's default retries; plain as a sidecar's
//! outbound side, or behind mutual TLS as an egress gateway's.

use serde_json::{Value, json};

use super::{LISTENER, Layer, Proxy, Upstream, cluster_name, common_tls, loopback, mesh_sni, seconds};

pub(super) fn listener(proxy: &Proxy<'_>) -> Value {
    let network = match proxy.layer {
        Layer::Passthrough => tcp_proxy(proxy),
        Layer::Http => http_manager(proxy),
    };
    let mut chain = json!({ "filters": [network] });
    let mut listener = json!({ "name": LISTENER, "address": loopback() });
    let sni = if proxy.behind_mtls { mesh_sni(proxy.host) } else { proxy.host.to_owned() };
    if proxy.behind_mtls || proxy.layer == Layer::Passthrough {
        chain["filter_chain_match"] = json!({ "server_names": [sni] });
        listener["listener_filters"] = json!([{
            "name": "envoy.filters.listener.tls_inspector",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
            },
        }]);
    }
    if proxy.behind_mtls {
        chain["transport_socket"] = json!({
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": common_tls(proxy, true),
                "require_client_certificate": true,
            },
        });
    }
    listener["filter_chains"] = json!([chain]);
    listener
}

fn target(proxy: &Proxy<'_>) -> String {
    match proxy.upstream {
        Upstream::Dns(_) | Upstream::Ads(_) => cluster_name(proxy.host),
        Upstream::Gateway(_) => "outbound|443||egress-gateway".to_owned(),
    }
}

fn tcp_proxy(proxy: &Proxy<'_>) -> Value {
    let cluster = target(proxy);
    let mut config = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": cluster,
        "cluster": cluster,
        "access_log": access_log(),
    });
    if let Some(limit) = proxy.max_connection_duration {
        config["max_downstream_connection_duration"] = json!(seconds(limit));
    }
    json!({ "name": "envoy.filters.network.tcp_proxy", "typed_config": config })
}

fn http_manager(proxy: &Proxy<'_>) -> Value {
    let route = json!({
        "match": { "prefix": "/" },
        "route": { "cluster": target(proxy), "timeout": "0s", "retry_policy": retry_policy() },
    });
    json!({
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "front",
            "codec_type": "AUTO",
            "stream_idle_timeout": "0s",
            "upgrade_configs": [{ "upgrade_type": "websocket" }],
            "http2_protocol_options": { "allow_connect": true },
            "access_log": access_log(),
            "route_config": { "name": "443", "virtual_hosts": [{
                "name": proxy.host, "domains": ["*"], "routes": [route],
            }]},
            "http_filters": [{
                "name": "envoy.filters.http.router",
                "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
            }],
        },
    })
}

/// Istio's default when a VirtualService sets none (`pilot/pkg/networking/core/route/retry`).
fn retry_policy() -> Value {
    json!({
        "retry_on": "connect-failure,refused-stream,unavailable,cancelled",
        "num_retries": 2,
        "retry_host_predicate": [{
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
            },
        }],
        "host_selection_retry_max_attempts": "5",
    })
}

fn access_log() -> Value {
    let format = "%START_TIME% %PROTOCOL% %RESPONSE_CODE% %RESPONSE_FLAGS% up=%UPSTREAM_HOST% \
                  in=%BYTES_RECEIVED% out=%BYTES_SENT% ms=%DURATION% %UPSTREAM_TRANSPORT_FAILURE_REASON%\n";
    json!([{
        "name": "envoy.access_loggers.stdout",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
            "log_format": { "text_format_source": { "inline_string": format } },
        },
    }])
}
