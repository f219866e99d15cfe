//! Does Envoy's own record show a flip, and what does it hide? (The guide's appendix E.)

use policies::platform::Behaviour;
use serde::Serialize;

use super::{Axes, BOTH_PATHS, BOTH_RESOLUTIONS, Control, Experiment, H1, flip_is_recorded, is_logical};
use crate::experiments::bench::{Bench, LabError, Plan};
use crate::experiments::evidence::{EgressCell, Exhibits, Judgement, Snapshot, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "flip-record",
    appendix: Some('E'),
    question: "Does membership_change record a flip, and does the host list show the connections that stay behind?",
    axes: Axes { resolutions: BOTH_RESOLUTIONS, paths: BOTH_PATHS, http: H1, variants: &[], fits: |_| true },
    controls: &[Control {
        name: NO_FLIP,
        what: "DNS does not change: no record, and nothing behind the list",
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

const NO_FLIP: &str = "no-flip";

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    let client = bench.client()?;
    let stream = bench.stream();
    let path = format!("/slow?seconds={}", stream.as_secs_f64());
    let flight = tokio::spawn(async move { client.once("stream", &path, stream * 3).await });
    bench.until_ledger("the stream to begin", |lives| lives.iter().any(|life| life.requests > 0)).await?;
    let before = bench.snapshot("BEFORE").await?;
    let began = tokio::time::Instant::now();
    if bench.is_control(NO_FLIP) {
        bench.at(began, 0.5).await;
    } else {
        bench.flip(&[1]).await?;
        let new = bench.addrs()[1];
        bench.until("Envoy's list to show the new VIP", stream, |seen| seen.listed_addrs() == [new]).await?;
    }
    let after = bench.snapshot("AFTER").await?;
    flight.abort();
    Ok(Measured { snapshots: vec![before, after], new_vip: bench.addrs()[1].to_string() })
}

/// Envoy before and after, with a response in flight all the time.
#[derive(Debug, Serialize)]
struct Measured {
    snapshots: Vec<Snapshot>,
    new_vip: String,
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let [before, after] = &measured.snapshots[..] else { unreachable!("run takes two") };
    let recorded = after.counter("membership_change") - before.counter("membership_change");
    let listed: Vec<String> = after.listed_addrs().iter().map(ToString::to_string).collect();
    let hidden = after.hidden_connections();
    // Where the host is replaced, the old one leaves the list with its connections. LOGICAL_DNS before 1.39 keeps
    // its host and shows the old connection under the new address, which hides it as well but adds up.
    let known = u64::from(flip_is_recorded(cell));
    Judgement::of(&[
        (listed == [measured.new_vip.as_str()], format!("Envoy's list shows {}", listed.join(", "))),
        (recorded == known, format!("membership_change +{recorded} (known: +{known})")),
        (
            hidden == known,
            format!("{hidden} connections in the cluster's gauge but at no listed host (known: {known})"),
        ),
    ])
    .showing(is_logical(cell), Behaviour::LogicalFlipRecorded, recorded > 0)
}

fn exhibits(measured: &Measured) -> Exhibits {
    let counters = ["membership_change", "upstream_cx_active"];
    let mut table =
        Table::of_snapshots("Before and after, a response in flight", &measured.snapshots, &counters);
    let hidden = measured.snapshots.iter().map(|snapshot| snapshot.hidden_connections().to_string());
    table.rows.push(std::iter::once("gauge minus listed hosts".to_owned()).chain(hidden).collect());
    vec![table].into()
}
