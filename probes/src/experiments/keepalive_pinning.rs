//! Where do requests go that reuse a connection across the flip? (The guide's appendix B.)

use std::time::Duration;

use policies::platform::Behaviour;
use serde::Serialize;

use super::{Axes, BOTH_HTTP, BOTH_PATHS, BOTH_RESOLUTIONS, Control, Experiment, flip_drains, is_logical};
use crate::experiments::bench::{Bench, LabError, Plan, is_l4};
use crate::experiments::evidence::{EgressCell, Exhibits, Judgement, Table};
use crate::lab::client::{Client, Connection, Exchange};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "keepalive-pinning",
    appendix: Some('B'),
    question: "After a flip, where do requests go on a connection that is kept, and where on a new one?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: BOTH_PATHS,
        http: BOTH_HTTP,
        variants: &[],
        fits: |_| true,
    },
    controls: &[Control {
        name: LIFETIME,
        what: "a connection lifetime shorter than the pause: what was pinned must move",
        applies: pins,
    }],
    plan,
    conduct: |mut bench| {
        Box::pin(async move {
            let result = run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

const LIFETIME: &str = "lifetime";

fn plan(cell: &EgressCell, stream: Duration) -> Plan {
    let capped = cell.control.as_deref() == Some(LIFETIME);
    Plan { max_connection_duration: capped.then(|| stream / 8), ..Plan::pair(stream) }
}

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    let client = bench.client()?;
    let mut totals = vec![bench.snapshot("BEFORE").await?.counter("upstream_cx_total")];
    let (stream, new) = (bench.stream(), bench.addrs()[1]);
    let began = tokio::time::Instant::now();
    let mut kept = Kept { client: &client, connection: None };
    let mut requests = Vec::new();
    for (label, share) in [("REQ1", 0.0), ("REQ2", 0.375), ("REQ3", 0.625), ("REQ4 new connection", 0.625)] {
        if label == "REQ2" {
            bench.at(began, 0.125).await;
            bench.flip(&[1]).await?;
            // DNS has reached Envoy before the next request, as in the guide's runs.
            bench
                .until("Envoy's list to show the new VIP", stream, |seen| seen.listed_addrs() == [new])
                .await?;
        }
        bench.at(began, share).await;
        let request = if label.starts_with("REQ4") {
            kept.connection = None;
            client.once(label, "/", Duration::from_secs(5)).await
        } else {
            kept.get(label).await
        };
        bench.record(std::slice::from_ref(&request));
        requests.push(request);
        totals.push(bench.snapshot(label).await?.counter("upstream_cx_total"));
    }
    let opened = totals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    Ok(Measured { requests, opened })
}

/// A connection that is held for as long as the other side lets it, as an application's pool does.
struct Kept<'a> {
    client: &'a Client,
    connection: Option<Connection>,
}

impl Kept<'_> {
    async fn get(&mut self, label: &str) -> Exchange {
        if self.connection.as_ref().is_none_or(Connection::is_closed) {
            self.connection = self.client.open().await.ok();
        }
        match &mut self.connection {
            Some(connection) => connection.get(label, "/", Duration::from_secs(5)).await,
            None => self.client.once(label, "/", Duration::from_secs(5)).await,
        }
    }
}

/// Four requests, and how many upstream connections each of them opened.
#[derive(Debug, Serialize)]
struct Measured {
    requests: Vec<Exchange>,
    opened: Vec<u64>,
}

/// Whether requests on the kept connection stay on the old VIP: always on passthrough, where the client's own
/// connection is the pin; with HTTP only where Envoy keeps its pool across a flip.
fn pins(cell: &EgressCell) -> bool {
    is_l4(cell) || !flip_drains(cell)
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let went: Vec<&str> =
        measured.requests.iter().map(|request| request.backend.as_deref().unwrap_or("nobody")).collect();
    // The pool is Envoy's own where it speaks HTTP: a new client connection then changes nothing.
    let (known, opened): ([&str; 4], [u64; 4]) = if is_l4(cell) {
        (["backend-a", "backend-a", "backend-a", "backend-b"], [1, 0, 0, 1])
    } else if pins(cell) {
        (["backend-a"; 4], [1, 0, 0, 0])
    } else {
        (["backend-a", "backend-b", "backend-b", "backend-b"], [1, 1, 0, 0])
    };
    let deltas: Vec<String> = measured.opened.iter().map(|n| format!("+{n}")).collect();
    Judgement::of(&[
        (went == known, format!("requests went to {}", went.join(", "))),
        (measured.opened == opened, format!("upstream connections {}", deltas.join(", "))),
    ])
    .showing(is_logical(cell) && !is_l4(cell), Behaviour::LogicalFlipDrains, went[1] == "backend-b")
}

fn exhibits(measured: &Measured) -> Exhibits {
    let rows = measured.requests.iter().zip(&measured.opened);
    let rows = rows.map(|(request, opened)| vec![request.label.clone(), format!("+{opened}")]).collect();
    vec![
        Table::of_exchanges("Requests", &measured.requests),
        Table::new("Upstream connections opened", &["request", "upstream_cx_total"], rows),
    ]
    .into()
}
