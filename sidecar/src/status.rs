//! `GET /drain/status`: everything that is known of the drain, as JSON. Read by people, by the `prestop` and
//! `preflight` subcommands and by the lab. `progress` and below may grow; `ready` and `state` stay.

use serde::Serialize;

use crate::drain::{Drain, DrainMode, Millis, Order, Prober, State, Transition};
use crate::engine::Engine;
use crate::envoy::ServerInfo;

/// The answer.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) ready: bool,
    pub(crate) state: State,
    progress: Progress,
    active: ActiveStatus,
    lb: LbStatus,
    envoy: EnvoyStatus,
    transitions: Vec<Transition>,
}

#[derive(Debug, Serialize)]
struct Progress {
    order: Order,
    since_ms: Millis,
    started_ms: Option<Millis>,
    deadline_ms: Option<Millis>,
    zero_samples: u32,
    zero_samples_wanted: u32,
    forced: bool,
    remaining: Option<u64>,
    late_requests: u64,
    state_file: &'static str,
}

#[derive(Debug, Serialize)]
struct ActiveStatus {
    /// `ok`, `stale` (the newest poll failed, an older number is shown) or `unknown`.
    stats: &'static str,
    error: Option<&'static str>,
    age_ms: Option<Millis>,
    http: Option<u64>,
    h2: Option<u64>,
    websocket: Option<u64>,
    tcp: Option<u64>,
    connections: Option<u64>,
    summed: Vec<String>,
    excluded: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LbStatus {
    /// Whether a load balancer is probing; if not, waits end by time.
    lb_probe_seen: bool,
    settled_ms: Option<Millis>,
    nolb_acked_ms: Option<Millis>,
    flipped_ms: Option<Millis>,
    down_acked_ms: Option<Millis>,
    probers: Vec<Prober>,
}

#[derive(Debug, Serialize)]
struct EnvoyStatus {
    info: Option<ServerInfo>,
    mode: DrainMode,
    listeners_drained_ms: Option<Millis>,
    /// Whether `/reopen` would restore the pod whole.
    reversible: bool,
}

impl Status {
    pub(crate) fn of(engine: &Engine) -> Self {
        let drain = engine.drain();
        let now = engine.now();
        Self {
            ready: drain.ready(),
            state: drain.state,
            progress: Progress {
                order: engine.rules.order,
                since_ms: drain.since,
                started_ms: drain.started,
                deadline_ms: drain.deadline(&engine.rules),
                zero_samples: drain.zero_run,
                zero_samples_wanted: engine.rules.zero_samples,
                forced: drain.forced,
                remaining: drain.remaining,
                late_requests: drain.late_requests,
                state_file: match (&engine.args.state_file, &*engine.persist_error.borrow()) {
                    (None, _) => "off",
                    (Some(_), None) if engine.is_saved() => "ok",
                    (Some(_), None) => "writing",
                    (Some(_), Some(_)) => "failing",
                },
            },
            active: ActiveStatus::of(&drain, now),
            lb: LbStatus {
                lb_probe_seen: !drain.lb.silent(now),
                settled_ms: drain.settled,
                nolb_acked_ms: drain.nolb_acked,
                flipped_ms: drain.flipped,
                down_acked_ms: drain.down_acked,
                probers: drain.lb.probers.clone(),
            },
            envoy: EnvoyStatus {
                info: engine.info.borrow().clone(),
                mode: engine.rules.mode,
                listeners_drained_ms: drain.listeners_drained,
                reversible: drain.listeners_drained.is_none(),
            },
            transitions: drain.transitions.iter().cloned().collect(),
        }
    }
}

impl ActiveStatus {
    fn of(drain: &Drain, now: Millis) -> Self {
        let active = drain.reading.as_ref().map(|(active, _)| active);
        Self {
            stats: match (active, drain.unknown) {
                (Some(_), None) => "ok",
                (Some(_), Some(_)) => "stale",
                (None, _) => "unknown",
            },
            error: drain.unknown,
            age_ms: drain.reading.as_ref().map(|(_, at)| now.saturating_sub(*at)),
            http: active.map(|active| active.http),
            h2: active.map(|active| active.h2),
            websocket: active.map(|active| active.websocket),
            tcp: active.and_then(|active| active.tcp),
            connections: active.map(|active| active.connections),
            summed: active.map_or_else(Vec::new, |active| active.summed.clone()),
            excluded: active.map_or_else(Vec::new, |active| active.excluded.clone()),
        }
    }
}
