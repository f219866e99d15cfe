//! Answers for ever: one [`Watcher`] a name and record type holds a state machine for each source. Samples come in, with
//! their time; [`Event`]s, the verdict of now and whom to ask next go out. No clock and no socket, so that real time
//! (`probes::names::watching`) and simulated time (`lab watch-score`) share it. The state is plain data that a store
//! keeps over restarts.
//!
//! The sequential test was made for windows that end; run for ever it would cross a bound by chance. So the classifier
//! sees a bounded, sliding window of the last draws, and a class changes only after its verdict has held. A pool that
//! rotates has statistics and no flips.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Classification, DnsSample, Host, Observation, ObservationWindow, Policy, RecordType, ResolutionClass,
    Source, classify, observe,
};

mod class;
mod event;
mod machine;
mod members;
mod presence;
mod runs;
mod schedule;
mod ttl;

use class::ClassTrack;
pub use event::{Event, Trouble, What};
use machine::{Machine, Pool};
pub use runs::{Run, Runs, Seen};
pub use schedule::Pace;
use schedule::Schedule;

/// Draws of the sliding window.
pub const DRAWS: u32 = 64;
/// Draws of two sources before they may be said to disagree, and how often that is looked at.
const DISAGREE: u32 = 8;

/// One name and record type, watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watcher {
    host: Host,
    record_type: RecordType,
    sources: Vec<Source>,
    machines: Vec<Machine>,
    runs: Runs,
    class: ClassTrack,
    schedule: Schedule,
    /// Pairs of sources that disagree.
    disagree: Vec<(usize, usize)>,
    started_ms: i64,
}

/// How a name stands.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent troubles, each a metric and a JSON field of its own"
)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// The name.
    pub host: Host,
    /// The record type.
    pub record_type: RecordType,
    /// The class that has held; `InsufficientData` until one has.
    pub class: ResolutionClass,
    /// The pool's addresses as far as absence means something, sorted; the last answer's where it rotates.
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<std::net::IpAddr>,
    /// Published TTL, seconds.
    pub ttl_s: Option<u32>,
    /// Every source that ever answered says that there is no address.
    pub vanished: bool,
    /// Lookups at every source fail.
    pub failing: bool,
    /// Some source answers with nothing but unroutable addresses.
    pub unroutable: bool,
    /// Some sources have no address in common.
    pub disagree: bool,
    /// Time of the last answer.
    #[schemars(with = "Option<String>")]
    pub answered_at: Option<Timestamp>,
    /// Lookups so far.
    pub queries: u64,
}

impl Watcher {
    /// Watches a name from now on.
    #[must_use]
    pub fn new(host: Host, record_type: RecordType, sources: Vec<Source>, now: Timestamp) -> Self {
        let machines = sources.iter().map(|_| Machine::default()).collect();
        let schedule = Schedule::new(sources.len());
        Self {
            host,
            record_type,
            sources,
            machines,
            runs: Runs::default(),
            class: ClassTrack::default(),
            schedule,
            disagree: Vec::new(),
            started_ms: now.as_millisecond(),
        }
    }

    /// Other servers speak for the zone from now on; what is known of those that stay is kept.
    pub fn set_sources(&mut self, sources: Vec<Source>) {
        if sources == self.sources {
            return;
        }
        let place = |source: &Source| self.sources.iter().position(|old| old == source);
        let machines = sources.iter().map(|s| place(s).map(|i| self.machines[i].clone()).unwrap_or_default());
        let machines: Vec<_> = machines.collect();
        let moved: Vec<_> = self.sources.iter().map(|old| sources.iter().position(|s| s == old)).collect();
        let runs = self.runs.iter().filter_map(|run| {
            let source = moved.get(run.source).copied().flatten()?;
            Some(Run { source, ..run.clone() })
        });
        self.runs = Runs::of(runs);
        self.schedule = self.schedule.moved(&moved, sources.len());
        (self.machines, self.sources) = (machines, sources);
        self.disagree.clear();
    }

    /// Whom to ask next, and when.
    #[must_use]
    pub fn next(&self, pace: &Pace, now: Timestamp) -> Option<(usize, Timestamp)> {
        self.schedule.next(self, pace, now)
    }

    /// Adds a sample; what happened goes out.
    pub fn record(&mut self, sample: &DnsSample, policy: &Policy, pace: &Pace) -> Vec<Event> {
        let Some(source) = self.sources.get(sample.source) else { return Vec::new() };
        let (vantage, server) = (source.vantage, source.server.to_string());
        let pool = self.pool();
        let new_run = self.runs.push(sample);
        self.runs.keep(DRAWS);
        let found = self.machines[sample.source].push(sample, vantage, pool);
        let mut events: Vec<Event> = found
            .into_iter()
            .map(|(since, what)| self.event(Some(server.clone()), since, sample.at, what))
            .collect();
        events.extend(self.judge(sample, new_run, policy));
        events.extend(self.compare(sample));
        let surprising = self.machines[sample.source].surprising(self.pool());
        self.schedule.asked(sample, surprising, pace, &self.host);
        events
    }

