//! The zone: every behaviour, fault and step, with time as an argument.

use std::collections::BTreeSet;
use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::Scenario;
use crate::answer::Mangle;

fn zone(yaml: &str) -> Zone {
    Zone::new(&Scenario::from_yaml(yaml).unwrap(), 7)
}

fn ask_as(zone: &mut Zone, name: &str, record_type: RecordType, client: &str, at: f64) -> Reply {
    let query = Query { name, record_type, client: client.parse().unwrap(), ecs: None };
    zone.answer(&query, Duration::from_secs_f64(at))
}

fn ask(zone: &mut Zone, name: &str, at: f64) -> Reply {
    ask_as(zone, name, RecordType::A, "127.0.0.1", at)
}

fn set(reply: &Reply) -> BTreeSet<IpAddr> {
    reply.addresses.iter().map(|a| a.addr).collect()
}

fn last_octets(reply: &Reply) -> Vec<u8> {
    let octet = |addr: IpAddr| match addr {
        IpAddr::V4(v4) => v4.octets()[3],
        IpAddr::V6(v6) => v6.octets()[15],
    };
    reply.addresses.iter().map(|a| octet(a.addr)).collect()
}

fn command(yaml: &str) -> Command {
    serde_saphyr::from_str(yaml).unwrap()
}

const BASIC: &str = r"
names:
  api.partner.example: {a: {pool: [192.0.2.1, 192.0.2.2, 192.0.2.3], ttl: 5}}
  www.example: {cname: {to: [Edge.cdn.example], ttl: 300}}
  edge.cdn.example: {a: {pool: [192.0.2.9], ttl: 20}}
  '*.wild.example': {a: {pool: [192.0.2.7]}}
  empty.example: {}
  loop.example: {cname: {to: [loop.example]}}
  out.example: {cname: {to: [elsewhere.test]}}
  dead.example: {cname: {to: [nothing.example]}}
";

#[test]
fn names_lead_where_the_rfcs_say() {
    let mut z = zone(BASIC);
    let rcode = |z: &mut Zone, name| ask(z, name, 0.0).rcode;
    assert_eq!(last_octets(&ask(&mut z, "API.partner.example.", 0.0)), [1, 2, 3]);
    assert_eq!(rcode(&mut z, "nope.example"), Rcode::NxDomain);
    assert_eq!(rcode(&mut z, "partner.example"), Rcode::NoError, "empty non-terminal");
    assert_eq!(rcode(&mut z, "example"), Rcode::NoError, "the apex exists");
    assert_eq!(rcode(&mut z, "partner.test"), Rcode::Refused);
    assert_eq!(last_octets(&ask(&mut z, "a.b.wild.example", 0.0)), [7]);
    assert_eq!(ask_as(&mut z, "api.partner.example", RecordType::Aaaa, "::1", 0.0), Reply::default());
    let www = ask(&mut z, "www.example", 0.0);
    assert_eq!((www.chain[0].target.spelled(), www.chain[0].ttl), ("Edge.cdn.example", 300));
    assert_eq!((last_octets(&www), www.addresses[0].ttl), (vec![9], 20));
    assert_eq!(ask(&mut z, "loop.example", 0.0).chain.len(), MAX_CHAIN);
    assert_eq!(
        (ask(&mut z, "out.example", 0.0).rcode, rcode(&mut z, "dead.example")),
        (Rcode::NoError, Rcode::NxDomain)
    );
    let link_only = ask_as(&mut z, "www.example", RecordType::Cname, "::1", 0.0);
    assert_eq!((link_only.chain.len(), link_only.addresses.len()), (1, 0));
}

