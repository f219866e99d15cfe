//! The caching resolvers, on a zone whose draws differ from query to query.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::*;
use crate::{Command, Query, Rcode, RecordType, Reply, Scenario, Zone};

const NAMES: &str = r"
names:
  pool.example: {a: {pool: {from: 10.0.0.1, count: 250}, answer: {random: {}}, ttl: 10}}
  zero.example: {a: {pool: {from: 10.0.0.1, count: 250}, answer: {random: {}}, ttl: 0}}
  www.example: {cname: {to: [a.cdn.example, b.cdn.example], pick: cyclic, ttl: 100}}
  a.cdn.example: {a: {pool: {from: 10.1.0.1, count: 250}, answer: {cyclic: {}}, ttl: 10}}
  b.cdn.example: {a: {pool: {from: 10.2.0.1, count: 250}, answer: {cyclic: {}}, ttl: 10}}
  sticky.example: {a: {pool: {from: 10.0.0.1, count: 250}, answer: {sticky: {}}, ttl: 10}}
  mixed.example: {a: {pool: [10.0.0.1, 10.0.0.2], ttl: [60, 5]}}
";

fn start(resolver: &str) -> (Zone, Farm) {
    let scenario = Scenario::from_yaml(&format!("{NAMES}resolvers:\n  - {resolver}\n")).unwrap();
    (Zone::new(&scenario, 7), Farm::new(&scenario.resolvers[0], 7))
}

fn try_ask(
    on: &mut (Zone, Farm),
    name: &str,
    record_type: RecordType,
    client: &str,
    at: f64,
) -> Option<Reply> {
    let query = Query { name, record_type, client: client.parse().unwrap(), ecs: None };
    on.1.answer(&mut on.0, &query, Duration::from_secs_f64(at))
}

fn ask(on: &mut (Zone, Farm), name: &str, at: f64) -> Reply {
    try_ask(on, name, RecordType::A, "127.0.0.1", at).unwrap()
}

fn addr(reply: &Reply) -> IpAddr {
    reply.addresses[0].addr
}

fn command(on: &mut (Zone, Farm), yaml: &str) {
    let command: Command = serde_saphyr::from_str(yaml).unwrap();
    on.0.apply(command, Duration::ZERO).unwrap();
}

#[test]
fn an_answer_repeats_and_counts_down_until_it_expires() {
    let mut on = start("{}");
    let first = ask(&mut on, "pool.example", 0.0);
    assert_eq!(first.addresses[0].ttl, 10);
    let later = ask(&mut on, "POOL.example", 9.9);
    assert_eq!((addr(&later), later.addresses[0].ttl), (addr(&first), 1));
    let after: BTreeSet<_> =
        (1..20).map(|i| addr(&ask(&mut on, "pool.example", f64::from(i) * 10.0))).collect();
    assert!(after.len() > 15, "a new draw for each entry: {after:?}");
    let zero: BTreeSet<_> = (0..20).map(|_| addr(&ask(&mut on, "zero.example", 0.0))).collect();
    assert!(zero.len() > 15, "TTL 0 is not kept: {zero:?}");
    let mixed = ask(&mut on, "mixed.example", 0.0);
    assert_eq!(mixed.addresses.iter().map(|a| a.ttl).collect::<Vec<_>>(), [60, 5], "fresh from the zone");
    let mixed = ask(&mut on, "mixed.example", 1.0);
    assert_eq!(
        mixed.addresses.iter().map(|a| a.ttl).collect::<Vec<_>>(),
        [4, 4],
        "one TTL per set in the cache"
    );
}

#[test]
fn a_cache_may_not_count_down_and_may_bound_ttls() {
    let mut on = start("{countdown: false, max_ttl: 5}");
    let (first, later) = (ask(&mut on, "pool.example", 0.0), ask(&mut on, "pool.example", 4.5));
    assert_eq!((addr(&first), later.addresses[0].ttl), (addr(&later), 5));
    assert_eq!(first.addresses[0].ttl, 5, "bounded at once, as Unbound and BIND do");
    assert_ne!(addr(&ask(&mut on, "pool.example", 5.0)), addr(&first));
}

