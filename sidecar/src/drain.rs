//! The drain itself, as a pure function: what happened goes in ([`Event`] and the time), the next state and what is
//! to be done ([`Effect`]) come out. No clock, socket or file. Called by `engine`; the answers of the two listeners
//! (`public`, `control`) are read off the state it returns.

mod lb;
mod progress;
mod record;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub(crate) use lb::{Lb, Prober, Seen, Third};
pub(crate) use record::Saved;

use crate::count::{Active, Reading};

/// Milliseconds since the UNIX epoch: comparable across a restart, which an `Instant` is not.
pub(crate) type Millis = u64;

/// How many transitions are kept for `/drain/status`.
const KEPT_TRANSITIONS: usize = 100;

/// Where the pod stands. Only the drain moves it forward; only `/reopen` moves it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum State {
    /// In service.
    Open,
    /// No new work is wanted; what runs is waited for.
    Draining,
    /// The load balancer is told to take the pod out.
    Closing,
    /// Out of service; the process may end.
    Closed,
    /// Declared broken from outside.
    Fault,
}

impl State {
    pub(crate) const ALL: [Self; 5] = [Self::Open, Self::Draining, Self::Closing, Self::Closed, Self::Fault];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Draining => "DRAINING",
            Self::Closing => "CLOSING",
            Self::Closed => "CLOSED",
            Self::Fault => "FAULT",
        }
    }
}

/// Which signals go off in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// "No new work" first, then zero requests, then 503.
    #[value(alias = "third")]
    NoNewWork,
    /// 200 until zero requests, then 503.
    #[value(alias = "seed")]
    WaitThenFail,
    /// 503 at once.
    #[value(alias = "naive")]
    FailFirst,
}

impl Order {
    /// As the flag has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoNewWork => "no-new-work",
            Self::WaitThenFail => "wait-then-fail",
            Self::FailFirst => "fail-first",
        }
    }
}

/// Whether a drain also tells Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DrainMode {
    /// Envoy's listeners are drained too (`Connection: close`, GOAWAY); Envoy cannot undo it.
    Listeners,
    /// Only the load balancer is told; `/reopen` restores everything.
    LbOnly,
}

/// The settings a step needs; fixed for the life of the process. Times in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) order: Order,
    pub(crate) third: Third,
    pub(crate) mode: DrainMode,
    /// From the start of the drain to the forced 503.
    pub(crate) drain_timeout: Millis,
    /// Longest wait for an acknowledgement by the load balancer, after "no new work" and again after 503.
    pub(crate) lb_buffer: Millis,
    pub(crate) min_drain: Millis,
    /// Readings at or below `min_active` that count as zero, in a row.
    pub(crate) zero_samples: u32,
    pub(crate) min_active: u64,
    pub(crate) websockets: WebSockets,
    /// Start a drain on SIGTERM while OPEN, instead of ending.
    pub(crate) drain_on_sigterm: bool,
}

/// Envoy never closes a WebSocket in a drain, so how long one is waited for is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebSockets {
    Wait,
    Ignore,
    /// Waited for until this long after the start of the drain.
    Until(Millis),
}

impl Rules {
    /// How much of the work is waited for, `age` into the drain.
    fn waited_for(&self, active: &Active, age: Millis) -> u64 {
        let let_go = match self.websockets {
            WebSockets::Wait => false,
            WebSockets::Ignore => true,
            WebSockets::Until(limit) => age >= limit,
        };
        active.total().saturating_sub(if let_go { active.websocket } else { 0 })
    }
}

/// What a request on the control listener may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    Drain,
    CloseLb,
    Close,
    Reopen,
    Fault,
}

/// What happened.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Command(Command, &'static str),
    Probe(Seen),
    /// The agent-check port was asked.
    AgentAsked,
    Reading(Reading),
    /// Envoy's start in epoch milliseconds, from `/server_info`.
    EnvoyStarted(Millis),
    ListenersDrained,
    ListenersDrainFailed,
    Sigterm,
    Tick,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Transition(Transition),
    /// A command did not fit the state; nothing changed.
    Refused(State),
    /// The state file no longer matches.
    Persist,
    DrainListeners,
    /// A fact for the log: its event name and a detail.
    Note(&'static str, String),
    Exit,
}

