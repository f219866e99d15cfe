//! What the scenarios of `signals` measure beside the requests, and what is known of it. Pure: figures come in, a
//! judgement and a table go out. Called by `drain`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Measured, Order};
use crate::experiments::evidence::{Judgement, Table};
use crate::lab::ingress::Ending;

/// Answers looked at for `Connection: close`.
pub(super) const ASKED: u64 = 20;
/// Requests that each pod is given before a load balancer is told anything.
pub(super) const EACH: u64 = 4;

/// The figures of one scenario.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// S5.
    Gone {
        /// Why the sidecar went on to CLOSING.
        reason: Option<String>,
        /// From the signal to Envoy until then, ms.
        closing_after_ms: u64,
        /// How the request that was under way ended.
        request: Ending,
    },
    /// S6.
    Idle {
        /// What the sidecar counted, with everybody connected.
        counted: Counted,
        /// Connections that were there.
        connections: Option<u64>,
        /// Streams of configuration, which Envoy itself counts as requests.
        configuration_streams: Option<u64>,
        /// Whether the limit ended the drain.
        forced: Option<bool>,
        /// How long the hook waited, ms.
        waited_ms: Option<u64>,
    },
    /// S7.
    Kinds {
        /// What the sidecar counted, with one of each under way.
        counted: Counted,
        /// The state when the requests had ended and the WebSocket's time was over, but not the TCP session.
        state_with_tcp: Option<String>,
        /// How the HTTP/2 request ended.
        h2_status: Option<u16>,
        /// What was left when the drain ended: the WebSocket.
        remaining: Option<u64>,
        /// Whether the limit ended the drain.
        forced: Option<bool>,
        /// Whether the idle HTTP/2 connection was still open then.
        idle_h2_open: bool,
    },
    /// S8.
    Unaware {
        /// Whether the sidecar saw that it was misunderstood, by every check of the load balancer.
        taken_back: bool,
        /// How often each check was given the third answer, at most.
        offers: Option<u64>,
    },
    /// S10.
    Reopen {
        /// What the sidecar says of Envoy.
        degraded: Option<bool>,
        /// How many of 20 answers told the client to close, once the load balancer said UP again.
        told_to_close: u64,
    },
    /// S12. What counts is [`Measured::repeated`].
    Posts {
        /// Requests on the pod that left.
        on_the_pod: Option<u64>,
    },
    /// S14.
    Preflight {
        /// Checks that warned.
        warned: Vec<String>,
        /// Envoy's settings as preflight found them.
        envoy: Option<String>,
        /// How many of 20 answers told the client to close, once the listeners drained.
        told_to_close: u64,
    },
    /// S15. Times are ms from the start.
    Nodes {
        /// When each load balancer said "no new work".
        words_ms: [Option<u64>; 2],
        /// When that was taken for acknowledged.
        acknowledged_ms: Option<u64>,
    },
}

/// The sidecar's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// HTTP/1 requests.
    pub http: Option<u64>,
    /// HTTP/2 requests.
    pub h2: Option<u64>,
    /// WebSockets.
    pub websocket: Option<u64>,
    /// TCP sessions.
    pub tcp: Option<u64>,
}

impl Counted {
    pub(super) fn of(status: &Value) -> Self {
        let row = |name: &str| status["active"][name].as_u64();
        Self { http: row("http"), h2: row("h2"), websocket: row("websocket"), tcp: row("tcp") }
    }

    fn all(self, number: u64) -> bool {
        [self.http, self.h2, self.websocket, self.tcp].into_iter().all(|row| row == Some(number))
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { http, h2, websocket, tcp } = *self;
        let [http, h2, websocket, tcp] = [http, h2, websocket, tcp].map(|row| shown(row.as_ref()));
        write!(f, "{http} HTTP/1, {h2} HTTP/2, {websocket} WebSocket, {tcp} TCP")
    }
}

impl Said {
    /// Whether it is as known.
    pub(super) fn judge(&self, order: Order, measured: &Measured) -> Judgement {
        if let Some(why) = self.too_late(order, measured) {
            return Judgement::open(format!("{}: {why}", measured.losses()));
        }
        let mut checks = self.checks();
        // A WebSocket that is let go is cut as the load balancer goes DOWN.
        let cut = if matches!(self, Self::Kinds { .. }) { 0 } else { measured.cut };
        if measured.tally.requests > 0 && !matches!(self, Self::Gone { .. }) {
            checks.push((measured.tally.lost() + cut + measured.repeated == 0, measured.losses()));
        }
        Judgement::of(&checks)
    }

