//! What a proxy's numbers mean: a cluster as it was inspected comes in, sentences go out, the most urgent first.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{AddressUse, InspectedCluster, Inspection};
use crate::ejection::{DEFAULT_MAX_EJECTION_PERCENT, first_ejection_percent};
use crate::platform::NEW_DNS_GUARD;
use crate::{Behaviour, ClusterType, Platform};

/// What to know about one cluster of a proxy, the most urgent first.
#[must_use]
pub fn meanings(cluster: &InspectedCluster, proxy: &Inspection) -> Vec<String> {
    let platform = Platform {
        envoy_version: Some(proxy.envoy),
        guards: proxy.guard.map(|guard| (NEW_DNS_GUARD.to_owned(), guard)).into_iter().collect(),
        ..Platform::default()
    };
    [
        members(cluster),
        pinned(cluster, &platform),
        ejections(cluster),
        lookups(cluster),
        Some(changes(cluster, &platform)),
        Some(refresh(cluster)),
        unread(cluster),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Each address with the proxies that have it as a member.
#[must_use]
pub fn addresses<'a>(proxies: impl IntoIterator<Item = &'a Inspection>) -> Vec<AddressUse> {
    let mut uses: BTreeMap<(String, IpAddr), AddressUse> = BTreeMap::new();
    for proxy in proxies {
        for cluster in &proxy.clusters {
            for member in &cluster.members {
                let entry = uses.entry((cluster.host.clone(), member.addr)).or_insert_with(|| AddressUse {
                    host: cluster.host.clone(),
                    addr: member.addr,
                    proxies: 0,
                    active: 0,
                });
                entry.proxies += 1;
                entry.active += member.active;
            }
        }
    }
    uses.into_values().collect()
}

fn count(cluster: &InspectedCluster, name: &str) -> Option<u64> {
    cluster.counters.get(name).copied()
}

fn members(cluster: &InspectedCluster) -> Option<String> {
    if !cluster.members.is_empty() {
        return None;
    }
    Some(match (count(cluster, "update_success"), count(cluster, "update_failure")) {
        (Some(0), Some(failed)) if failed > 0 => {
            "no member: the resolver has not answered yet, so requests get 503 UH".to_owned()
        }
        (Some(good), _) if good > 0 => {
            "no member: the last answer held no address (NXDOMAIN or NODATA count as \
                                        success), so requests get 503 UH"
                .to_owned()
        }
        _ => "no member: the name has no address, or the resolver does not answer; requests get 503 UH"
            .to_owned(),
    })
}

fn pinned(cluster: &InspectedCluster, platform: &Platform) -> Option<String> {
    let logical_before =
        cluster.cluster_type == ClusterType::LogicalDns && !platform.behaves(Behaviour::LogicalFlipDrains);
    if logical_before && cluster.members.iter().any(|member| member.active > 0) {
        return Some(
            "this Envoy shows every socket of a LOGICAL_DNS cluster under the newest address: some of them may go \
             to an older one, until either side closes or maxConnectionDuration ends them"
                .to_owned(),
        );
    }
    let pinned = cluster.pinned.filter(|pinned| *pinned > 0)?;
    let sockets = if pinned == 1 { "1 socket goes".to_owned() } else { format!("{pinned} sockets go") };
    Some(format!(
        "{sockets} to an address that is no member any more: a request, stream or passed-through session in flight \
         at the change; either side's close or maxConnectionDuration ends it"
    ))
}

fn ejections(cluster: &InspectedCluster) -> Option<String> {
    let (all, ejected) =
        (cluster.members.len(), cluster.members.iter().filter(|member| member.ejected).count());
    if ejected > 0 && ejected == all {
        return Some(format!("all {all} members are ejected: requests get 503 UH unless panic mode is on"));
    }
    if ejected > 0 {
        return Some(format!("{ejected} of {all} members are ejected"));
    }
    let outlier = cluster.outlier.as_ref()?;
    let percent = outlier["max_ejection_percent"].as_u64().unwrap_or(DEFAULT_MAX_EJECTION_PERCENT);
    let needed = first_ejection_percent(all)?;
    (percent < needed && cluster.cluster_type == ClusterType::StrictDns).then(|| {
        format!(
            "outlier detection can eject none of {all} members: maxEjectionPercent is {percent} and the first \
             ejection needs {needed}"
        )
    })
}

fn lookups(cluster: &InspectedCluster) -> Option<String> {
    let (failed, asked) = (count(cluster, "update_failure")?, count(cluster, "update_attempt")?);
    (failed > 0 && !cluster.members.is_empty())
        .then(|| format!("{failed} of {asked} look-ups failed; the members of the last good answer stayed"))
}

fn changes(cluster: &InspectedCluster, platform: &Platform) -> String {
    match cluster.cluster_type {
        ClusterType::LogicalDns if platform.behaves(Behaviour::LogicalFlipDrains) => {
            "a changed answer, a changed order included, replaces the one member and closes its idle connections"
        }
        ClusterType::LogicalDns => {
            "a changed answer serves new connections only; those that are open stay where they are"
        }
        _ => "an address that leaves the answer is removed and its idle connections are closed",
    }
    .to_owned()
}

fn refresh(cluster: &InspectedCluster) -> String {
    let dns = &cluster.dns;
    let rate = dns.refresh_s.unwrap_or(5.0);
    let jitter =
        dns.jitter_s.filter(|jitter| *jitter > 0.0).map(|jitter| format!(" plus up to {jitter} s of jitter"));
    let jitter = jitter.unwrap_or_default();
    if dns.respect_ttl {
        format!(
            "asks again after the answer's TTL{jitter}, after {rate} s where a look-up failed or the TTL is 0"
        )
    } else {
        format!("asks again every {rate} s{jitter}, whatever the TTL")
    }
}

fn unread(cluster: &InspectedCluster) -> Option<String> {
    cluster.counters.is_empty().then(|| {
        "the proxy keeps no counters of this cluster, so refreshes and pinned sockets are unknown: let Istio keep them \
         with the pod annotation proxy.istio.io/config and `proxyStatsMatcher: {inclusionPrefixes: \
         [cluster.outbound]}`"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{DnsSettings, Member, Written};
    use super::*;

    fn proxy(envoy: &str) -> Inspection {
        Inspection {
            envoy: envoy.parse().unwrap(),
            node: "sidecar~10.0.0.7~api-0.shop~shop.svc.cluster.local".to_owned(),
            istio: None,
            guard: None,
            clusters: Vec::new(),
        }
    }

    fn cluster(cluster_type: ClusterType, active: &[u64]) -> InspectedCluster {
        let member = |(last, active): (u8, &u64)| Member {
            addr: IpAddr::from([10, 0, 0, last]),
            active: *active,
            total: *active,
            failed: 0,
            picked: 0,
            ejected: false,
        };
        InspectedCluster {
            name: "outbound|443||api.partner.example".to_owned(),
            host: "api.partner.example".to_owned(),
            cluster_type,
            written: Written::Enum,
            dns: DnsSettings {
                respect_ttl: true,
                refresh_s: Some(60.0),
                jitter_s: Some(0.1),
                family: "V4_ONLY".into(),
            },
            connect_timeout_s: 10.0,
            outlier: None,
            max_connection_duration_s: None,
            members: (1..).zip(active).map(member).collect(),
            counters: BTreeMap::new(),
            pinned: None,
        }
    }

    fn says(cluster: &InspectedCluster, proxy: &Inspection, words: &str) -> bool {
        meanings(cluster, proxy).iter().any(|sentence| sentence.contains(words))
    }

    #[test]
    fn a_proxy_without_counters_is_told_how_to_keep_them() {
        let (mut cluster, proxy) = (cluster(ClusterType::StrictDns, &[1]), proxy("1.39.3"));
        assert!(says(&cluster, &proxy, "proxyStatsMatcher"));
        cluster.counters.insert("upstream_cx_active".to_owned(), 1);
        assert!(!says(&cluster, &proxy, "proxyStatsMatcher"));
    }

    #[test]
    fn no_member_says_whose_fault_it_is() {
        let mut cluster = cluster(ClusterType::StrictDns, &[]);
        assert!(says(&cluster, &proxy("1.39.3"), "or the resolver does not answer"));
        cluster.counters =
            BTreeMap::from([("update_success".to_owned(), 4), ("update_failure".to_owned(), 0)]);
        assert!(says(&cluster, &proxy("1.39.3"), "NXDOMAIN or NODATA"));
        cluster.counters =
            BTreeMap::from([("update_success".to_owned(), 0), ("update_failure".to_owned(), 4)]);
        assert!(says(&cluster, &proxy("1.39.3"), "has not answered"));
    }

    #[test]
    fn pinned_sockets_are_counted_where_envoy_tells_them_apart() {
        let mut strict = cluster(ClusterType::StrictDns, &[0]);
        strict.pinned = Some(1);
        assert!(says(&strict, &proxy("1.36.4"), "1 socket goes to an address that is no member"));
        let logical = cluster(ClusterType::LogicalDns, &[1]);
        assert!(says(&logical, &proxy("1.38.3"), "under the newest address"));
        assert!(!says(&logical, &proxy("1.39.3"), "under the newest address"));
        let reverted = Inspection { guard: Some(false), ..proxy("1.39.3") };
        assert!(says(&logical, &reverted, "under the newest address"));
    }

    #[test]
    fn an_ejection_that_cannot_happen_is_told() {
        let mut two = cluster(ClusterType::StrictDns, &[0, 0]);
        two.outlier = Some(json!({ "consecutive_5xx": 3 }));
        assert!(says(&two, &proxy("1.39.3"), "maxEjectionPercent is 10 and the first ejection needs 50"));
        two.outlier = Some(json!({ "max_ejection_percent": 50 }));
        assert!(!says(&two, &proxy("1.39.3"), "can eject none"));
        two.members[0].ejected = true;
        assert!(says(&two, &proxy("1.39.3"), "1 of 2 members are ejected"));
    }

    #[test]
    fn the_fleet_is_counted_by_address() {
        let of = |active: &[u64]| Inspection {
            clusters: vec![cluster(ClusterType::StrictDns, active)],
            ..proxy("1.39.3")
        };
        let uses = addresses(&[of(&[2, 1]), of(&[3])]);
        let counted: Vec<_> =
            uses.iter().map(|each| (each.addr.to_string(), each.proxies, each.active)).collect();
        assert_eq!(counted, [("10.0.0.1".to_owned(), 2, 5), ("10.0.0.2".to_owned(), 1, 1)]);
    }
}
