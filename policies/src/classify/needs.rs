//! What more a decision would take, out of where the sequential test stands.

use super::Needs;
use super::sequential::{Test, Verdict, large, small};
use crate::Observation;
use crate::observe::pool::real;
use crate::policy::Policy;

/// Draws that are asked for at most: beyond that the pool lies between small and large.
const MOST: usize = 60;

pub(super) fn needs(
    observation: &Observation,
    policy: &Policy,
    test: &Test,
    verdict: &Verdict,
    ttl: u32,
) -> Needs {
    let draws = if verdict.rotating {
        for_rotating(observation, policy, test, verdict)
    } else {
        let suffices = |more: &usize| test.verdict_after(policy, ttl, 0, *more).draws_suffice;
        (0..MOST).find(suffices).unwrap_or(MOST)
    };
    let direct = observation.draws.iter().any(|d| !d.cached);
    let pause_ms = if direct { u64::from(policy.sampling.pace_ms) } else { 1000 * u64::from(ttl.max(1)) };
    let by_draws = draws as u64 * pause_ms / 1000;
    let quiet = if verdict.rotating { 0 } else { quiet_left(observation, policy, test, ttl) };
    Needs { draws: draws.max(1), wait_s: by_draws.max(quiet).max(1) }
}

/// Each new address speaks for a large pool by about what the largest small pool would have missed.
fn for_rotating(observation: &Observation, policy: &Policy, test: &Test, verdict: &Verdict) -> usize {
    let k = observation.answer_size.max.max(1);
    let (n0, n1) = (small(&policy.pool, k), large(&policy.pool, k));
    let seen = observation.addresses.len();
    let missing = policy.test.min_addresses.saturating_sub(seen);
    let threshold = ((1.0 - policy.test.error_rate) / policy.test.error_rate).ln();
    let (mut evidence, mut more) = (verdict.evidence, 0);
    while evidence < threshold && seen + more < n0 && more < MOST {
        let gone = real(seen + more);
        evidence += ((1.0 - gone / real(n1)) / (1.0 - gone / real(n0))).ln();
        more += 1;
    }
    let sets = policy.test.min_sets.saturating_sub(observation.distinct_sets);
    more.max(missing).div_ceil(k).max(sets).min(MOST).max(usize::from(test.draws() == 0))
}

fn quiet_left(observation: &Observation, policy: &Policy, test: &Test, ttl: u32) -> u64 {
    let since = if observation.addresses.is_empty() { 0 } else { test.novel_at() };
    let last = observation.draws.last().map_or(since, |d| d.at.as_millisecond());
    let left = test.quiet_needed(policy, ttl) - last.saturating_sub(since);
    u64::try_from(left.max(0)).unwrap_or_default().div_ceil(1000)
}
