//! The three orders under the same load: what each of them loses.

use std::time::Duration;

use probes::lab::ingress::Tally;

use crate::{log, lost, plan, reference, stage, steady, until};

const GRACE: Duration = Duration::from_secs(60);

/// drain.md S1: 40 requests a second, one of two pods leaves.
#[tokio::test(flavor = "multi_thread")]
async fn the_third_answer_loses_nothing_under_load() {
    let mut stage = stage(&plan(&[]).await).await;
    let load = steady(&stage, 40.0);
    until(&stage, 0, "load arrives", |status| status["active"]["http"].as_u64() > Some(3)).await;
    let answer = stage.pods[0].delete(GRACE).await.unwrap();
    let shots = load.stop().await;
    assert_eq!(answer["status"], 200, "{answer} {}", log(&stage, 0));
    assert_eq!(answer["remaining"], 0);
    assert!(shots.len() > 20, "{}", shots.len());
    assert_eq!(Tally::of(&shots).lost(), 0, "{:?}\n{}", lost(&shots), log(&stage, 0));
    assert_eq!(stage.nodes[0].cut_sessions(), []);
}

/// The same with the reference's order: new requests come until the 503 and beyond, and DOWN cuts them.
#[tokio::test(flavor = "multi_thread")]
async fn holding_200_until_zero_loses_requests_under_load() {
    let args = ["--order=wait-then-fail", "--drain-timeout=3s"];
    let mut plan = plan(&args).await;
    plan.nodes = vec![reference()];
    let mut stage = stage(&plan).await;
    let load = steady(&stage, 40.0);
    until(&stage, 0, "load arrives", |status| status["active"]["http"].as_u64() > Some(3)).await;
    let answer = stage.pods[0].delete(GRACE).await.unwrap();
    let shots = load.stop().await;
    assert_eq!(answer["forced"], true, "zero is not reached: {answer}");
    assert!(Tally::of(&shots).lost() > 0, "{}", log(&stage, 0));
    assert!(!stage.nodes[0].cut_sessions().is_empty());
}

/// ... and it is the flush that cuts them: the control of the control.
#[tokio::test(flavor = "multi_thread")]
async fn without_on_marked_down_the_flip_cuts_nothing() {
    let args = ["--order=wait-then-fail", "--drain-timeout=3s"];
    let mut plan = plan(&args).await;
    plan.nodes = vec![probes::lab::haproxy::config::Config { flush: false, ..reference() }];
    let stage = stage(&plan).await;
    let load = steady(&stage, 40.0);
    until(&stage, 0, "load arrives", |status| status["active"]["http"].as_u64() > Some(3)).await;
    stage.pods[0].hook(GRACE).await.unwrap();
    let shots = load.stop().await;
    assert_eq!(Tally::of(&shots).lost(), 0, "{:?}", lost(&shots));
    assert_eq!(stage.nodes[0].cut_sessions(), []);
}
