//! The published time to live of one source. Answers come in; a change goes out once it is no countdown of a cache and
//! no difference between the records of one name. Used by the machine of a source.

use serde::{Deserialize, Serialize};

use crate::{Answer, Cname, DnsSample, Vantage};

/// Answers with one TTL before a change of it is told.
const STEADY: u32 = 8;
/// Answers of a cache that must all show less than half before a lower TTL is told.
const LOWER: u32 = 64;

/// The TTL of one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TtlTrack {
    /// As published, seconds.
    accepted: Option<u32>,
    /// Answers that showed it.
    steady: u32,
    /// Another one, and how many answers in a row showed it.
    candidate: (u32, u32),
    /// Of a cache: the greatest of the answers below half, and how many.
    lower: (u32, u32),
}

impl TtlTrack {
    /// The smallest over the addresses and the chain: what `STRICT_DNS` refreshes by, seconds.
    pub(super) fn published(&self) -> Option<u32> {
        self.accepted
    }

    /// Adds an answer; a change as (before, after).
    pub(super) fn push(
        &mut self,
        answers: &[Answer],
        chain: &[Cname],
        sample: &DnsSample,
        vantage: Vantage,
    ) -> Option<(u32, u32)> {
        let ttl = answers.iter().map(|a| a.ttl).chain(chain.iter().map(|c| c.ttl)).min()?;
        let Some(accepted) = self.accepted else {
            (self.accepted, self.steady) = (Some(ttl), 1);
            return None;
        };
        let counts_down =
            vantage == Vantage::Cache || !sample.response.is_some_and(|response| response.authoritative);
        if ttl == accepted {
            self.steady = self.steady.saturating_add(1);
            (self.candidate, self.lower) = ((0, 0), (0, 0));
            return None;
        }
        if counts_down && ttl < accepted {
            self.lower = if 2 * ttl > accepted { (0, 0) } else { (self.lower.0.max(ttl), self.lower.1 + 1) };
            return if self.lower.1 >= LOWER { self.accept(self.lower.0) } else { None };
        }
        self.candidate = if self.candidate.0 == ttl { (ttl, self.candidate.1 + 1) } else { (ttl, 1) };
        if counts_down && self.steady < STEADY {
            // The first answers of a cache count down: the greatest is the published one.
            (self.accepted, self.steady) = (Some(ttl), 1);
            return None;
        }
        if self.candidate.1 < 3 {
            return None;
        }
        self.accept(ttl)
    }

    fn accept(&mut self, ttl: u32) -> Option<(u32, u32)> {
        let before = self.accepted.replace(ttl);
        let told = self.steady >= STEADY;
        *self = Self { accepted: Some(ttl), steady: 1, ..Self::default() };
        before.filter(|_| told).map(|before| (before, ttl))
    }
}