#[test]
fn draws_follow_the_behaviour() {
    let mut z = zone(
        r"
names:
  cyclic.example: {a: {pool: {from: 10.0.0.1, count: 4}, answer: {cyclic: {}}}}
  window.example: {a: {pool: {from: 10.0.0.1, count: 6}, answer: {cyclic: {take: 3, step: 1}}}}
  order.example: {a: {pool: {from: 10.0.0.1, count: 3}, order: cyclic, ttl: [0, 60]}}
  held.example: {a: {pool: {from: 10.0.0.1, count: 250}, answer: {random: {}}, hold: {every: 60s}}}
  slots.example: {a: {pool: {from: 10.0.0.1, count: 4000}, answer: {random: {}}, hold: {every: 60s, draw: 4}}}
  flap.example: {a: {pool: {from: 10.0.0.1, count: 4}, flaps: [{address: 10.0.0.4, up: 30s, down: 30s}]}}
",
    );
    let octets = |z: &mut Zone, name, at| last_octets(&ask(z, name, at));
    let four: Vec<_> = (0..5).flat_map(|_| octets(&mut z, "cyclic.example", 0.0)).collect();
    assert_eq!(four, [1, 2, 3, 4, 1]);
    assert_eq!(octets(&mut z, "window.example", 0.0), [1, 2, 3]);
    assert_eq!(octets(&mut z, "window.example", 0.0), [2, 3, 4]);
    let order = ask(&mut z, "order.example", 0.0);
    assert_eq!(order.addresses.iter().map(|a| a.ttl).collect::<Vec<_>>(), [0, 60, 0]);
    assert_eq!(octets(&mut z, "order.example", 0.0), [2, 3, 1]);
    let seen = |z: &mut Zone, name, span: f64| -> BTreeSet<IpAddr> {
        (0..600).flat_map(|i| set(&ask(z, name, f64::from(i) * span / 600.0))).collect()
    };
    assert!((2..=3).contains(&seen(&mut z, "held.example", 60.0).len()), "a 60 s span meets one slot's end");
    assert!((5..=8).contains(&seen(&mut z, "slots.example", 60.0).len()), "two slots of four");
    let with_four = (0..600).filter(|i| octets(&mut z, "flap.example", f64::from(*i)).contains(&4)).count();
    assert_eq!(with_four, 300, "up half of the time");
}

#[test]
fn who_asks_decides_where_groups_have_clients() {
    let mut z = zone(
        r"
names:
  geo.example:
    a:
      groups:
        - {pool: [192.0.2.1], clients: [10.0.0.0/8]}
        - {pool: [192.0.2.2], clients: [10.1.0.0/16]}
        - {pool: [192.0.2.3], weight: 3}
        - {pool: [192.0.2.4], weight: 1}
  sticky.example: {a: {pool: {from: 10.0.0.1, count: 200}, answer: {sticky: {}}}}
",
    );
    let by = |z: &mut Zone, client| last_octets(&ask_as(z, "geo.example", RecordType::A, client, 0.0))[0];
    assert_eq!((by(&mut z, "10.9.0.1"), by(&mut z, "10.1.0.1")), (1, 2));
    let threes = (0..1000).filter(|_| by(&mut z, "192.0.2.99") == 3).count();
    assert!((700..800).contains(&threes), "{threes}");
    let ecs = |z: &mut Zone, net: &str| {
        let ecs = Some(net.parse().unwrap());
        let query =
            Query { name: "geo.example", record_type: RecordType::A, client: "::1".parse().unwrap(), ecs };
        let reply = z.answer(&query, Duration::ZERO);
        (last_octets(&reply)[0], reply.ecs_scope)
    };
    assert_eq!(ecs(&mut z, "10.1.2.0/24"), (2, Some(16)));
    assert!(matches!(ecs(&mut z, "172.16.0.0/24"), (3 | 4, Some(0))));
    let sticky =
        |z: &mut Zone, client: &str| last_octets(&ask_as(z, "sticky.example", RecordType::A, client, 0.0));
    assert_eq!(sticky(&mut z, "10.0.0.1"), sticky(&mut z, "10.0.0.1"));
    let vips: BTreeSet<_> = (1..100).map(|i| sticky(&mut z, &format!("10.0.0.{i}"))).collect();
    assert!(vips.len() > 50, "{vips:?}");
}

