//! Properties of the verdict that hold for any window, and verdicts on windows that mislead simpler rules.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use policies::{
    Answer, Classification, DnsSample, Host, ObservationWindow, Outcome, Policy, RecordType, ResolutionClass,
    Response, Source, Trait, Transport, Vantage, classify, classify_both, observe,
};
use proptest::prelude::*;

const HOST: &str = "api.partner.example";

fn verdict(window: &ObservationWindow) -> Classification {
    classify(&observe(window), &Policy::default())
}

fn window(vantages: &[Vantage], samples: Vec<DnsSample>) -> ObservationWindow {
    let sources = (1..).zip(vantages).map(|(octet, vantage)| Source {
        server: ([192, 0, 2, octet], 53).into(),
        vantage: *vantage,
        ecs: None,
        name: None,
    });
    let host = Host::parse(HOST).expect("a name");
    let mut window = ObservationWindow::new(host, RecordType::A, sources.collect(), Timestamp::UNIX_EPOCH);
    window.ended_at = samples.iter().map(|s| s.at).max().unwrap_or(window.started_at);
    window.samples = samples;
    window
}

fn answered(at_ms: i64, source: usize, vantage: Vantage, octets: &[u8], ttl: u32) -> DnsSample {
    let answers = octets.iter().map(|o| Answer { addr: IpAddr::from([198, 51, 100, *o]), ttl }).collect();
    let response = Response {
        size: 60,
        authoritative: vantage == Vantage::Authority,
        truncated: false,
        transport: Transport::Udp,
        edns: None,
        ecs_scope: None,
    };
    let outcome = Outcome::Answered { answers, cname_chain: Vec::new() };
    DnsSample { outcome, response: Some(response), ..failed(at_ms, source) }
}

fn failed(at_ms: i64, source: usize) -> DnsSample {
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(at_ms);
    DnsSample { at, source, rtt: Duration::from_millis(20), outcome: Outcome::Timeout, response: None }
}

/// Answers of one authority, a second apart.
fn direct(draws: &[Vec<u8>]) -> Vec<DnsSample> {
    let at = (0..).map(|n| n * 1000);
    at.zip(draws).map(|(at, octets)| answered(at, 0, Vantage::Authority, octets, 30)).collect()
}

fn any_outcome() -> impl Strategy<Value = Option<Outcome>> {
    prop_oneof![
        8 => Just(None),
        1 => Just(Some(Outcome::Timeout)),
        1 => Just(Some(Outcome::NxDomain)),
        1 => Just(Some(Outcome::NoData)),
        1 => Just(Some(Outcome::ServFail)),
        1 => Just(Some(Outcome::Refused)),
        1 => Just(Some(Outcome::Unreachable)),
    ]
}

fn any_samples(sources: usize) -> impl Strategy<Value = Vec<DnsSample>> {
    let octets = prop_oneof![prop::collection::vec(0_u8..6, 0..5), prop::collection::vec(any::<u8>(), 0..12)];
    // One source more than the window lists, and time that may run backwards.
    let sample = (-5_000_i64..400_000, 0..=sources, octets, any::<u32>(), any_outcome(), any::<bool>());
    let sample = sample.prop_map(|(at, source, octets, ttl, outcome, authority)| {
        let vantage = if authority { Vantage::Authority } else { Vantage::Cache };
        let sample = answered(at, source, vantage, &octets, ttl % 100_000);
        match outcome {
            Some(outcome) => DnsSample { outcome, ..sample },
            None => sample,
        }
    });
    prop::collection::vec(sample, 0..60)
}

fn any_window() -> impl Strategy<Value = ObservationWindow> {
    let vantages = prop::collection::vec(prop_oneof![Just(Vantage::Cache), Just(Vantage::Authority)], 1..4);
    vantages.prop_flat_map(|vantages| any_samples(vantages.len()).prop_map(move |s| window(&vantages, s)))
}

