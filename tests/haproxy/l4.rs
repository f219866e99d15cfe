//! Behind a balancer of connections that knows 200 and anything else, as a cloud's network load balancer does: where it
//! keeps the flows of an unhealthy target, 503 is the "no new work" answer, and nothing is lost.

use std::time::Duration;

use harness::eventually_async;
use probes::lab::ingress::l4::{L4, Rules};
use probes::lab::ingress::load::Target;
use probes::lab::ingress::{Backend, Load, Pod, PodSpec, Tally};
use serde_json::Value;
use tokio::time::Instant;

use crate::{INTER, lost, mixed, plan};

const GRACE: Duration = Duration::from_secs(60);

/// One of two pods leaves under load: what was lost, and the hook's answer.
async fn leave(args: &[&str], terminate: bool) -> (Tally, Value, String) {
    let plan = plan(args).await;
    let backend = Backend::start().await.unwrap();
    let mut pods = Vec::new();
    for name in ["pod-a", "pod-b"] {
        let spec = PodSpec {
            name: name.to_owned(),
            envoy: plan.envoy.clone(),
            envoy_args: plan.envoy_args.clone(),
            sidecar: plan.sidecar.clone(),
            sidecar_args: plan.sidecar_args.clone(),
            agent: false,
            state_file: true,
            xds: None,
        };
        pods.push(Pod::start(spec, &backend).await.unwrap());
    }
    let servers: Vec<_> = pods.iter().map(Pod::server).collect();
    let balancer = L4::start(&servers, Rules { inter: INTER, fall: 2, terminate }).unwrap();
    let until = async |wanted: [bool; 2]| {
        let probe = async || {
            let healthy = balancer.healthy();
            if healthy == wanted { Ok(()) } else { Err(format!("{healthy:?}")) }
        };
        eventually_async(GRACE, "the balancer's view of the pods", probe).await.unwrap();
    };
    until([true, true]).await;
    let start = Instant::now();
    let load = Load::start(Target::get(balancer.front().to_owned(), start), 40.0, mixed);
    let busy = async || {
        let active = pods[0].sidecar.status().await.unwrap()["active"]["http"].clone();
        if active.as_u64() >= Some(4) { Ok(()) } else { Err(active) }
    };
    eventually_async(GRACE, "load arrives", busy).await.unwrap();
    let answer = pods[0].delete(GRACE).await.unwrap();
    until([false, true]).await;
    let shots = load.stop().await;
    (Tally::of(&shots), answer, format!("{:?}", lost(&shots)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balancer_that_keeps_the_flows_of_an_unhealthy_target_loses_nothing() {
    let (tally, answer, lost) = leave(&["--lb-drain-status=503"], false).await;
    assert!(tally.requests > 20, "{tally:?}");
    assert_eq!((tally.lost(), &answer["forced"]), (0, &Value::from(false)), "{answer} {lost}");
}

/// Its control: one that cuts them, which is what AWS's does unless it is told otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_cuts_them_loses_what_runs() {
    let (tally, answer, _) = leave(&["--lb-drain-status=503"], true).await;
    assert!(tally.lost() > 0, "{tally:?} {answer}");
}

/// ... and with 404 or 503 alike it is the wait for zero that saves what runs: 503 at once without it loses.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_wait_for_zero_the_pod_ends_under_its_flows() {
    let (tally, answer, _) = leave(&["--order=fail-first", "--lb-buffer=500ms"], false).await;
    assert!(tally.lost() > 0, "{tally:?} {answer}");
}