#[test]
fn commands_are_seen_by_the_next_query() {
    let mut z = zone(BASIC);
    let name = "api.partner.example";
    let run = |z: &mut Zone, yaml: &str| z.apply(command(yaml), Duration::ZERO);
    run(&mut z, "flip: {name: api.partner.example, to: [192.0.2.8, '2001:db8::8']}").unwrap();
    let reply = ask(&mut z, name, 0.0);
    assert_eq!((last_octets(&reply), reply.addresses[0].ttl), (vec![8], 5), "the TTL stays");
    assert_eq!(last_octets(&ask_as(&mut z, name, RecordType::Aaaa, "::1", 0.0)), [8]);
    run(
        &mut z,
        "set: {name: api.partner.example, a: {pool: {from: 10.0.0.1, count: 9}, members: 2}, ttl: 1}",
    )
    .unwrap();
    assert_eq!(last_octets(&ask(&mut z, name, 0.0)), [1, 2]);
    run(&mut z, "rotate: {name: api.partner.example}").unwrap();
    assert_eq!(last_octets(&ask(&mut z, name, 0.0)), [2, 3]);
    run(&mut z, "set: {name: api.partner.example, members: 4}").unwrap();
    assert_eq!(last_octets(&ask(&mut z, name, 0.0)), [2, 3, 4, 5]);
    run(
        &mut z,
        "set: {name: new.example, a: {pool: [192.0.2.1, 192.0.2.2], answer: {weighted: {weights: [1, 0]}}}}",
    )
    .unwrap();
    assert_eq!(last_octets(&ask(&mut z, "new.example", 0.0)), [1]);
    run(&mut z, "weight: {name: new.example, weights: [0, 1]}").unwrap();
    assert_eq!(last_octets(&ask(&mut z, "new.example", 0.0)), [2]);
    run(&mut z, "flip: {name: www.example, to: [api.partner.example]}").unwrap();
    assert_eq!(ask(&mut z, "www.example", 0.0).addresses.len(), 4);
    run(&mut z, "flip: {name: www.example, to: [192.0.2.5]}").unwrap();
    assert_eq!(
        (ask(&mut z, "www.example", 0.0).chain.len(), last_octets(&ask(&mut z, "www.example", 0.0))),
        (0, vec![5])
    );
    let names: Vec<_> = z.names(Duration::ZERO).map(|view| view.name.to_string()).collect();
    assert!(names.contains(&"new.example".to_owned()));
}

#[test]
fn commands_that_do_not_fit_change_nothing() {
    let mut z = zone(BASIC);
    for (yaml, word) in [
        ("flip: {name: nope.example, to: [192.0.2.1]}", "no such name"),
        ("flip: {name: www.example, to: []}", "no address"),
        ("flip: {name: www.example, to: [192.0.2.1, a.example]}", "at once"),
        ("rotate: {name: partner.example}", "no such name"),
        ("rotate: {name: empty.example}", "no pool"),
        ("set: {name: a.test}", "outside"),
        ("set: {name: a.example, a: {pool: ['::1']}}", "not IPv4"),
        ("set: {name: api.partner.example, members: 4}", "4 members of a pool of 3"),
        ("weight: {name: api.partner.example, weights: [1, 2, 3]}", "weights"),
        ("fault: {name: www.example, fault: {kind: drop, share: 2}}", "share"),
    ] {
        let error = z.apply(command(yaml), Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains(word) && !error.hint().is_empty(), "{yaml}: {error}");
    }
    assert_eq!(last_octets(&ask(&mut z, "api.partner.example", 0.0)), [1, 2, 3]);
}

