//! Does a pod leave its load balancer without cutting a request? The reference's four scenarios in three orders, and
//! what else must hold while a pod leaves (`signals`), on a real HAProxy, a real Envoy and the real sidecar. It has a
//! stage of its own (`ingress`), not the DNS bench; `run` measures, `judge` holds the opinions. Called by `lab run drain`.

mod events;
mod said;
mod scene;
mod signals;
mod told;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::experiments::evidence::{Cell, DrainCell, Evidence, Judgement};
use crate::lab::envoy::Binary;
use crate::lab::envoy::bootstrap::HttpVersion;
use crate::lab::ingress::{Ending, Sample, Shot, Tally};

pub use events::Events;
pub use said::Said;

/// What it is called on the command line.
pub const ID: &str = "drain";
/// What it asks.
pub const QUESTION: &str = "does a pod leave its load balancer without cutting a request?";

/// Which signals the sidecar gives in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// 503 at once.
    #[serde(alias = "naive")]
    FailFirst,
    /// 200 until zero, then 503.
    #[serde(alias = "seed")]
    WaitThenFail,
    /// "No new work", then zero, then 503.
    #[serde(alias = "third")]
    NoNewWork,
}

impl Order {
    /// All, from worst to best.
    pub const ALL: [Self; 3] = [Self::FailFirst, Self::WaitThenFail, Self::NoNewWork];

    /// As the sidecar's flag has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FailFirst => "fail-first",
            Self::WaitThenFail => "wait-then-fail",
            Self::NoNewWork => "no-new-work",
        }
    }
}

/// What goes on while the pod leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scenario {
    /// S1: one request of 60 s, deleted at 5 s.
    Long,
    /// S2: the same, for the sake of what the sidecar and Envoy say meanwhile.
    Watched,
    /// S3: steady load on two pods that are restarted in turn.
    Rolling,
    /// S3 from clients that keep their connections: what is cut is no 5xx there, but a connection error.
    RollingKept,
    /// S4: a stream of 60 chunks, deleted at 8 s. Also shows S13: a body that DOWN cuts has the status 200.
    Stream,
    /// S4 over HTTP/2.
    StreamH2,
    /// S5: Envoy dies in the middle of the drain.
    Gone,
    /// S6: a scraper, idle connections and a stream of configuration are there, but no request.
    Idle,
    /// S7: a TCP session, a WebSocket, and requests and an idle connection over both versions of HTTP.
    Kinds,
    /// S8: a load balancer that takes the third answer for a failed check.
    Unaware,
    /// S9: the sidecar is killed in the middle of the drain and comes back.
    Killed,
    /// S10: the drain is undone.
    Reopen,
    /// S12: POSTs, at a load balancer that repeats what it has cut.
    Posts,
    /// S14: an Envoy that drains gradually, at a load balancer without words.
    Preflight,
    /// S15: two load balancers that check at different times.
    Nodes,
}

impl Scenario {
    /// All, in the reference's order.
    pub const ALL: [Self; 15] = [
        Self::Long,
        Self::Watched,
        Self::Rolling,
        Self::RollingKept,
        Self::Stream,
        Self::StreamH2,
        Self::Gone,
        Self::Idle,
        Self::Kinds,
        Self::Unaware,
        Self::Killed,
        Self::Reopen,
        Self::Posts,
        Self::Preflight,
        Self::Nodes,
    ];

    /// Its name in a cell.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Long => "s1-long",
            Self::Watched => "s2-watched",
            Self::Rolling => "s3-rolling",
            Self::RollingKept => "s3-rolling-kept",
            Self::Stream => "s4-stream",
            Self::StreamH2 => "s4-stream-h2",
            Self::Gone => "s5-envoy-gone",
            Self::Idle => "s6-idle",
            Self::Kinds => "s7-kinds",
            Self::Unaware => "s8-unaware-lb",
            Self::Killed => "s9-killed",
            Self::Reopen => "s10-reopen",
            Self::Posts => "s12-posts",
            Self::Preflight => "s14-preflight",
            Self::Nodes => "s15-two-nodes",
        }
    }

    const fn is_rolling(self) -> bool {
        matches!(self, Self::Rolling | Self::RollingKept)
    }

    /// The orders in which it says something.
    const fn orders(self) -> &'static [Order] {
        match self {
            Self::Long | Self::Rolling | Self::RollingKept | Self::Stream | Self::StreamH2 => &Order::ALL,
            Self::Watched => &[Order::WaitThenFail, Order::NoNewWork],
            _ => &[Order::NoNewWork],
        }
    }

    /// What makes it come out the other way, and in which order.
    const fn control(self) -> Option<(Order, Control)> {
        match self {
            Self::Long => Some((Order::FailFirst, Control::NoFlush)),
            Self::Gone => Some((Order::NoNewWork, Control::Paused)),
            Self::Idle => Some((Order::NoNewWork, Control::AllCounted)),
            Self::Kinds => Some((Order::NoNewWork, Control::LetGo)),
            Self::Unaware | Self::Nodes => Some((Order::NoNewWork, Control::NoState)),
            Self::Killed => Some((Order::NoNewWork, Control::NoStateFile)),
            Self::Reopen => Some((Order::NoNewWork, Control::ListenersDrained)),
            Self::Posts => Some((Order::FailFirst, Control::FailFirst)),
            Self::Preflight => Some((Order::NoNewWork, Control::Prepared)),
            _ => None,
        }
    }
}

