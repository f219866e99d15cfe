//! The sentences of a verdict: reasons with their numbers, and what the window could not have seen.

use super::traits::failures;
use super::verdict::{Verdict, small};
use super::{ResolutionClass, Trait};
use crate::policy::Policy;
use crate::{Observation, OutcomeKind, Vantage};

pub(super) fn reasons(
    o: &Observation,
    policy: &Policy,
    class: ResolutionClass,
    traits: &[Trait],
    verdict: &Verdict,
) -> Vec<String> {
    let mut reasons = vec![main_reason(o, policy, class)];
    if !verdict.decided && !o.draws.is_empty() {
        reasons.push(open(o, class, verdict));
    }
    if let Some(pool) = &o.pool
        && o.distinct_sets > 1
    {
        reasons.push(match pool.high {
            Some(high) => {
                format!("the pool has about {} addresses ({} to {high})", pool.estimate, pool.low)
            }
            None => format!("the pool has at least {} addresses (upper bound unknown)", pool.low),
        });
    }
    if class == ResolutionClass::RotatingPool && verdict.evidence.is_finite() {
        reasons.push(format!("log-likelihood ratio for a large pool: {:.1}", verdict.evidence));
    }
    if o.simultaneous_changes > 0 {
        reasons.push(format!(
            "{} within a second from one authority: both answers are valid, an absent address was not taken out",
            times(o.simultaneous_changes, "the answer changed")
        ));
    }
    for seen in traits {
        reasons.extend(trait_reason(o, *seen));
    }
    reasons
}

/// An undecided verdict names what both sides are explained by best.
fn open(o: &Observation, class: ResolutionClass, verdict: &Verdict) -> String {
    let (small, large) = (verdict.small.words(o), verdict.large.words(o));
    match class {
        ResolutionClass::InsufficientData => {
            format!("undecided: either {small} (DNS), or {large} (DNS_ROUND_ROBIN)")
        }
        ResolutionClass::RotatingPool => format!("undecided: {large}, but {small} is not ruled out"),
        _ => format!("undecided: {small}, but {large} is not ruled out"),
    }
}

fn main_reason(o: &Observation, policy: &Policy, class: ResolutionClass) -> String {
    let draws = o.draws.len();
    let union = o.addresses.len();
    let k = o.answer_size.median;
    match class {
        ResolutionClass::Unresolvable => match o.count(OutcomeKind::is_denial) {
            0 => format!("none of {} got an answer", lookups(o.queries)),
            denied => format!(
                "{} and {denied} of them said that there is no {} record",
                lookups(o.queries),
                o.record_type
            ),
        },
        ResolutionClass::InsufficientData if draws == 0 => "nothing was asked".to_owned(),
        ResolutionClass::InsufficientData => {
            format!(
                "{} with {} cannot tell a small pool from a large one",
                plural(draws, "independent draw"),
                plural(union, "address")
            )
        }
        ResolutionClass::RotatingPool => format!(
            "{} of {k} showed {} in {}: more than a pool of {} explains",
            plural(draws, "independent draw"),
            plural(union, "different address"),
            plural(o.distinct_sets, "different set"),
            small(&policy.pool, o.answer_size.max)
        ),
        ResolutionClass::SingleVip | ResolutionClass::FixedMultiIp if o.distinct_sets == 1 => {
            format!(
                "{} over {} all gave the same {}",
                plural(draws, "independent draw"),
                span(o),
                plural(union, "address")
            )
        }
        ResolutionClass::SingleVip | ResolutionClass::FixedMultiIp => format!(
            "{} over {} stayed within {}, {k} per answer",
            plural(draws, "independent draw"),
            span(o),
            plural(union, "address")
        ),
    }
}

fn trait_reason(o: &Observation, seen: Trait) -> Option<String> {
    Some(match seen {
        Trait::Failover => {
            format!("{} and then stayed, as in a fail-over", times(o.flips.len(), "the set changed"))
        }
        Trait::Regional => "sources see different members".to_owned(),
        Trait::Weighted => {
            let top = o.addresses.first()?;
            format!(
                "{} came in {:.0} % of the draws, the others less than a third as often",
                top.addr,
                100.0 * top.presence
            )
        }
        Trait::Flapping => "an address left and came back, so it was never removed for good".to_owned(),
        Trait::SlowDrift => format!("{} by a few members at a time", times(o.set_changes, "the set changed")),
        Trait::OrderShuffled => times(o.order_changes, "the order of the same addresses changed"),
        Trait::CnameFlip => format!("the alias led over {} different chains", o.cname_chains.len()),
        Trait::TtlZero => "the TTL is 0, so nothing may be cached".to_owned(),
        Trait::Truncated => format!("{} of {} were truncated", o.truncated, lookups(o.queries)),
        Trait::EmptyAnswers => {
            format!(
                "{} of {} said that there is no address",
                o.count(OutcomeKind::is_denial),
                lookups(o.queries)
            )
        }
        Trait::Lossy => format!("{} of {} failed; they are no draws", failures(o), lookups(o.queries)),
        Trait::Sinkhole => "a source answered with an unroutable address (a sinkhole)".to_owned(),
        Trait::SplitHorizon => {
            "the authority and a cache answered repeatedly and never shared an address".to_owned()
        }
        Trait::HeldDraws => "an answer is held for longer than one query".to_owned(),
        Trait::PartialAnswers | Trait::Cname | Trait::DualStack => return None,
    })
}

/// What a window of this length from these vantages could not have shown.
pub(super) fn blind_spots(o: &Observation, class: ResolutionClass) -> Vec<String> {
    let mut spots = Vec::new();
    let draws = o.draws.len();
    let small = matches!(class, ResolutionClass::SingleVip | ResolutionClass::FixedMultiIp);
    if small {
        spots.push(format!("answers that change less often than every {}", span(o)));
        // The rule of three: a share that was missed with 95 % in n draws is below 3/n.
        let share = (300.0 / f64::from(u32::try_from(draws).unwrap_or(u32::MAX))).min(99.0);
        spots.push(format!("addresses that are returned in fewer than {share:.0} % of the answers"));
    }
    if draws > 0 && !o.sources.iter().any(|s| s.vantage == Vantage::Authority && s.answered > 0) {
        spots.push(
            "two answers at one instant: no authority was reached, a cache gives one draw per TTL".to_owned(),
        );
    }
    if draws > 0 && o.sources.iter().filter(|s| s.answered > 0).count() == 1 {
        spots.push("what other resolvers or regions are told: one source answered".to_owned());
    }
    spots
}

fn span(o: &Observation) -> String {
    let last = o.draws.last().map_or(o.started_at, |d| d.at);
    let ms = last.as_millisecond().saturating_sub(o.started_at.as_millisecond()).max(0);
    if ms < 10_000 { format!("{}.{} s", ms / 1000, ms % 1000 / 100) } else { format!("{} s", ms / 1000) }
}

fn lookups(count: usize) -> String {
    plural(count, "lookup")
}

fn times(count: usize, what: &str) -> String {
    match count {
        1 => format!("{what} once"),
        2 => format!("{what} twice"),
        _ => format!("{what} {count} times"),
    }
}

fn plural(count: usize, what: &str) -> String {
    match (count, what.ends_with('s')) {
        (1, _) => format!("1 {what}"),
        (_, true) => format!("{count} {what}es"),
        _ => format!("{count} {what}s"),
    }
}