#[test]
fn several_caches_alternate_unless_the_choice_is_sticky() {
    let mut on = start("{caches: 4}");
    let seen: BTreeSet<_> = (0..100).map(|_| addr(&ask(&mut on, "pool.example", 1.0))).collect();
    assert!((2..=4).contains(&seen.len()), "{seen:?}");
    let mut on = start("{caches: 4, pick: sticky}");
    let seen: BTreeSet<_> = (0..100).map(|_| addr(&ask(&mut on, "pool.example", 1.0))).collect();
    assert_eq!(seen.len(), 1);
    let mut on = start("{caches: 3, pick: cyclic}");
    let seen: BTreeSet<_> = (0..3).map(|_| addr(&ask(&mut on, "sticky.example", 1.0))).collect();
    assert_eq!(seen.len(), 3, "each cache asks from an address of its own");
}

#[test]
fn queries_are_lost_in_proportion() {
    let mut on = start("{loss: 0.3}");
    let lost =
        (0..1000).filter(|_| try_ask(&mut on, "pool.example", RecordType::A, "::1", 0.0).is_none()).count();
    assert!((250..350).contains(&lost), "{lost}");
}

#[test]
fn a_link_outlives_the_addresses_behind_it() {
    let mut on = start("{}");
    let first = ask(&mut on, "www.example", 0.0);
    let later = ask(&mut on, "www.example", 11.0);
    assert_eq!((first.chain[0].ttl, later.chain[0].ttl), (100, 89));
    assert_eq!(first.chain[0].target, later.chain[0].target);
    assert_ne!(addr(&first), addr(&later));
    let renewed = ask(&mut on, "www.example", 101.0);
    assert_ne!(renewed.chain[0].target, first.chain[0].target);
}

#[test]
fn a_failing_zone_is_servfail_or_stale() {
    let mut on = start("{}");
    command(&mut on, "fault: {fault: {kind: drop}}");
    assert_eq!(ask(&mut on, "pool.example", 0.0).rcode, Rcode::ServFail);
    let mut on = start("{serve_stale: {for: 1h}}");
    let first = ask(&mut on, "pool.example", 0.0);
    command(&mut on, "fault: {fault: {kind: servfail}}");
    let stale = ask(&mut on, "pool.example", 60.0);
    assert_eq!((stale.rcode, addr(&stale), stale.addresses[0].ttl), (Rcode::NoError, addr(&first), 30));
    assert_eq!(ask(&mut on, "pool.example", 4000.0).rcode, Rcode::ServFail);
}

#[test]
fn absence_is_cached_for_the_negative_ttl() {
    let mut on = start("{}");
    assert_eq!(ask(&mut on, "new.example", 0.0).rcode, Rcode::NxDomain);
    command(&mut on, "set: {name: new.example, a: {pool: [192.0.2.1]}}");
    assert_eq!(ask(&mut on, "new.example", 4.9).rcode, Rcode::NxDomain);
    assert_eq!(ask(&mut on, "new.example", 5.0).addresses.len(), 1);
}

#[test]
fn client_networks_are_cached_apart_where_they_are_passed_on() {
    let mut on = start("{ecs: true}");
    let mut by = |client| addr(&try_ask(&mut on, "sticky.example", RecordType::A, client, 0.0).unwrap());
    assert_eq!(by("10.0.0.1"), by("10.0.0.200"));
    let networks = ["10.0.0.1", "10.0.1.1", "10.0.2.1", "10.0.3.1"];
    assert!(networks.iter().map(|c| by(c)).collect::<BTreeSet<_>>().len() > 1);
}

#[test]
fn a_resolver_may_answer_by_itself() {
    let mut on = start("{dns64: '64:ff9b::/96', overrides: [{name: pool.example, addresses: [0.0.0.0]}]}");
    assert_eq!(addr(&ask(&mut on, "pool.example", 0.0)), "0.0.0.0".parse::<IpAddr>().unwrap());
    let v6 = try_ask(&mut on, "mixed.example", RecordType::Aaaa, "::1", 0.0).unwrap();
    assert_eq!(addr(&v6), "64:ff9b::a00:1".parse::<IpAddr>().unwrap());
}
