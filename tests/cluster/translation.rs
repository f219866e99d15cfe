//! What istiod makes of each resolution and of each recommendation: the tool's own manifests are applied, a plain Envoy
//! asks istiod for its clusters as a sidecar and as a router, and its admin port must show what the tool says it will.

use anyhow::{Context, ensure};
use labdns::{LabDns, Options, Scenario};
use policies::manifest::{DestinationRule, OutlierDetection, Resource, parse};
use policies::{ClusterType, ProxyKind, Resolution};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Test;
use crate::control_plane::ControlPlane;
use crate::manifests::{generate, windows};
use crate::proxies::{Kind, Member, resolver};

pub(crate) const TESTS: &[Test] = &[
    ("every resolution becomes the cluster type that the tool names, on a sidecar", resolutions_on_a_sidecar),
    ("every resolution becomes the cluster type that the tool names, on a router", resolutions_on_a_router),
    ("what is recommended for TLS reaches the proxy", recommended_for_tls),
    ("what is recommended for HTTP reaches the proxy", recommended_for_http),
];

fn resolutions_on_a_sidecar(plane: &ControlPlane) -> anyhow::Result<()> {
    resolutions(plane, Kind::Sidecar, ProxyKind::Sidecar)
}

fn resolutions_on_a_router(plane: &ControlPlane) -> anyhow::Result<()> {
    resolutions(plane, Kind::Router, ProxyKind::Gateway)
}

fn resolutions(plane: &ControlPlane, kind: Kind, proxy: ProxyKind) -> anyhow::Result<()> {
    let namespace = format!("resolutions-{kind:?}").to_lowercase();
    let runtime = Runtime::new()?;
    let dns = empty_dns(&runtime)?;
    let host = |resolution: Resolution| {
        let name = resolution.as_str().to_lowercase().replace('_', "-");
        if resolution == Resolution::DynamicDns {
            "*.wild.example".to_owned()
        } else {
            format!("{name}.example")
        }
    };
    let entry = |resolution: Resolution| {
        let endpoints =
            if resolution == Resolution::Static { "  endpoints: [{address: 192.0.2.1}]\n" } else { "" };
        format!(
            "---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {}, namespace: {namespace}}}
spec:
  hosts: ['{}']
  location: MESH_EXTERNAL
  resolution: {resolution}
  exportTo: [.]
  ports: [{{number: 80, name: http, protocol: HTTP}}]
{endpoints}",
            resolution.as_str().to_lowercase().replace('_', "-"),
            host(resolution)
        )
    };
    let entries: String = Resolution::ALL.into_iter().map(entry).collect();
    plane.objects.apply(&(resolver(&namespace, dns.authority_addr()) + &entries))?;
    let member = Member::start(plane, kind, "api-0", &namespace)?;
    member.clusters(2)?;
    let dump = member.get("/config_dump?resource=dynamic_active_clusters")?;
    let clusters = dump["configs"].as_array().context("no dump")?;
    for resolution in Resolution::ALL {
        let name = format!("outbound|80||{}", host(resolution));
        let cluster =
            clusters.iter().map(|config| &config["cluster"]).find(|cluster| cluster["name"] == *name);
        let cluster = cluster.with_context(|| format!("{name} is not among what istiod sent"))?;
        let known = resolution.cluster_type(proxy);
        ensure!(sent(cluster) == known, "{resolution} on {proxy:?}: known {known:?}, sent {cluster:#}");
    }
    Ok(())
}

/// The type of a cluster, whichever way it is written.
fn sent(cluster: &Value) -> Option<ClusterType> {
    Some(match cluster["type"].as_str() {
        Some("STRICT_DNS") => ClusterType::StrictDns,
        Some("LOGICAL_DNS") => ClusterType::LogicalDns,
        Some("ORIGINAL_DST") => ClusterType::OriginalDst,
        Some("EDS") => ClusterType::Eds,
        _ if cluster["cluster_type"]["name"] == "envoy.clusters.dynamic_forward_proxy" => {
            ClusterType::DynamicForwardProxy
        }
        _ => return None,
    })
}

