//! What a changing answer costs a pool of HTTP connections: one client sends requests for the stream time, and
//! connections opened and closed are set against the answers that Envoy got. Shared by `rotation-churn` and
//! `order-churn`, which differ in what DNS does.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::experiments::bench::{Bench, LabError};
use crate::experiments::evidence::{Bars, Exhibits, Snapshot, Table};

/// Counts over the stream time.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    /// Answers that Envoy got.
    pub(super) answers: usize,
    /// Those that differed from the one before, order included.
    pub(super) changed: usize,
    /// Rise of `membership_change`.
    pub(super) membership_changes: u64,
    /// Upstream connections opened after the first request.
    pub(super) opened: u64,
    /// Upstream connections closed.
    pub(super) closed: u64,
    pub(super) requests: usize,
    pub(super) failed: usize,
    /// Addresses that answered.
    pub(super) used: usize,
    snapshots: Vec<Snapshot>,
}

/// Sends requests over one kept connection and counts.
pub(super) async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    let (client, stream) = (bench.client()?, bench.stream());
    // Counted before the first request: its address is from this answer or a later one.
    let told = bench.answers().await?.len().max(1);
    let mut exchanges = vec![client.once("first", "/", Duration::from_secs(5)).await];
    let before = bench.snapshot("BEFORE").await?;
    let until = Instant::now() + stream;
    let mut connection = None;
    while Instant::now() < until {
        let open = match connection.take() {
            Some(open) => Some(open),
            None => client.open().await.ok(),
        };
        if let Some(mut open) = open {
            exchanges.push(open.get("", "/", Duration::from_secs(5)).await);
            connection = (!open.is_closed()).then_some(open);
        }
        sleep((stream / 100).min(Duration::from_millis(100))).await;
    }
    let after = bench.snapshot("AFTER").await?;
    bench.record(&exchanges);
    let log = bench.answers().await?;
    let rise = |name: &str| after.counter(name) - before.counter(name);
    let used: BTreeSet<IpAddr> = exchanges.iter().filter_map(|exchange| exchange.backend_ip).collect();
    Ok(Measured {
        answers: log.len() - told,
        changed: log[told - 1..].windows(2).filter(|pair| pair[0].addrs != pair[1].addrs).count(),
        membership_changes: rise("membership_change"),
        opened: rise("upstream_cx_total"),
        closed: rise("upstream_cx_destroy"),
        requests: exchanges.len(),
        failed: exchanges.iter().filter(|exchange| !exchange.ok()).count(),
        used: used.len(),
        snapshots: vec![before, after],
    })
}

pub(super) fn exhibits(measured: &Measured) -> Exhibits {
    let counters = ["membership_change", "upstream_cx_total", "upstream_cx_destroy"];
    let row = |name: &str, value: &dyn ToString| vec![name.to_owned(), value.to_string()];
    let rows = vec![
        row("answers to Envoy", &measured.answers),
        row("of them changed", &measured.changed),
        row("connections opened", &measured.opened),
        row("connections closed", &measured.closed),
        row("requests", &measured.requests),
        row("failed", &measured.failed),
        row("addresses used", &measured.used),
    ];
    #[expect(clippy::cast_precision_loss, reason = "hundreds of connections at most")]
    let bars =
        vec![("opened".to_owned(), measured.opened as f64), ("closed".to_owned(), measured.closed as f64)];
    Exhibits {
        tables: vec![
            Table::new("Counts", &["", "value"], rows),
            Table::of_snapshots("Before and after", &measured.snapshots, &counters),
        ],
        bars: vec![Bars { title: "upstream connections".to_owned(), bars }],
    }
}
