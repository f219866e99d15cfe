//! What proxies do, for reading: one block a cluster for a single proxy, one row a proxy for many, with the addresses
//! that they hold underneath.

use policies::ClusterType;
use policies::proxy::{AddressUse, InspectedCluster, Member, Written};

use super::table::columns;
use super::{markup, words};
use crate::console::{Text, Tone};
use crate::report::{FleetReport, ProxyReport};

/// Columns of the label at the left.
const LABEL: usize = 10;
/// Columns of a line.
const WIDTH: usize = 108;
const CLUSTERS: [&str; 6] = ["PROXY", "ENVOY", "HOST", "TYPE", "MEMBERS", "PINNED"];
const ADDRESSES: [&str; 4] = ["HOST", "ADDRESS", "PROXIES", "CONNECTIONS"];

pub(super) fn text(fleet: &FleetReport, mut text: Text) -> String {
    if fleet.proxies.len() > 1 {
        return table(fleet);
    }
    for proxy in &fleet.proxies {
        heading(proxy, &mut text);
        for (cluster, meanings) in proxy.inspection.clusters.iter().zip(&proxy.meanings) {
            block(cluster, meanings, &mut text);
        }
    }
    text.finish()
}

/// One row a proxy and name, then one a name and address.
pub(super) fn table(fleet: &FleetReport) -> String {
    format!("{}\n{}", columns(CLUSTERS, clusters(fleet)), columns(ADDRESSES, addresses(fleet)))
}

/// The same for an issue or a wiki.
pub(super) fn markdown(fleet: &FleetReport) -> String {
    let mut out = String::new();
    markup::table(CLUSTERS.map(str::to_lowercase), clusters(fleet), &mut out);
    out.push('\n');
    markup::table(ADDRESSES.map(str::to_lowercase), addresses(fleet), &mut out);
    out
}

fn clusters(fleet: &FleetReport) -> impl Iterator<Item = [String; 6]> {
    fleet.proxies.iter().flat_map(|proxy| {
        proxy.inspection.clusters.iter().map(move |cluster| {
            [
                proxy.proxy.clone(),
                proxy.inspection.envoy.to_string(),
                cluster.host.clone(),
                cluster.cluster_type.to_string(),
                members(&cluster.members),
                cluster.pinned.map_or_else(|| "unknown".to_owned(), |pinned| pinned.to_string()),
            ]
        })
    })
}

fn addresses(fleet: &FleetReport) -> impl Iterator<Item = [String; 4]> {
    let row = |each: &AddressUse| {
        [each.host.clone(), each.addr.to_string(), each.proxies.to_string(), each.active.to_string()]
    };
    fleet.addresses.iter().map(row)
}

fn heading(proxy: &ProxyReport, text: &mut Text) {
    let seen = &proxy.inspection;
    text.add(Tone::Strong, &proxy.proxy).plain(format!("  Envoy {}", seen.envoy));
    if let Some(istio) = &seen.istio {
        text.plain(format!("  Istio {istio}"));
    }
    if let Some(kind) = seen.node.split('~').next().filter(|kind| seen.node.len() > kind.len()) {
        text.plain(format!("  {kind}"));
    }
    if let Some(guard) = seen.guard {
        text.plain(format!("  enable_new_dns_implementation: {guard}"));
    }
    text.end();
}

fn block(cluster: &InspectedCluster, meanings: &[String], text: &mut Text) {
    text.end();
    let written = match cluster.written {
        Written::Enum => "by type",
        Written::DnsCluster => "by DnsCluster",
    };
    text.add(Tone::Strong, &cluster.host).plain("  ").add(Tone::Good, cluster.cluster_type);
    text.plain(format!(" ({written}), {}, {}", cluster.dns.family, cluster.name)).end();
    let mut line = |label: &str, words: String| {
        text.add(Tone::Dim, format!("{label:LABEL$}")).wrapped(words, LABEL, WIDTH);
    };
    line("members", each_member(cluster));
    if !cluster.counters.is_empty() {
        let counters: Vec<_> =
            cluster.counters.iter().map(|(name, value)| format!("{name} {value}")).collect();
        line("counters", counters.join(", "));
    }
    for (index, meaning) in meanings.iter().enumerate() {
        line(if index == 0 { "means" } else { "" }, meaning.clone());
    }
}

fn each_member(cluster: &InspectedCluster) -> String {
    if cluster.members.is_empty() {
        return "none".to_owned();
    }
    let one = |member: &Member| {
        let open = words::count(
            usize::try_from(member.active).unwrap_or(usize::MAX),
            "open connection",
            "open connections",
        );
        let ejected = if member.ejected { ", ejected" } else { "" };
        format!("{} ({open} of {}, {} failed{ejected})", member.addr, member.total, member.failed)
    };
    let listed: Vec<_> = cluster.members.iter().map(one).collect();
    let shown = if cluster.cluster_type == ClusterType::LogicalDns { " as Envoy shows it" } else { "" };
    format!("{}{shown}", listed.join("; "))
}

fn members(members: &[Member]) -> String {
    let one = |member: &Member| format!("{}{}", member.addr, if member.ejected { " (ejected)" } else { "" });
    if members.is_empty() { "none".to_owned() } else { members.iter().map(one).collect::<Vec<_>>().join(" ") }
}
