//! The third answer where the load balancer cannot say that it understands: it is not given, or given by agent. Where
//! it can, misunderstands, or is two, the drain experiment plays it.

use std::time::Duration;

use hyper::Method;
use probes::lab::ingress::{Ending, Tally};
use serde_json::Value;

use crate::{get, log, lost, plan, reference, stage, steady, until, until_lb_says};

const GRACE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(3);

/// `auto` never makes that experiment: without the header it is the order of the reference.
#[tokio::test(flavor = "multi_thread")]
async fn auto_does_not_experiment_on_a_load_balancer_without_words() {
    let mut plan = plan(&[]).await;
    plan.nodes = vec![reference()];
    plan.pods = 1;
    let mut stage = stage(&plan).await;
    let target = get(&stage);
    let long = tokio::spawn(async move { target.shoot("/sleep?ms=2000", "1").await });
    until(&stage, 0, "the request arrives", |status| status["active"]["http"] == 1).await;
    stage.pods[0].delete(GRACE).await.unwrap();
    assert_eq!(long.await.unwrap().ending, Ending::Whole);
    assert_eq!(stage.pods[0].sidecar.said("lb_not_acknowledged", "detail", "no_new_work"), None);
}

/// The agent-check says it without any health answer. HAProxy's header does not show it, so its time is waited.
#[tokio::test(flavor = "multi_thread")]
async fn the_agent_check_drains_too() {
    let mut plan = plan(&["--lb-drain-status=off"]).await;
    plan.agent = true;
    let mut stage = stage(&plan).await;
    let load = steady(&stage, 20.0);
    until(&stage, 0, "load arrives", |status| status["active"]["http"].as_u64() > Some(1)).await;
    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    until_lb_says(&stage, 0, "pod-a", &["DRAIN", "DRAIN (agent)"]).await;
    stage.pods[0].delete(GRACE).await.unwrap();
    let shots = load.stop().await;
    assert_eq!(Tally::of(&shots).lost(), 0, "{:?}\n{}", lost(&shots), log(&stage, 0));
    assert!(stage.pods[0].sidecar.said("lb_not_acknowledged", "detail", "no_new_work").is_some());
}

/// The load balancer is reloaded while a request holds the drain. Its new process knows nothing of the drain, says UP with
/// its first check, and is told again: nothing is taken back, and nothing that it sends meanwhile is cut.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_in_mid_drain_keeps_the_answer() {
    let mut stage = stage(&plan(&["--drain-timeout=30s"]).await).await;
    let target = get(&stage);
    let mut long = tokio::task::JoinSet::new();
    for number in 0..2 {
        let target = target.clone();
        long.spawn(async move { target.shoot("/sleep?ms=6000", &format!("long {number}")).await });
    }
    until(&stage, 0, "the request arrives", |status| status["active"]["http"] == 1).await;
    let load = steady(&stage, 20.0);
    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    until_lb_says(&stage, 0, "pod-a", &["NOLB"]).await;
    // Its next check says so to the sidecar.
    let heard = |log: &[Value]| log.iter().any(|line| line["event"] == "lb_acknowledged");
    until(&stage, 0, "NOLB is heard", |_| heard(&stage.pods[0].sidecar.log())).await;
    stage.nodes[0].reload().await.unwrap();
    until_lb_says(&stage, 0, "pod-a", &["NOLB"]).await;
    until(&stage, 0, "the end", |status| status["state"] == "CLOSED").await;
    let mut shots = load.stop().await;
    shots.extend(long.join_all().await);
    assert!(stage.pods[0].sidecar.log().iter().all(|line| line["event"] != "third_answer_taken_back"));
    assert_eq!(
        stage.pods[0].sidecar.status().await.unwrap()["progress"]["forced"],
        false,
        "{}",
        log(&stage, 0)
    );
    assert_eq!(Tally::of(&shots).lost(), 0, "{:?}\n{}", lost(&shots), log(&stage, 0));
}
