//! The sampling schedule of one host and record type: whom to ask next, when, and when to stop. Time and answers come
//! in, steps go out; no clock and no socket, so that real time (`probes::names::window`) and simulated time
//! (`probes::names::score`) share it.
//!
//! A pool that answers differently at once is asked in a burst until the test decides. A name that seems settled is
//! looked at a few times more, spread over the time that a settled name needs. A cache is asked again when its entry
//! has expired. Every source is asked at least once; one that fails is left alone for longer each time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::classify::sequential::Test;
use crate::classify::verdict::Context;
use crate::observe::Observer;
use crate::policy::Policy;
use crate::{
    Classification, DnsSample, Host, Observation, ObservationWindow, Outcome, RecordType, Source, Vantage,
    classify,
};

mod source;

use source::Progress;

/// Lookups of one server that most names with addresses take.
const USUAL_LOOKUPS: usize = 8;

/// How long to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Until the test decides, at most the policy's `max_window_s`.
    Auto,
    /// Until the test decides, at most the policy's `quick_window_ms`.
    Quick,
    /// Until the test decides, however long that takes.
    Decided,
    /// For this time, decided or not.
    Fixed(Duration),
}

impl Window {
    /// The most time that it takes.
    #[must_use]
    pub fn longest(self, policy: &Policy) -> Duration {
        match self {
            Self::Auto => Duration::from_secs(policy.sampling.max_window_s.into()),
            Self::Quick => Duration::from_millis(policy.sampling.quick_window_ms.into()),
            Self::Decided => Duration::from_secs(u32::MAX.into()),
            Self::Fixed(length) => length,
        }
    }
}

/// Bounds of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long to look.
    pub window: Window,
    /// Lookups at most.
    pub max_queries: usize,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Ask a source, not before a time, which may lie in the future.
    Ask {
        /// Index into the plan's sources.
        source: usize,
        /// When to send the query; now or later.
        at: Timestamp,
    },
    /// Nothing more is to be asked.
    Stop(StopReason),
}

/// Why a plan ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The test has decided.
    Decided,
    /// The next useful lookup would lie outside the window.
    WindowEnded,
    /// `max_queries` were made.
    QueryLimit,
    /// No source gives an address: each denies the name or is dead.
    NoAnswer,
}

/// The schedule and what it has learnt.
#[derive(Debug, Clone)]
pub struct Plan {
    window: ObservationWindow,
    policy: Arc<Policy>,
    limits: Limits,
    deadline: i64,
    observer: Observer,
    test: Test,
    /// Whether the test was fed with answers of sinkholes, for want of others.
    sinkholes_only: bool,
    progress: Vec<Progress>,
}

impl Plan {
    /// A plan that starts now. Sources are asked in the given order.
    #[must_use]
    pub fn new(
        host: Host,
        record_type: RecordType,
        sources: Vec<Source>,
        policy: Arc<Policy>,
        limits: Limits,
        now: Timestamp,
    ) -> Self {
        let length = i64::try_from(limits.window.longest(&policy).as_millis()).unwrap_or(i64::MAX);
        let window = ObservationWindow::new(host, record_type, sources, now);
        Self {
            observer: Observer::new(window.host.clone(), record_type, &window.sources, now),
            deadline: now.as_millisecond().saturating_add(length),
            progress: Progress::of(&window.sources),
            window,
            test: Test::default(),
            sinkholes_only: true,
            policy,
            limits,
        }
    }

