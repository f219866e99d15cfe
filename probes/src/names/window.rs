//! One host and record type in real time: a [`Plan`] says whom to ask and when, the answers go back into it, until
//! it stops. Called by `sweep`, two at a time for each name.

use jiff::Timestamp;
use policies::plan::{Plan, Step};
use policies::{DnsSample, Host, RecordType, Source, Vantage};
use tokio::time::sleep;

use crate::names::authority::Authorities;
use crate::names::sample::Sampler;

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
    ) -> DnsSample {
        match source.vantage {
            Vantage::Cache => self.sampler.sample(host, record_type, index, source).await,
            Vantage::Authority => self.authorities.sample(host, record_type, index, source).await,
        }
    }
}

/// Carries the plan out until it stops, or the sampler may ask no more. `seen` is shown the plan after each answer.
/// What the plan has learnt stays in it where this is dropped before.
pub async fn watch(vantages: &Vantages, plan: &mut Plan, mut seen: impl FnMut(&Plan, Timestamp)) {
    let mut now = Timestamp::now();
    while let Step::Ask { source: index, at } = plan.next(now) {
        if at > now {
            sleep(at.duration_since(now).unsigned_abs()).await;
        }
        if vantages.sampler.is_spent() {
            return;
        }
        let source = &plan.sources()[index];
        let sample = vantages.sample(plan.host(), plan.record_type(), index, source).await;
        plan.record(sample);
        now = Timestamp::now();
        seen(plan, now);
    }
}
