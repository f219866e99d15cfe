//! Small histories through one watcher: what is told, and what is not.

use std::time::Duration;

use super::*;
use crate::{Answer, Outcome, Response, Transport, Vantage};

struct History {
    watcher: Watcher,
    now: Timestamp,
    events: Vec<Event>,
    policy: Policy,
    pace: Pace,
}

fn answered(addresses: &[u8], ttl: u32) -> Outcome {
    let answers = addresses.iter().map(|last| Answer { addr: [192, 0, 2, *last].into(), ttl }).collect();
    Outcome::Answered { answers, cname_chain: Vec::new() }
}

impl History {
    fn new(vantages: &[Vantage]) -> Self {
        let sources = (1..).zip(vantages).map(|(last, vantage)| Source {
            server: ([192, 0, 2, last], 53).into(),
            vantage: *vantage,
            ecs: None,
            name: None,
        });
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let host = Host::parse("api.partner.example").unwrap();
        let watcher = Watcher::new(host, RecordType::A, sources.collect(), now);
        Self { watcher, now, events: Vec::new(), policy: Policy::default(), pace: Pace::default() }
    }

    /// Lookups as the watcher asks for them, each answered by the source and its turn.
    fn go(&mut self, lookups: usize, outcome: impl Fn(usize, usize) -> Outcome) -> &mut Self {
        for turn in 0..lookups {
            let (source, at) = self.watcher.next(&self.pace, self.now).unwrap();
            let authoritative = self.watcher.sources()[source].vantage == Vantage::Authority;
            let response = Response {
                size: 64,
                authoritative,
                truncated: false,
                transport: Transport::Udp,
                edns: None,
                ecs_scope: None,
            };
            let outcome = outcome(source, turn);
            let rtt = Duration::from_millis(5);
            let sample = DnsSample { at, source, rtt, outcome, response: Some(response) };
            self.events.extend(self.watcher.record(&sample, &self.policy, &self.pace));
            // As a store would keep it.
            let kept = serde_json::to_string(&self.watcher).unwrap();
            self.watcher = serde_json::from_str(&kept).unwrap();
            self.now = at + rtt;
        }
        self
    }

    fn kinds(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.events).iter().map(|event| event.what.kind()).collect()
    }
}

fn settled(addresses: &[u8]) -> History {
    let mut history = History::new(&[Vantage::Authority]);
    history.go(60, |_, _| answered(addresses, 20));
    let verdict = history.watcher.classification(&history.policy);
    assert_eq!(history.kinds(), ["class_changed"], "{verdict:?}");
    history
}

#[test]
fn a_fail_over_is_one_flip_within_seconds() {
    let mut history = settled(&[1]);
    let before = history.now;
    history.go(6, |_, _| answered(&[2], 20));
    let event = history.events.remove(0);
    let [from, to] = [1, 2].map(|last| vec![std::net::IpAddr::from([192, 0, 2, last])]);
    assert_eq!(event.what, What::Flip { from, to });
    assert!(event.at.duration_since(before).as_secs() < 36, "{event:?}");
    assert!(history.events.is_empty());
    history.go(50, |_, _| answered(&[2], 20)).go(6, |_, _| answered(&[1], 20));
    assert_eq!(history.kinds(), ["flip"], "and back");
}

#[test]
fn one_odd_answer_is_no_flip() {
    let mut history = settled(&[1]);
    history.go(100, |_, turn| answered(if turn == 50 { &[9] } else { &[1] }, 20));
    assert_eq!(history.kinds(), Vec::<&str>::new());
}

#[test]
fn members_leave_and_return() {
    let mut history = settled(&[1, 2, 3]);
    history.go(20, |_, _| answered(&[1, 3], 20));
    assert_eq!(history.kinds(), ["withdrawn"]);
    history.go(20, |_, _| answered(&[1, 2, 3], 20));
    assert_eq!(history.kinds(), ["returned"]);
    history.go(20, |_, _| answered(&[1, 2, 3, 4], 20));
    assert_eq!(history.kinds(), ["added"]);
}

#[test]
fn a_rotating_pool_has_no_flips() {
    let mut history = History::new(&[Vantage::Authority]);
    let draw = |_: usize, turn: usize| {
        let last = u8::try_from(turn * 7919 % 251).unwrap();
        answered(&[last, last.wrapping_add(97), last.wrapping_add(171)], 20)
    };
    history.go(1000, draw);
    assert_eq!(history.kinds(), ["class_changed"]);
    assert_eq!(history.watcher.class(), ResolutionClass::RotatingPool);
}