/// One change of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Transition {
    pub(crate) from: State,
    pub(crate) to: State,
    pub(crate) reason: String,
    pub(crate) at_ms: Millis,
}

/// Everything that is known about this drain.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are known apart from each other")]
pub(crate) struct Drain {
    pub(crate) state: State,
    pub(crate) since: Millis,
    /// Envoy has answered and serves; while not, the pod is not in service.
    pub(crate) warm: bool,
    /// Loaded from a state file and not yet checked against a living Envoy.
    pub(crate) resumed: bool,
    /// When the Envoy that was seen last had started.
    pub(crate) envoy_started: Option<Millis>,
    /// Since when every reading has said that no Envoy serves here, and how many have.
    pub(crate) absent: Option<(Millis, u32)>,
    /// Whether the next good reading has to be backed by a look at the data port: Envoy may have been replaced.
    pub(crate) doubtful: bool,
    pub(crate) started: Option<Millis>,
    /// When "no new work" was taken as settled: acknowledged, or waited out.
    pub(crate) settled: Option<Millis>,
    pub(crate) flipped: Option<Millis>,
    /// When every probing load balancer said it had understood: "no new work", then DOWN.
    pub(crate) nolb_acked: Option<Millis>,
    pub(crate) down_acked: Option<Millis>,
    /// Listener drain asked for, and done. The second cannot be undone while that Envoy lives.
    pub(crate) listeners_asked: Option<Millis>,
    pub(crate) listeners_drained: Option<Millis>,
    pub(crate) fault_from: Option<State>,
    pub(crate) forced: bool,
    /// Requests left when the 503 went out; `None` when that was not known.
    pub(crate) remaining: Option<u64>,
    pub(crate) late_requests: u64,
    pub(crate) zero_run: u32,
    pub(crate) reading: Option<(Active, Millis)>,
    /// Why the newest reading is not a number.
    pub(crate) unknown: Option<&'static str>,
    pub(crate) gone_run: u32,
    pub(crate) sigterm: Option<Millis>,
    pub(crate) agent_asked: Option<Millis>,
    pub(crate) lb: Lb,
    pub(crate) transitions: VecDeque<Transition>,
    total_at_zero: Option<u64>,
}

/// What the load balancer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Ok,
    NoNewWork,
    Down,
}

impl Drain {
    /// A pod that has just started.
    pub(crate) fn new(now: Millis) -> Self {
        Self {
            state: State::Open,
            since: now,
            warm: false,
            resumed: false,
            envoy_started: None,
            absent: None,
            doubtful: true,
            started: None,
            settled: None,
            flipped: None,
            nolb_acked: None,
            down_acked: None,
            listeners_asked: None,
            listeners_drained: None,
            fault_from: None,
            forced: false,
            remaining: None,
            late_requests: 0,
            zero_run: 0,
            reading: None,
            unknown: Some(progress::NOT_YET_READ),
            gone_run: 0,
            sigterm: None,
            agent_asked: None,
            lb: Lb::default(),
            transitions: VecDeque::new(),
            total_at_zero: None,
        }
    }

    /// The answer to a load balancer's probe. `prober` is known after [`Event::Probe`].
    pub(crate) fn lb_answer(&self, rules: &Rules, prober: Option<&Prober>) -> Answer {
        let offers = rules.order == Order::NoNewWork && rules.third.offered_to(prober);
        match self.state {
            // A pod that has not been in service is not brought into it by its end.
            State::Open | State::Draining | State::Fault if !self.warm => Answer::Down,
            // FAULT too: what runs through a healthy Envoy need not be cut because its sidecar is broken.
            State::Draining | State::Fault if offers => Answer::NoNewWork,
            State::Open | State::Draining => Answer::Ok,
            State::Closing | State::Closed | State::Fault => Answer::Down,
        }
    }

