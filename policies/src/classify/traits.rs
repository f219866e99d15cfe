//! What else was seen beside the class: each trait is one test on the observation.

use super::{ResolutionClass, Trait};
use crate::observe::pool::ratio;
use crate::observe::{Draw, overlap};
use crate::{Observation, Vantage};

/// Shares of draws as unequal as this are weights: the greatest is this many times the mean of the others.
const UNEQUAL: f64 = 3.0;
/// Draws below which shares say nothing.
const ENOUGH: usize = 8;

pub(super) fn traits(o: &Observation, class: ResolutionClass) -> Vec<Trait> {
    let small = matches!(class, ResolutionClass::SingleVip | ResolutionClass::FixedMultiIp);
    let union = o.addresses.len();
    let partial = o.answer_size.median > 1 && o.answer_size.median < union && o.set_changes > o.flips.len();
    let tests = [
        (Trait::Failover, small && failover(o)),
        (Trait::Regional, small && regional(o)),
        (Trait::PartialAnswers, small && partial),
        (Trait::OrderShuffled, o.order_changes > 0),
        (Trait::Weighted, small && weighted(o)),
        (Trait::Flapping, small && flapping(o)),
        (Trait::SlowDrift, small && drifting(o)),
        (Trait::Cname, !o.cname_chains.is_empty()),
        (Trait::CnameFlip, last_targets(o) > 1),
        (Trait::TtlZero, o.ttl.is_some_and(|ttl| ttl.lowest_s == 0 && ttl.strict_s == 0)),
        (Trait::Truncated, o.truncated > 0),
        (Trait::EmptyAnswers, !o.draws.is_empty() && count(o, &["nx_domain", "no_data"]) > 0),
        (Trait::Lossy, !o.draws.is_empty() && failures(o) > 0),
        (Trait::Sinkhole, o.sources.iter().any(|s| s.sinkholes > 0)),
        (Trait::SplitHorizon, split_horizon(o)),
        (Trait::HeldDraws, class == ResolutionClass::RotatingPool && held(&o.draws)),
    ];
    let mut traits: Vec<Trait> = tests.into_iter().filter(|(_, seen)| *seen).map(|(t, _)| t).collect();
    traits.sort_unstable();
    traits
}

/// Lookups that brought no usable message.
pub(super) fn failures(o: &Observation) -> usize {
    let failed =
        ["timeout", "serv_fail", "refused", "other_rcode", "lame", "truncated", "unreachable", "malformed"];
    count(o, &failed)
}

pub(super) fn count(o: &Observation, names: &[&str]) -> usize {
    o.outcomes.iter().filter(|c| names.contains(&c.outcome.as_str())).map(|c| c.count).sum()
}

/// One or two changes that replaced what was there.
fn failover(o: &Observation) -> bool {
    let replaced = |from: &[_], to: &[_]| 2 * overlap(from, to) < from.len() + to.len() - overlap(from, to);
    let flips = o.flips.iter().filter(|f| replaced(&f.from, &f.to)).count();
    (1..=2).contains(&flips) && o.set_changes <= 2 * o.sources.len().max(1)
}

/// Sources that see sets of their own.
fn regional(o: &Observation) -> bool {
    let own = |source: usize| o.draws.iter().filter(move |d| d.source == source).flat_map(|d| &d.set);
    let seen: Vec<Vec<_>> = o
        .sources
        .iter()
        .filter(|s| s.draws > 0)
        .map(|s| {
            let mut set: Vec<_> = own(s.source).copied().collect();
            set.sort_unstable();
            set.dedup();
            set
        })
        .collect();
    o.set_changes == 0 && seen.iter().any(|set| *set != seen[0])
}

/// One address or a few hold most of the draws while others are met now and then.
fn weighted(o: &Observation) -> bool {
    if o.draws.len() < ENOUGH || o.set_changes < 2 || o.simultaneous_changes + 2 < o.set_changes / 2 {
        return false;
    }
    let Some((top, rest)) = o.addresses.split_first() else { return false };
    let others = rest.iter().map(|a| a.draws).sum();
    !rest.is_empty()
        && top.presence < 1.0
        && top.presence >= UNEQUAL * ratio(others, rest.len() * o.draws.len())
}

/// An address that left and came back, while others stayed throughout.
fn flapping(o: &Observation) -> bool {
    let back = o.flips.iter().any(|f| o.flips.iter().any(|g| g.at > f.at && g.to == f.from));
    let stayed = o.addresses.iter().any(|a| a.presence >= 1.0);
    let partly = o.addresses.iter().any(|a| a.presence < 1.0 && a.draws > 1);
    back && (stayed || o.flips.len() > 2) && partly
}

fn drifting(o: &Observation) -> bool {
    let keeps = |from: &[_], to: &[_]| {
        let common = overlap(from, to);
        from != to && common > 0 && 2 * common >= from.len() + to.len() - common
    };
    let slow = o.flips.iter().filter(|f| keeps(&f.from, &f.to)).count();
    slow > 0 && slow == o.set_changes && o.simultaneous_changes == 0
}

fn last_targets(o: &Observation) -> usize {
    let mut targets: Vec<_> = o.cname_chains.iter().map(|c| c.rsplit(" -> ").next().unwrap_or(c)).collect();
    targets.sort_unstable_by_key(|t| t.to_ascii_lowercase());
    targets.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
    targets.len()
}

/// A cache and an authority, or two caches, that answered repeatedly and never shared an address.
fn split_horizon(o: &Observation) -> bool {
    let vantage = |v: Vantage| o.sources.iter().any(|s| s.vantage == v && s.draws > 1);
    o.resolvers_disagree && o.set_changes == 0 && (vantage(Vantage::Cache) || vantage(Vantage::Authority))
}

/// Successive draws of one source that are equal although the pool is large.
fn held(draws: &[Draw]) -> bool {
    let mut repeats = 0;
    let mut last: Vec<(usize, &Draw)> = Vec::new();
    for draw in draws {
        match last.iter_mut().find(|(source, _)| *source == draw.source) {
            Some((_, before)) => {
                repeats += usize::from(before.set == draw.set);
                *before = draw;
            }
            None => last.push((draw.source, draw)),
        }
    }
    repeats > 1 && 4 * repeats >= draws.len()
}