    /// The next step. Until its answer is recorded, the same step comes again.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Step {
        let now = now.as_millisecond();
        if self.window.samples.len() >= self.limits.max_queries {
            return Step::Stop(StopReason::QueryLimit);
        }
        let all_asked = self.progress.iter().all(|p| p.asked > 0);
        let decides = !matches!(self.limits.window, Window::Fixed(_));
        if all_asked && self.gave_up() {
            return Step::Stop(StopReason::NoAnswer);
        }
        if all_asked && decides && self.decided() {
            return Step::Stop(StopReason::Decided);
        }
        let leads = (0..self.progress.len()).filter(|source| self.leads(*source)).count();
        let due = (0..self.progress.len()).filter_map(|source| {
            let wanted = self.due(source, leads)?.max(self.progress[source].paced(&self.policy.sampling));
            Some((wanted.max(now), self.progress[source].asked, source))
        });
        match due.min() {
            Some((at, _, source)) if at <= self.deadline => match Timestamp::from_millisecond(at) {
                Ok(at) => Step::Ask { source, at },
                Err(_) => Step::Stop(StopReason::WindowEnded),
            },
            _ => Step::Stop(StopReason::WindowEnded),
        }
    }

    /// The answer to a step. Samples may come from elsewhere too, in the order in which they were sent.
    pub fn record(&mut self, sample: DnsSample) {
        self.observer.push(&sample);
        Progress::record(&mut self.progress, &sample, &self.policy.sampling);
        if self.sinkholes_only != self.observer.only_sinkholes() {
            self.sinkholes_only = false;
            self.test = Test::default();
        }
        for draw in &self.observer.draws()[self.test.draws()..] {
            self.test.push(draw);
        }
        if self.window.samples.is_empty() && self.test.draws() > 0 {
            self.window.samples.reserve(USUAL_LOOKUPS);
        }
        self.window.samples.push(sample);
    }

    /// Everything observed so far.
    #[must_use]
    pub fn observation(&self, now: Timestamp) -> Observation {
        self.observer.observation(now)
    }

    /// The verdict so far.
    #[must_use]
    pub fn classification(&self, now: Timestamp) -> Classification {
        classify(&self.observation(now), &self.policy)
    }

    /// The name to ask for.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.window.host
    }

    /// The record type to ask for.
    #[must_use]
    pub fn record_type(&self) -> RecordType {
        self.window.record_type
    }

    /// What a step's index means.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.window.sources
    }

    /// Lookups so far.
    #[must_use]
    pub fn queries(&self) -> usize {
        self.window.samples.len()
    }

    /// The last moment at which the plan asks.
    #[must_use]
    pub fn deadline(&self) -> Timestamp {
        Timestamp::from_millisecond(self.deadline).unwrap_or(Timestamp::MAX)
    }

    /// Ends the plan: the window, as it is saved and replayed, and what [`observe`](crate::observe()) makes of it.
    #[must_use]
    pub fn finish(mut self, now: Timestamp) -> (ObservationWindow, Observation) {
        self.window.ended_at = now;
        (self.window, self.observer.into_observation(now))
    }

    fn decided(&self) -> bool {
        self.test.draws() > 0 && self.test.decided(self.context())
    }

    fn gave_up(&self) -> bool {
        let lookups = self.window.samples.len() >= self.policy.sampling.give_up as usize;
        self.test.draws() == 0 && lookups && self.progress.iter().all(|p| p.denied > 0 || p.dead)
    }

    fn context(&self) -> Context<'_> {
        let ttl = self.observer.ttl().map_or(0, |ttl| ttl.strict_s);
        Context { policy: &self.policy, ttl, started_at: self.started_at() }
    }

    fn started_at(&self) -> i64 {
        self.window.started_at.as_millisecond()
    }

    /// When a source is to be asked again, milliseconds; `None` if never. `leads` is how many sources lead.
    fn due(&self, source: usize, leads: usize) -> Option<i64> {
        let progress = &self.progress[source];
        let Some(last) = progress.last_asked else { return Some(self.started_at()) };
        if progress.dead {
            return None;
        }
        if let Some(retry) = progress.retry_at() {
            return Some(retry);
        }
        let state = &self.observer.sources()[source];
        if !self.leads(source) {
            // Beside an authority, a cache is looked at once more when the name has had time to change.
            let second = self.started_at() + self.quiet();
            return (progress.asked < 2).then(|| state.next_fresh_ms().unwrap_or(second).max(second));
        }
        let ready = state.next_fresh_ms()?;
        let wants = progress.answered < 2 && leads > 1 || self.wants_draws(source);
        if wants && ready > self.deadline && progress.asked < self.policy.sampling.opening {
            // No second entry within the window: other caches behind the address may still show theirs.
            return Some(last + i64::from(self.policy.sampling.pace_ms));
        }
        if wants {
            return Some(ready.max(self.slowed(last)));
        }
        Some(self.next_check(last, leads).max(ready))
    }

    /// Whether the draws of a source count: those of one authority for each client subnet, else of its caches.
    fn leads(&self, source: usize) -> bool {
        let ecs = self.window.sources[source].ecs;
        let mut sources = self.window.sources.iter().zip(&self.progress);
        let speaks = |(s, progress): (&Source, &Progress)| {
            s.ecs == ecs && s.vantage == Vantage::Authority && progress.reliable()
        };
        sources.position(speaks).is_none_or(|lead| lead == source)
    }

    /// Whether draws are missing, as opposed to time.
    fn wants_draws(&self, source: usize) -> bool {
        // Two equal answers of several addresses are no coincidence.
        let fewer = u32::from(self.test.answer_size() > 1);
        let opening = self.policy.sampling.opening.saturating_sub(fewer).max(1);
        if self.test.draws() < opening as usize {
            return true;
        }
        if self.test.sets() < 2 {
            return false;
        }
        let direct = self.observer.sources()[source].direct();
        if direct && !self.test.varies_at_once() {
            // Equal at once and different later: the draw is held. The first new ones are looked at twice.
            return self.test.equal_at_once() < opening - 1 + self.test.moved().min(2) * (1 - fewer);
        }
        direct && self.test.news() || !self.test.draws_suffice(&self.policy, self.checks_left())
    }

    /// A pool between small and large may never be decided: ask less often after a while.
    fn slowed(&self, last: i64) -> i64 {
        let pace = i64::from(self.policy.sampling.pace_ms);
        if self.test.draws() > 45 { last + 5 * pace } else { last }
    }

    /// How long a settled name is watched: as the test asks for, or as the window allows.
    fn quiet(&self) -> i64 {
        let window = self.deadline - self.started_at();
        self.test.quiet_needed(self.context()).min(window)
    }

    fn interval(&self) -> i64 {
        let fewer = u32::from(self.test.varies_at_once());
        let checks = self.policy.sampling.checks.saturating_sub(fewer).max(1);
        (self.quiet() / i64::from(checks)).max(1)
    }

    /// Checks are counted from the last new address on, or from the start.
    fn anchor(&self) -> i64 {
        self.test.settling_since(self.context())
    }

    fn checks_left(&self) -> usize {
        let last = self.progress.iter().filter_map(|p| p.last_asked).max().unwrap_or(self.started_at());
        let left = (self.anchor() + self.quiet() - last).max(0);
        usize::try_from(left / self.interval()).unwrap_or_default()
    }

    fn next_check(&self, last: i64, leads: usize) -> i64 {
        let leads = i64::try_from(leads).unwrap_or(1);
        let interval = self.interval().saturating_mul(leads).min(self.quiet()).max(1);
        let passed = (last - self.anchor()).max(0) / interval;
        self.anchor() + (passed + 1) * interval
    }
}

