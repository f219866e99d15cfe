//! `GET /drain/status`: everything that is known of the drain, as JSON. Read by people, by the `prestop` and
//! `preflight` subcommands and by the lab. `progress` and below may grow; `ready` and `state` stay. Its schema is
//! `sidecar/schema/status.json`, which `/openapi.json` serves.

use serde::Serialize;

use crate::drain::{Drain, DrainMode, Millis, Order, Prober, State, Transition};
use crate::engine::Engine;
use crate::envoy::ServerInfo;

/// The answer. Times are milliseconds since the UNIX epoch unless they say otherwise.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Status {
    /// Readiness as the kubelet sees it.
    pub(crate) ready: bool,
    /// Where the pod stands.
    pub(crate) state: State,
    progress: Progress,
    active: ActiveStatus,
    lb: LbStatus,
    envoy: EnvoyStatus,
    /// The last 100 changes of state, oldest first.
    transitions: Vec<Transition>,
}

/// The drain itself.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Progress {
    order: Order,
    /// When the present state began.
    since_ms: Millis,
    /// When the drain began; null while none runs.
    started_ms: Option<Millis>,
    /// When the drain ends at the latest.
    deadline_ms: Option<Millis>,
    /// How long a drain takes at the longest, from its beginning.
    longest_ms: Millis,
    /// Readings of zero in a row so far.
    zero_samples: u32,
    /// How many of them are believed.
    zero_samples_wanted: u32,
    /// Whether the time limit ended the drain.
    forced: bool,
    /// Requests left when the 503 went out; null when that was not known.
    remaining: Option<u64>,
    /// Requests that began after zero was declared.
    late_requests: u64,
    /// `off`, `ok`, `writing` or `failing`.
    state_file: &'static str,
}

/// Work that Envoy holds, as last read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ActiveStatus {
    /// `ok`, `stale` (the newest poll failed, an older number is shown) or `unknown`.
    stats: &'static str,
    /// Why the newest poll gave no number.
    error: Option<&'static str>,
    /// Age of the numbers.
    age_ms: Option<Millis>,
    /// HTTP/1 requests.
    http: Option<u64>,
    /// HTTP/2 requests.
    h2: Option<u64>,
    /// WebSockets.
    websocket: Option<u64>,
    /// Raw TCP sessions; null when they are not waited for.
    tcp: Option<u64>,
    /// Connections, idle ones too: for information only.
    connections: Option<u64>,
    /// The gauges that were summed.
    summed: Vec<String>,
    /// Gauges of the same kind that were left out by name.
    excluded: Vec<String>,
}

/// What the load balancers have said.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LbStatus {
    /// Whether a load balancer is probing; if not, waits end by time.
    lb_probe_seen: bool,
    /// When "no new work" was taken as settled: acknowledged, or waited out.
    settled_ms: Option<Millis>,
    /// When all of them had understood "no new work".
    nolb_acked_ms: Option<Millis>,
    /// When the health answer became 503.
    flipped_ms: Option<Millis>,
    /// When all of them had said DOWN.
    down_acked_ms: Option<Millis>,
    probers: Vec<Prober>,
}

/// The proxy.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EnvoyStatus {
    /// Null until it has answered.
    info: Option<ServerInfo>,
    mode: DrainMode,
    /// When its listeners were drained, which it cannot undo.
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
                longest_ms: engine
                    .rules
                    .drain_timeout
                    .saturating_add(engine.rules.lb_buffer.saturating_mul(2)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::STATUS_SCHEMA;

    /// Inlined, because the OpenAPI document holds it as a part; as it is written, so that what is null is there.
    #[test]
    fn the_schema_is_that_of_the_types() {
        let inlined = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
        let made = inlined.for_serialize().into_generator().into_root_schema_for::<Status>();
        let made = serde_json::to_string_pretty(&made).unwrap() + "\n";
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/schema/status.json"), &made).unwrap();
            return;
        }
        assert!(made == STATUS_SCHEMA, "UPDATE_REFERENCE=1 cargo test -p drain-sidecar writes it again");
    }
}
