//! What more a decision would take, out of where the sequential test stands.

use super::Needs;
use super::sequential::Test;
use super::verdict::{Context, Verdict, large, small, threshold};
use crate::Observation;
use crate::observe::pool::real;

/// Draws that are asked for at most: beyond that the pool lies between small and large.
const MOST: usize = 60;

pub(super) fn needs(
    observation: &Observation,
    context: Context<'_>,
    test: &Test,
    verdict: &Verdict,
) -> Needs {
    let policy = context.policy;
    let draws = if verdict.rotating {
        for_rotating(observation, context, test, verdict)
    } else {
        (0..MOST).find(|more| test.draws_suffice(policy, *more)).unwrap_or(MOST)
    };
    let direct = observation.draws.iter().any(|d| !d.cached);
    let pause_ms =
        if direct { u64::from(policy.sampling.pace_ms) } else { 1000 * u64::from(context.ttl.max(1)) };
    let by_draws = (draws as u64).saturating_mul(pause_ms) / 1000;
    let quiet = if verdict.rotating { 0 } else { quiet_left(observation, context, test) };
    Needs { draws: draws.max(1), wait_s: by_draws.max(quiet).max(1) }
}

/// Each new address speaks for a large pool by about what the largest small pool would have missed.
fn for_rotating(observation: &Observation, context: Context<'_>, test: &Test, verdict: &Verdict) -> usize {
    let policy = context.policy;
    let k = observation.answer_size.max.max(1);
    let (n0, n1) = (small(&policy.pool, k), large(&policy.pool, k));
    let seen = test.addresses();
    let missing = policy.test.min_addresses.saturating_sub(seen);
    let (mut evidence, mut more) = (verdict.evidence, 0);
    while evidence < threshold(policy) && seen + more < n0 && more < MOST {
        let gone = real(seen + more);
        evidence += ((1.0 - gone / real(n1)) / (1.0 - gone / real(n0))).ln();
        more += 1;
    }
    let sets = policy.test.min_sets.saturating_sub(test.sets());
    more.max(missing).div_ceil(k).max(sets).min(MOST)
}

fn quiet_left(observation: &Observation, context: Context<'_>, test: &Test) -> u64 {
    let since = test.settling_since(context);
    let last = observation.draws.last().map_or(since, |d| d.at.as_millisecond());
    let left = test.quiet_needed(context) - last.saturating_sub(since);
    u64::try_from(left.max(0)).unwrap_or_default().div_ceil(1000)
}