/// Whether a lookup says that there is no address, as opposed to saying nothing.
fn denies(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NoData | Outcome::NxDomain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, ResolutionClass, Response, Transport};

    /// Runs a plan against one server in simulated time; `answer` gives last octets and the TTL.
    fn run(
        vantage: Vantage,
        window: Window,
        answer: impl Fn(usize, i64) -> (Vec<u8>, u32),
    ) -> (Classification, usize) {
        let server = "192.0.2.53:53".parse().unwrap();
        let source = Source { server, vantage, ecs: None, name: None };
        let limits = Limits { window, max_queries: 200 };
        let mut now = Timestamp::from_second(1_700_000_000).unwrap();
        let started = now.as_millisecond();
        let host = Host::parse("api.partner.example").unwrap();
        let mut plan = Plan::new(host, RecordType::A, vec![source], Arc::default(), limits, now);
        while let Step::Ask { source, at } = plan.next(now) {
            let (addresses, ttl) = answer(plan.queries(), at.as_millisecond() - started);
            let answers =
                addresses.iter().map(|last| Answer { addr: [198, 51, 100, *last].into(), ttl }).collect();
            let rtt = Duration::from_millis(20);
            plan.record(DnsSample {
                at,
                source,
                rtt,
                outcome: Outcome::Answered { answers, cname_chain: Vec::new() },
                response: Some(Response {
                    size: 60,
                    authoritative: vantage == Vantage::Authority,
                    truncated: false,
                    transport: Transport::Udp,
                    edns: None,
                    ecs_scope: None,
                }),
            });
            now = at + rtt;
        }
        (plan.classification(now), plan.queries())
    }

    #[test]
    fn one_address_is_a_single_vip_after_a_few_looks() {
        let (verdict, queries) = run(Vantage::Authority, Window::Auto, |_, _| (vec![1], 30));
        assert_eq!(verdict.class, ResolutionClass::SingleVip);
        assert!(verdict.decided && queries <= 9, "{queries} {verdict:?}");
    }

    #[test]
    fn a_pool_that_turns_at_once_takes_a_burst() {
        let (verdict, queries) =
            run(Vantage::Authority, Window::Quick, |n, _| (vec![u8::try_from(n).unwrap()], 30));
        assert_eq!(verdict.class, ResolutionClass::RotatingPool);
        assert!(verdict.decided && queries <= 18, "{queries} {verdict:?}");
    }

    #[test]
    fn a_cache_is_asked_when_its_entry_is_gone() {
        let answer = |_, ms: i64| (vec![1, 2], 30 - u32::try_from(ms / 1000 % 30).unwrap());
        let (verdict, queries) = run(Vantage::Cache, Window::Auto, answer);
        assert_eq!(verdict.class, ResolutionClass::FixedMultiIp);
        assert!(queries <= 7, "{queries} {verdict:?}");
    }
}
