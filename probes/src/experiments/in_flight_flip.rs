//! Does a response in flight survive the flip? (The guide's appendix A.)

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::{Axes, BOTH_HTTP, BOTH_PATHS, BOTH_RESOLUTIONS, Control, Experiment};
use crate::experiments::bench::{Bench, LabError, Plan, is_l4};
use crate::experiments::evidence::{EgressCell, Exhibits, Judgement, Snapshot, Table};
use crate::lab::backend::SLOW_BYTES;
use crate::lab::client::Exchange;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "in-flight-flip",
    appendix: Some('A'),
    question: "Does a response in flight survive when DNS changes under it?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: BOTH_PATHS,
        http: BOTH_HTTP,
        variants: &[],
        fits: |_| true,
    },
    controls: &[
        Control {
            name: BACKEND_DIES,
            what: "the backend dies mid-stream: the response must break, at a byte that is reported",
            applies: |_| true,
        },
        Control {
            name: LIFETIME,
            what: "maxConnectionDuration shorter than the stream: passthrough must be cut",
            applies: is_l4,
        },
    ],
    plan,
    conduct: |mut bench| {
        Box::pin(async move {
            let result = run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

pub(super) const BACKEND_DIES: &str = "backend-dies";
const LIFETIME: &str = "lifetime";

fn plan(cell: &EgressCell, stream: Duration) -> Plan {
    let cut = cell.control.as_deref() == Some(LIFETIME);
    Plan { max_connection_duration: cut.then(|| stream / 2), ..Plan::pair(stream) }
}

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    let client = bench.client()?;
    let before = bench.snapshot("BEFORE").await?;
    let began = Instant::now();
    let stream = bench.stream();
    let path = format!("/slow?seconds={}", stream.as_secs_f64());
    let flight = tokio::spawn(async move { client.once("stream", &path, stream * 3).await });
    bench.until_ledger("the stream to begin", |lives| lives.iter().any(|life| life.requests > 0)).await?;

    bench.at(began, 0.125).await;
    bench.flip(&[1]).await?;
    bench.at(began, 0.3).await;
    let mid1 = bench.snapshot("MID1").await?;
    if bench.is_control(BACKEND_DIES) {
        bench.at(began, 0.6).await;
        bench.mark("backend-a dies");
        bench.backends().refuse(0).await?;
    }
    bench.at(began, 0.75).await;
    let mid2 = bench.snapshot("MID2").await?;
    let flight = flight.await.map_err(|error| LabError::Never {
        what: "the stream's end".to_owned(),
        waited: began.elapsed(),
        last: error.to_string(),
    })?;
    bench.at(began, 1.075).await;
    let after = bench.snapshot("AFTER").await?;
    let next = next_requests(bench).await?;
    bench.record(std::slice::from_ref(&flight));
    bench.record(&next);
    Ok(Measured {
        flight,
        next,
        snapshots: vec![before, mid1, mid2, after],
        new_vip: bench.addrs()[1].to_string(),
    })
}

/// Three requests by new clients, after the stream.
async fn next_requests(bench: &Bench) -> Result<Vec<Exchange>, LabError> {
    let client = bench.client()?;
    let mut next = Vec::new();
    for n in 1..=3 {
        next.push(client.once(&format!("next {n}"), "/", Duration::from_secs(5)).await);
    }
    Ok(next)
}

/// The stream, what DNS and Envoy showed meanwhile, and where the next requests went.
#[derive(Debug, Serialize)]
struct Measured {
    flight: Exchange,
    next: Vec<Exchange>,
    snapshots: Vec<Snapshot>,
    new_vip: String,
}

fn judge(_: &EgressCell, measured: &Measured) -> Judgement {
    let Measured { flight, snapshots, .. } = measured;
    let (before, mid2) = (&snapshots[0], &snapshots[2]);
    let listed: Vec<String> = mid2.listed_addrs().iter().map(ToString::to_string).collect();
    let destroyed = mid2.counter("upstream_cx_destroy") - before.counter("upstream_cx_destroy");
    let outcome = flight.failure.as_ref().map_or_else(|| "whole".to_owned(), ToString::to_string);
    Judgement::of(&[
        (
            listed == [measured.new_vip.as_str()],
            format!("under the stream Envoy's list became {}", listed.join(", ")),
        ),
        (
            flight.ok() && flight.bytes == SLOW_BYTES,
            format!("the response came {outcome}: {} of {SLOW_BYTES} bytes", flight.bytes),
        ),
        (
            flight.backend.as_deref() == Some("backend-a"),
            format!("all of it from {}", flight.backend.as_deref().unwrap_or("nobody")),
        ),
        (destroyed == 0, format!("{destroyed} upstream connections ended before the response did")),
    ])
}

fn exhibits(measured: &Measured) -> Exhibits {
    let counters = [
        "membership_change",
        "upstream_cx_total",
        "upstream_cx_active",
        "upstream_cx_destroy",
        "upstream_cx_destroy_with_active_rq",
    ];
    let mut requests = vec![measured.flight.clone()];
    requests.extend(measured.next.iter().cloned());
    vec![
        Table::of_snapshots("Four moments", &measured.snapshots, &counters),
        Table::of_exchanges("The stream, and the next requests", &requests),
    ]
    .into()
}
