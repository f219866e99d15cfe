//! What else was seen beside the class: each trait is one test on the observation.

use super::verdict::Verdict;
use super::{ResolutionClass, Trait};
use crate::observe::pool::ratio;
use crate::observe::{Flip, overlap};
use crate::{Observation, OutcomeKind, Vantage};

/// Shares of draws as unequal as this are weights: the greatest is this many times the mean of the others.
const UNEQUAL: f64 = 3.0;
/// Draws below which shares say nothing.
const ENOUGH: usize = 8;

pub(super) fn traits(o: &Observation, class: ResolutionClass, verdict: &Verdict) -> Vec<Trait> {
    let small = matches!(class, ResolutionClass::SingleVip | ResolutionClass::FixedMultiIp);
    let tests = [
        (Trait::Failover, small && failover(o)),
        (Trait::Regional, small && regional(o) && !split_horizon(o)),
        (Trait::PartialAnswers, small && partial(o)),
        (Trait::OrderShuffled, o.order_changes > 0),
        (Trait::Weighted, small && weighted(o)),
        (Trait::Flapping, small && flapping(o)),
        (Trait::SlowDrift, small && drifting(o)),
        (Trait::Cname, !o.cname_chains.is_empty()),
        (Trait::CnameFlip, last_targets(o) > 1),
        (Trait::TtlZero, o.ttl.is_some_and(|ttl| ttl.strict_s == 0)),
        (Trait::Truncated, o.truncated > 0),
        (Trait::EmptyAnswers, !o.draws.is_empty() && o.count(OutcomeKind::is_denial) > 0),
        (Trait::Lossy, !o.draws.is_empty() && failures(o) > 0),
        (Trait::Sinkhole, o.sources.iter().any(|s| s.sinkholes > 0)),
        (Trait::SplitHorizon, split_horizon(o)),
        (Trait::HeldDraws, class == ResolutionClass::RotatingPool && verdict.held),
    ];
    let mut traits: Vec<Trait> = tests.into_iter().filter(|(_, seen)| *seen).map(|(t, _)| t).collect();
    traits.sort_unstable();
    traits
}

/// Lookups that brought no usable message.
pub(super) fn failures(o: &Observation) -> usize {
    o.count(OutcomeKind::is_failure)
}

/// One or two changes that put other members in the place of most of those that were there.
fn failover(o: &Observation) -> bool {
    let flips = o.flips.iter().filter(|f| !keeps(f)).count();
    (1..=2).contains(&flips) && o.set_changes <= 2 * o.sources.len().max(1) && o.simultaneous_changes == 0
}

/// A change that left at least half of the smaller set in place.
fn keeps(flip: &Flip) -> bool {
    2 * overlap(&flip.from, &flip.to) >= flip.from.len().min(flip.to.len())
}

/// Answers that differ as draws do, not as operations do, and name only a part of what was seen.
fn partial(o: &Observation) -> bool {
    o.answer_size.median < o.addresses.len() && (o.simultaneous_changes > 0 || o.set_changes > o.flips.len())
}

/// Sources that see sets of their own.
fn regional(o: &Observation) -> bool {
    let own = |source: usize| o.draws.iter().filter(move |d| d.source == source).flat_map(|d| d.set.iter());
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

/// One address holds most of the draws while others are met now and then.
fn weighted(o: &Observation) -> bool {
    let drawn = o.simultaneous_changes > 0 || o.set_changes >= 4;
    let Some((top, rest)) = o.addresses.split_first().filter(|_| drawn && o.draws.len() >= ENOUGH) else {
        return false;
    };
    let others = rest.iter().map(|a| a.draws).sum();
    !rest.is_empty()
        && top.presence < 1.0
        && top.presence >= UNEQUAL * ratio(others, rest.len() * o.draws.len())
}

/// A set that was left and taken up again, by changes that are rare among the draws.
fn flapping(o: &Observation) -> bool {
    let back = o.flips.iter().any(|f| o.flips.iter().any(|g| g.at > f.at && g.to == f.from));
    back && 2 * o.set_changes < o.draws.len() && o.simultaneous_changes == 0 && !weighted(o)
}

/// A few members at a time come or go.
fn drifting(o: &Observation) -> bool {
    !o.flips.is_empty() && o.flips.len() == o.set_changes && o.flips.iter().all(keeps)
}

fn last_targets(o: &Observation) -> usize {
    let mut targets: Vec<_> = o.cname_chains.iter().map(|c| c.rsplit(" -> ").next().unwrap_or(c)).collect();
    targets.sort_unstable_by_key(|t| t.to_ascii_lowercase());
    targets.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
    targets.len()
}

/// The authorities and the caches answered repeatedly and never shared an address. Sources of one kind that differ are
/// regions, such as client subnets.
fn split_horizon(o: &Observation) -> bool {
    let answers = |v: Vantage| o.sources.iter().any(|s| s.vantage == v && s.draws > 1);
    let gave = |v: Vantage| {
        let sources = o.sources.iter().filter(move |s| s.vantage == v);
        sources.flat_map(|s| o.draws.iter().filter(|d| d.source == s.source)).flat_map(|d| d.set.iter())
    };
    let shared = gave(Vantage::Cache).any(|addr| gave(Vantage::Authority).any(|other| other == addr));
    let both = answers(Vantage::Cache) && answers(Vantage::Authority);
    o.resolvers_disagree && o.set_changes == 0 && both && !shared
}
