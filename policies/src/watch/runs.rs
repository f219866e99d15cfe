//! Answers over time, small: equal answers of one source in a row are one [`Run`]. Samples come in; the runs, and the
//! [`ObservationWindow`] that they stand for, go out. The watcher keeps the last draws of a name in it for the
//! classifier; the store keeps days of it.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Answer, Cname, DnsSample, Host, ObservationWindow, Outcome, RecordType, Response, Source, Transport,
};

/// Samples that one run stands for at most in a window: what is always the same needs no more proof.
const EXPANDED: u32 = 64;

/// Equal answers of one source in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Index of the source.
    pub source: usize,
    /// The first of them, milliseconds since the epoch.
    pub from_ms: i64,
    /// The last of them, milliseconds since the epoch.
    pub to_ms: i64,
    /// How many.
    pub count: u32,
    /// Times that the order on the wire changed among them.
    pub reorders: u32,
    /// The server spoke for the zone (AA).
    pub authoritative: bool,
    /// Greatest TTL of them, seconds: a cache's counts down.
    pub ttl_s: u32,
    /// What was answered.
    pub seen: Seen,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Seen {
    /// These addresses.
    Addresses {
        /// Distinct, sorted.
        #[schemars(with = "Vec<String>")]
        set: Arc<[IpAddr]>,
        /// The names that aliases led through.
        #[serde(default, skip_serializing_if = "chain_is_empty")]
        #[schemars(with = "Vec<String>")]
        chain: Arc<[String]>,
    },
    /// Something else.
    Other(Outcome),
}

fn chain_is_empty(chain: &Arc<[String]>) -> bool {
    chain.is_empty()
}

/// The last answers of one name and record type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Runs {
    runs: VecDeque<Run>,
    /// The last wire order's first address by source: tells reordering.
    #[schemars(with = "Vec<Option<String>>")]
    first: Vec<Option<IpAddr>>,
}

impl Runs {
    /// Runs that were kept.
    #[must_use]
    pub fn of(runs: impl IntoIterator<Item = Run>) -> Self {
        Self { runs: runs.into_iter().collect(), first: Vec::new() }
    }

    /// In the order of their first answers.
    #[must_use = "it only reads"]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.runs.iter()
    }

    /// How many runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Nothing was answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a sample; true if it began a new run.
    pub fn push(&mut self, sample: &DnsSample) -> bool {
        let at = sample.at.as_millisecond();
        let authoritative = sample.response.is_some_and(|r| r.authoritative);
        let (ttl, first) = match &sample.outcome {
            Outcome::Answered { answers, .. } => {
                (answers.iter().map(|a| a.ttl).min().unwrap_or_default(), answers.first().map(|a| a.addr))
            }
            _ => (0, None),
        };
        if self.first.len() <= sample.source {
            self.first.resize(sample.source + 1, None);
        }
        let before = std::mem::replace(&mut self.first[sample.source], first);
        if let Some(run) = self.runs.iter_mut().rev().find(|run| run.source == sample.source)
            && run.authoritative == authoritative
            && run.seen.is(&sample.outcome)
        {
            run.to_ms = run.to_ms.max(at);
            run.count = run.count.saturating_add(1);
            run.ttl_s = run.ttl_s.max(ttl);
            run.reorders = run.reorders.saturating_add(u32::from(before != first));
            return false;
        }
        let seen = self.seen(&sample.outcome);
        self.runs.push_back(Run {
            source: sample.source,
            from_ms: at,
            to_ms: at,
            count: 1,
            reorders: 0,
            authoritative,
            ttl_s: ttl,
            seen,
        });
        true
    }

    /// Sets that are known share their memory.
    fn seen(&self, outcome: &Outcome) -> Seen {
        let Outcome::Answered { answers, cname_chain } = outcome else { return Seen::Other(outcome.clone()) };
        if let Some(known) = self.runs.iter().rev().find(|run| run.seen.is(outcome)) {
            return known.seen.clone();
        }
        let chain: Vec<_> = cname_chain.iter().map(|link| link.target.clone()).collect();
        let chain = self.runs.iter().rev().find_map(|run| match &run.seen {
            Seen::Addresses { chain: known, .. } if **known == *chain => Some(Arc::clone(known)),
            _ => None,
        });
        let chain = chain.unwrap_or_else(|| cname_chain.iter().map(|link| link.target.clone()).collect());
        Seen::Addresses { set: set_of(answers).into(), chain }
    }

    /// Drops what is older than the last `draws` answers with addresses; as many answers without are kept.
    pub fn keep(&mut self, draws: u32) {
        let (mut answered, mut other, mut cut) = (0_u32, 0_u32, 0);
        for (place, run) in self.runs.iter().enumerate().rev() {
            let count = if matches!(run.seen, Seen::Addresses { .. }) { &mut answered } else { &mut other };
            if *count >= draws {
                cut = place + 1;
                break;
            }
            *count = count.saturating_add(run.count);
        }
        self.runs.drain(..cut);
    }

    /// The window that the runs stand for: the last `draws` answers, each run with its times evenly between.
    #[must_use]
    pub fn window(
        &self,
        host: &Host,
        record_type: RecordType,
        sources: &[Source],
        draws: u32,
    ) -> ObservationWindow {
        let mut samples = Vec::new();
        let mut left = draws;
        for run in self.runs.iter().rev() {
            if left == 0 {
                break;
            }
            let taken = run.count.min(EXPANDED).min(left);
            left -= taken;
            samples.extend((0..taken).map(|back| run.sample(back)));
        }
        samples.sort_by_key(|sample: &DnsSample| sample.at);
        let time = |sample: Option<&DnsSample>| sample.map_or(Timestamp::UNIX_EPOCH, |s| s.at);
        let (started_at, ended_at) = (time(samples.first()), time(samples.last()));
        ObservationWindow {
            host: host.clone(),
            record_type,
            sources: sources.to_vec(),
            started_at,
            ended_at,
            samples,
        }
    }
}

