//! Whom to ask next. Each cache once per TTL or `every`, whichever is longer, with jitter; the zone's own servers once in
//! ten rounds; three quick looks after something surprising. Used by the watcher; the engine carries it out.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Watcher;
use crate::{DnsSample, Host, Outcome, Source, Vantage};

/// Quick looks after a surprise.
const QUICK: u8 = 3;
/// Between quick looks at a server that draws for each query, milliseconds.
const QUICK_MS: i64 = 200;
/// Longest part of a cache entry's life that is waited for in a quick look, milliseconds.
const QUICK_WAIT_MS: i64 = 60_000;
/// One round in ten asks the zone's servers, too.
const ROUNDS: i64 = 10;

/// How often to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The shortest pause between two lookups of a name at one source.
    pub every: Duration,
    /// The longest, whatever the TTL is.
    pub longest: Duration,
}

impl Default for Pace {
    /// Once per TTL, 30 s at least and an hour at most.
    fn default() -> Self {
        Self { every: Duration::from_secs(30), longest: Duration::from_secs(3600) }
    }
}

/// What was asked when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Schedule {
    sources: Vec<Asked>,
    /// Quick looks that are left.
    quick: u8,
    queries: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    last_ms: Option<i64>,
    /// When the entry that was seen last is gone from its cache.
    fresh_ms: i64,
    /// Smallest part of the pause that is waited for as jitter, in 1/256.
    jitter: u8,
}

impl Schedule {
    pub(super) fn new(sources: usize) -> Self {
        Self { sources: vec![Asked::default(); sources], quick: 0, queries: 0 }
    }

    pub(super) fn moved(&self, places: &[Option<usize>], sources: usize) -> Self {
        let mut moved = Self { queries: self.queries, ..Self::new(sources) };
        for (old, new) in places.iter().enumerate() {
            if let (Some(asked), Some(new)) = (self.sources.get(old), new) {
                moved.sources[*new] = *asked;
            }
        }
        moved
    }

    pub(super) fn queries(&self) -> u64 {
        self.queries
    }

    pub(super) fn last_ms(&self) -> Option<i64> {
        self.sources.iter().filter_map(|asked| asked.last_ms).max()
    }

    pub(super) fn first_round_done(&self, sources: &[Source]) -> bool {
        let caches = sources.iter().any(|s| s.vantage == Vantage::Cache);
        self.sources
            .iter()
            .zip(sources)
            .filter(|(_, s)| !caches || s.vantage == Vantage::Cache)
            .all(|(asked, _)| asked.last_ms.is_some())
    }

    /// Notes a lookup.
    pub(super) fn asked(&mut self, sample: &DnsSample, surprising: bool, _pace: &Pace, host: &Host) {
        let at = sample.at.as_millisecond();
        self.queries = self.queries.saturating_add(1);
        let Some(asked) = self.sources.get_mut(sample.source) else { return };
        asked.last_ms = Some(at);
        let ttl = match &sample.outcome {
            Outcome::Answered { answers, .. } => answers.iter().map(|a| a.ttl).min().unwrap_or_default(),
            _ => 0,
        };
        asked.fresh_ms = at + 1000 * i64::from(ttl.min(86_400));
        asked.jitter = jitter(host, self.queries);
        self.quick = match (surprising, self.quick) {
            (false, _) => 0,
            // A surprise begins with three looks; while it lasts, the last of them stays.
            (true, 0) => QUICK,
            (true, left) => (left - 1).max(1),
        };
    }

    pub(super) fn next(&self, watcher: &Watcher, pace: &Pace, now: Timestamp) -> Option<(usize, Timestamp)> {
        let now = now.as_millisecond();
        let sources = watcher.sources();
        let caches = sources.iter().any(|s| s.vantage == Vantage::Cache);
        let authorities = sources.iter().filter(|s| s.vantage == Vantage::Authority).count();
        let surprised = watcher.surprising();
        let due = sources.iter().zip(&self.sources).enumerate().map(|(place, (source, asked))| {
            let direct = source.vantage == Vantage::Authority;
            let Some(last) = asked.last_ms else { return (now, place) };
            // A clock that was set back: do not wait until it is there again.
            let (last, fresh) = if last > now { (now, now) } else { (last, asked.fresh_ms) };
            let every = millis(pace.every);
            let life = i64::from(watcher.ttl_s().unwrap_or_default()) * 1000;
            let pause = if direct { life } else { fresh - last + 500 };
            let mut pause = pause.clamp(every, millis(pace.longest).max(every));
            pause += (pause / 10).min(3000) * i64::from(asked.jitter) / 256;
            if direct && caches {
                pause = pause.saturating_mul(ROUNDS * i64::try_from(authorities).unwrap_or(1));
            }
            if surprised {
                let quick = if direct { QUICK_MS } else { (fresh - last + 500).clamp(1000, QUICK_WAIT_MS) };
                // After the quick looks, a surprise that lasts is looked at as often as any name.
                let looks = if self.quick > 1 { quick } else { quick.max(every) };
                pause = pause.min(looks);
            }
            (last.saturating_add(pause), place)
        });
        let (at, next) = due.min()?;
        Some((next, Timestamp::from_millisecond(at.max(now)).ok()?))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Spreads names that were added together.
#[expect(clippy::cast_possible_truncation, reason = "eight bits of a hash")]
fn jitter(host: &Host, round: u64) -> u8 {
    let mut hash = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in host.as_str().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash >> 40) as u8
}
