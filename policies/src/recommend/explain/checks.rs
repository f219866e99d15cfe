//! The three questions that the decision guide wants settled before the advice is shared: answer pattern and TTL,
//! fail-over target, very long streams.

use super::{addresses, decimal};
use crate::ResolutionClass;
use crate::recommend::facts::Facts;
use crate::recommend::{Check, Recommendation};

pub(super) fn of(advice: &Recommendation, facts: &Facts) -> Vec<Check> {
    vec![pattern(advice, facts), target(advice), streams(advice)]
}

fn pattern(advice: &Recommendation, facts: &Facts) -> Check {
    let kind = if facts.class == ResolutionClass::RotatingPool { "rotating" } else { "fixed" };
    let ttl = advice.refresh.map_or_else(
        || "TTL not seen".to_owned(),
        |refresh| format!("TTL {} s, asked every {} s", refresh.ttl_s, refresh.refresh_s),
    );
    Check {
        question: "how many addresses, fixed or rotating, and which TTL".to_owned(),
        answer: format!(
            "{} of {} per answer, {kind}; {ttl}",
            decimal(facts.answer_size),
            addresses(facts.pool)
        ),
        settled: true,
    }
}

fn target(advice: &Recommendation) -> Check {
    let question = "how soon must a fail-over be complete".to_owned();
    let worst = advice.costs.first().and_then(|cost| cost.worst_failover_s);
    let Some(target) = advice.settings.failover_target else {
        let answer =
            "no target given (--failover-target): without one, a connection stays on the old address as \
                      long as the application holds it"
                .to_owned();
        return Check { question, answer, settled: false };
    };
    let refresh = advice.refresh.map_or(0, |refresh| refresh.refresh_s);
    let pool = match target.as_secs().saturating_sub(refresh) {
        0 => {
            format!("no lifetime of the application's pools can keep it, the refresh alone takes {refresh} s")
        }
        left => format!("connection pools of the application: lifetime at most {left} s"),
    };
    let kept = worst.is_some_and(|worst| worst <= target.as_secs());
    let worst = worst.map_or_else(|| "unbounded".to_owned(), |worst| format!("{worst} s"));
    let answer = format!("target {} s, worst case {worst}; {pool}", target.as_secs());
    Check { question, answer, settled: kept }
}

fn streams(advice: &Recommendation) -> Check {
    let question = "are there streams that last for minutes".to_owned();
    let (answer, settled) = match (advice.settings.longest_stream, advice.settings.protocol.is_http()) {
        (None, _) => (
            "not stated (--longest-stream): a lifetime for connections cuts passed-through streams"
                .to_owned(),
            false,
        ),
        (Some(longest), true) => {
            (format!("up to {} s; a request is finished on the old address", longest.as_secs()), true)
        }
        (Some(longest), false) => (
            format!("up to {} s; the lifetime of connections is not set below that", longest.as_secs()),
            true,
        ),
    };
    Check { question, answer, settled }
}