impl Run {
    /// The sample that lies `back` before the last.
    fn sample(&self, back: u32) -> DnsSample {
        let between = (self.to_ms - self.from_ms) / i64::from(self.count.max(2) - 1);
        let at = self.to_ms - i64::from(back) * between;
        let outcome = match &self.seen {
            Seen::Other(outcome) => outcome.clone(),
            Seen::Addresses { set, chain } => {
                let mut answers: Vec<_> =
                    set.iter().map(|addr| Answer { addr: *addr, ttl: self.ttl_s }).collect();
                if back < self.reorders && !answers.is_empty() {
                    let by = (back as usize + 1) % answers.len();
                    answers.rotate_left(by);
                }
                let link = |target: &String| Cname { target: target.clone(), ttl: self.ttl_s };
                Outcome::Answered { answers, cname_chain: chain.iter().map(link).collect() }
            }
        };
        let answered = !matches!(outcome, Outcome::Timeout | Outcome::Unreachable | Outcome::Malformed(_));
        let response = answered.then_some(Response {
            size: 0,
            authoritative: self.authoritative,
            truncated: false,
            transport: Transport::Udp,
            edns: None,
            ecs_scope: None,
        });
        DnsSample {
            at: Timestamp::from_millisecond(at).unwrap_or_default(),
            source: self.source,
            rtt: Duration::ZERO,
            outcome,
            response,
        }
    }
}

impl Seen {
    fn is(&self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (Self::Addresses { set, chain }, Outcome::Answered { answers, cname_chain }) => {
                let same_chain = chain.len() == cname_chain.len()
                    && chain.iter().zip(cname_chain).all(|(a, b)| a.eq_ignore_ascii_case(&b.target));
                same_chain
                    && answers.iter().all(|answer| set.binary_search(&answer.addr).is_ok())
                    && (answers.len() == set.len() && set.len() < 2 || set_of(answers).len() == set.len())
            }
            (Self::Other(known), other) => known == other,
            _ => false,
        }
    }
}

/// Distinct addresses, sorted.
pub(super) fn set_of(answers: &[Answer]) -> Vec<IpAddr> {
    let mut set: Vec<_> = answers.iter().map(|answer| answer.addr).collect();
    set.sort_unstable();
    set.dedup();
    set
}
