//! The way in, with nothing replaced: clients, a real HAProxy, pods of a real Envoy and the real sidecar. Each file is
//! one part of the drain's promises; most tests have a twin that takes the promise's cause away and sees it broken.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod counting;
mod experiment;
mod faults;
mod hook;
mod hostile;
mod l4;
mod listeners;
mod orders;
mod third;
mod vanished;

use std::path::PathBuf;
use std::time::Duration;

use harness::binaries::workspace_binary;
use harness::eventually_async;
use probes::lab::envoy::install;
use probes::lab::haproxy::config::Config;
use probes::lab::ingress::load::Target;
use probes::lab::ingress::{Load, Shot, Stage, StagePlan};
use serde_json::Value;

/// HAProxy's check interval here: a tenth of the reference's 2 s.
const INTER: Duration = Duration::from_millis(200);

/// A tenth of everything else of the reference, too.
const SCALED: [&str; 4] =
    ["--lb-buffer=2s", "--drain-timeout=12s", "--poll-interval=200ms", "--stats-timeout=500ms"];

/// Two pods behind one node that understands the third answer.
async fn plan(args: &[&str]) -> StagePlan {
    let envoy = install::discover(&install::default_cache()).await.unwrap();
    let sidecar = PathBuf::from(workspace_binary("drain-sidecar").get_program());
    let given = |scaled: &&&str| !args.iter().any(|arg| arg.split('=').next() == scaled.split('=').next());
    let sidecar_args = SCALED.iter().filter(given).chain(args).map(|&arg| arg.to_owned()).collect();
    StagePlan { sidecar_args, nodes: vec![understanding("lb1")], ..StagePlan::new(envoy, sidecar) }
}

fn understanding(node: &str) -> Config {
    Config { inter: INTER, node: node.to_owned(), ..Config::understanding(Vec::new()) }
}

/// The reference's load balancer: flushes, does not know the third answer, sends no state.
fn reference() -> Config {
    Config { inter: INTER, ..Config::reference(Vec::new()) }
}

async fn stage(plan: &StagePlan) -> Stage {
    Stage::start(plan).await.unwrap()
}

fn get(stage: &Stage) -> Target {
    Target::get(stage.nodes[0].front_h1(), stage.start)
}

/// 300 to 1,500 ms, as in the reference's load.
fn mixed(number: u64) -> String {
    format!("/sleep?ms={}", 300 + (number * 7919) % 1200)
}

fn steady(stage: &Stage, rate: f64) -> Load {
    Load::start(get(stage), rate, mixed)
}

const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until it holds. The whole status is the last word if it never does.
async fn until(stage: &Stage, pod: usize, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let probe = async || {
        let status = stage.pods[pod].sidecar.status().await.unwrap();
        if holds(&status) { Ok(status) } else { Err(format!("{status:#}\n{}", log(stage, pod))) }
    };
    eventually_async(PATIENCE, what, probe).await.unwrap()
}

/// HAProxy's word for a pod, once it is one of `words`.
async fn until_lb_says(stage: &Stage, node: usize, pod: &str, words: &[&str]) -> String {
    let probe = async || {
        let servers = stage.nodes[node].servers().await.unwrap();
        let status = servers.into_iter().find(|server| server.name == pod).unwrap().status;
        if words.contains(&status.as_str()) { Ok(status) } else { Err(status) }
    };
    eventually_async(PATIENCE, &format!("{pod} is one of {words:?}"), probe).await.unwrap()
}

fn log(stage: &Stage, pod: usize) -> String {
    stage.pods[pod].sidecar.log().iter().fold(String::new(), |text, line| text + &line.to_string() + "\n")
}

/// A failed assertion should show what was lost.
fn lost(shots: &[Shot]) -> Vec<&Shot> {
    shots.iter().filter(|shot| shot.ending != probes::lab::ingress::Ending::Whole).collect()
}
