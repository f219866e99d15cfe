//! Is an ejection remembered when the address leaves the answer and returns, or when the answer changes?

use std::time::Duration;

use serde::Serialize;

use policies::platform::Behaviour;

use super::{Axes, BOTH_RESOLUTIONS, Control, Experiment, H1, is_known, is_logical};
use crate::experiments::bench::{Bench, HOST, LabError, Plan, fixed, ttl};
use crate::experiments::evidence::{EgressCell, Exhibits, Judgement, Snapshot, Table};
use crate::lab::client::Exchange;
use crate::lab::envoy::bootstrap::{Layer, Outlier};
use policies::Resolution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ejection-memory",
    appendix: None,
    question: "Is an ejection remembered once the answer has changed?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: &[Layer::Passthrough],
        http: H1,
        variants: &[],
        fits: |_| true,
    },
    controls: &[Control {
        name: STAYS_LISTED,
        what: "the answer stays: the ejection must be remembered",
        applies: |cell| forgets(cell),
    }],
    plan,
    conduct: |mut bench| {
        Box::pin(async move {
            let result = run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

const STAYS_LISTED: &str = "stays-listed";

/// STRICT_DNS lists both addresses, of which the dead one may be ejected; LOGICAL_DNS has one host, dead at first.
fn plan(cell: &EgressCell, stream: Duration) -> Plan {
    let (answer, max_percent): (&[usize], _) = match cell.resolution {
        Resolution::Dns => (&[0, 1], 50),
        _ => (&[0], 100),
    };
    // Longer than the run: what ends it is not time.
    let outlier = Outlier { failures: 3, interval: stream / 8, base_ejection: stream * 10, max_percent };
    Plan { records: vec![(HOST, fixed(answer, ttl(stream)))], outlier: Some(outlier), ..Plan::pair(stream) }
}

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    let (client, stream, addrs) = (bench.client()?, bench.stream(), bench.addrs());
    bench.backends().refuse(0).await?;
    bench.mark("backend-a is dead");
    for _ in 0..40 {
        let request = client.once("to the dead", "/", Duration::from_secs(5)).await;
        bench.record(&[request]);
        if ejected(&bench.snapshot("LOAD").await?) {
            break;
        }
    }
    let before = bench.until("the dead address to be ejected", stream, ejected).await?;
    if !bench.is_control(STAYS_LISTED) {
        bench.flip(&[1]).await?;
        bench
            .until("the list to show the live address alone", stream, |seen| {
                seen.listed_addrs() == [addrs[1]]
            })
            .await?;
        if bench.cell().resolution == Resolution::Dns {
            bench.flip(&[0, 1]).await?;
            bench.until("the dead address to return", stream, |seen| seen.listed.len() == 2).await?;
        }
    }
    let after = bench.snapshot("AFTER").await?;
    let next = client.once("next", "/", Duration::from_secs(5)).await;
    bench.record(std::slice::from_ref(&next));
    Ok(Measured { before: ejected(&before), after: ejected(&after), next, snapshots: vec![before, after] })
}

fn ejected(seen: &Snapshot) -> bool {
    seen.listed.iter().any(|host| host.ejected)
}

/// Whether a listed address was marked ejected before and after.
#[derive(Debug, Serialize)]
struct Measured {
    before: bool,
    after: bool,
    next: Exchange,
    snapshots: Vec<Snapshot>,
}

fn forgets(cell: &EgressCell) -> bool {
    cell.resolution == Resolution::Dns || is_known(cell, Behaviour::LogicalForgetsEjection)
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let word = if measured.after { "remembered" } else { "forgotten" };
    let mut checks = vec![
        (measured.before, "the dead address was ejected".to_owned()),
        (measured.after != forgets(cell), format!("afterwards the ejection was {word}")),
    ];
    if cell.resolution == Resolution::DnsRoundRobin {
        // The host has moved to a healthy address; only a remembered ejection can still keep requests from it.
        let outcome =
            measured.next.failure.as_ref().map_or_else(|| "succeeded".to_owned(), ToString::to_string);
        checks.push((measured.next.ok() == forgets(cell), format!("the next request: {outcome}")));
    }
    Judgement::of(&checks).showing(is_logical(cell), Behaviour::LogicalForgetsEjection, !measured.after)
}

fn exhibits(measured: &Measured) -> Exhibits {
    let counters = [
        "membership_change",
        "outlier_detection.ejections_active",
        "outlier_detection.ejections_enforced_total",
    ];
    vec![Table::of_snapshots("Ejected, and after the answer changed", &measured.snapshots, &counters)].into()
}
