//! The running record of a window: samples come in one by one, cheaply; draws and, when asked, the whole
//! [`Observation`] go out. Used by `observe` and by the sampling plan.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;

use super::entry::{Entries, Reply, Seen};
use super::{Draw, Observation, OutcomeCount, SourceSeen, TtlSeen, summary};
use crate::{Answer, Cname, DnsSample, Host, Outcome, OutcomeKind, RecordType, Source, Vantage};

/// Different CNAME chains that are remembered.
const REMEMBERED_CHAINS: usize = 64;

/// A running record of one host and record type.
#[derive(Debug, Clone)]
pub struct Observer {
    pub(super) host: Host,
    pub(super) record_type: RecordType,
    pub(super) started_at: Timestamp,
    pub(super) queries: usize,
    pub(super) truncated: usize,
    /// By name, in the order of first appearance.
    pub(super) outcomes: Vec<OutcomeCount>,
    pub(super) order_changes: usize,
    pub(super) chains: Vec<(Vec<Cname>, usize)>,
    pub(super) sources: Vec<SourceState>,
    draws: Vec<Draw>,
    sinkholes: Vec<Draw>,
    authority_ttl: Option<TtlSeen>,
    cache_ttl: Option<TtlSeen>,
    sinkhole_ttl: Option<TtlSeen>,
}

/// What is known of one source so far.
#[derive(Debug, Clone)]
pub struct SourceState {
    pub(super) seen: SourceSeen,
    entries: Entries,
    /// The last reply's addresses in wire order.
    wire: Vec<IpAddr>,
    /// The same, distinct and sorted.
    set: Arc<[IpAddr]>,
}

impl SourceState {
    /// The counts.
    #[must_use]
    pub fn seen(&self) -> &SourceSeen {
        &self.seen
    }

    /// Whether the next query draws anew without a wait (an authority, or nothing is cached). False before the first
    /// answer.
    #[must_use]
    pub fn direct(&self) -> bool {
        self.entries.direct()
    }

    /// When a new draw can be had, in milliseconds since the epoch: a second after the expiry of the cache entry that
    /// was seen last. `None` before the first answer.
    #[must_use]
    pub fn next_fresh_ms(&self) -> Option<i64> {
        self.entries.next_fresh()
    }

    /// Takes a reply's addresses; true if the previous reply had the same ones in another order.
    fn reordered(&mut self, answers: &[Answer]) -> bool {
        let wire = answers.iter().map(|answer| answer.addr);
        if wire.clone().eq(self.wire.iter().copied()) {
            return false;
        }
        let as_many = self.wire.len() == answers.len();
        self.wire.clear();
        self.wire.extend(wire);
        let mut set = self.wire.clone();
        set.sort_unstable();
        set.dedup();
        let same_set = *self.set == *set;
        if !same_set {
            self.set = set.into();
        }
        as_many && same_set
    }
}

impl Observer {
    /// An empty record.
    #[must_use]
    pub fn new(host: Host, record_type: RecordType, sources: &[Source], started_at: Timestamp) -> Self {
        let sources = sources.iter().enumerate().map(|(source, s)| SourceState {
            seen: SourceSeen {
                source,
                vantage: s.vantage,
                queries: 0,
                answered: 0,
                draws: 0,
                addresses: 0,
                sinkholes: 0,
            },
            entries: Entries::new(s.vantage),
            wire: Vec::new(),
            set: Arc::default(),
        });
        Self {
            host,
            record_type,
            started_at,
            queries: 0,
            truncated: 0,
            outcomes: Vec::new(),
            order_changes: 0,
            chains: Vec::new(),
            sources: sources.collect(),
            draws: Vec::new(),
            sinkholes: Vec::new(),
            authority_ttl: None,
            cache_ttl: None,
            sinkhole_ttl: None,
        }
    }

    /// Adds a sample; they come in the order in which they were sent. A sample of a source that the window does not
    /// list is counted, but is no draw.
    pub fn push(&mut self, sample: &DnsSample) {
        self.queries += 1;
        self.truncated += usize::from(sample.response.is_some_and(|r| r.truncated));
        self.count(sample.outcome.kind());
        let Some(state) = self.sources.get_mut(sample.source) else { return };
        state.seen.queries += 1;
        if let Outcome::Answered { answers, cname_chain } = &sample.outcome
            && let Some(first) = answers.first()
        {
            state.seen.answered += 1;
            self.answered(sample, first.addr, answers, cname_chain);
        }
    }

    /// The draws so far, in order. Answers of nothing but unroutable addresses (a sinkhole) are among them only as
    /// long as nobody answered anything else.
    #[must_use]
    pub fn draws(&self) -> &[Draw] {
        if self.only_sinkholes() { &self.sinkholes } else { &self.draws }
    }

