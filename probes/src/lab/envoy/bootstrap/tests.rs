//! Each bootstrap is checked as JSON, without a proxy.

use super::*;
use policies::Resolution;

fn trust() -> Trust {
    Trust { ca_pem: "CA".into(), mesh_cert_pem: "CERT".into(), mesh_key_pem: "KEY".into() }
}

fn dns(resolution: Resolution) -> DnsCluster {
    DnsCluster {
        resolution,
        resolver: "127.0.0.1:5300".parse().unwrap(),
        backend_port: 8443,
        refresh: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(10),
        outlier: None,
        close_on_host_set_change: false,
    }
}

fn proxy(version: Version, upstream: Upstream, trust: &Trust) -> Proxy<'_> {
    Proxy {
        version,
        old_dns: false,
        host: "api.partner.example",
        layer: Layer::Passthrough,
        http: HttpVersion::H1,
        behind_mtls: false,
        upstream,
        trust,
        max_connection_duration: None,
    }
}

const V138: Version = Version::release(1, 38, 3);
const V140: Version = Version::release(1, 40, 0);

#[test]
fn the_dns_cluster_is_written_as_the_version_wants_it() {
    let trust = trust();
    let of = |version, resolution| {
        let config = bootstrap(&proxy(version, Upstream::Dns(dns(resolution)), &trust));
        config["static_resources"]["clusters"][0].clone()
    };
    let (old, new) = (of(V138, Resolution::DnsRoundRobin), of(V140, Resolution::DnsRoundRobin));
    assert_eq!(old["type"], "LOGICAL_DNS");
    assert_eq!(old["dns_refresh_rate"], "60s");
    assert!(new.get("type").is_none() && new.get("dns_refresh_rate").is_none());
    let typed = &new["cluster_type"]["typed_config"];
    assert_eq!(typed["all_addresses_in_single_endpoint"], true);
    assert_eq!((&typed["respect_dns_ttl"], &typed["dns_jitter"]), (&json!(true), &json!("0.1s")));
    assert_eq!(of(V138, Resolution::Dns)["type"], "STRICT_DNS");
    assert_eq!(
        of(V140, Resolution::Dns)["cluster_type"]["typed_config"]["all_addresses_in_single_endpoint"],
        false
    );
}

#[test]
fn the_runtime_guard_is_set_only_where_it_exists() {
    let trust = trust();
    let of = |version| {
        bootstrap(&Proxy { old_dns: true, ..proxy(version, Upstream::Dns(dns(Resolution::Dns)), &trust) })
    };
    assert!(of(V138).get("layered_runtime").is_none());
    assert!(of(V140).get("layered_runtime").is_some());
}

#[test]
fn a_lifetime_belongs_to_the_listener_on_passthrough_and_to_the_pool_with_http() {
    let trust = trust();
    let limit = Some(Duration::from_millis(1500));
    let base = proxy(V140, Upstream::Dns(dns(Resolution::Dns)), &trust);
    let l4 = bootstrap(&Proxy { max_connection_duration: limit, ..base.clone() }).to_string();
    assert!(
        l4.contains(r#""max_downstream_connection_duration":"1.5s""#)
            && !l4.contains(r#""max_connection_duration""#)
    );
    let l7 = bootstrap(&Proxy { max_connection_duration: limit, layer: Layer::Http, ..base }).to_string();
    assert!(l7.contains(r#""max_connection_duration":"1.5s""#) && !l7.contains("max_downstream"));
}

#[test]
fn an_outlier_block_turns_panic_off_as_in_istio() {
    let trust = trust();
    let outlier = Outlier {
        failures: 3,
        interval: Duration::from_secs(5),
        base_ejection: Duration::from_secs(30),
        max_percent: 50,
    };
    let with = DnsCluster { outlier: Some(outlier), ..dns(Resolution::Dns) };
    let config = bootstrap(&proxy(V140, Upstream::Dns(with), &trust));
    let cluster = &config["static_resources"]["clusters"][0];
    assert_eq!(cluster["common_lb_config"]["healthy_panic_threshold"]["value"], 0.0);
    assert_eq!(cluster["outlier_detection"]["consecutive_local_origin_failure"], 3);
}

#[test]
fn the_gateway_asks_for_a_certificate_and_the_sidecar_shows_one() {
    let trust = trust();
    let gateway = Proxy { behind_mtls: true, ..proxy(V140, Upstream::Dns(dns(Resolution::Dns)), &trust) };
    let text = bootstrap(&gateway).to_string();
    assert!(
        text.contains(r#""require_client_certificate":true"#)
            && text.contains("outbound_.443_._.api.partner.example")
    );
    let sidecar =
        bootstrap(&proxy(V140, Upstream::Gateway("127.0.0.1:9000".parse().unwrap()), &trust)).to_string();
    assert!(sidecar.contains(r#""sni":"outbound_.443_._.api.partner.example""#) && sidecar.contains("CERT"));
}
