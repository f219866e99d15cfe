//! Everything that happens in a cell, on one clock: DNS answers, Envoy's list (asked regularly), connections as the
//! backends saw them, requests and marks. Becomes the timeline and the raw part of the evidence.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::backends::LabBackends;
use crate::experiments::evidence::{Evidence, Lane, Mark, Snapshot, Span, Timeline};
use crate::lab::backend::ConnectionLife;
use crate::lab::client::Exchange;
use crate::lab::envoy::admin::Admin;

/// Lanes for connections; a run with more shows the longest.
const CONNECTION_LANES: usize = 12;

/// Counters and gauges that are kept in snapshots: those the guide reads, and those that explain a failure.
const KEPT: &[&str] =
    &["membership_", "upstream_cx_", "upstream_rq_", "update_", "outlier_detection.", "lb_healthy_panic"];

/// Since when, ms, and which addresses.
type State = (u64, Vec<IpAddr>);

pub(super) struct Recorder {
    start: Instant,
    answers: Vec<State>,
    lists: Arc<Mutex<Vec<State>>>,
    marks: Vec<Mark>,
    snapshots: Vec<Snapshot>,
    exchanges: Vec<Exchange>,
    sampler: JoinHandle<()>,
}

impl Recorder {
    /// Starts asking for the list, forty times per stream.
    pub(super) fn start(
        admin: Admin,
        cluster: String,
        start: Instant,
        stream: Duration,
        answer: Vec<IpAddr>,
    ) -> Self {
        let lists = Arc::new(Mutex::new(Vec::new()));
        let interval = (stream / 40).clamp(Duration::from_millis(100), Duration::from_secs(1));
        let sampler = tokio::spawn(sample(admin, cluster, start, interval, Arc::clone(&lists)));
        Self {
            start,
            answers: vec![(0, answer)],
            lists,
            marks: Vec::new(),
            snapshots: Vec::new(),
            exchanges: Vec::new(),
            sampler,
        }
    }

    pub(super) fn answer(&mut self, addrs: Vec<IpAddr>) {
        self.answers.push((ms(self.start.elapsed()), addrs));
    }

    pub(super) fn mark(&mut self, label: &str) {
        self.marks.push(Mark { at_ms: ms(self.start.elapsed()), label: label.to_owned() });
    }

    pub(super) fn snapshot(&mut self, snapshot: &Snapshot) {
        self.marks.push(Mark { at_ms: snapshot.at_ms, label: snapshot.label.clone() });
        self.snapshots.push(snapshot.clone());
    }

    pub(super) fn exchanges(&mut self, exchanges: &[Exchange]) {
        self.exchanges.extend_from_slice(exchanges);
    }

    /// Fills the raw part, but for its queries, and the timeline of `evidence`.
    pub(super) fn finish(
        &mut self,
        backends: &LabBackends,
        lives: &[ConnectionLife],
        evidence: &mut Evidence,
    ) {
        self.sampler.abort();
        let end_ms = ms(self.start.elapsed());
        let name = |addr: &IpAddr| backends.name(*addr).map_or_else(|| addr.to_string(), str::to_owned);
        let label = |addrs: &Vec<IpAddr>| match addrs.len() {
            0 => "none".to_owned(),
            1..=3 => addrs.iter().map(name).collect::<Vec<_>>().join(", "),
            more => format!("{more} addresses"),
        };
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = evidence.queries.iter();
        let mut told: Vec<State> = answers.map(|answer| (answer.at_ms, answer.addrs.clone())).collect();
        told.dedup_by(|later, earlier| later.1 == earlier.1);
        let mut lanes = vec![
            Lane { name: "DNS".to_owned(), spans: spans(&self.answers, end_ms, label) },
            Lane { name: "answers to Envoy".to_owned(), spans: spans(&told, end_ms, label) },
            Lane { name: "Envoy's list".to_owned(), spans: spans(&lists, end_ms, label) },
        ];
        lanes.extend(connections(lives, backends, end_ms));
        lanes.extend(requests(&self.exchanges));
        evidence.timeline = Timeline { lanes, marks: std::mem::take(&mut self.marks), end_ms };
        evidence.snapshots = std::mem::take(&mut self.snapshots);
        evidence.exchanges = std::mem::take(&mut self.exchanges);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.sampler.abort();
    }
}

async fn sample(
    admin: Admin,
    cluster: String,
    start: Instant,
    interval: Duration,
    lists: Arc<Mutex<Vec<State>>>,
) {
    let mut turns = tokio::time::interval(interval);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        // A crash is reported by the bench; the timeline only shows that the list is unknown from there on.
        let Ok(hosts) = admin.hosts(&cluster).await else { continue };
        let mut addrs: Vec<IpAddr> = hosts.iter().map(|host| host.addr).collect();
        addrs.sort_unstable();
        let mut lists = lists.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.last().is_none_or(|(_, last)| *last != addrs) {
            lists.push((ms(start.elapsed()), addrs));
        }
    }
}

/// Each state lasts until the next one.
fn spans(states: &[State], end_ms: u64, label: impl Fn(&Vec<IpAddr>) -> String) -> Vec<Span> {
    let ends = states.iter().skip(1).map(|(at, _)| *at).chain([end_ms]);
    states
        .iter()
        .zip(ends)
        .map(|((from, addrs), to_ms)| Span { from_ms: *from, to_ms, label: label(addrs) })
        .collect()
}

fn connections(lives: &[ConnectionLife], backends: &LabBackends, end_ms: u64) -> Vec<Lane> {
    let length = |life: &ConnectionLife| life.closed.map_or(end_ms, ms).saturating_sub(ms(life.opened));
    let mut longest: Vec<&ConnectionLife> = lives.iter().collect();
    longest.sort_by_key(|life| std::cmp::Reverse(length(life)));
    longest.truncate(CONNECTION_LANES);
    longest.sort_by_key(|life| life.opened);
    let addrs = backends.addrs();
    let lane = |life: &ConnectionLife| Lane {
        name: format!("connection :{}", life.peer.port()),
        spans: vec![Span {
            from_ms: ms(life.opened),
            to_ms: life.closed.map_or(end_ms, ms),
            label: backends.name(addrs[life.backend]).unwrap_or_default().to_owned(),
        }],
    };
    longest.into_iter().map(lane).collect()
}

/// One lane for all requests; in runs of hundreds each is a tick.
fn requests(exchanges: &[Exchange]) -> Option<Lane> {
    let span = |x: &Exchange| Span {
        from_ms: x.at_ms,
        to_ms: x.at_ms + x.took_ms,
        label: match (&x.failure, &x.backend) {
            (Some(failure), _) => format!("failed: {failure}"),
            (None, Some(backend)) => backend.clone(),
            (None, None) => x.status.map_or_else(String::new, |status| format!("failed: {status}")),
        },
    };
    let spans: Vec<Span> = exchanges.iter().map(span).collect();
    (!spans.is_empty()).then(|| Lane { name: "requests".to_owned(), spans })
}

pub(super) fn is_kept(name: &str) -> bool {
    KEPT.iter().any(|prefix| name.starts_with(prefix))
}

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
