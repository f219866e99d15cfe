//! The part of a drain that survives the process: what goes into the state file and comes back. The load balancers
//! are not kept; they say who they are with their next probe.

use serde::{Deserialize, Serialize};

use super::{Drain, Millis, State, Transition};

/// The state file's content. `version` is raised when a field changes its meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    pub(crate) version: u32,
    pub(crate) state: State,
    pub(crate) since_ms: Millis,
    pub(crate) warm: bool,
    pub(crate) started_ms: Option<Millis>,
    pub(crate) settled_ms: Option<Millis>,
    pub(crate) flipped_ms: Option<Millis>,
    pub(crate) listeners_drained_ms: Option<Millis>,
    pub(crate) fault_from: Option<State>,
    pub(crate) forced: bool,
    pub(crate) remaining: Option<u64>,
    pub(crate) transitions: Vec<Transition>,
    /// The system's boot that this was written in, where it is known.
    #[serde(default)]
    pub(crate) boot: Option<String>,
    #[serde(default)]
    pub(crate) envoy_started_ms: Option<Millis>,
}

impl Saved {
    pub(crate) const VERSION: u32 = 1;
}

impl From<&Drain> for Saved {
    fn from(drain: &Drain) -> Self {
        Self {
            version: Self::VERSION,
            state: drain.state,
            since_ms: drain.since,
            warm: drain.warm,
            started_ms: drain.started,
            settled_ms: drain.settled,
            flipped_ms: drain.flipped,
            listeners_drained_ms: drain.listeners_drained,
            fault_from: drain.fault_from,
            forced: drain.forced,
            remaining: drain.remaining,
            transitions: drain.transitions.iter().cloned().collect(),
            boot: None,
            envoy_started_ms: drain.envoy_started,
        }
    }
}

impl Drain {
    /// A drain taken up again. Times that lie ahead, because the clock was set back, count from now. A restart is the cure for FAULT, so what was going on before it goes on.
    pub(crate) fn resume(saved: Saved, now: Millis) -> Self {
        let state = match (saved.state, saved.fault_from) {
            (State::Fault, before) => before.unwrap_or(State::Open),
            (state, _) => state,
        };
        Self {
            state,
            since: saved.since_ms.min(now),
            warm: saved.warm,
            resumed: true,
            started: saved.started_ms.map(|at| at.min(now)),
            settled: saved.settled_ms.map(|at| at.min(now)),
            flipped: saved.flipped_ms.map(|at| at.min(now)),
            listeners_asked: saved.listeners_drained_ms.map(|at| at.min(now)),
            listeners_drained: saved.listeners_drained_ms.map(|at| at.min(now)),
            envoy_started: saved.envoy_started_ms.map(|at| at.min(now)),
            forced: saved.forced,
            remaining: saved.remaining,
            transitions: saved.transitions.into(),
            ..Self::new(now)
        }
    }
}