#[test]
fn what_vanishes_and_what_fails_is_told_and_told_to_be_over() {
    let mut history = settled(&[1]);
    history.go(8, |_, _| Outcome::NxDomain);
    assert_eq!(history.kinds(), ["vanished"]);
    assert!(history.watcher.standing().vanished && history.watcher.standing().addresses.is_empty());
    history.go(8, |_, _| answered(&[1], 20));
    assert_eq!(history.kinds(), ["recovered"]);
    history.go(10, |_, _| Outcome::Timeout);
    assert_eq!(history.kinds(), ["lookups_failing"]);
    history.go(1, |_, _| Outcome::NoData);
    assert_eq!(history.kinds(), ["recovered"], "a denial is a reply");
}

#[test]
fn a_record_type_that_never_had_addresses_does_not_vanish() {
    let mut history = History::new(&[Vantage::Cache]);
    history.go(200, |_, _| Outcome::NoData);
    assert_eq!(history.kinds(), ["class_changed"]);
    assert_eq!(history.watcher.class(), ResolutionClass::Unresolvable);
}

#[test]
fn a_new_ttl_is_told_once() {
    let mut history = settled(&[1]);
    history.go(20, |_, _| answered(&[1], 60));
    assert_eq!(history.kinds(), ["ttl_changed"]);
}

#[test]
fn a_sinkhole_is_unroutable_and_no_flip() {
    let mut history = settled(&[1]);
    let sunk = |_, _| Outcome::Answered {
        answers: vec![Answer { addr: [0, 0, 0, 0].into(), ttl: 20 }],
        cname_chain: Vec::new(),
    };
    history.go(10, sunk);
    assert_eq!(history.kinds(), ["unroutable"]);
    history.go(10, |_, _| answered(&[1], 20));
    assert_eq!(history.kinds(), ["recovered"]);
}

#[test]
fn sources_with_nothing_in_common_disagree() {
    let mut history = History::new(&[Vantage::Cache, Vantage::Cache]);
    history.go(200, |source, _| answered(if source == 0 { &[1] } else { &[2] }, 20));
    assert_eq!(history.kinds().iter().filter(|kind| **kind == "sources_disagree").count(), 1);
    assert!(history.watcher.standing().disagree);
    let mut agreeing = History::new(&[Vantage::Cache, Vantage::Cache]);
    agreeing.go(200, |_, _| answered(&[1], 20));
    assert_eq!(agreeing.kinds(), ["class_changed"]);
}

#[test]
fn the_state_stays_small() {
    let mut history = History::new(&[Vantage::Authority]);
    history.go(3000, |_, turn| answered(&[u8::try_from(turn * 31 % 4).unwrap()], 20));
    assert!(history.watcher.window().samples.len() <= 2 * DRAWS as usize);
    let size = serde_json::to_string(&history.watcher).unwrap().len();
    assert!(size < 32_000, "{size}");
}

#[test]
fn a_clock_that_is_set_back_holds_nothing_up() {
    let mut history = settled(&[1]);
    history.now -= jiff::SignedDuration::from_hours(1);
    let (_, at) = history.watcher.next(&history.pace, history.now).unwrap();
    assert!(at.duration_since(history.now).as_secs() < 60, "{at}");
}

#[test]
fn servers_that_stay_keep_what_is_known_of_them() {
    let mut history = settled(&[1]);
    let mut sources = history.watcher.sources().to_vec();
    sources.insert(
        0,
        Source { server: ([192, 0, 2, 99], 53).into(), vantage: Vantage::Cache, ecs: None, name: None },
    );
    history.watcher.set_sources(sources);
    history.go(40, |_, _| answered(&[2], 20));
    assert!(history.kinds().contains(&"flip"));
}

#[test]
fn a_name_that_went_to_and_fro_is_still_seen_to_move_on() {
    let mut history = settled(&[1]);
    history.go(120, |_, turn| answered(if turn / 2 % 2 == 0 { &[2] } else { &[1] }, 20));
    history.kinds();
    history.go(60, |_, _| answered(&[9], 20));
    let kinds = history.kinds();
    assert!(kinds.contains(&"flip"), "{kinds:?} {:?}", history.watcher.standing());
}
