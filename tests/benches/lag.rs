//! How long after its last request has ended a pod's health answer flips, with a real Envoy counting the requests and a
//! real HAProxy sending them: the sidecar's own pace beside a poll every 2 s. Prints medians, no verdict.
//!
//! `cargo bench -p egress-audit-tests --bench lag` (needs HAProxy; Envoy is installed on demand; about 3 minutes).

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use harness::binaries::workspace_binary;
use hyper::Method;
use probes::lab::envoy::install;
use probes::lab::haproxy::config::Config;
use probes::lab::ingress::load::Target;
use probes::lab::ingress::{Ending, Stage, StagePlan};
use serde_json::Value;
use tokio::time::sleep;

/// Drains of each kind.
const FLIPS: u64 = 15;
const SHORT: Duration = Duration::from_secs(5);

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for (name, args) in [
        ("no-new-work", &["--order=no-new-work"][..]),
        ("wait-then-fail", &["--order=wait-then-fail"]),
        (
            "wait-then-fail, a poll every 2 s",
            &["--order=wait-then-fail", "--poll-interval=2s", "--fast-poll=2s", "--zero-samples=1"],
        ),
    ] {
        let mut lags = runtime.block_on(flip_lags(args)).with_context(|| name.to_owned())?;
        lags.sort_unstable();
        let (middle, worst) = (lags[lags.len() / 2], lags[lags.len() - 1]);
        say(&format!("last request -> health flips, {name}: median {middle} ms, worst {worst} ms"));
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the bench's result")]
fn say(line: &str) {
    println!("{line}");
}

/// Milliseconds from the end of the only request, as its client sees it, to CLOSING in the sidecar's log; one pod that
/// is drained and reopened again and again.
async fn flip_lags(args: &[&str]) -> anyhow::Result<Vec<u64>> {
    // A load balancer that never says DOWN: CLOSED could not be reopened.
    let inter = Duration::from_millis(200);
    let node = Config { inter, fall: 100_000, ..Config::understanding(Vec::new()) };
    let given = args.iter().map(|&arg| arg.to_owned());
    let stage = Stage::start(&StagePlan {
        pods: 1,
        sidecar_args: given.chain(["--drain-mode=lb-only", "--lb-buffer=60s"].map(str::to_owned)).collect(),
        nodes: vec![node],
        ..StagePlan::new(
            install::discover(&install::default_cache()).await?,
            PathBuf::from(workspace_binary("drain-sidecar").get_program()),
        )
    })
    .await?;
    let (sidecar, admin) = (&stage.pods[0].sidecar, stage.pods[0].envoy.admin());
    let mut lags = Vec::new();
    for flip in 0..FLIPS {
        stage.until_up().await?;
        // Spread over the phases of a 2 s poll; long enough for the load balancer's word to be in.
        let path = format!("/sleep?ms={}", 1500 + 2000 * flip / FLIPS);
        let target = Target::get(stage.nodes[0].front_h1(), stage.start);
        let request = tokio::spawn(async move {
            let shot = target.shoot(&path, "1").await;
            (shot, SystemTime::now())
        });
        // By Envoy's own gauge: the sidecar may look 2 s later.
        let active = "http.ingress.downstream_rq_active";
        while admin.stats(&format!("^{active}$")).await?.get(active) != Some(&1) {
            sleep(Duration::from_millis(10)).await;
        }
        sidecar.ask(Method::POST, "/drain", SHORT).await?;
        let (shot, ended) = request.await?;
        anyhow::ensure!(shot.ending == Ending::Whole, "{shot:?}");
        let ended = u64::try_from(ended.duration_since(UNIX_EPOCH)?.as_millis())?;
        let flipped = loop {
            let flips: Vec<Value> =
                sidecar.log().into_iter().filter(|line| line["to"] == "CLOSING").collect();
            if let Some(line) = flips.get(lags.len()) {
                break line["ts_ms"].as_u64().context("a time stamp")?;
            }
            sleep(Duration::from_millis(20)).await;
        };
        lags.push(flipped.saturating_sub(ended));
        sidecar.ask(Method::POST, "/reopen", SHORT).await?;
    }
    Ok(lags)
}
