//! One host and record type in real time: a [`Plan`] says whom to ask and when, the answers go back into it, until
//! it stops, the name's budget is spent or its time is over. Called by `sweep`, two at a time for each name.

use jiff::Timestamp;
use policies::plan::{Plan, Step};
use policies::{DnsSample, Host, Outcome, RecordType, Source, Vantage};
use tokio::time::{Instant, sleep, timeout_at};

use crate::names::authority::Authorities;
use crate::names::budget::Budget;
use crate::names::sample::Sampler;
use crate::names::wire::WireName;

/// What answers a plan's questions.
pub struct Vantages {
    /// Asks caches.
    pub sampler: Sampler,
    /// Draws from authorities.
    pub authorities: Authorities,
}

impl Vantages {
    /// One lookup as its source wants it.
    pub async fn sample(
        &self,
        host: &Host,
        record_type: RecordType,
        index: usize,
        source: &Source,
        budget: &Budget,
    ) -> DnsSample {
        match source.vantage {
            Vantage::Cache => {
                let qname = WireName::of_host(host);
                self.sampler.look(&qname, record_type, index, source, budget).await.sample
            }
            Vantage::Authority => self.authorities.sample(host, record_type, index, source, budget).await,
        }
    }
}

/// What a name may take.
pub struct Bounds {
    /// Queries, wherever they go.
    pub budget: Budget,
    /// When the name is given up, whatever is still on its way.
    pub until: Instant,
}

/// Carries the plan out until it stops. `false` where it wanted to ask more than the sampler or the budget allow. `seen`
/// is shown the plan after each answer. What the plan has learnt stays in it where this is dropped before.
pub async fn watch(
    vantages: &Vantages,
    plan: &mut Plan,
    bounds: &Bounds,
    mut seen: impl FnMut(&Plan, Timestamp),
) -> bool {
    let mut now = Timestamp::now();
    while let Step::Ask { source: index, at } = plan.next(now) {
        if at > now {
            sleep(at.duration_since(now).unsigned_abs()).await;
        }
        if vantages.sampler.is_spent() || bounds.budget.is_spent() {
            return false;
        }
        let source = &plan.sources()[index];
        let sample = vantages.sample(plan.host(), plan.record_type(), index, source, &bounds.budget);
        match timeout_at(bounds.until, sample).await {
            Ok(sample) => plan.record(sample),
            // An alias without end takes the time of a name before its first answer is there.
            Err(_) if plan.queries() == 0 => {
                plan.record(unanswered(index, at));
                return true;
            }
            Err(_) => return true,
        }
        now = Timestamp::now();
        seen(plan, now);
    }
    true
}

fn unanswered(source: usize, at: Timestamp) -> DnsSample {
    let rtt = Timestamp::now().duration_since(at).unsigned_abs();
    DnsSample { at, source, rtt, outcome: Outcome::Timeout, response: None }
}
