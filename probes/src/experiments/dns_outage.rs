//! What does a DNS outage do to a cluster that had a good answer?

use std::time::Duration;

use labdns::command::{FaultKind, TcpPort};
use policies::platform::Behaviour;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{Axes, BOTH_PATHS, BOTH_RESOLUTIONS, Control, Experiment, H1, is_known};
use crate::experiments::bench::{Bench, LabError, Plan, ttl};
use crate::experiments::evidence::{EgressCell, Exhibits, Judgement, Snapshot, Table};
use crate::lab::client::Exchange;
use policies::Resolution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "dns-outage",
    appendix: None,
    question: "When DNS fails after a good answer, what does the cluster keep, and what do requests get?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: BOTH_PATHS,
        http: H1,
        variants: &["nxdomain", "nodata", "servfail", "silence", "truncated", "truncated-tcp"],
        fits: |_| true,
    },
    controls: &[Control {
        name: HEALTHY,
        what: "DNS goes on answering: nothing is lost and no failure is counted",
        applies: |_| true,
    }],
    // A minute to a stream of 40 s would outlast the run.
    plan: |_, stream| Plan { refresh: refresh(stream), ..Plan::pair(stream) },
    conduct: |mut bench| {
        Box::pin(async move {
            let result = run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

const HEALTHY: &str = "healthy";

fn refresh(stream: Duration) -> Duration {
    (stream / 4).max(Duration::from_secs(1))
}

fn fault(cell: &EgressCell) -> FaultKind {
    match cell.variant.as_deref() {
        Some("nxdomain") => FaultKind::Nxdomain,
        Some("nodata") => FaultKind::Nodata,
        Some("servfail") => FaultKind::Servfail,
        Some("silence") => FaultKind::Drop,
        Some("truncated-tcp") => FaultKind::Truncate(TcpPort::Open),
        _ => FaultKind::Truncate(TcpPort::Closed),
    }
}

/// Faults that c-ares tries to get round for longer than a short run lasts before it reports a failure.
fn is_silent(fault: FaultKind) -> bool {
    matches!(fault, FaultKind::Drop | FaultKind::Truncate(TcpPort::Closed))
}

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    let (client, stream) = (bench.client()?, bench.stream());
    let kind = fault(bench.cell());
    let before = bench.snapshot("BEFORE").await?;
    let told = bench.answers().await?.len();
    if !bench.is_control(HEALTHY) {
        bench.fault(Some(kind)).await?;
    }
    wait_for_effect(bench, told, &before, kind).await?;
    let during = bench.snapshot("DURING").await?;
    let request = client.once("during", "/", Duration::from_secs(5)).await;
    let queries = bench.answers().await?[told..].to_vec();
    bench.fault(None).await?;
    let mended = Instant::now();
    // c-ares gives a silent server 5 s per try and asks again before Envoy's own refresh.
    let patience = stream + refresh(stream) + Duration::from_secs(20);
    bench
        .until("Envoy to ask again", patience, |seen| {
            seen.counter("update_success") > during.counter("update_success")
        })
        .await?;
    bench.until("the address to be listed", patience, |seen| seen.listed.len() == 1).await?;
    let recovery_ms = u64::try_from(mended.elapsed().as_millis()).unwrap_or(u64::MAX);
    let after = bench.snapshot("AFTER").await?;
    let recovered = client.once("after", "/", Duration::from_secs(5)).await;
    bench.record(&[request.clone(), recovered.clone()]);
    Ok(Measured {
        unanswered: queries.iter().filter(|query| query.addrs.is_empty()).count(),
        over_tcp: queries.iter().filter(|query| query.tcp).count(),
        request,
        recovered,
        recovery_ms,
        snapshots: vec![before, during, after],
    })
}

/// Until Envoy has been told of the outage and has taken it in.
async fn wait_for_effect(
    bench: &mut Bench,
    told: usize,
    before: &Snapshot,
    kind: FaultKind,
) -> Result<(), LabError> {
    let updates = |seen: &Snapshot| seen.counter("update_success") + seen.counter("update_failure");
    let stream = bench.stream();
    let until = Instant::now() + stream + Duration::from_secs(u64::from(ttl(stream)) + 10);
    while bench.answers().await?.len() == told && Instant::now() < until {
        sleep(Duration::from_millis(20)).await;
    }
    if is_silent(kind) && !bench.is_control(HEALTHY) {
        sleep(stream / 4).await;
        return Ok(());
    }
    bench.until("Envoy to count the answer", stream, |seen| updates(seen) > updates(before)).await.map(drop)
}

/// The cluster before, during and after, and what one request got.
#[derive(Debug, Serialize)]
struct Measured {
    request: Exchange,
    recovered: Exchange,
    /// Queries of Envoy that got no address.
    unanswered: usize,
    /// Queries over TCP, after a truncated answer.
    over_tcp: usize,
    /// From mending DNS to a listed address and a counted success.
    recovery_ms: u64,
    snapshots: Vec<Snapshot>,
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let [before, during, _] = &measured.snapshots[..] else { unreachable!("run takes three") };
    let variant = cell.variant.as_deref().unwrap_or_default();
    let empties = matches!(variant, "nxdomain" | "nodata")
        && cell.resolution == Resolution::Dns
        && is_known(cell, Behaviour::EmptyAnswerEmptiesStrict);
    let kept = during.listed.len();
    let failures = during.counter("update_failure") - before.counter("update_failure");
    let outcome = measured
        .request
        .failure
        .as_ref()
        .map_or_else(|| format!("status {}", measured.request.status.unwrap_or(0)), ToString::to_string);
    let told = if variant == "truncated-tcp" {
        (measured.over_tcp > 0, format!("{} queries over TCP", measured.over_tcp))
    } else {
        (measured.unanswered > 0, format!("{} queries without an address", measured.unanswered))
    };
    let mut checks = vec![
        told,
        (kept == usize::from(!empties), format!("{kept} addresses listed during the outage")),
        (measured.request.ok() != empties, format!("a request got {outcome}")),
        (measured.recovered.ok(), format!("recovery after {} ms", measured.recovery_ms)),
    ];
    if !is_silent(fault(cell)) {
        // An empty answer is a success to STRICT_DNS, and one that came over TCP is an answer.
        let succeeds = empties || variant == "truncated-tcp";
        checks.push(((failures > 0) != succeeds, format!("update_failure +{failures}")));
    }
    let visible = cell.control.is_none()
        && cell.resolution == Resolution::Dns
        && matches!(variant, "nxdomain" | "nodata");
    Judgement::of(&checks).showing(visible, Behaviour::EmptyAnswerEmptiesStrict, kept == 0)
}

fn exhibits(measured: &Measured) -> Exhibits {
    let counters =
        ["membership_total", "membership_change", "update_success", "update_failure", "update_empty"];
    vec![
        Table::of_snapshots("Before, during, after", &measured.snapshots, &counters),
        Table::of_exchanges("Requests", &[measured.request.clone(), measured.recovered.clone()]),
    ]
    .into()
}