/// What makes a verdict come out the other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The load balancer does not cut sessions on DOWN: then even `fail-first` loses nothing.
    NoFlush,
    /// The killed sidecar finds no state file: then it forgets the drain.
    NoStateFile,
    /// Envoy is paused and comes back: then it is held for.
    Paused,
    /// The scraper's listener counts like any other: then zero is never reached.
    AllCounted,
    /// The sidecar is told to let TCP and WebSockets go: then they are not waited for.
    LetGo,
    /// A load balancer sends no state: then a misunderstanding is not seen, and its word cannot be waited for.
    NoState,
    /// Envoy's listeners were drained too: then the pod comes back degraded.
    ListenersDrained,
    /// 503 at once: then what was cut is carried out twice.
    FailFirst,
    /// Envoy drains at once, and the load balancer sends its state: then there is nothing to warn of.
    Prepared,
}

/// All, with what is changed and must then be seen.
pub const CONTROLS: [(Control, &str); 9] = [
    (Control::NoFlush, "the load balancer cuts nothing on DOWN: fail-first loses nothing either"),
    (Control::NoStateFile, "a killed sidecar finds no state file: it forgets the drain"),
    (Control::Paused, "Envoy is paused, not gone: it is held for"),
    (
        Control::AllCounted,
        "the scraper's listener counts: zero is never reached, and the drain runs to its limit",
    ),
    (Control::LetGo, "TCP and WebSockets are let go: they are not waited for"),
    (
        Control::NoState,
        "a load balancer sends no state: it cuts on the third answer; its word is not waited for",
    ),
    (Control::ListenersDrained, "Envoy's listeners were drained too: the pod that comes back is degraded"),
    (Control::FailFirst, "503 at once: POSTs that were cut are carried out twice"),
    (
        Control::Prepared,
        "Envoy drains at once, the load balancer sends its state: preflight warns of neither",
    ),
];

impl Control {
    /// Its name in a cell.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFlush => "no-flush",
            Self::NoStateFile => "no-state-file",
            Self::Paused => "paused",
            Self::AllCounted => "all-counted",
            Self::LetGo => "let-go",
            Self::NoState => "no-state",
            Self::ListenersDrained => "listeners-drained",
            Self::FailFirst => "fail-first",
            Self::Prepared => "prepared",
        }
    }
}

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Envoy for the pods.
    pub envoy: Binary,
    /// The sidecar's binary ([`crate::lab::ingress::sidecar::find`]).
    pub sidecar: PathBuf,
    /// All times of the reference are multiplied by this; 1.0 takes a minute a cell.
    pub scale: f64,
    /// Which scenarios.
    pub scenarios: Vec<Scenario>,
    /// Which orders.
    pub orders: Vec<Order>,
    /// Whether controls run too.
    pub controls: bool,
}

impl Options {
    /// A time of the reference, scaled.
    fn seconds(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds * self.scale)
    }
}

/// One cell to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Act {
    /// What goes on.
    pub scenario: Scenario,
    /// In which order the sidecar signals.
    pub order: Order,
    /// What is changed.
    pub control: Option<Control>,
}

/// The figures of one cell.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// In which order the sidecar signalled.
    pub order: Order,
    /// When the pod was deleted, ms from the start.
    pub deleted_ms: u64,
    /// Requests by their ending.
    pub tally: Tally,
    /// Requests carried out more than once.
    pub repeated: u64,
    /// Sessions that HAProxy cut because the server went DOWN.
    pub cut: u64,
    /// The six events of the reference.
    pub events: Events,
    /// The hook's answer.
    pub hook: serde_json::Value,
    /// State of a sidecar right after it was killed and came back.
    pub resumed: Option<String>,
    /// What was said and done, in the scenarios that are about that.
    pub said: Option<Said>,
    /// Requests, one by one.
    pub shots: Vec<Shot>,
    /// What HAProxy and Envoy said, for the pod that leaves first.
    pub samples: Vec<Sample>,
}

impl Measured {
    fn losses(&self) -> String {
        let Tally { requests, refused, connection_errors, truncated } = self.tally;
        format!(
            "{} of {requests} requests lost ({refused} refused, {connection_errors} connection errors, {truncated} \
             truncated), {} sessions cut, {} requests repeated",
            self.tally.lost(),
            self.cut,
            self.repeated
        )
    }
}