fn recommended_for_tls(plane: &ControlPlane) -> anyhow::Result<()> {
    let (member, rules) = recommended(plane, "tls")?;
    // A passed-through connection's limits are the listener's.
    let listeners = member.get("/config_dump?resource=dynamic_listeners")?;
    for rule in &rules {
        let wanted = &rule.spec.traffic_policy.connection_pool.tcp;
        let cluster = format!("outbound|443||{}", rule.spec.host);
        let proxies = tcp_proxies(&listeners, &cluster);
        ensure!(!proxies.is_empty(), "no listener leads to {cluster}");
        for proxy in proxies {
            let seen = seconds(&proxy["max_downstream_connection_duration"]);
            let known = wanted.max_connection_duration.as_deref().and_then(length);
            ensure!(seen == known, "{cluster}: lifetime {known:?}, sent {proxy:#}");
        }
    }
    Ok(())
}

fn recommended_for_http(plane: &ControlPlane) -> anyhow::Result<()> {
    recommended(plane, "http").map(|_| ())
}

/// Applies what `generate` writes for the saved windows, and holds what istiod sends against what the report says.
fn recommended(plane: &ControlPlane, protocol: &str) -> anyhow::Result<(Member, Vec<DestinationRule>)> {
    let namespace = format!("recommended-{protocol}");
    let runtime = Runtime::new()?;
    let dns = empty_dns(&runtime)?;
    plane.objects.apply(&resolver(&namespace, dns.authority_addr()))?;
    let wishes = ["--protocol", protocol, "--failover-target", "2m", "--longest-stream", "1m"];
    let manifest = ["--namespace", &namespace, "--export-to", "."];
    let yaml = generate(&[&wishes[..], &manifest[..]].concat())?;
    let applied = plane
        .egress_audit()
        .args(["generate", "--from"])
        .arg(windows())
        .args(wishes)
        .args(manifest)
        .arg("--apply")
        .output()?;
    ensure!(!applied.stdout.is_empty(), "{}", String::from_utf8_lossy(&applied.stderr));
    let (mut entries, mut rules) = (Vec::new(), Vec::new());
    for resource in parse(&yaml)? {
        match resource {
            Resource::ServiceEntry(entry) => entries.push(entry),
            Resource::DestinationRule(rule) => rules.push(rule),
            other => anyhow::bail!("not asked for: {other:?}"),
        }
    }
    ensure!(entries.len() > 2 && !rules.is_empty(), "{yaml}");
    ensure!(rules.iter().any(|rule| rule.spec.traffic_policy.outlier_detection.is_some()), "{yaml}");

    let member = Member::start(plane, Kind::Sidecar, "api-0", &namespace)?;
    let clusters = member.clusters(entries.len())?;
    for entry in &entries {
        let host = &entry.spec.hosts[0];
        let cluster =
            clusters.iter().find(|cluster| cluster["host"] == **host).with_context(|| host.clone())?;
        let known = serde_json::to_value(entry.spec.resolution.cluster_type(ProxyKind::Sidecar))?;
        ensure!(cluster["type"] == known, "{cluster:#}");
        // What istiod adds by itself, and how it writes the type.
        let dns = json!({ "respect_ttl": true, "refresh_s": 60.0, "jitter_s": 0.1, "family": "V4_ONLY" });
        ensure!(cluster["dns"] == dns, "{cluster:#}");
        ensure!(cluster["written"] == "enum", "{cluster:#}");
        let rule = rules.iter().find(|rule| rule.spec.host == *host);
        let policy = rule.map(|rule| &rule.spec.traffic_policy);
        // Istio's own connect timeout is 10 s.
        let timeout =
            policy.and_then(|policy| length(&policy.connection_pool.tcp.connect_timeout)).unwrap_or(10.0);
        ensure!(cluster["connect_timeout_s"] == timeout, "{timeout}: {cluster:#}");
        match policy.and_then(|policy| policy.outlier_detection.as_ref()) {
            Some(wanted) => outlier(wanted, &cluster["outlier"]).with_context(|| format!("{cluster:#}"))?,
            None => ensure!(cluster.get("outlier").is_none(), "{cluster:#}"),
        }
        if protocol == "http" {
            let lifetime =
                policy.and_then(|policy| policy.connection_pool.tcp.max_connection_duration.as_deref());
            ensure!(
                cluster["max_connection_duration_s"].as_f64() == lifetime.and_then(length),
                "{cluster:#}"
            );
        }
    }
    no_pin(&member)?;
    Ok((member, rules))
}

