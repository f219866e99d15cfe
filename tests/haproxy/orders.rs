//! The three orders under the same load: what each of them loses.

use std::time::Duration;

use probes::ingress::{Ending, Tally};

use crate::{get, log, lost, mixed, plan, reference, stage, steady, until};

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
    let args = ["--order=seed", "--drain-timeout=3s"];
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
    let args = ["--order=seed", "--drain-timeout=3s"];
    let mut plan = plan(&args).await;
    plan.nodes = vec![probes::haproxy::config::Config { flush: false, ..reference() }];
    let stage = stage(&plan).await;
    let load = steady(&stage, 40.0);
    until(&stage, 0, "load arrives", |status| status["active"]["http"].as_u64() > Some(3)).await;
    stage.pods[0].hook(GRACE).await.unwrap();
    let shots = load.stop().await;
    assert_eq!(Tally::of(&shots).lost(), 0, "{:?}", lost(&shots));
    assert_eq!(stage.nodes[0].cut_sessions(), []);
}

/// One long request and one pod: 502 when DOWN cuts it, 200 when the flip waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_request_survives_every_order_but_the_naive() {
    for (order, status, ending) in [
        ("naive", Some(502), Ending::Refused),
        ("seed", Some(200), Ending::Whole),
        ("third", Some(200), Ending::Whole),
    ] {
        let mut plan = plan(&[&format!("--order={order}")]).await;
        plan.pods = 1;
        let mut stage = stage(&plan).await;
        let target = get(&stage);
        let long = tokio::spawn(async move { target.shoot("/sleep?ms=5000", "1").await });
        until(&stage, 0, "the request arrives", |status| status["active"]["http"] == 1).await;
        stage.pods[0].delete(GRACE).await.unwrap();
        let shot = long.await.unwrap();
        assert_eq!((shot.status, shot.ending), (status, ending), "{order}: {shot:?}\n{}", log(&stage, 0));
        assert_eq!(shot.took_ms >= 5_000, order != "naive", "{order}: {shot:?}");
    }
}

/// A stream: truncated over HTTP/1 and cancelled over HTTP/2 by the naive order, whole otherwise (S13).
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_whole_in_every_order_but_the_naive() {
    for (order, h2) in [("naive", false), ("naive", true), ("third", false), ("third", true), ("seed", true)]
    {
        let mut plan = plan(&[&format!("--order={order}")]).await;
        plan.pods = 1;
        let mut stage = stage(&plan).await;
        let mut target = get(&stage);
        if h2 {
            (target.front, target.h2) = (stage.nodes[0].front_h2(), true);
        }
        let stream = tokio::spawn(async move { target.shoot("/stream?chunks=60&ms=100", "1").await });
        until(&stage, 0, "the stream arrives", |status| status["active"]["http"] == 1).await;
        stage.pods[0].delete(GRACE).await.unwrap();
        let shot = stream.await.unwrap();
        assert_eq!(shot.status, Some(200));
        if order == "naive" {
            assert_eq!(shot.ending, Ending::Truncated, "h2 {h2}: {shot:?}");
            assert!(shot.lines > 0 && shot.lines < 60, "{shot:?}");
        } else {
            assert_eq!((shot.ending, shot.lines), (Ending::Whole, 60), "{order} {shot:?}");
        }
    }
}

/// A rollout: each pod in turn leaves and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_loses_nothing() {
    let mut stage = stage(&plan(&[]).await).await;
    let load = steady(&stage, 20.0);
    for index in 0..2 {
        stage.pods[index].hook(GRACE).await.unwrap();
        let old = stage.pods.remove(index);
        let new = old.replace(&stage.backend).await.unwrap();
        stage.pods.insert(index, new);
        stage.until_up().await.unwrap();
    }
    let shots = load.stop().await;
    assert_eq!(Tally::of(&shots).lost(), 0, "{:?}", lost(&shots));
}

/// Retries hide a cut from the client by carrying POSTs out twice (S12).
#[tokio::test(flavor = "multi_thread")]
async fn retries_repeat_posts_where_sessions_are_cut() {
    let mut repeated = Vec::new();
    for order in ["naive", "third"] {
        let mut plan = plan(&[&format!("--order={order}")]).await;
        plan.nodes[0].retry_all = true;
        let mut stage = stage(&plan).await;
        let mut target = get(&stage);
        target.method = "POST".parse().unwrap();
        let load = probes::ingress::Load::start(target, 20.0, mixed);
        until(&stage, 0, "load arrives", |status| status["active"]["http"].as_u64() > Some(3)).await;
        stage.pods[0].delete(GRACE).await.unwrap();
        let shots = load.stop().await;
        assert_eq!(Tally::of(&shots).lost(), 0, "{order}: {:?}", lost(&shots));
        repeated.push(stage.backend.repeated());
    }
    assert!(repeated[0] > 0, "{repeated:?}");
    assert_eq!(repeated[1], 0, "{repeated:?}");
}