#[test]
fn faults_become_rcodes_and_effects_until_cleared() {
    let mut z = zone(BASIC);
    let name = "api.partner.example";
    for (kind, check) in [
        ("nxdomain", (|r| r.rcode == Rcode::NxDomain && r.addresses.is_empty()) as fn(&Reply) -> bool),
        ("nodata", |r| r.rcode == Rcode::NoError && r.addresses.is_empty()),
        ("servfail", |r| r.rcode == Rcode::ServFail),
        ("refused", |r| r.rcode == Rcode::Refused),
        ("drop", |r| r.effects.drop),
        ("{delay: 200ms}", |r| r.effects.delay.as_millis() == 200 && r.addresses.len() == 3),
        ("{truncate: closed}", |r| r.effects.truncate.is_some()),
        ("garbage", |r| r.effects.mangle == Some(Mangle::Garbage)),
        ("wrong_id", |r| r.effects.mangle == Some(Mangle::WrongId)),
        ("wrong_question", |r| r.effects.mangle == Some(Mangle::WrongQuestion)),
    ] {
        z.apply(command(&format!("fault: {{name: {name}, fault: {{kind: {kind}}}}}")), Duration::ZERO)
            .unwrap();
        let reply = ask(&mut z, name, 0.0);
        assert!(check(&reply), "{kind}: {reply:?}");
        z.apply(command(&format!("clear: {{name: {name}}}")), Duration::ZERO).unwrap();
        assert_eq!(last_octets(&ask(&mut z, name, 0.0)), [1, 2, 3], "cleared {kind}");
    }
    z.apply(command("fault: {fault: {kind: servfail, share: 0.3, only: a}}"), Duration::ZERO).unwrap();
    let failed = (0..1000).filter(|_| ask(&mut z, name, 0.0).rcode == Rcode::ServFail).count();
    assert!((240..360).contains(&failed), "{failed}");
    assert_eq!(ask_as(&mut z, name, RecordType::Aaaa, "::1", 0.0).rcode, Rcode::NoError);
}

#[test]
fn steps_happen_when_their_time_passes() {
    let mut z = zone(
        r"
names:
  roll.example: {a: {pool: {from: 10.0.0.1, count: 100}, members: 2}}
  vip.example: {a: {pool: [192.0.2.1]}}
steps:
  - {at: 10s, every: 10s, times: 3, do: {rotate: {name: roll.example}}}
  - {at: 15s, do: {flip: {name: vip.example, to: [192.0.2.2]}}}
  - {at: 25s, do: {flip: {name: vip.example, to: [192.0.2.1]}}}
",
    );
    let at = |z: &mut Zone, name, t| last_octets(&ask(z, name, t));
    assert_eq!((at(&mut z, "roll.example", 9.9), at(&mut z, "roll.example", 10.0)), (vec![1, 2], vec![2, 3]));
    assert_eq!((at(&mut z, "vip.example", 14.9), at(&mut z, "vip.example", 15.0)), (vec![1], vec![2]));
    assert_eq!(at(&mut z, "roll.example", 1000.0), [4, 5], "missed steps are made up for");
    assert_eq!(at(&mut z, "vip.example", 1000.0), [1]);
}

#[test]
fn zipf_overflow_and_variable_sizes_have_their_shapes() {
    let mut z = zone(
        r"
names:
  zipf.example: {a: {pool: {from: 10.0.0.1, count: 300}, answer: {zipf: {}}}}
  over.example:
    a: {groups: [{pool: [192.0.2.1], weight: 1}, {pool: {from: 10.0.0.1, count: 500}, answer: {random: {}}, weight: 1}]}
  sizes.example: {a: {pool: {from: 10.0.0.1, count: 50}, answer: {random: {take: 2..5}}}}
",
    );
    let first = |z: &mut Zone, name| ask(z, name, 0.0).addresses[0].addr;
    let top =
        (0..3000).filter(|_| first(&mut z, "zipf.example") == "10.0.0.1".parse::<IpAddr>().unwrap()).count();
    assert!((400..540).contains(&top), "1 / H(300) = 0.159 of 3000: {top}");
    let primary =
        (0..1000).filter(|_| first(&mut z, "over.example") == "192.0.2.1".parse::<IpAddr>().unwrap()).count();
    assert!((440..560).contains(&primary), "{primary}");
    let sizes: BTreeSet<_> = (0..200).map(|_| ask(&mut z, "sizes.example", 0.0).addresses.len()).collect();
    assert_eq!(sizes, BTreeSet::from([2, 3, 4, 5]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn the_same_seed_gives_the_same_answers(seed: u64, times in proptest::collection::vec(0u32..600, 1..50)) {
        for (_, yaml) in crate::scenarios::builtin() {
            let scenario = Scenario::from_yaml(yaml).unwrap();
            let run = || {
                let mut z = Zone::new(&scenario, seed);
                let mut replies = Vec::new();
                for at in &times {
                    for name in scenario.names.keys() {
                        replies.push(ask(&mut z, name.as_str(), f64::from(*at)));
                    }
                }
                replies
            };
            prop_assert_eq!(run(), run());
        }
    }
}
