//! What istiod refuses of `loadBalancer`: consistent hashes, localities, warm-up.

use std::collections::HashSet;

use super::Refusals;
use super::parts::{BALANCER, LOCALITY, ZONE, duration, place, text};
use crate::manifest::node::Node;

pub(super) fn check(balancer: &Node, refusals: &mut Refusals<'_>) {
    if let Some(hash) = balancer.get("consistentHash") {
        consistent_hash(hash, refusals);
    }
    let (locality, zone) = (balancer.get("localityLbSetting"), balancer.get("zoneAwareLbSetting"));
    if locality.is_some() && zone.is_some() {
        let text = "`localityLbSetting` and `zoneAwareLbSetting` do not go together";
        refusals.add(place(balancer, "zoneAwareLbSetting"), &BALANCER, text);
    }
    if let Some(locality) = locality {
        localities(locality, refusals);
    }
    if let Some(zone) = zone {
        for label in zone.list("failoverPriority").iter().filter(|label| is_topology(label)) {
            refusals.add(label.at, &ZONE, "`failoverPriority` names a topology label");
        }
        failover(zone, &ZONE, refusals);
    }
    if let Some(warm) = balancer.get("warmup") {
        refusals.unless(warm.get("duration").is_some(), warm.at, &BALANCER, || {
            "`warmup` lacks `duration`".to_owned()
        });
        duration(warm, "duration", refusals);
    }
}

fn consistent_hash(hash: &Node, refusals: &mut Refusals<'_>) {
    if let Some(cookie) = hash.get("httpCookie") {
        refusals.unless(!text(cookie, "name").is_empty(), cookie.at, &BALANCER, || {
            "the cookie lacks a name".to_owned()
        });
        let mut names = HashSet::new();
        for attribute in cookie.list("attributes") {
            let name = text(attribute, "name");
            if name.is_empty() || !names.insert(name) {
                refusals.add(
                    attribute.at,
                    &BALANCER,
                    "an attribute of the cookie lacks a name, or has another's",
                );
            }
        }
    }
    let ring = hash.get("minimumRingSize").and_then(Node::integer).unwrap_or(0);
    if ring != 0 && (hash.get("maglev").is_some() || hash.get("ringHash").is_some()) {
        let text = "`minimumRingSize` beside `maglev` or `ringHash`";
        refusals.add(place(hash, "minimumRingSize"), &BALANCER, text);
    }
    if let Some(maglev) = hash.get("maglev") {
        let size = maglev.get("tableSize").and_then(Node::integer).unwrap_or(0);
        let good = u64::try_from(size).is_ok_and(|size| size < 5_000_011 && is_prime(size));
        refusals.unless(good, place(maglev, "tableSize"), &BALANCER, || {
            format!("`tableSize` is {size}, and has to be a prime number below 5000011")
        });
    }
}

/// Envoy's own way, which takes 1 for one.
fn is_prime(number: u64) -> bool {
    if number != 0 && number < 4 {
        return true;
    }
    number % 2 == 1
        && (3..)
            .step_by(2)
            .take_while(|factor| factor * factor <= number)
            .all(|factor| !number.is_multiple_of(factor))
}

fn is_topology(label: &Node) -> bool {
    let labels =
        ["topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.istio.io/subzone"];
    label.text().is_some_and(|label| labels.contains(&label))
}

fn localities(setting: &Node, refusals: &mut Refusals<'_>) {
    let (distribute, failovers) = (setting.list("distribute"), setting.list("failover"));
    if !distribute.is_empty() && !failovers.is_empty() {
        refusals.add(place(setting, "failover"), &LOCALITY, "`distribute` and `failover` do not go together");
        return;
    }
    let topology = setting.list("failoverPriority").iter().find(|label| is_topology(label));
    if let Some(label) = topology.filter(|_| !failovers.is_empty()) {
        refusals.add(label.at, &LOCALITY, "`failover` beside a topology label in `failoverPriority`");
        return;
    }
    for from in distribute {
        let to = from.get("to").map_or(&[][..], Node::entries);
        let weights: Vec<i64> = to.iter().map(|(_, weight)| weight.integer().unwrap_or(0)).collect();
        if weights.iter().any(|weight| !(1..=100).contains(weight)) || weights.iter().sum::<i64>() != 100 {
            refusals.add(place(from, "to"), &LOCALITY, "the weights are not 1 to 100 and 100 in sum");
            return;
        }
        disjoint(&to.iter().map(|(key, _)| (&*key.text, key.at)).collect::<Vec<_>>(), refusals);
    }
    let sources: Vec<_> = distribute.iter().map(|from| (text(from, "from"), from.at)).collect();
    disjoint(&sources, refusals);
    failover(setting, &LOCALITY, refusals);
}

/// Localities `region/zone/subzone`, `*` at the end only; none may cover another.
fn disjoint(localities: &[(&str, crate::manifest::node::Place)], refusals: &mut Refusals<'_>) {
    let mut seen: Vec<Vec<&str>> = Vec::new();
    for (locality, at) in localities {
        let stars = locality.matches('*').count();
        let parts: Vec<&str> = locality.split('/').collect();
        let covers = |one: &[&str], other: &[&str]| {
            one.iter().zip(other).all(|(a, b)| a == b || *a == "*" || *b == "*")
        };
        let cut = |parts: &[&'_ str]| parts.iter().take_while(|part| **part != "*").count();
        let good = (stars == 0 || (stars == 1 && locality.ends_with('*')))
            && (*locality == "*" || parts.iter().take(3).all(|part| !part.is_empty()));
        let known = seen.iter().any(|other| {
            let shared = cut(other).min(cut(&parts));
            covers(&other[..shared], &parts[..shared])
        });
        if !good || known {
            refusals.add(
                *at,
                &LOCALITY,
                format!("the locality {locality:?} overlaps another, or has an empty part"),
            );
        }
        seen.push(parts);
    }
}

fn failover(setting: &Node, from: &'static super::GoCheck, refusals: &mut Refusals<'_>) {
    for region in setting.list("failover") {
        let (one, other) = (text(region, "from"), text(region, "to"));
        let both = [one, other];
        if one == other || both.iter().any(|text| text.contains(['/', '*'])) {
            refusals.add(
                region.at,
                from,
                "a failover leads from one region to another, without zones and wildcards",
            );
        }
    }
}
