//! Requests lost while one of two pods leaves under steady load: five rates, three orders, three runs each, with the
//! reference's own times (check every 2 s, two to fall, requests of 300 to 1,500 ms, 15 s for the drain). Prints the
//! table of the README.
//!
//! Two rows more, at 40 requests a second: HAProxy is reloaded in mid-drain, and three of ten pods leave one after another.
//!
//! `cargo bench -p egress-audit-tests --bench lost` (needs HAProxy; Envoy is installed on demand; about 15 minutes). `--
//! reload` or `-- many` runs that row alone.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use harness::binaries::workspace_binary;
use probes::lab::envoy::{Binary, install};
use probes::lab::haproxy::config::Config;
use probes::lab::ingress::load::Target;
use probes::lab::ingress::{Load, Stage, StagePlan, Tally};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Slow rates run side by side; the fast one has the machine to itself.
const SIDE_BY_SIDE: [f64; 4] = [0.7, 3.0, 10.0, 40.0];
const ALONE: [f64; 1] = [400.0];
const ORDERS: [&str; 3] = ["fail-first", "wait-then-fail", "no-new-work"];
const RUNS: usize = 3;

/// Load goes on this long before the pod is deleted, and after it is gone.
const AROUND: Duration = Duration::from_secs(3);

#[derive(Clone)]
struct Parts {
    envoy: Binary,
    sidecar: PathBuf,
}

struct Row {
    rate: f64,
    order: &'static str,
    lost: Vec<Tally>,
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let parts = Parts {
            envoy: install::discover(&install::default_cache()).await?,
            sidecar: PathBuf::from(workspace_binary("drain-sidecar").get_program()),
        };
        let only = |word: &str| std::env::args().any(|arg| arg == word);
        if !only("reload") && !only("many") {
            rates_and_orders(&parts).await?;
        }
        for (word, what) in [("reload", More::Reload), ("many", More::Many)] {
            if only(word) || !(only("reload") || only("many")) {
                more(&parts, what).await?;
            }
        }
        Ok(())
    })
}

/// The rows beyond the table.
#[derive(Debug, Clone, Copy)]
enum More {
    /// HAProxy is reloaded once it has acknowledged, while a request holds the drain.
    Reload,
    /// Three of ten pods, each when the one before is gone.
    Many,
}

async fn more(parts: &Parts, what: More) -> anyhow::Result<()> {
    let mut cells = Vec::new();
    for order in ORDERS {
        let mut lost = Vec::new();
        for _ in 0..RUNS {
            let tally = match what {
                More::Reload => reload(parts, order).await?,
                More::Many => many(parts, order).await?,
            };
            lost.push(format!("{}/{}", tally.lost(), tally.requests));
        }
        cells.push(lost.join(", "));
    }
    say(&format!("| {what:?} | {} |", cells.join(" | ")));
    Ok(())
}

async fn reload(parts: &Parts, order: &str) -> anyhow::Result<Tally> {
    let mut stage = Stage::start(&plan(parts, order, 2)).await.context("the stage")?;
    let target = Target::get(stage.nodes[0].front_h1(), stage.start);
    let mut long = JoinSet::new();
    for number in 0..2 {
        let target = target.clone();
        long.spawn(async move { target.shoot("/sleep?ms=13000", &format!("long {number}")).await });
    }
    let load = Load::start(target, 40.0, mixed);
    sleep(AROUND).await;
    let Stage { pods, nodes, .. } = &mut stage;
    let reloaded = async {
        sleep(AROUND * 2).await;
        nodes[0].reload().await
    };
    let (deleted, reloaded) = tokio::join!(pods[0].delete(Duration::from_secs(60)), reloaded);
    deleted?;
    reloaded?;
    sleep(AROUND).await;
    let mut shots = load.stop().await;
    shots.extend(long.join_all().await);
    Ok(Tally::of(&shots))
}

async fn many(parts: &Parts, order: &str) -> anyhow::Result<Tally> {
    let mut stage = Stage::start(&plan(parts, order, 10)).await.context("the stage")?;
    let load = Load::start(Target::get(stage.nodes[0].front_h1(), stage.start), 40.0, mixed);
    sleep(AROUND).await;
    for pod in &mut stage.pods[..3] {
        pod.delete(Duration::from_secs(60)).await?;
    }
    sleep(AROUND).await;
    Ok(Tally::of(&load.stop().await))
}

async fn rates_and_orders(parts: &Parts) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for rates in [&SIDE_BY_SIDE[..], &ALONE[..]] {
        for order in ORDERS {
            let mut these: Vec<Row> =
                rates.iter().map(|&rate| Row { rate, order, lost: Vec::new() }).collect();
            for _ in 0..RUNS {
                for (row, tally) in these.iter_mut().zip(side_by_side(parts, rates, order).await?) {
                    row.lost.push(tally);
                }
            }
            these.iter().for_each(show);
            rows.extend(these);
        }
    }
    table(&rows);
    Ok(())
}

async fn side_by_side(parts: &Parts, rates: &[f64], order: &'static str) -> anyhow::Result<Vec<Tally>> {
    let mut runs = JoinSet::new();
    for (index, &rate) in rates.iter().enumerate() {
        let parts = parts.clone();
        runs.spawn(async move { (index, run(&parts, rate, order).await) });
    }
    let mut tallies = runs.join_all().await;
    tallies.sort_by_key(|(index, _)| *index);
    tallies.into_iter().map(|(_, tally)| tally).collect()
}

/// The reference's times; the load balancer knows the answer where it is to be given.
fn plan(parts: &Parts, order: &str, pods: usize) -> StagePlan {
    let node = match order {
        "no-new-work" => Config::understanding(Vec::new()),
        _ => Config::reference(Vec::new()),
    };
    StagePlan {
        pods,
        sidecar_args: vec![format!("--order={order}"), "--drain-timeout=15s".to_owned()],
        nodes: vec![node],
        ..StagePlan::new(parts.envoy.clone(), parts.sidecar.clone())
    }
}

async fn run(parts: &Parts, rate: f64, order: &str) -> anyhow::Result<Tally> {
    let mut stage = Stage::start(&plan(parts, order, 2)).await.context("the stage")?;
    let load = Load::start(Target::get(stage.nodes[0].front_h1(), stage.start), rate, mixed);
    sleep(AROUND).await;
    stage.pods[0].delete(Duration::from_secs(60)).await?;
    sleep(AROUND).await;
    Ok(Tally::of(&load.stop().await))
}

/// 300 to 1,500 ms.
fn mixed(number: u64) -> String {
    format!("/sleep?ms={}", 300 + (number * 7919) % 1200)
}

#[expect(clippy::print_stderr, reason = "progress of a bench")]
fn show(row: &Row) {
    eprintln!("{} requests/s, {}: {:?}", row.rate, row.order, row.lost);
}

#[expect(clippy::print_stdout, reason = "the bench's result")]
fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stdout, reason = "the bench's result")]
fn table(rows: &[Row]) {
    println!("| requests/s | fail-first | wait-then-fail | no-new-work |\n|---|---|---|---|");
    for rate in SIDE_BY_SIDE.iter().chain(&ALONE) {
        let cell = |order: &str| {
            let row = rows.iter().find(|row| row.order == order && (row.rate - rate).abs() < 0.01);
            let lost = row.iter().flat_map(|row| &row.lost);
            lost.map(|tally| format!("{}/{}", tally.lost(), tally.requests)).collect::<Vec<_>>().join(", ")
        };
        println!(
            "| {rate} | {} | {} | {} |",
            cell("fail-first"),
            cell("wait-then-fail"),
            cell("no-new-work")
        );
    }
}
