//! What does an address that is dead, but still in the answer, cost? (The guide's appendix D.)

mod ejections;
mod load;

use std::time::Duration;

use policies::platform::Behaviour;
use serde::Serialize;

use super::{Axes, BOTH_PATHS, BOTH_RESOLUTIONS, Control, Experiment, H1};
use crate::experiments::bench::{Bench, HOST, LabError, Plan, fixed, is_l4, ttl};
use crate::experiments::evidence::{Bars, EgressCell, Exhibits, Judgement, Table};
use crate::lab::envoy::bootstrap::Outlier;
use ejections::{Cycle, Watch};
use load::Tally;
use policies::Resolution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "dead-ip",
    appendix: Some('D'),
    question: "With a dead address beside a live one, how many requests fail, and does ejection help?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: BOTH_PATHS,
        http: H1,
        variants: &["refuse", "refuse+outlier", "refuse+cycles", "black-hole", "black-hole+outlier"],
        fits: |_| true,
    },
    controls: &[
        Control {
            name: BOTH_ALIVE,
            what: "nobody is dead: no failure, no retry, no ejection",
            applies: |cell| cell.resolution == Resolution::Dns,
        },
        Control {
            name: LIMIT_10,
            what: "maxEjectionPercent 10 with two addresses: never ejects",
            applies: |cell| cell.resolution == Resolution::Dns && is_l4(cell) && ejects(cell),
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

const BOTH_ALIVE: &str = "both-alive";
const LIMIT_10: &str = "limit-10";

fn variant(cell: &EgressCell) -> &str {
    cell.variant.as_deref().unwrap_or_default()
}

fn ejects(cell: &EgressCell) -> bool {
    variant(cell).contains('+')
}

fn cycles(cell: &EgressCell) -> bool {
    variant(cell).ends_with("+cycles")
}

/// The guide's recommended block: interval 5 s and base time 30 s to a stream of 40 s. `+cycles` ejects for a
/// tenth of that, to see an address come back and leave again.
fn plan(cell: &EgressCell, stream: Duration) -> Plan {
    let outlier = Outlier {
        failures: 3,
        interval: if cycles(cell) { stream / 80 } else { stream / 8 },
        base_ejection: if cycles(cell) {
            (stream * 3 / 40).max(Duration::from_millis(1200))
        } else {
            stream * 3 / 4
        },
        max_percent: if cell.control.as_deref() == Some(LIMIT_10) { 10 } else { 50 },
    };
    let outlier = ejects(cell).then_some(outlier);
    // With the block 1 s, as recommended; without it Istio's 10 s. Both to a stream of 40 s.
    let connect_timeout = if outlier.is_some() { stream / 40 } else { stream / 4 };
    Plan {
        records: vec![(HOST, fixed(&[0, 1], ttl(stream)))],
        // Envoy starts on the next address of a LOGICAL_DNS host after 300 ms, which must lie within.
        connect_timeout: connect_timeout.max(Duration::from_millis(600)),
        outlier,
        ..Plan::pair(stream)
    }
}

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    if !bench.is_control(BOTH_ALIVE) {
        if variant(bench.cell()).starts_with("black-hole") {
            bench.backends().black_hole(0).await?;
        } else {
            bench.backends().refuse(0).await?;
        }
        bench.mark("backend-a is dead");
    }
    let before = bench.snapshot("BEFORE").await?;
    let stream = bench.stream();
    // curl's --connect-timeout 3 to a stream of 40 s, and longer than Envoy's: an attempt that the client gives up
    // first counts for nothing in outlier detection.
    let client = bench.client()?.with_connect_timeout((stream * 3 / 40).max(Duration::from_millis(1500)));
    // Several clients on passthrough, where a black hole makes each of them wait. With HTTP one, as in the guide:
    // LEAST_REQUEST prefers the idle dead address, so concurrent requests can use up both retries there.
    let clients = if is_l4(bench.cell()) { load::CLIENTS } else { 1 };
    let watch = Watch::start(bench);
    let requests = load::run(&client, clients, stream).await;
    let cycles = watch.end().await;
    let after = bench.snapshot("AFTER").await?;
    bench.record(&requests);
    let rise = |name: &str| after.counter(name) - before.counter(name);
    Ok(Measured {
        began_ms: before.at_ms,
        tally: Tally::of(&requests),
        connect_fail: rise("upstream_cx_connect_fail"),
        retries: rise("upstream_rq_retry"),
        retries_succeeded: rise("upstream_rq_retry_success"),
        ejections: rise("outlier_detection.ejections_enforced_total"),
        overflows: rise("outlier_detection.ejections_overflow"),
        panics: rise("lb_healthy_panic"),
        failed_while_ejected: ejections::failed_while_ejected(&cycles, &requests),
        cycles,
    })
}

/// Requests over the stream time, and what Envoy did about the failures.
#[derive(Debug, Serialize)]
struct Measured {
    began_ms: u64,
    tally: Tally,
    connect_fail: u64,
    retries: u64,
    retries_succeeded: u64,
    ejections: u64,
    overflows: u64,
    panics: u64,
    /// Failures of requests that began and ended while the gauge showed an ejection.
    failed_while_ejected: usize,
    cycles: Vec<Cycle>,
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let Measured { tally, ejections, .. } = measured;
    let share =
        format!("{} of {} requests failed ({})", tally.failed, tally.requests, percent(tally.failed_share()));
    if cell.resolution == Resolution::DnsRoundRobin {
        // The one host of LOGICAL_DNS has both addresses, and Envoy tries the next itself.
        return Judgement::of(&[
            (tally.failed == 0, share),
            (*ejections == 0, format!("{ejections} ejections")),
        ]);
    }
    if !is_l4(cell) {
        // A retry avoids the address that failed, but gives up after five draws: one in 64 goes there again.
        let retries = format!("{} retries, {} succeeded", measured.retries, measured.retries_succeeded);
        return Judgement::of(&[
            (tally.failed_share() < 0.02, share),
            (measured.retries_succeeded > 0, retries),
        ]);
    }
    if !ejects(cell) {
        let known = tally.failed_share() > 0.1 && tally.failed_late > 0;
        let late = format!("{} of them in the last third", tally.failed_late);
        return Judgement::of(&[
            (known, format!("{share}, {late}")),
            (*ejections == 0, format!("{ejections} ejections")),
        ]);
    }
    let overflows = format!("{ejections} ejections enforced, {} prevented by the limit", measured.overflows);
    let panics = format!("panic mode {} times", measured.panics);
    let wanted = if cycles(cell) { 2 } else { 1 };
    let away = format!("{} of them while the address was ejected", measured.failed_while_ejected);
    Judgement::of(&[
        (*ejections >= wanted, overflows),
        (measured.failed_while_ejected == 0, format!("{share}, {away}")),
        (measured.panics == 0, panics),
    ])
    .showing(
        cell.control.as_deref() == Some(LIMIT_10),
        Behaviour::EjectionLimitBindsFirst,
        *ejections == 0,
    )
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn exhibits(measured: &Measured) -> Exhibits {
    let Measured { tally, .. } = measured;
    let mut rows = vec![
        vec!["requests".to_owned(), tally.requests.to_string()],
        vec!["failed".to_owned(), format!("{} ({})", tally.failed, percent(tally.failed_share()))],
    ];
    rows.extend(tally.by_kind.iter().map(|(kind, count)| vec![format!("  {kind}"), count.to_string()]));
    let counters = [
        ("upstream_cx_connect_fail", measured.connect_fail),
        ("upstream_rq_retry", measured.retries),
        ("upstream_rq_retry_success", measured.retries_succeeded),
        ("ejections_enforced_total", measured.ejections),
        ("ejections_overflow", measured.overflows),
        ("lb_healthy_panic", measured.panics),
    ];
    rows.extend(counters.map(|(name, value)| vec![name.to_owned(), value.to_string()]));
    let mut tables = vec![Table::new("Requests and counters", &["", "value"], rows)];
    if !measured.cycles.is_empty() {
        tables.push(ejections::table(measured.began_ms, &measured.cycles));
    }
    let bars = vec![("failed".to_owned(), tally.failed_share() * 100.0)];
    Exhibits { tables, bars: vec![Bars { title: "failed requests, %".to_owned(), bars }] }
}
