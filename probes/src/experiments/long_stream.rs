//! Does a stream of minutes survive several flips? (The guide's open item 3.)

use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{Axes, BOTH_HTTP, BOTH_PATHS, BOTH_RESOLUTIONS, Control, Experiment, flip_is_recorded};
use crate::experiments::bench::{Bench, LabError, Plan};
use crate::experiments::evidence::{EgressCell, Exhibits, Judgement, Snapshot, Table};
use crate::lab::client::{Client, Exchange};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "long-stream",
    appendix: None,
    question: "Does a stream three times as long, or a WebSocket, survive several flips?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: BOTH_PATHS,
        http: BOTH_HTTP,
        variants: &["response", "websocket"],
        fits: |_| true,
    },
    controls: &[Control {
        name: BACKEND_DIES,
        what: "the backend dies: the stream must break",
        applies: |_| true,
    }],
    plan: |_, stream| Plan::pair(stream),
    conduct: |mut bench| {
        Box::pin(async move {
            let result = run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

const BACKEND_DIES: &str = "backend-dies";
/// Flips during the stream, there and back.
const FLIPS: u32 = 5;
/// Pieces of the stream, or echoes.
const TICKS: u32 = 120;

fn is_web_socket(cell: &EgressCell) -> bool {
    cell.variant.as_deref() == Some("websocket")
}

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    let (client, length) = (bench.client()?, bench.stream() * 3);
    let before = bench.snapshot("BEFORE").await?;
    let stream = if is_web_socket(bench.cell()) {
        tokio::spawn(async move { echoes(&client, length).await })
    } else {
        tokio::spawn(async move { response(&client, length).await })
    };
    bench.until_ledger("the stream to begin", |lives| lives.iter().any(|life| life.requests > 0)).await?;
    let began = Instant::now();
    for flip in 1..=FLIPS {
        tokio::time::sleep_until(began + length * flip / (FLIPS + 1)).await;
        let target = usize::from(flip % 2 == 1);
        bench.flip(&[target]).await?;
        if flip == FLIPS && bench.is_control(BACKEND_DIES) {
            bench.backends().refuse(0).await?;
            bench.mark("backend-a dies");
        }
        let addr = bench.addrs()[target];
        bench.until("Envoy's list to follow", bench.stream(), |seen| seen.listed_addrs() == [addr]).await?;
    }
    let mid = bench.snapshot("MID").await?;
    let stream = stream.await.unwrap_or_default();
    let after = bench.snapshot("AFTER").await?;
    Ok(Measured { stream, snapshots: vec![before, mid, after] })
}

/// A response with a line per tick.
async fn response(client: &Client, length: Duration) -> Stream {
    let path =
        format!("/stream?seconds={}&interval={}", length.as_secs_f64(), (length / TICKS).as_secs_f64());
    let exchange = client.once("stream", &path, length * 2).await;
    Stream {
        whole: exchange.ok(),
        backend: exchange.backend.clone(),
        ended: exchange.failure.as_ref().map_or_else(|| "whole".to_owned(), ToString::to_string),
        ticks: None,
        exchange: Some(exchange),
    }
}

/// An echo per tick over one WebSocket.
async fn echoes(client: &Client, length: Duration) -> Stream {
    let patience = Duration::from_secs(5);
    let mut socket = match client.web_socket().await {
        Ok(socket) => socket,
        Err(failure) => return Stream { ended: failure.to_string(), ..Stream::default() },
    };
    let greeting = socket.receive(patience).await.unwrap_or_default();
    let backend = greeting.split(' ').next().map(str::to_owned);
    for tick in 0..TICKS {
        let text = format!("tick {tick}");
        if socket.echo(&text, patience).await.as_deref() != Some(&text) {
            let ended = format!("broken at echo {tick} of {TICKS}");
            return Stream { ended, backend, ticks: Some(tick), ..Stream::default() };
        }
        sleep(length / TICKS).await;
    }
    Stream { whole: true, ended: "whole".to_owned(), backend, ticks: Some(TICKS), exchange: None }
}

/// The stream and what Envoy counted.
#[derive(Debug, Serialize)]
struct Measured {
    stream: Stream,
    snapshots: Vec<Snapshot>,
}

#[derive(Debug, Default, Serialize)]
struct Stream {
    whole: bool,
    backend: Option<String>,
    ended: String,
    ticks: Option<u32>,
    exchange: Option<Exchange>,
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let Measured { stream, snapshots } = measured;
    let recorded = snapshots[1].counter("membership_change") - snapshots[0].counter("membership_change");
    let known = if flip_is_recorded(cell) { u64::from(FLIPS) } else { 0 };
    Judgement::of(&[
        (stream.whole, format!("over {FLIPS} flips the stream came {}", stream.ended)),
        (
            stream.backend.as_deref() == Some("backend-a"),
            format!("from {}", stream.backend.as_deref().unwrap_or("nobody")),
        ),
        (recorded == known, format!("membership_change +{recorded} (known: +{known})")),
    ])
}

fn exhibits(measured: &Measured) -> Exhibits {
    let counters = ["membership_change", "upstream_cx_total", "upstream_cx_active", "upstream_cx_destroy"];
    let mut tables =
        vec![Table::of_snapshots("Before, after the last flip, at the end", &measured.snapshots, &counters)];
    tables.extend(
        measured.stream.exchange.as_ref().map(|x| Table::of_exchanges("The stream", std::slice::from_ref(x))),
    );
    tables.into()
}
