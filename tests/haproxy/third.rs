//! The third answer and the load balancer's word: acknowledged, misunderstood, given by agent, by two nodes.

use std::time::Duration;

use hyper::Method;
use probes::haproxy::config::Config;
use probes::ingress::{Ending, Load, Tally};

use crate::{get, log, lost, mixed, plan, reference, stage, steady, understanding, until, until_lb_says};

const GRACE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(3);

/// S8: a load balancer without disable-on-404 gets the answer once; it stays UP and nothing is cut.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_that_does_not_know_the_answer_gets_it_once() {
    let mut plan = plan(&["--lb-drain-status=404"]).await;
    plan.nodes = vec![Config { disable_on_404: false, ..understanding("lb1") }];
    let stage = stage(&plan).await;
    let target = get(&stage);
    let mut running = tokio::task::JoinSet::new();
    for number in 0..8 {
        let target = target.clone();
        running.spawn(async move { target.shoot("/sleep?ms=3000", &number.to_string()).await });
    }
    until(&stage, 0, "requests arrive", |status| status["active"]["http"] == 4).await;
    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    let status =
        until(&stage, 0, "it is noticed", |status| status["lb"]["probers"][0]["refused"] == true).await;
    assert_eq!(status["state"], "DRAINING", "{status:#}");
    let shots = running.join_all().await;
    assert_eq!(Tally::of(&shots).lost(), 0, "{:?}\n{}", lost(&shots), log(&stage, 0));
    let probers = status["lb"]["probers"].as_array().unwrap();
    assert!(probers.iter().all(|prober| prober["offers"] == 1), "{status:#}");
    until(&stage, 0, "zero and the flip", |status| status["state"] == "CLOSED").await;
}

/// Its control: one that insists on the answer takes the server down with its sessions.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_state_header_the_misunderstanding_cuts() {
    let mut plan = plan(&["--lb-drain-status=404"]).await;
    plan.nodes = vec![reference()];
    let stage = stage(&plan).await;
    let target = get(&stage);
    let mut running = tokio::task::JoinSet::new();
    for number in 0..8 {
        let target = target.clone();
        running.spawn(async move { target.shoot("/sleep?ms=3000", &number.to_string()).await });
    }
    until(&stage, 0, "requests arrive", |status| status["active"]["http"] == 4).await;
    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    until_lb_says(&stage, 0, "pod-a", &["DOWN"]).await;
    let shots = running.join_all().await;
    assert_eq!(Tally::of(&shots).lost(), 4, "{:?}", lost(&shots));
}

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

/// S15: two nodes that check at different times.
#[tokio::test(flavor = "multi_thread")]
async fn both_nodes_are_waited_for() {
    let mut plan = plan(&[]).await;
    let slow = Config { inter: Duration::from_millis(700), ..understanding("lb2") };
    plan.nodes = vec![understanding("lb1"), slow];
    let mut stage = stage(&plan).await;
    let loads: Vec<_> = [0, 1]
        .map(|node: usize| {
            let mut target = get(&stage);
            target.front = stage.nodes[node].front_h1();
            Load::start(target, 10.0, mixed)
        })
        .into();
    until(&stage, 0, "load arrives", |status| status["active"]["http"].as_u64() > Some(1)).await;
    stage.pods[0].delete(GRACE).await.unwrap();
    for load in loads {
        let shots = load.stop().await;
        assert_eq!(Tally::of(&shots).lost(), 0, "{:?}\n{}", lost(&shots), log(&stage, 0));
    }
    let log = log(&stage, 0);
    let acknowledged = log.find("\"no_new_work\"").unwrap();
    let words: Vec<_> =
        ["lb1", "lb2"].map(|node| log.find(&format!("{node} igw/pod-a Nolb")).unwrap()).into();
    assert!(words.iter().all(|word| *word < acknowledged), "{log}");
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

/// S10: undone in one check when only the load balancer was told.
#[tokio::test(flavor = "multi_thread")]
async fn reopening_restores_the_pod_whole_when_only_the_load_balancer_was_told() {
    let stage = stage(&plan(&["--drain-mode=lb-only"]).await).await;
    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    until_lb_says(&stage, 0, "pod-a", &["NOLB"]).await;
    let (status, answer) = stage.pods[0].sidecar.ask(Method::POST, "/reopen", SHORT).await.unwrap();
    assert_eq!((status.as_u16(), &answer["envoy_degraded"]), (200, &false.into()));
    until_lb_says(&stage, 0, "pod-a", &["UP"]).await;
}

/// ... and said to be degraded once Envoy's listeners were drained, which nothing undoes.
#[tokio::test(flavor = "multi_thread")]
async fn reopening_after_a_listener_drain_says_what_does_not_come_back() {
    let stage = stage(&plan(&["--zero-samples=1000"]).await).await;
    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    until(&stage, 0, "the listeners are drained", |status| status["envoy"]["reversible"] == false).await;
    let (status, answer) = stage.pods[0].sidecar.ask(Method::POST, "/reopen", SHORT).await.unwrap();
    assert_eq!((status.as_u16(), &answer["envoy_degraded"]), (200, &true.into()));
    let status = stage.pods[0].sidecar.status().await.unwrap();
    assert_eq!((&status["state"], &status["envoy"]["reversible"]), (&"OPEN".into(), &false.into()));
    until_lb_says(&stage, 0, "pod-a", &["UP"]).await;
}
