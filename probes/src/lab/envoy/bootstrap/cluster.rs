//! The one cluster of a lab Envoy: the DNS cluster that the experiments are about, or the static one that leads to
//! the egress gateway.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use policies::platform::NEW_DNS_SINCE;
use policies::{ProxyKind, Resolution};

use super::{HttpVersion, Layer, Proxy, Upstream, address, cluster_name, common_tls, mesh_sni, seconds};

/// The DNS cluster, with what istiod would take from ServiceEntry, DestinationRule and mesh config.
#[derive(Debug, Clone)]
pub struct DnsCluster {
    /// STRICT_DNS or LOGICAL_DNS.
    pub resolution: Resolution,
    /// The lab DNS.
    pub resolver: SocketAddr,
    /// The port that every backend listens on.
    pub backend_port: u16,
    /// Mesh `dnsRefreshRate`, which counts when resolution fails or the TTL is 0. Istio's default is 60 s.
    pub refresh: Duration,
    /// `connectionPool.tcp.connectTimeout`. Istio's default is 10 s.
    pub connect_timeout: Duration,
    /// `outlierDetection`.
    pub outlier: Option<Outlier>,
    /// Envoy's `close_connections_on_host_set_change`, which Istio never sets.
    pub close_on_host_set_change: bool,
}

/// `outlierDetection` with the fields of the recommended block; `splitExternalLocalOriginErrors` is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlier {
    /// `consecutiveLocalOriginFailures`.
    pub failures: u32,
    /// `interval`.
    pub interval: Duration,
    /// `baseEjectionTime`.
    pub base_ejection: Duration,
    /// `maxEjectionPercent`.
    pub max_percent: u32,
}

/// The cluster of the control plane.
pub(super) const ADS: &str = "control-plane";

pub(super) fn cluster(proxy: &Proxy<'_>) -> Value {
    match &proxy.upstream {
        Upstream::Dns(dns) => dns_cluster(proxy, dns),
        Upstream::Gateway(gateway) => gateway_cluster(proxy, *gateway),
        Upstream::Ads(ads) => ads_cluster(ads.addr),
    }
}

fn ads_cluster(addr: SocketAddr) -> Value {
    json!({
        "name": ADS,
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": load_assignment(ADS, &address(addr)),
        "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": { "http2_protocol_options": {} },
        }},
    })
}

fn dns_cluster(proxy: &Proxy<'_>, dns: &DnsCluster) -> Value {
    let name = cluster_name(proxy.host);
    let endpoint = json!({ "socket_address": { "address": proxy.host, "port_value": dns.backend_port } });
    let mut cluster = json!({
        "name": name,
        "connect_timeout": seconds(dns.connect_timeout),
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": load_assignment(&name, &endpoint),
        // istiod lifts all limits.
        "circuit_breakers": { "thresholds": [{
            "max_connections": u32::MAX, "max_pending_requests": u32::MAX,
            "max_requests": u32::MAX, "max_retries": u32::MAX, "track_remaining": true,
        }]},
    });
    let fields = cluster.as_object_mut().expect("built as an object above");
    fields.extend(resolution(proxy, dns).as_object().cloned().unwrap_or_default());
    if dns.close_on_host_set_change {
        cluster["common_lb_config"] = json!({ "close_connections_on_host_set_change": true });
    }
    if let Some(outlier) = dns.outlier {
        cluster["outlier_detection"] = outlier_detection(outlier);
        // minHealthPercent, 0 unless set: any outlierDetection block turns panic mode off.
        cluster["common_lb_config"]["healthy_panic_threshold"] = json!({ "value": 0.0 });
    }
    if proxy.layer == Layer::Http {
        let mut tls = common_tls(proxy, false);
        tls["validation_context"]["match_typed_subject_alt_names"] =
            json!([{ "san_type": "DNS", "matcher": { "exact": proxy.host } }]);
        cluster["transport_socket"] = tls_socket(&tls, proxy.host);
        cluster["typed_extension_protocol_options"] = http_options(proxy);
    }
    cluster
}

/// How DNS is used: on the cluster itself up to 1.38, as the `DnsCluster` extension from 1.39, where the cluster's
/// own fields are deprecated.
fn resolution(proxy: &Proxy<'_>, dns: &DnsCluster) -> Value {
    let resolver = json!({
        "name": "envoy.network.dns_resolver.cares",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            "resolvers": [address(dns.resolver)],
            // Bound to the lab DNS: the machine's own resolvers must never be asked.
            "use_resolvers_as_fallback": false,
            "udp_max_queries": 100,
        },
    });
    let mut shared = json!({
        "dns_refresh_rate": seconds(dns.refresh),
        "respect_dns_ttl": true,
        "dns_jitter": "0.1s",
        "dns_lookup_family": "V4_ONLY",
        "typed_dns_resolver_config": resolver,
    });
    if proxy.version >= NEW_DNS_SINCE {
        shared["@type"] = json!("type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster");
        shared["all_addresses_in_single_endpoint"] = json!(dns.resolution == Resolution::DnsRoundRobin);
        return json!({ "cluster_type": { "name": "envoy.cluster.dns", "typed_config": shared } });
    }
    shared["type"] = json!(dns.resolution.cluster_type(ProxyKind::Sidecar));
    shared
}

/// What istiod writes for a DestinationRule with `splitExternalLocalOriginErrors` and
/// `consecutiveLocalOriginFailures` (`cluster_traffic_policy.go`): success rate is never enforced.
fn outlier_detection(outlier: Outlier) -> Value {
    json!({
        "split_external_local_origin_errors": true,
        "consecutive_local_origin_failure": outlier.failures,
        "enforcing_consecutive_local_origin_failure": 100,
        "enforcing_local_origin_success_rate": 0,
        "enforcing_success_rate": 0,
        "interval": seconds(outlier.interval),
        "base_ejection_time": seconds(outlier.base_ejection),
        "max_ejection_percent": outlier.max_percent,
    })
}

fn gateway_cluster(proxy: &Proxy<'_>, gateway: SocketAddr) -> Value {
    let name = "outbound|443||egress-gateway";
    let mut cluster = json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "10s",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": load_assignment(name, &address(gateway)),
        "transport_socket": tls_socket(&common_tls(proxy, true), &mesh_sni(proxy.host)),
    });
    if proxy.layer == Layer::Http {
        cluster["typed_extension_protocol_options"] =
            http_options(&Proxy { max_connection_duration: None, ..proxy.clone() });
    }
    cluster
}

fn load_assignment(name: &str, endpoint: &Value) -> Value {
    json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": endpoint } }] }] })
}

fn tls_socket(common: &Value, sni: &str) -> Value {
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": common,
            "sni": sni,
        },
    })
}

fn http_options(proxy: &Proxy<'_>) -> Value {
    let version = match proxy.http {
        HttpVersion::H1 => json!({ "http_protocol_options": {} }),
        // A WebSocket over HTTP/2 is an extended CONNECT (RFC 8441).
        HttpVersion::H2 => json!({ "http2_protocol_options": { "allow_connect": true } }),
    };
    let mut options = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": version,
    });
    if let Some(limit) = proxy.max_connection_duration {
        options["common_http_protocol_options"] = json!({ "max_connection_duration": seconds(limit) });
    }
    json!({ "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options })
}