    /// What the agent-check port says. Never `maint`: HAProxy cuts sessions on it.
    pub(crate) fn agent_answer(&self, rules: &Rules) -> &'static str {
        match self.state {
            State::Open | State::Draining if !self.warm => "down\n",
            State::Draining if rules.order == Order::NoNewWork => "drain\n",
            State::Open | State::Draining => "up ready\n",
            State::Fault => "drain\n",
            State::Closing | State::Closed => "down\n",
        }
    }

    /// Readiness as the kubelet sees it: until CLOSED, so that the node keeps an endpoint while the LB decides.
    pub(crate) fn ready(&self) -> bool {
        match self.state {
            State::Open | State::Draining => self.warm,
            // An Envoy that died on the way out leaves its node an endpoint until the load balancer has decided.
            State::Closing => true,
            State::Closed | State::Fault => false,
        }
    }

    /// Whether load balancers are told 200 and no drain is under way.
    pub(crate) fn in_service(&self) -> bool {
        self.state == State::Open && self.warm
    }

    /// Liveness: only FAULT asks for a restart, so a drain is never restarted away.
    pub(crate) fn live(&self) -> bool {
        self.state != State::Fault
    }

    /// When the drain ends at the latest: the forced 503, then the wait for the load balancer.
    pub(crate) fn deadline(&self, rules: &Rules) -> Option<Millis> {
        self.started.map(|start| start.saturating_add(rules.drain_timeout).saturating_add(rules.lb_buffer))
    }

    fn advance(&mut self, to: State, reason: &str, now: Millis, effects: &mut Vec<Effect>) {
        let transition = Transition { from: self.state, to, reason: reason.to_owned(), at_ms: now };
        if self.transitions.len() == KEPT_TRANSITIONS {
            self.transitions.pop_front();
        }
        self.transitions.push_back(transition.clone());
        (self.state, self.since) = (to, now);
        effects.push(Effect::Transition(transition));
        effects.push(Effect::Persist);
    }
}

/// One event. Total: every event is answered in every state, and an event that does not fit changes nothing.
pub(crate) fn step(mut drain: Drain, rules: &Rules, event: Event, now: Millis) -> (Drain, Vec<Effect>) {
    let mut effects = Vec::new();
    match event {
        Event::Command(command, reason) => drain.command(command, reason, rules, now, &mut effects),
        Event::Probe(seen) => {
            let draining = drain.state == State::Draining || drain.state == State::Fault;
            if let Some((what, who)) = drain.lb.seen(&seen, draining, rules, now) {
                effects.push(Effect::Note(what, who));
            }
        }
        Event::AgentAsked => drain.agent_asked = Some(now),
        Event::Reading(reading) => drain.read(reading, rules, now, &mut effects),
        Event::EnvoyStarted(at) => drain.envoy_started(at, now, &mut effects),
        Event::ListenersDrained => {
            drain.listeners_drained = Some(now);
            effects.push(Effect::Note("listeners_drained", String::new()));
            effects.push(Effect::Persist);
        }
        Event::ListenersDrainFailed => drain.listeners_asked = None,
        Event::Sigterm => drain.sigterm = drain.sigterm.or(Some(now)),
        Event::Tick => {}
    }
    drain.progress(rules, now, &mut effects);
    (drain, effects)
}

impl Drain {
    /// Compare and set: each command leaves one state only, and says which state it found otherwise.
    fn command(
        &mut self,
        command: Command,
        reason: &'static str,
        rules: &Rules,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) {
        match (command, self.state) {
            (Command::Drain, State::Open) => self.begin(reason, now, effects),
            (Command::CloseLb, State::Draining) => self.flip(reason, rules, now, effects),
            (Command::Close, State::Closing) => self.advance(State::Closed, reason, now, effects),
            (Command::Reopen, State::Draining | State::Closing) => self.reopen(reason, now, effects),
            (Command::Fault, from) if from != State::Fault => {
                self.fault_from = Some(from);
                self.advance(State::Fault, reason, now, effects);
            }
            (_, found) => effects.push(Effect::Refused(found)),
        }
    }

    fn begin(&mut self, reason: &str, now: Millis, effects: &mut Vec<Effect>) {
        self.started = Some(now);
        self.settled = None;
        self.flipped = None;
        self.nolb_acked = None;
        self.down_acked = None;
        self.forced = false;
        self.remaining = None;
        self.zero_run = 0;
        self.total_at_zero = None;
        self.lb.forget_offers();
        self.advance(State::Draining, reason, now, effects);
    }

    fn reopen(&mut self, reason: &str, now: Millis, effects: &mut Vec<Effect>) {
        self.started = None;
        self.advance(State::Open, reason, now, effects);
    }
}

#[cfg(test)]
mod tests;
