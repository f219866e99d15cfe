//! The six events of a termination on one time axis: from the sidecar's log, Envoy's gauge, HAProxy's `show stat` and
//! log, and the clients. Pure, but for the stage's zero of time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiments::evidence::{Lane, Mark, Span, Table, Timeline};
use crate::lab::haproxy::stats::CutSession;
use crate::lab::ingress::{Ending, Sample, Shot, Stage};

/// Requests drawn one by one; more would be a wall.
const DRAWN: usize = 12;

/// When each happened, ms from the start; `None` if it did not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Before the six: the load balancer stops sending new work.
    pub no_new_work_ms: Option<u64>,
    /// 1: the health answer becomes 503.
    pub health_flip_ms: Option<u64>,
    /// 2: readiness becomes 503.
    pub readiness_flip_ms: Option<u64>,
    /// 3: Envoy's listeners drain.
    pub listener_drain_ms: Option<u64>,
    /// 4: Envoy has nothing left.
    pub active_zero_ms: Option<u64>,
    /// 5: the load balancer says DOWN.
    pub lb_down_ms: Option<u64>,
    /// 6: the first session is cut.
    pub sessions_cut_ms: Option<u64>,
}

impl Events {
    pub(super) fn find(
        stage: &Stage,
        log: &[Value],
        samples: &[Sample],
        cuts: &[CutSession],
        deleted_ms: u64,
    ) -> Self {
        let said = |key: &str, value: &str| {
            let line = log.iter().find(|line| line[key] == value)?;
            line["ts_ms"].as_u64().map(|at| stage.on_axis(at))
        };
        let later = |holds: &dyn Fn(&Sample) -> bool| {
            let sample = samples.iter().find(|sample| sample.at_ms >= deleted_ms && holds(sample));
            sample.map(|sample| sample.at_ms)
        };
        let lb = |word: &'static str| {
            later(&|sample| sample.lb.as_ref().is_some_and(|said| said.starts_with(word)))
        };
        Self {
            no_new_work_ms: lb("NOLB"),
            health_flip_ms: said("to", "CLOSING"),
            readiness_flip_ms: said("to", "CLOSED"),
            listener_drain_ms: said("event", "listeners_drained"),
            active_zero_ms: later(&|sample| sample.active == Some(0)),
            lb_down_ms: lb("DOWN"),
            sessions_cut_ms: cuts.iter().map(|cut| stage.on_axis(cut.at_ms)).min(),
        }
    }

    fn named(&self) -> [(&'static str, Option<u64>); 7] {
        [
            ("no new work", self.no_new_work_ms),
            ("1 health flip", self.health_flip_ms),
            ("2 readiness flip", self.readiness_flip_ms),
            ("3 listener drain", self.listener_drain_ms),
            ("4 active 0", self.active_zero_ms),
            ("5 LB DOWN", self.lb_down_ms),
            ("6 sessions cut", self.sessions_cut_ms),
        ]
    }

    /// What an order that waits promises: nothing left before the 503, DOWN after it, readiness last.
    pub(super) fn in_order(&self) -> Vec<(bool, String)> {
        let flip = self.health_flip_ms;
        let before = |a: Option<u64>, b: Option<u64>| a.is_some() && b.is_some() && a <= b;
        let show = |at: Option<u64>| at.map_or_else(|| "never".to_owned(), |at| format!("{at} ms"));
        vec![
            (
                before(flip, self.lb_down_ms),
                format!("503 at {}, DOWN at {}", show(flip), show(self.lb_down_ms)),
            ),
            (before(flip, self.readiness_flip_ms), format!("readiness at {}", show(self.readiness_flip_ms))),
        ]
    }

    /// The events in the order in which they came, relative to the deletion.
    pub(super) fn table(&self, deleted_ms: u64) -> Table {
        let mut events: Vec<_> =
            self.named().into_iter().filter_map(|(name, at)| Some((at?, name))).collect();
        events.sort_unstable();
        let rows = events.into_iter().map(|(at, name)| {
            let after = std::time::Duration::from_millis(at.saturating_sub(deleted_ms)).as_secs_f64();
            vec![format!("{after:.2} s"), name.to_owned()]
        });
        Table::new("events after the deletion", &["after", "event"], rows.collect())
    }
}

/// Lanes for the load balancer, the sidecar, Envoy and the clients; the six events as marks.
pub(super) fn timeline(
    stage: &Stage,
    log: &[Value],
    samples: &[Sample],
    shots: &[Shot],
    events: &Events,
) -> Timeline {
    let end_ms = samples.last().map_or(0, |sample| sample.at_ms);
    let lb = samples.iter().map(|s| (s.at_ms, s.lb.clone().unwrap_or_else(|| "-".to_owned())));
    let active = samples.iter().map(|s| (s.at_ms, s.active.map_or("?".to_owned(), |n| n.to_string())));
    let states = log
        .iter()
        .filter(|line| line["event"] == "transition")
        .filter_map(|line| Some((stage.on_axis(line["ts_ms"].as_u64()?), line["to"].as_str()?.to_owned())));
    let mut lanes = vec![
        lane("load balancer", lb, end_ms),
        lane("sidecar", std::iter::once((0, "OPEN".to_owned())).chain(states), end_ms),
        lane("requests in Envoy", active, end_ms),
    ];
    let troubled = shots.iter().filter(|shot| shot.ending != Ending::Whole);
    let whole = shots.iter().filter(|shot| shot.ending == Ending::Whole);
    for (n, shot) in troubled.chain(whole).take(DRAWN).enumerate() {
        let answer = shot.status.map_or("no answer".to_owned(), |status| status.to_string());
        let label = format!("{answer} {:?}", shot.ending);
        let span = Span { from_ms: shot.at_ms, to_ms: shot.at_ms + shot.took_ms, label };
        lanes.push(Lane { name: format!("request {}", n + 1), spans: vec![span] });
    }
    let marks = events
        .named()
        .into_iter()
        .filter_map(|(label, at)| Some(Mark { at_ms: at?, label: label.to_owned() }))
        .collect();
    Timeline { lanes, marks, end_ms }
}

/// Readings one after the other, as stretches of the same.
fn lane(name: &str, readings: impl Iterator<Item = (u64, String)>, end_ms: u64) -> Lane {
    let mut spans: Vec<Span> = Vec::new();
    for (at, label) in readings {
        if let Some(last) = spans.last_mut() {
            last.to_ms = at;
            if last.label == label {
                continue;
            }
        }
        spans.push(Span { from_ms: at, to_ms: at, label });
    }
    if let Some(last) = spans.last_mut() {
        last.to_ms = end_ms.max(last.from_ms);
    }
    Lane { name: name.to_owned(), spans }
}