/// A DestinationRule's block against Envoy's.
fn outlier(wanted: &OutlierDetection, sent: &Value) -> anyhow::Result<()> {
    let number = |field: &str| sent[field].as_u64();
    ensure!(
        sent["split_external_local_origin_errors"].as_bool()
            == Some(wanted.split_external_local_origin_errors)
    );
    ensure!(
        number("consecutive_local_origin_failure") == Some(wanted.consecutive_local_origin_failures.into())
    );
    ensure!(number("max_ejection_percent") == Some(wanted.max_ejection_percent.into()));
    ensure!(seconds(&sent["interval"]) == length(&wanted.interval));
    ensure!(seconds(&sent["base_ejection_time"]) == length(&wanted.base_ejection_time));
    if let Some(count) = wanted.consecutive_gateway_errors {
        ensure!(number("consecutive_gateway_failure") == Some(count.into()));
    }
    match wanted.consecutive_5xx_errors {
        Some(0) => ensure!(number("enforcing_consecutive_5xx") == Some(0)),
        Some(count) => ensure!(number("consecutive_5xx") == Some(count.into())),
        None => {}
    }
    Ok(())
}

/// The runtime guard over the merged DNS implementation is Envoy's own default: nothing that istiod sends sets it.
fn no_pin(member: &Member) -> anyhow::Result<()> {
    let report = member.status(&[])?;
    let inspection = &report["fleet"]["proxies"][0]["inspection"];
    ensure!(inspection.get("guard").is_none(), "{inspection:#}");
    Ok(())
}

/// Every `tcp_proxy` that leads to a cluster.
fn tcp_proxies<'a>(config: &'a Value, cluster: &str) -> Vec<&'a Value> {
    let nested =
        |values: Vec<&'a Value>| values.into_iter().flat_map(|value| tcp_proxies(value, cluster)).collect();
    match config {
        Value::Object(fields) => {
            let is_proxy =
                fields.get("@type").and_then(Value::as_str).is_some_and(|url| url.ends_with(".TcpProxy"));
            if is_proxy && fields.get("cluster").is_some_and(|name| name == cluster) {
                return vec![config];
            }
            nested(fields.values().collect())
        }
        Value::Array(items) => nested(items.iter().collect()),
        _ => Vec::new(),
    }
}

/// A DNS server that refuses every name, so that no question leaves the machine.
fn empty_dns(runtime: &Runtime) -> anyhow::Result<LabDns> {
    let zone = "zone: nowhere.example\nnames:\n  nowhere.example: {a: {pool: [192.0.2.1]}}\n";
    Ok(runtime.block_on(LabDns::start(&Scenario::from_yaml(zone)?, &Options::default()))?)
}

/// Protobuf's JSON, seconds.
fn seconds(value: &Value) -> Option<f64> {
    value.as_str()?.strip_suffix('s')?.parse().ok()
}

/// A duration of a manifest, seconds.
fn length(text: &str) -> Option<f64> {
    let length: jiff::SignedDuration = text.parse().ok()?;
    Some(length.as_secs_f64())
}