    /// A busy machine may check so late that there is nothing to see.
    fn too_late(&self, order: Order, measured: &Measured) -> Option<&'static str> {
        match self {
            Self::Posts { .. } if order != Order::NoNewWork && measured.repeated == 0 => {
                Some("no request was under way as the load balancer went DOWN")
            }
            Self::Nodes { words_ms: [Some(_), Some(_)], acknowledged_ms: None } => {
                Some("both load balancers said \"no new work\", but after the time for it")
            }
            _ => None,
        }
    }

    fn checks(&self) -> Vec<(bool, String)> {
        match self {
            Self::Gone { reason, closing_after_ms, request } => vec![(
                reason.as_deref() == Some("envoy_gone") && *request != Ending::Whole,
                format!(
                    "CLOSING by {} after {closing_after_ms} ms; the request ended as {request:?}",
                    shown(reason.as_ref())
                ),
            )],
            Self::Idle { counted, connections, configuration_streams, forced, waited_ms } => vec![
                (
                    counted.all(0),
                    format!("counted {counted}, of {} connections", shown(connections.as_ref())),
                ),
                (
                    *configuration_streams == Some(1),
                    format!("{} stream of configuration", shown(configuration_streams.as_ref())),
                ),
                (
                    *forced == Some(false),
                    format!("forced: {} after {} ms", shown(forced.as_ref()), shown(waited_ms.as_ref())),
                ),
            ],
            Self::Kinds { counted, state_with_tcp, h2_status, remaining, forced, idle_h2_open } => vec![
                (counted.all(1), format!("counted {counted}")),
                (
                    state_with_tcp.as_deref() == Some("DRAINING"),
                    format!("{} while the TCP session was open", shown(state_with_tcp.as_ref())),
                ),
                (*h2_status == Some(200), format!("HTTP/2 status {}", shown(h2_status.as_ref()))),
                (
                    (*remaining, *forced) == (Some(1), Some(false)),
                    format!(
                        "{} left at the end, forced: {}; idle HTTP/2 connection still open: {idle_h2_open}",
                        shown(remaining.as_ref()),
                        shown(forced.as_ref())
                    ),
                ),
            ],
            Self::Unaware { taken_back, offers } => vec![(
                *taken_back && *offers == Some(1),
                format!("offered {} times, taken back: {taken_back}", shown(offers.as_ref())),
            )],
            Self::Reopen { degraded, told_to_close } => vec![(
                *degraded == Some(false) && *told_to_close == 0,
                format!(
                    "degraded: {}; {told_to_close} of {ASKED} answers told the client to close",
                    shown(degraded.as_ref())
                ),
            )],
            Self::Posts { on_the_pod } => vec![(
                *on_the_pod == Some(EACH),
                format!("{} requests were on the pod", shown(on_the_pod.as_ref())),
            )],
            Self::Preflight { warned, envoy, told_to_close } => vec![
                (
                    ["envoy_drain_settings", "third_answer"]
                        .map(str::to_owned)
                        .iter()
                        .all(|w| warned.contains(w)),
                    format!("warned of [{}] ({})", warned.join(", "), shown(envoy.as_ref())),
                ),
                // The chance is that of the time since the drain began by the drain time, 600 s.
                (
                    2 * told_to_close < ASKED,
                    format!("{told_to_close} of {ASKED} answers told the client to close"),
                ),
            ],
            Self::Nodes { words_ms: [first, second], acknowledged_ms } => vec![(
                acknowledged_ms.is_some()
                    && [first, second].iter().all(|at| at.is_some() && *at <= acknowledged_ms),
                format!(
                    "\"no new work\" at {} and {} ms, acknowledged at {} ms",
                    shown(first.as_ref()),
                    shown(second.as_ref()),
                    shown(acknowledged_ms.as_ref())
                ),
            )],
        }
    }

    /// Every figure with its name.
    pub(super) fn table(&self) -> Table {
        let value = serde_json::to_value(self).unwrap_or_default();
        let figures =
            value.as_object().and_then(|said| said.values().next()?.as_object()).into_iter().flatten();
        let rows = figures.map(|(name, figure)| vec![name.replace('_', " "), plain(figure)]);
        Table::new("what was said", &["what", "figure"], rows.collect())
    }
}

/// What was not said or not seen is a dash.
fn shown(figure: Option<&impl ToString>) -> String {
    figure.map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn plain(figure: &Value) -> String {
    let joined = |parts: Vec<String>| if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
    match figure {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => joined(parts.iter().map(plain).collect()),
        Value::Object(rows) => {
            joined(rows.iter().map(|(name, row)| format!("{name} {}", plain(row))).collect())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Events;
    use super::*;
    use crate::experiments::evidence::Verdict;
    use crate::lab::ingress::Tally;

    fn verdict(said: &Said, order: Order, repeated: u64) -> Verdict {
        let measured = Measured {
            order,
            deleted_ms: 0,
            tally: Tally { requests: 8, ..Tally::default() },
            repeated,
            cut: 0,
            events: Events::default(),
            hook: Value::Null,
            resumed: None,
            said: None,
            shots: Vec::new(),
            samples: Vec::new(),
        };
        said.judge(order, &measured).verdict
    }

    #[test]
    fn what_came_too_late_decides_nothing() {
        let posts = || Said::Posts { on_the_pod: Some(EACH) };
        assert_eq!(verdict(&posts(), Order::FailFirst, 0), Verdict::Inconclusive);
        assert_eq!(verdict(&posts(), Order::FailFirst, 4), Verdict::Refuted);
        assert_eq!(verdict(&posts(), Order::NoNewWork, 0), Verdict::Confirmed);
        let nodes = |second, acknowledged_ms| Said::Nodes { words_ms: [Some(3), second], acknowledged_ms };
        assert_eq!(verdict(&nodes(Some(5), None), Order::NoNewWork, 0), Verdict::Inconclusive);
        assert_eq!(verdict(&nodes(Some(5), Some(5)), Order::NoNewWork, 0), Verdict::Confirmed);
        for early in [nodes(Some(5), Some(4)), nodes(None, None), nodes(None, Some(4))] {
            assert_eq!(verdict(&early, Order::NoNewWork, 0), Verdict::Refuted);
        }
    }

    #[test]
    fn figures_read_as_words() {
        let counted = Counted { http: Some(1), h2: Some(0), websocket: Some(1), tcp: None };
        assert_eq!(counted.to_string(), "1 HTTP/1, 0 HTTP/2, 1 WebSocket, - TCP");
        let said = Said::Preflight { warned: Vec::new(), envoy: None, told_to_close: 20 };
        let shown: Vec<String> = said.table().rows.concat();
        assert_eq!(shown, ["warned", "none", "envoy", "-", "told to close", "20"]);
    }
}
