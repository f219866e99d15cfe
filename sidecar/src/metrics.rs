//! What is counted, and the Prometheus text of it. Filled by `engine` from what happens; rendered for `GET /metrics`
//! together with the gauges that are read off the drain itself.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use crate::count::Reading;
use crate::drain::{Answer, Drain, Millis, State, Transition};
use crate::envoy::ServerInfo;
use crate::log;

/// Counters since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    transitions: BTreeMap<(State2, State2, String), u64>,
    stats_errors: BTreeMap<&'static str, u64>,
    probes: [u64; 3],
    /// Seconds from the answer to its acknowledgement, by kind.
    acks: BTreeMap<String, f64>,
    drain_duration: Option<f64>,
    forced: u64,
    /// Waits for the load balancer's word that ended by time, by kind.
    not_acknowledged: [u64; 2],
    /// Whether the pod was in service when that was last looked at, and how often it has changed.
    in_service: (bool, u64),
    /// Attempts to drain Envoy's listeners, or to start a drain, that failed.
    pub(crate) trigger_failures: u64,
}

type State2 = &'static str;

impl Metrics {
    pub(crate) fn read(&mut self, reading: &Reading) {
        if let Reading::Unknown(why) = reading {
            *self.stats_errors.entry(why).or_default() += 1;
        }
    }

    pub(crate) fn probed(&mut self, answer: Answer) {
        self.probes[answer as usize] += 1;
    }

    pub(crate) fn changed(&mut self, transition: &Transition, drain: &Drain) {
        let key = (transition.from.name(), transition.to.name(), transition.reason.clone());
        *self.transitions.entry(key).or_default() += 1;
        if transition.to == State::Closing && drain.forced {
            self.forced += 1;
        }
        if let (State::Closed, Some(started)) = (transition.to, drain.started) {
            self.drain_duration = Some(seconds(transition.at_ms.saturating_sub(started)));
        }
    }

    pub(crate) fn not_acknowledged(&mut self, kind: &str) {
        self.not_acknowledged[usize::from(kind == "down")] += 1;
    }

    /// Looks whether the pod is in service after an event.
    pub(crate) fn after(&mut self, drain: &Drain) {
        let (was, changes) = self.in_service;
        let is = drain.in_service();
        self.in_service = (is, changes + u64::from(was != is));
    }

    pub(crate) fn acknowledged(&mut self, kind: &str, drain: &Drain, now: Millis) {
        let since = if kind == "down" { drain.flipped } else { drain.started };
        let waited = now.saturating_sub(since.unwrap_or(now));
        self.acks.insert(kind.to_owned(), seconds(waited));
    }

    /// The exposition text. `timeout_s` is the drain timeout that Envoy's own drain time is held against.
    pub(crate) fn render(
        &self,
        drain: &Drain,
        info: Option<&ServerInfo>,
        timeout_s: u64,
        now: Millis,
    ) -> String {
        let mut page = Page(String::new());
        page.family("drain_state", "gauge", "1 for the state the pod is in.");
        for state in State::ALL {
            page.row("drain_state", &[("state", state.name())], u8::from(state == drain.state));
        }
        page.family("drain_transitions_total", "counter", "Changes of state.");
        for ((from, to, reason), count) in &self.transitions {
            page.row("drain_transitions_total", &[("from", from), ("to", to), ("reason", reason)], count);
        }
        let (is, changes) = self.in_service;
        page.one("drain_in_service", "gauge", "1 if the load balancer is told 200.", u8::from(is));
        page.one("drain_in_service_changes_total", "counter", "How often that has changed.", changes);
        self.render_envoy(&mut page, drain, info, timeout_s, now);
        page.family("drain_lb_probe_total", "counter", "Probes by the load balancer, by the answer given.");
        for (answer, count) in ["ok", "no_new_work", "down"].iter().zip(self.probes) {
            page.row("drain_lb_probe_total", &[("answer", answer)], count);
        }
        page.family("drain_lb_probe_seen", "gauge", "1 if a load balancer is probing.");
        page.row("drain_lb_probe_seen", &[], u8::from(!drain.lb.silent(now)));
        page.family("drain_lb_ack_seconds", "gauge", "Wait for the load balancer's word in the last drain.");
        for (kind, waited) in &self.acks {
            page.row("drain_lb_ack_seconds", &[("kind", kind)], waited);
        }
        let help = "Waits for the load balancer's word that ended by time.";
        page.family("drain_lb_not_acknowledged_total", "counter", help);
        for (kind, count) in ["no_new_work", "down"].iter().zip(self.not_acknowledged) {
            page.row("drain_lb_not_acknowledged_total", &[("kind", kind)], count);
        }
        if let Some(took) = self.drain_duration {
            page.one("drain_duration_seconds", "gauge", "Length of the last drain, begin to CLOSED.", took);
        }
        page.one("drain_forced_total", "counter", "Drains that ended by their time limit.", self.forced);
        if let Some(left) = drain.remaining {
            page.one("drain_remaining_at_close", "gauge", "Requests left when the 503 went out.", left);
        }
        let late = drain.late_requests;
        page.one("drain_late_requests_total", "counter", "Requests begun after the 503.", late);
        let failures = self.trigger_failures;
        page.one("drain_trigger_failures_total", "counter", "Failed attempts to drain Envoy.", failures);
        page.one("drain_log_dropped_total", "counter", "Lines of the log that nobody took.", log::dropped());
        page.0
    }

    fn render_envoy(
        &self,
        page: &mut Page,
        drain: &Drain,
        info: Option<&ServerInfo>,
        timeout_s: u64,
        now: Millis,
    ) {
        let up = u8::from(drain.unknown.is_none());
        page.one("drain_envoy_up", "gauge", "1 if the newest poll of Envoy gave a number.", up);
        if let Some((active, at)) = &drain.reading {
            page.family(
                "drain_active_requests",
                "gauge",
                "Work that Envoy holds; see drain_stats_age_seconds.",
            );
            let rows = [("http", active.http), ("h2", active.h2), ("websocket", active.websocket)];
            for (proto, count) in rows.into_iter().chain(active.tcp.map(|tcp| ("tcp", tcp))) {
                page.row("drain_active_requests", &[("proto", proto)], count);
            }
            let age = seconds(now.saturating_sub(*at));
            page.one("drain_stats_age_seconds", "gauge", "Age of the newest reading.", age);
        }
        page.family("drain_stats_errors_total", "counter", "Polls of Envoy that gave no number.");
        for (reason, count) in &self.stats_errors {
            page.row("drain_stats_errors_total", &[("reason", reason)], count);
        }
        if let Some(info) = info {
            let ok = u8::from(info.drains_within(timeout_s));
            page.one("drain_envoy_config_ok", "gauge", "1 if Envoy drains at once and long enough.", ok);
        }
    }
}

fn seconds(millis: Millis) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn row(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.row(name, &[], value);
    }
}