/// The cells of a selection.
#[must_use]
pub fn acts(options: &Options) -> Vec<Act> {
    let mut acts = Vec::new();
    for &scenario in &options.scenarios {
        let orders = scenario.orders().iter().filter(|order| options.orders.contains(order));
        acts.extend(orders.map(|&order| Act { scenario, order, control: None }));
        if let (true, Some((order, control))) = (options.controls, scenario.control()) {
            acts.push(Act { scenario, order, control: Some(control) });
        }
    }
    acts
}

/// Plays all acts, `at_once` side by side, and tells `finished` about each in their order. Dropping the future tears
/// everything down.
pub async fn run_all(
    options: &Options,
    at_once: usize,
    mut finished: impl FnMut(&Evidence),
) -> Vec<Evidence> {
    let mut running =
        stream::iter(acts(options)).map(|act| run(act, options)).buffered(at_once.max(1)).boxed_local();
    let mut all = Vec::new();
    while let Some(evidence) = running.next().await {
        finished(&evidence);
        all.push(evidence);
    }
    all
}

/// Plays one act and judges it. An act that cannot be staged is inconclusive.
pub async fn run(act: Act, options: &Options) -> Evidence {
    let (started_at, begun) = (Timestamp::now(), Instant::now());
    let played = scene::play(act, options).await;
    let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let h2 = act.scenario == Scenario::StreamH2;
    let cell = DrainCell {
        envoy: options.envoy.version,
        http: if h2 { HttpVersion::H2 } else { HttpVersion::H1 },
        scenario: act.scenario.name().to_owned(),
        order: act.order.name().to_owned(),
        control: act.control.map(|control| control.name().to_owned()),
    };
    let blank = Evidence { took_ms, ..Evidence::blank(ID, QUESTION, Cell::Drain(cell), started_at) };
    match played {
        Err(error) => Evidence { because: format!("{error} ({})", error.hint()), ..blank },
        Ok((measured, timeline)) => {
            let Judgement { verdict, because, seen } = judge(act, options, &measured);
            let tables = measured.said.iter().map(Said::table);
            let tables = tables.chain([measured.events.table(measured.deleted_ms)]).collect();
            let measured = serde_json::to_value(&measured).unwrap_or_default();
            Evidence { verdict, because, seen, measured, tables, timeline, ..blank }
        }
    }
}

/// Whether the order did what it is known to do: `fail-first` cuts, `wait-then-fail` may cut under steady load only,
/// and `no-new-work` cuts nothing.
#[must_use]
pub fn judge(act: Act, options: &Options, measured: &Measured) -> Judgement {
    if let Some(said) = &measured.said {
        return said.judge(act.order, measured);
    }
    let said = measured.losses();
    let connection_errors = measured.tally.connection_errors;
    let bad_gateways = measured.shots.iter().filter(|shot| shot.status == Some(502)).count();
    let loses = match act.order {
        Order::FailFirst => true,
        Order::WaitThenFail => act.scenario.is_rolling(),
        Order::NoNewWork => false,
    };
    let lost = measured.tally.lost() > 0 || measured.cut > 0;
    if act.order == Order::WaitThenFail && loses && !lost {
        // It flips at the first moment without a request, and what comes until DOWN may be over by then.
        return Judgement::open(format!("{said}: no request was under way as the load balancer went DOWN"));
    }
    let mut checks = vec![(lost == loses, said)];
    if !loses {
        checks.extend(measured.events.in_order());
    }
    match act.scenario {
        Scenario::Long | Scenario::Watched => checks.extend(long(act.order, options, measured)),
        Scenario::Stream | Scenario::StreamH2 => checks.extend(measured.shots.first().map(|shot| {
            let whole = shot.ending == Ending::Whole && shot.lines == scene::CHUNKS;
            (whole != loses, format!("{} of {} chunks arrived", shot.lines, scene::CHUNKS))
        })),
        Scenario::Killed => {
            let state = measured.resumed.as_deref().unwrap_or("unknown");
            checks.push((state == "DRAINING", format!("after the kill the sidecar was {state}")));
        }
        Scenario::Rolling if act.order == Order::FailFirst => {
            checks
                .push((bad_gateways > 0, format!("{bad_gateways} first requests of a connection got a 502")));
        }
        Scenario::RollingKept if act.order == Order::FailFirst => {
            let silent = bad_gateways == 0 && connection_errors > 0;
            let what = "later requests of a connection got no status";
            checks.push((silent, format!("{connection_errors} {what}, {bad_gateways} a 502")));
        }
        _ => {}
    }
    Judgement::of(&checks)
}

fn long(order: Order, options: &Options, measured: &Measured) -> Option<(bool, String)> {
    let shot = measured.shots.first()?;
    let whole = Duration::from_millis(shot.took_ms) >= options.seconds(scene::LONG);
    let status = shot.status.unwrap_or(0);
    let known = if order == Order::FailFirst { status == 502 && !whole } else { status == 200 && whole };
    Some((known, format!("status {status} after {} ms", shot.took_ms)))
}