    /// Lets the classifier see the window where it may have something to say.
    fn judge(&mut self, sample: &DnsSample, new_run: bool, policy: &Policy) -> Vec<Event> {
        let ttl_s = self.ttl_s().unwrap_or_default();
        if !self.class.due(sample, new_run) {
            return Vec::new();
        }
        let verdict = self.classification(policy);
        let at = sample.at.as_millisecond();
        let Some((from, to, since)) = self.class.push(&verdict, at, ttl_s, policy) else { return Vec::new() };
        let mut events = Vec::new();
        let since = Timestamp::from_millisecond(since).unwrap_or(sample.at);
        events.push(self.event(None, since, sample.at, What::ClassChanged { from, to }));
        match self.pool() {
            Pool::Small if from != ResolutionClass::RotatingPool => {
                for place in 0..self.machines.len() {
                    let found = self.machines[place].settle();
                    let server = self.sources[place].server.to_string();
                    events.extend(
                        found
                            .into_iter()
                            .map(|(s, what)| self.event(Some(server.clone()), s, sample.at, what)),
                    );
                }
            }
            _ => self.machines.iter_mut().for_each(Machine::forget_pool),
        }
        events
    }

    /// Sources whose pools have no address in common.
    fn compare(&mut self, sample: &DnsSample) -> Vec<Event> {
        let one = sample.source;
        let draws = self.machines[one].members.draws();
        if self.sources.len() < 2
            || self.pool() != Pool::Small
            || draws < DISAGREE
            || !draws.is_multiple_of(DISAGREE)
        {
            return Vec::new();
        }
        let mine = self.machines[one].members.addresses();
        let mut events = Vec::new();
        for other in (0..self.sources.len()).filter(|other| *other != one) {
            let theirs = &self.machines[other].members;
            if mine.is_empty() || theirs.draws() < DISAGREE || theirs.addresses().is_empty() {
                continue;
            }
            let pair = (one.min(other), one.max(other));
            let apart = theirs.addresses().iter().all(|addr| mine.binary_search(addr).is_err());
            // Right after a flip one of them is behind.
            let unsettled =
                self.machines[one].surprising(Pool::Small) || self.machines[other].surprising(Pool::Small);
            let known = self.disagree.iter().position(|p| *p == pair);
            match known {
                None if apart && !unsettled => {
                    self.disagree.push(pair);
                    let servers = [pair.0, pair.1].map(|i| self.sources[i].server.to_string());
                    events.push(self.event(None, sample.at, sample.at, What::SourcesDisagree { servers }));
                }
                Some(place) if !apart => {
                    self.disagree.remove(place);
                }
                _ => {}
            }
        }
        events
    }

    fn event(&self, source: Option<String>, since: Timestamp, at: Timestamp, what: What) -> Event {
        Event::new(self.host.clone(), Some(self.record_type), source, [since.min(at), at], what)
    }

    fn pool(&self) -> Pool {
        match self.class.class() {
            ResolutionClass::SingleVip | ResolutionClass::FixedMultiIp => Pool::Small,
            ResolutionClass::RotatingPool => Pool::Rotating,
            ResolutionClass::Unresolvable | ResolutionClass::InsufficientData => Pool::Unknown,
        }
    }

    fn ttl_s(&self) -> Option<u32> {
        let speaks = |vantage| {
            let own = self.sources.iter().zip(&self.machines).filter(move |(s, _)| s.vantage == vantage);
            own.filter_map(|(_, machine)| machine.ttl_s()).max()
        };
        speaks(crate::Vantage::Authority).or_else(|| speaks(crate::Vantage::Cache))
    }

    /// What is surprising at some source is worth another look at all of them.
    fn surprising(&self) -> bool {
        self.machines.iter().any(|machine| machine.surprising(self.pool()))
    }

    /// The window that the classifier sees.
    #[must_use]
    pub fn window(&self) -> ObservationWindow {
        self.runs.window(&self.host, self.record_type, &self.sources, 2 * DRAWS)
    }

    /// The facts of the sliding window.
    #[must_use]
    pub fn observation(&self) -> Observation {
        observe(&self.window())
    }

    /// The verdict on the sliding window, whether or not it has held.
    #[must_use]
    pub fn classification(&self, policy: &Policy) -> Classification {
        classify(&self.observation(), policy)
    }

    /// How the name stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let mut addresses: Vec<_> = self.machines.iter().flat_map(|m| m.members.addresses()).collect();
        let last = self.runs.iter().rev().find_map(|run| match &run.seen {
            Seen::Addresses { set, .. } => Some(set.to_vec()),
            Seen::Other(_) => None,
        });
        if addresses.is_empty() {
            addresses = last.unwrap_or_default();
        }
        addresses.sort_unstable();
        addresses.dedup();
        let all = |is: fn(&Machine) -> bool| !self.machines.is_empty() && self.machines.iter().all(is);
        let answering = self.machines.iter().filter(|m| m.answers() && !m.failing());
        let vanished = answering.clone().count() > 0 && answering.clone().all(Machine::vanished);
        Standing {
            host: self.host.clone(),
            record_type: self.record_type,
            class: self.class.class(),
            addresses: if vanished { Vec::new() } else { addresses },
            ttl_s: self.ttl_s(),
            vanished,
            failing: all(Machine::failing),
            unroutable: self.machines.iter().any(Machine::sunk),
            disagree: !self.disagree.is_empty(),
            answered_at: self.schedule.last_ms().and_then(|ms| Timestamp::from_millisecond(ms).ok()),
            queries: self.schedule.queries(),
        }
    }

    /// The name.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The record type.
    #[must_use]
    pub fn record_type(&self) -> RecordType {
        self.record_type
    }

    /// Who is asked.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The class that has held.
    #[must_use]
    pub fn class(&self) -> ResolutionClass {
        self.class.class()
    }

    /// Every source that is expected to has been asked.
    #[must_use]
    pub fn first_round_done(&self) -> bool {
        self.schedule.first_round_done(&self.sources)
    }
}

#[cfg(test)]
mod tests;
