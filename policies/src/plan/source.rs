//! What the plan remembers of one source: how often it was asked, how it fails, and when its server may be asked
//! again.

use crate::policy::SamplingPolicy;
use crate::{DnsSample, Outcome, Source, Vantage};

/// First pause after a failure; it doubles with each further one. Milliseconds.
const BACKOFF_MS: i64 = 500;
/// Longest pause after a failure, milliseconds.
const LONGEST_BACKOFF_MS: i64 = 30_000;
/// Failures in a row after which a source that never answered is given up: four datagrams of ten may be lost.
const DEAD_AFTER: u32 = 6;
/// Pause after a cache denied the name: it keeps the denial for the negative TTL, so asking at once proves nothing.
const DENIED_MS: i64 = 6000;

/// Progress with one source.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    /// Lookups sent.
    pub(super) asked: u32,
    /// Lookups that brought addresses.
    pub(super) answered: u32,
    /// Lookups that denied the name.
    pub(super) denied: u32,
    /// Given up.
    pub(super) dead: bool,
    /// When the last lookup was sent, milliseconds.
    pub(super) last_asked: Option<i64>,
    /// Lookups without an address since the last one with one.
    failures: u32,
    /// The last lookup was a cache's denial.
    cached_denial: bool,
    vantage: Vantage,
    /// Sources of the same server share its pace.
    server: usize,
    /// When the server would have its whole burst again, milliseconds (GCRA).
    full_at: i64,
}

impl Progress {
    /// One for each source.
    pub(super) fn of(sources: &[Source]) -> Vec<Self> {
        let first =
            |s: &Source| sources.iter().position(|other| other.server == s.server).unwrap_or_default();
        sources
            .iter()
            .map(|source| Self {
                asked: 0,
                answered: 0,
                denied: 0,
                dead: false,
                last_asked: None,
                failures: 0,
                cached_denial: false,
                vantage: source.vantage,
                server: first(source),
                full_at: i64::MIN,
            })
            .collect()
    }

    /// Counts a sample, and charges it to the pace of its server.
    pub(super) fn record(all: &mut [Self], sample: &DnsSample, sampling: &SamplingPolicy) {
        let at = sample.at.as_millisecond();
        let Some(progress) = all.get_mut(sample.source) else { return };
        progress.asked += 1;
        progress.last_asked = Some(at);
        if matches!(sample.outcome, Outcome::Answered { .. }) {
            progress.answered += 1;
            progress.failures = 0;
        } else {
            progress.failures += 1;
            let denied = super::denies(&sample.outcome);
            progress.denied += u32::from(denied);
            progress.cached_denial = denied && progress.vantage == Vantage::Cache;
            let hopeless = matches!(
                sample.outcome,
                Outcome::Refused | Outcome::Lame | Outcome::Unreachable | Outcome::Malformed(_)
            );
            let limit = if hopeless { sampling.give_up } else { DEAD_AFTER };
            progress.dead |= progress.answered == 0 && progress.failures >= limit;
        }
        let server = progress.server;
        for other in all.iter_mut().filter(|p| p.server == server) {
            other.full_at = other.full_at.max(at).saturating_add(i64::from(sampling.pace_ms));
        }
    }

    /// When the server may be asked: at once within its burst, then at its pace.
    pub(super) fn paced(&self, sampling: &SamplingPolicy) -> i64 {
        let burst = i64::from(sampling.burst.max(1) - 1) * i64::from(sampling.pace_ms);
        self.full_at.saturating_sub(burst)
    }

    /// After a failure: when to try again.
    pub(super) fn retry_at(&self) -> Option<i64> {
        let doubled = BACKOFF_MS.checked_shl(self.failures.min(20).checked_sub(1)?)?;
        let pause = if self.cached_denial { doubled.max(DENIED_MS) } else { doubled };
        Some(self.last_asked?.saturating_add(pause.min(LONGEST_BACKOFF_MS)))
    }

    /// It answers, and its last lookups did.
    pub(super) fn reliable(&self) -> bool {
        self.answered > 0 && self.failures < 2 && !self.dead
    }
}
