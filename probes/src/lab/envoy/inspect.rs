//! One proxy's truth: what its admin port says about the clusters of external names -> [`Inspection`]. Pure, but for
//! [`Admin::inspect`], which brings the texts when the port can be reached directly; in a cluster they come
//! through the API server. `proxy status` and the tests against istiod call it.

use std::collections::BTreeMap;

use serde_json::Value;

use policies::ClusterType;
use policies::platform::NEW_DNS_GUARD;
use policies::proxy::{DnsSettings, InspectedCluster, Inspection, Written};

use super::admin::{Admin, AdminError, wire};
use super::version;

/// What to ask, in this order; [`inspect`] takes the answers.
pub const PATHS: [&str; 6] = [
    "/server_info",
    "/runtime?format=json",
    "/config_dump?resource=dynamic_active_clusters",
    "/config_dump?resource=static_clusters",
    "/clusters?format=json",
    "/stats?format=json&filter=%5Ecluster%5C.outbound",
];

/// Counters and gauges that tell a DNS cluster's story.
const KEPT: [&str; 13] = [
    "membership_change",
    "membership_total",
    "membership_healthy",
    "update_attempt",
    "update_success",
    "update_failure",
    "update_empty",
    "upstream_cx_active",
    "upstream_cx_total",
    "upstream_cx_connect_fail",
    "outlier_detection.ejections_active",
    "outlier_detection.ejections_enforced_total",
    "outlier_detection.ejections_overflow",
];

impl Admin {
    /// What the proxy says about the clusters of external names, or of one of them.
    ///
    /// # Errors
    /// No answer, or one of another shape.
    pub async fn inspect(&self, host: Option<&str>) -> Result<Inspection, AdminError> {
        let mut answers: [String; PATHS.len()] = std::array::from_fn(|_| String::new());
        for (path, answer) in PATHS.iter().zip(&mut answers) {
            *answer = self.get(path).await?;
        }
        inspect(&answers, host)
    }
}

/// Reads the answers to [`PATHS`], in their order. `host` leaves out all other names.
///
/// # Errors
/// An answer in a shape that this version is not known to give.
pub fn inspect(answers: &[String; 6], host: Option<&str>) -> Result<Inspection, AdminError> {
    let [server, runtime, active, fixed, members, stats] = answers;
    let shape = |index: usize| {
        move |source| AdminError::Shape {
            path: PATHS[index].split('?').next().unwrap_or_default().to_owned(),
            source,
        }
    };
    let server: Value = serde_json::from_str(server).map_err(shape(0))?;
    let runtime: Value = serde_json::from_str(runtime).map_err(shape(1))?;
    let members: wire::Clusters = serde_json::from_str(members).map_err(shape(4))?;
    let stats: wire::Stats = serde_json::from_str(stats).map_err(shape(5))?;
    let counters = stats.values();
    let mut clusters = Vec::new();
    for (index, dump) in [(2, active), (3, fixed)] {
        let dump: Value = serde_json::from_str(dump).map_err(shape(index))?;
        for config in dump["configs"].as_array().into_iter().flatten() {
            let config = &config["cluster"];
            let Some(mut cluster) = described(config) else { continue };
            if host.is_none_or(|host| cluster.host == host) {
                // Istio's name for the counters ends in a delimiter.
                let counted_as = config["alt_stat_name"].as_str().unwrap_or(&cluster.name).to_owned();
                observe(&mut cluster, &counted_as, &members, &counters);
                clusters.push(cluster);
            }
        }
    }
    clusters.sort_by(|one, two| one.name.cmp(&two.name));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let node = &server["node"];
    let build = text(&server["version"]);
    let envoy = version::of_build(&build).ok_or(AdminError::Version { build })?;
    Ok(Inspection {
        envoy,
        node: text(&node["id"]),
        istio: node["metadata"]["ISTIO_VERSION"].as_str().map(ToOwned::to_owned),
        guard: runtime["entries"][NEW_DNS_GUARD]["final_value"].as_str().and_then(|value| value.parse().ok()),
        clusters,
    })
}

/// A cluster of the dump, if it asks DNS for an external name.
fn described(cluster: &Value) -> Option<InspectedCluster> {
    let name = cluster["name"].as_str()?;
    let host = name.rsplit('|').next().filter(|_| name.starts_with("outbound|"))?;
    let extension = &cluster["cluster_type"]["typed_config"];
    let is_extension = extension["@type"]
        .as_str()
        .is_some_and(|url| url.ends_with("envoy.extensions.clusters.dns.v3.DnsCluster"));
    let (written, fields) =
        if is_extension { (Written::DnsCluster, extension) } else { (Written::Enum, cluster) };
    let logical = extension["all_addresses_in_single_endpoint"].as_bool().unwrap_or_default();
    let cluster_type = match cluster["type"].as_str() {
        Some("STRICT_DNS") => ClusterType::StrictDns,
        Some("LOGICAL_DNS") => ClusterType::LogicalDns,
        _ if is_extension && logical => ClusterType::LogicalDns,
        _ if is_extension => ClusterType::StrictDns,
        _ => return None,
    };
    let options = cluster["typed_extension_protocol_options"].as_object();
    let lifetime = options
        .into_iter()
        .flat_map(|options| options.values())
        .find_map(|options| seconds(&options["common_http_protocol_options"]["max_connection_duration"]));
    Some(InspectedCluster {
        name: name.to_owned(),
        host: host.to_owned(),
        cluster_type,
        written,
        dns: DnsSettings {
            respect_ttl: fields["respect_dns_ttl"].as_bool().unwrap_or_default(),
            refresh_s: seconds(&fields["dns_refresh_rate"]),
            jitter_s: seconds(&fields["dns_jitter"]),
            family: fields["dns_lookup_family"].as_str().unwrap_or("AUTO").to_owned(),
        },
        connect_timeout_s: seconds(&cluster["connect_timeout"]).unwrap_or(5.0),
        outlier: cluster.get("outlier_detection").cloned(),
        max_connection_duration_s: lifetime,
        members: Vec::new(),
        counters: BTreeMap::new(),
        pinned: None,
    })
}

/// Protobuf's JSON of a duration: `0.100s`.
fn seconds(value: &Value) -> Option<f64> {
    value.as_str()?.strip_suffix('s')?.parse().ok()
}

/// Adds what the cluster's members and counters are now.
fn observe(
    cluster: &mut InspectedCluster,
    counted_as: &str,
    members: &wire::Clusters,
    counters: &BTreeMap<String, u64>,
) {
    let found = members.cluster_statuses.iter().find(|status| status.name == cluster.name);
    let hosts = found.into_iter().flat_map(|status| &status.host_statuses);
    cluster.members = hosts.filter_map(wire::Host::member).collect();
    // The name holds what a regular expression would take for its own: matched here, not by the filter.
    let prefix = format!("cluster.{counted_as}.");
    let own = counters.iter().filter_map(|(name, value)| {
        let rest = name.strip_prefix(&prefix)?;
        KEPT.contains(&rest).then(|| (rest.to_owned(), *value))
    });
    cluster.counters = own.collect();
    let listed: u64 = cluster.members.iter().map(|member| member.active).sum();
    cluster.pinned = cluster.counters.get("upstream_cx_active").map(|gauge| gauge.saturating_sub(listed));
}