    /// Whether nobody has answered with a routable address. When that changes, the draws start anew.
    #[must_use]
    pub fn only_sinkholes(&self) -> bool {
        self.draws.is_empty()
    }

    /// What is known of each source.
    #[must_use]
    pub fn sources(&self) -> &[SourceState] {
        &self.sources
    }

    /// Lookups so far.
    #[must_use]
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// Times to live as published: the authority's, else the greatest that a cache showed.
    #[must_use]
    pub fn ttl(&self) -> Option<TtlSeen> {
        self.authority_ttl.or(self.cache_ttl).or(self.sinkhole_ttl)
    }

    /// All facts so far.
    #[must_use]
    pub fn observation(&self, ended_at: Timestamp) -> Observation {
        summary::summarise(self, self.draws().to_vec(), ended_at)
    }

    /// All facts, at the end.
    #[must_use]
    pub fn into_observation(mut self, ended_at: Timestamp) -> Observation {
        let draws = if self.only_sinkholes() { &mut self.sinkholes } else { &mut self.draws };
        let draws = std::mem::take(draws);
        summary::summarise(&self, draws, ended_at)
    }

    fn count(&mut self, outcome: OutcomeKind) {
        match self.outcomes.iter_mut().find(|known| known.outcome == outcome) {
            Some(known) => known.count += 1,
            None => self.outcomes.push(OutcomeCount { outcome, count: 1 }),
        }
    }

    fn answered(&mut self, sample: &DnsSample, first: IpAddr, answers: &[Answer], chain: &[Cname]) {
        let sunk = answers.iter().all(|answer| unroutable(answer.addr));
        self.see_ttl(sample.source, sunk, answers, chain);
        self.see_chain(chain);
        let state = &mut self.sources[sample.source];
        self.order_changes += usize::from(state.reordered(answers));
        let set = Arc::clone(&state.set);
        let reply = Reply {
            at: sample.at.as_millisecond(),
            ttl: answers.iter().map(|a| a.ttl).min().unwrap_or_default(),
            authoritative: sample.response.is_some_and(|r| r.authoritative),
            set: &set,
        };
        let shared =
            self.sources.iter().enumerate().any(|(i, s)| i != sample.source && s.entries.holds(reply));
        let state = &mut self.sources[sample.source];
        if let Seen::Draw { cached } = state.entries.push(reply)
            && !(cached && shared)
        {
            let draw = Draw { at: sample.at, source: sample.source, cached, first, set };
            if sunk {
                state.seen.sinkholes += 1;
                self.sinkholes.push(draw);
            } else {
                self.draws.push(draw);
            }
        }
    }

    fn see_ttl(&mut self, source: usize, sunk: bool, answers: &[Answer], chain: &[Cname]) {
        let alias = chain.iter().map(|c| c.ttl).min().unwrap_or(u32::MAX);
        let lowest = answers.iter().map(|a| a.ttl).min().unwrap_or_default();
        let highest = answers.iter().map(|a| a.ttl).max().unwrap_or_default();
        let now = TtlSeen {
            strict_s: lowest.min(alias),
            logical_s: answers.first().map_or(0, |a| a.ttl).min(alias),
            lowest_s: lowest,
            highest_s: highest,
        };
        let (slot, published): (_, fn(u32, u32) -> u32) = match self.sources[source].seen.vantage {
            _ if sunk => (&mut self.sinkhole_ttl, u32::max),
            Vantage::Authority => (&mut self.authority_ttl, u32::min),
            Vantage::Cache => (&mut self.cache_ttl, u32::max),
        };
        let before = slot.unwrap_or(now);
        *slot = Some(TtlSeen {
            strict_s: published(before.strict_s, now.strict_s),
            logical_s: published(before.logical_s, now.logical_s),
            lowest_s: before.lowest_s.min(lowest),
            highest_s: before.highest_s.max(highest),
        });
    }

    fn see_chain(&mut self, chain: &[Cname]) {
        if chain.is_empty() {
            return;
        }
        let same = |known: &[Cname]| {
            known.len() == chain.len()
                && known.iter().zip(chain).all(|(a, b)| a.target.eq_ignore_ascii_case(&b.target))
        };
        match self.chains.iter().position(|(known, _)| same(known)) {
            Some(known) => self.chains[known].1 += 1,
            None if self.chains.len() < REMEMBERED_CHAINS => self.chains.push((chain.to_vec(), 1)),
            None => {}
        }
    }
}

/// Nothing behind it can be reached from another machine: what sinkholes and blocked names answer.
pub(crate) fn unroutable(addr: IpAddr) -> bool {
    let addr = addr.to_canonical();
    addr.is_unspecified() || addr.is_loopback() || addr == IpAddr::from([255, 255, 255, 255])
}
