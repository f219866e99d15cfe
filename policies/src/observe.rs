//! Facts of a window, no opinion: which samples were independent draws, which addresses were seen how often, what
//! changed when, how big the pool must be. An [`ObservationWindow`](crate::ObservationWindow) comes in, an
//! [`Observation`] goes out; `classify` and `recommend` read it, reports print it.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Host, ObservationWindow, OutcomeKind, RecordType, Vantage};

mod entry;
mod observer;
pub(crate) mod pool;
mod summary;

pub(crate) use observer::unroutable;
pub use observer::{Observer, SourceState};
pub(crate) use summary::overlap;

/// The facts of a window. The same as pushing its samples into an [`Observer`] one by one.
#[must_use]
pub fn observe(window: &ObservationWindow) -> Observation {
    let mut observer =
        Observer::new(window.host.clone(), window.record_type, &window.sources, window.started_at);
    for sample in &window.samples {
        observer.push(sample);
    }
    observer.into_observation(window.ended_at)
}

/// What a window shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// The name that was asked for.
    pub host: Host,
    /// The record type that was asked for.
    pub record_type: RecordType,
    /// First query.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// The last moment that the window speaks of.
    #[schemars(with = "String")]
    pub ended_at: Timestamp,
    /// Lookups made.
    pub queries: usize,
    /// Lookups by outcome, in the order of first appearance.
    pub outcomes: Vec<OutcomeCount>,
    /// Replies that were truncated (TC), whether or not TCP then gave the answer.
    pub truncated: usize,
    /// Independent draws: one per query at an authority, one per cache entry at a resolver.
    pub draws: Vec<Draw>,
    /// Every address seen, the most frequent first.
    pub addresses: Vec<AddressSeen>,
    /// Distinct addresses per draw.
    pub answer_size: Span,
    /// Different address sets among the draws.
    pub distinct_sets: usize,
    /// Successive draws of one source whose sets differ.
    pub set_changes: usize,
    /// Those of them that one authority gave within a second: both answers were valid at the same time. Not a change
    /// between two sets that stood for longer, before and after.
    pub simultaneous_changes: usize,
    /// Successive replies with the same set in another wire order.
    pub order_changes: usize,
    /// Set changes that look like operations (fail-over, scaling, replacement), not like draws.
    pub flips: Vec<Flip>,
    /// Time to live as published: the authority's value, else the greatest that a cache showed. Seconds.
    /// Absent where nothing was answered.
    pub ttl: Option<TtlSeen>,
    /// Mean number of addresses that two successive draws share.
    pub mean_overlap: f64,
    /// Answers of different sources never shared an address although both answered repeatedly.
    pub resolvers_disagree: bool,
    /// How big the pool behind the answers is.
    pub pool: Option<PoolEstimate>,
    /// The same facts by source.
    pub sources: Vec<SourceSeen>,
    /// CNAME chains seen, each as its targets joined by ` -> `, the most frequent first.
    pub cname_chains: Vec<String>,
}

impl Observation {
    /// Lookups whose outcome is of this kind.
    pub fn count(&self, is: impl Fn(OutcomeKind) -> bool) -> usize {
        self.outcomes.iter().filter(|seen| is(seen.outcome)).map(|seen| seen.count).sum()
    }
}

/// Lookups with one outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutcomeCount {
    /// The outcome.
    pub outcome: OutcomeKind,
    /// Lookups.
    pub count: usize,
}

/// One independent answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    /// When it was first seen.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Index into the window's sources.
    pub source: usize,
    /// It came out of a cache, where it stays until it expires; otherwise the next query draws anew.
    pub cached: bool,
    /// The address that came first on the wire.
    pub first: IpAddr,
    /// Distinct addresses, sorted.
    pub set: Arc<[IpAddr]>,
}

/// How often an address was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressSeen {
    /// The address.
    pub addr: IpAddr,
    /// Draws that held it.
    pub draws: usize,
    /// Share of the draws that held it, 0 to 1.
    pub presence: f64,
    /// Share of the draws in which it came first on the wire, 0 to 1: what `LOGICAL_DNS` would have used.
    pub first: f64,
}

/// Smallest, middle and greatest of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Smallest.
    pub min: usize,
    /// Median (the lower of the middle two).
    pub median: usize,
    /// Greatest.
    pub max: usize,
}

/// A change of the set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    /// When the new set was first seen.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The set before, sorted.
    pub from: Vec<IpAddr>,
    /// The set after, sorted.
    pub to: Vec<IpAddr>,
}

/// Times to live, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TtlSeen {
    /// Smallest over the addresses and the CNAME chain of an answer: what `STRICT_DNS` refreshes by.
    pub strict_s: u32,
    /// Of the first address and the CNAME chain: what `LOGICAL_DNS` refreshes by.
    pub logical_s: u32,
    /// Smallest that any reply showed, a cache's countdown included.
    pub lowest_s: u32,
    /// Greatest that any reply showed.
    pub highest_s: u32,
}

/// Size of the pool, distinct addresses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolEstimate {
    /// Distinct addresses seen.
    pub seen: usize,
    /// The most likely size.
    pub estimate: usize,
    /// Lower end of the 95 % interval.
    pub low: usize,
    /// Upper end of the 95 % interval; absent where the draws cannot bound it.
    pub high: Option<usize>,
    /// Estimated share of all draws' addresses that has been seen (Good-Turing), 0 to 1.
    pub coverage: f64,
}

/// Facts about one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSeen {
    /// Index into the window's sources.
    pub source: usize,
    /// What the server is to the zone.
    pub vantage: Vantage,
    /// Lookups sent to it.
    pub queries: usize,
    /// Lookups that it answered with addresses.
    pub answered: usize,
    /// Independent draws among them.
    pub draws: usize,
    /// Distinct addresses that it gave.
    pub addresses: usize,
    /// Answers with nothing but unroutable addresses, left out of the draws because others answer otherwise.
    pub sinkholes: usize,
}