proptest! {
    /// Whatever a window or a saved file holds, there is one consistent verdict.
    #[test]
    fn every_window_has_a_verdict(window in any_window()) {
        let seen = observe(&window);
        let verdict = classify(&seen, &Policy::default());
        prop_assert!((0.0..=1.0).contains(&verdict.confidence), "{}", verdict.confidence);
        prop_assert_eq!(verdict.decided, verdict.needs.is_none());
        prop_assert!(verdict.traits.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", verdict.traits);
        prop_assert!(!verdict.reasons.is_empty());
        let unresolvable = verdict.class == ResolutionClass::Unresolvable;
        prop_assert_eq!(unresolvable, seen.draws.is_empty() && seen.queries > 0);
        prop_assert_eq!(&verdict, &classify(&seen, &Policy::default()));
    }

    /// The wire order of an answer says nothing about the pool.
    #[test]
    fn order_within_answers_changes_no_class(
        draws in prop::collection::vec(prop::collection::vec(1_u8..40, 1..6), 1..20),
        turn in 0_usize..6,
    ) {
        let turned = draws.iter().map(|draw| {
            let mut draw = draw.clone();
            let by = turn % draw.len();
            draw.rotate_left(by);
            draw
        });
        let turned: Vec<Vec<u8>> = turned.collect();
        let (one, other) = (verdict(&window(&[Vantage::Authority], direct(&draws))),
            verdict(&window(&[Vantage::Authority], direct(&turned))));
        prop_assert_eq!((one.class, one.confidence, one.decided), (other.class, other.confidence, other.decided));
    }

    /// A lookup that failed is no draw, wherever it stands.
    #[test]
    fn failed_lookups_change_no_class(
        draws in prop::collection::vec(prop::collection::vec(1_u8..40, 1..6), 1..20),
        failures in prop::collection::vec(0_usize..20, 1..10),
    ) {
        let whole = direct(&draws);
        let mut lossy = whole.clone();
        for place in failures {
            let before = &whole[place.min(whole.len() - 1)];
            lossy.push(failed(before.at.as_millisecond() + 500, 0));
        }
        lossy.sort_by_key(|sample| sample.at);
        let (one, mut other) = (window(&[Vantage::Authority], whole), window(&[Vantage::Authority], lossy));
        other.ended_at = one.ended_at;
        let (one, other) = (verdict(&one), verdict(&other));
        prop_assert_eq!((one.class, one.confidence, one.decided), (other.class, other.confidence, other.decided));
        prop_assert!(other.traits.contains(&Trait::Lossy));
    }

    /// What a cache repeats while its entry lives is not drawn again.
    #[test]
    fn repeats_out_of_a_cache_change_no_class(
        draws in prop::collection::vec(prop::collection::vec(1_u8..40, 1..6), 1..12),
        repeats in prop::collection::vec((0_usize..12, 1_u32..29), 1..20),
    ) {
        let fresh = |n: usize| 31_000 * i64::try_from(n).unwrap();
        let cached = |n: usize, age: u32| {
            answered(fresh(n) + 1000 * i64::from(age), 0, Vantage::Cache, &draws[n], 30 - age)
        };
        let once: Vec<_> = (0..draws.len()).map(|n| cached(n, 0)).collect();
        let mut often = once.clone();
        often.extend(repeats.iter().map(|(n, age)| cached(n % draws.len(), *age)));
        often.sort_by_key(|sample| sample.at);
        let (one, mut other) = (window(&[Vantage::Cache], once), window(&[Vantage::Cache], often));
        other.ended_at = one.ended_at;
        let (one, other) = (verdict(&one), verdict(&other));
        prop_assert_eq!((one.class, one.confidence, one.decided), (other.class, other.confidence, other.decided));
    }
}

#[test]
fn only_a_name_with_addresses_of_both_families_is_dual_stack() {
    let policy = Policy::default();
    let a = observe(&window(&[Vantage::Authority], direct(&[vec![1], vec![1]])));
    let none = observe(&window(&[Vantage::Authority], Vec::new()));
    let dual = |pair| {
        classify_both(pair, &policy).map(|verdict: Classification| verdict.traits.contains(&Trait::DualStack))
    };
    assert_eq!(dual([&a, &a]), [true, true]);
    // AAAA was not asked for, or denied.
    assert_eq!(dual([&a, &none]), [false, false]);
    let denied = vec![DnsSample { outcome: Outcome::NoData, ..failed(0, 0) }];
    assert_eq!(dual([&a, &observe(&window(&[Vantage::Authority], denied))]), [false, false]);
}

/// One entry of a cache, looked at forty times, is one draw: nothing is known of the pool behind it.
#[test]
fn a_cache_that_repeats_itself_settles_nothing() {
    let ages = (0..40).map(|age| answered(1000 * i64::from(age), 0, Vantage::Cache, &[1, 2], 3600 - age));
    assert_eq!(verdict(&window(&[Vantage::Cache], ages.collect())).class, ResolutionClass::InsufficientData);
}

/// Three addresses met in changing pairs are a small pool, however often the answer changes.
#[test]
fn a_small_pool_in_changing_parts_is_fixed() {
    let pairs = [[1, 2], [2, 3], [1, 3], [3, 2], [2, 1], [1, 3]];
    let draws: Vec<Vec<u8>> = (0..60).map(|n| pairs[n * 7 % 6].to_vec()).collect();
    let seen = verdict(&window(&[Vantage::Authority], direct(&draws)));
    assert_eq!(seen.class, ResolutionClass::FixedMultiIp, "{seen:?}");
    assert!(seen.traits.contains(&Trait::PartialAnswers), "{seen:?}");
}

/// The same eight addresses in another order each time are a fixed set, not a rotation.
#[test]
fn a_shuffled_set_is_fixed() {
    let draws: Vec<Vec<u8>> = (0..200).map(|n| (0..8).map(|i| 1 + (i + n) % 8).collect()).collect();
    let seen = verdict(&window(&[Vantage::Authority], direct(&draws)));
    assert_eq!(seen.class, ResolutionClass::FixedMultiIp, "{seen:?}");
    assert!(seen.traits.contains(&Trait::OrderShuffled) && !seen.traits.contains(&Trait::PartialAnswers));
}

/// A fail-over is one change in a window, not a pool of two.
#[test]
fn a_failover_is_a_single_vip() {
    let draws: Vec<Vec<u8>> = (0..240).map(|n| vec![if n < 60 { 1 } else { 2 }]).collect();
    let seen = verdict(&window(&[Vantage::Authority], direct(&draws)));
    assert_eq!(seen.class, ResolutionClass::SingleVip, "{seen:?}");
    assert!(seen.traits.contains(&Trait::Failover), "{seen:?}");
}

/// One resolver that blocks the name must not make it a name of several addresses.
#[test]
fn a_sinkhole_beside_good_answers_is_left_out() {
    let vantages = [Vantage::Cache, Vantage::Cache];
    let mut samples = Vec::new();
    for n in 0..8 {
        let at = 31_000 * n;
        samples.push(answered(at, 0, Vantage::Cache, &[1], 30));
        let sunk = Answer { addr: IpAddr::from([0, 0, 0, 0]), ttl: 30 };
        let outcome = Outcome::Answered { answers: vec![sunk], cname_chain: Vec::new() };
        samples.push(DnsSample { outcome, ..answered(at + 10, 1, Vantage::Cache, &[1], 30) });
    }
    let seen = verdict(&window(&vantages, samples));
    assert_eq!(seen.class, ResolutionClass::SingleVip, "{seen:?}");
    assert!(seen.traits.contains(&Trait::Sinkhole), "{seen:?}");
}

/// A name that is denied is unresolvable with certainty; one that nobody answered for is not certain.
#[test]
fn silence_is_less_certain_than_a_denial() {
    let denied = (0..6).map(|n| DnsSample { outcome: Outcome::NxDomain, ..failed(1000 * n, 0) }).collect();
    let silent = (0..6).map(|n| failed(1000 * n, 0)).collect();
    let [denied, silent] = [denied, silent].map(|samples| verdict(&window(&[Vantage::Authority], samples)));
    assert_eq!([denied.class, silent.class], [ResolutionClass::Unresolvable; 2]);
    assert!(denied.confidence > silent.confidence, "{} {}", denied.confidence, silent.confidence);
}
