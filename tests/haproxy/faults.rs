//! What goes wrong during a drain: Envoy hangs or dies, the admin tells nonsense, the sidecar is killed or broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use probes::lab::child::Signal;
use probes::lab::ingress::{Ending, Tally};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::{get, log, lost, plan, reference, stage, steady, until, until_lb_says};

const GRACE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(3);

/// S3: Envoy stops answering in the middle; unknown is held, and the request in flight ends whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_hung_envoy_is_held_for() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let target = get(&stage);
    let long = tokio::spawn(async move { target.shoot("/sleep?ms=2000", "1").await });
    until(&stage, 0, "the request arrives", |status| status["active"]["http"] == 1).await;
    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    stage.pods[0].envoy.signal(Signal::STOP).unwrap();
    let status = until(&stage, 0, "it is noticed", |status| status["active"]["error"] == "timeout").await;
    assert_eq!((&status["state"], &status["active"]["stats"]), (&"DRAINING".into(), &"stale".into()));
    // The request has ended behind the hung Envoy by now; still nothing is known.
    for _ in 0..3 {
        let (code, _) = stage.pods[0].sidecar.ask(Method::GET, "/drain/preflight", SHORT).await.unwrap();
        assert_eq!(code, 503);
        assert_eq!(stage.pods[0].sidecar.status().await.unwrap()["state"], "DRAINING");
    }
    stage.pods[0].envoy.signal(Signal::CONT).unwrap();
    assert_eq!(long.await.unwrap().ending, Ending::Whole);
    let status = until(&stage, 0, "the end", |status| status["state"] == "CLOSED").await;
    assert_eq!(status["progress"]["forced"], false);
}

/// S4: what an admin may say that is not a number. The drain holds to its limit and knows that it was forced.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_from_the_admin_is_never_zero() {
    let truncated = "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhttp.ingress.downstream_rq_active: 0\n";
    for (said, why) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "stat_missing"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"stats\":[]}", "unparsable"),
        ("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "status"),
        (truncated, "broken"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nht", "timeout"),
    ] {
        let (admin, turned) = turning_admin(said, why == "timeout").await;
        let plan =
            plan(&[&format!("--admin=http://{admin}"), "--drain-timeout=1s", "--order=wait-then-fail"]).await;
        let folder = tempfile::tempdir().unwrap();
        let mut args = plan.sidecar_args.clone();
        args.extend(["--public=127.0.0.1:0".to_owned(), "--control=127.0.0.1:0".to_owned()]);
        let log = folder.path().join("log");
        let sidecar = probes::lab::ingress::Sidecar::start(&plan.sidecar, &args, log).await.unwrap();
        assert_eq!(sidecar.public("/health").await.unwrap(), 200, "{why}: in service so far");
        turned.store(true, Ordering::SeqCst);
        let (code, answer) = sidecar.ask(Method::GET, "/prestop", GRACE).await.unwrap();
        assert_eq!((code.as_u16(), &answer["forced"]), (200, &Value::from(true)), "{why}: {answer}");
        assert_eq!(answer["remaining"], Value::Null, "{why}: not known is not zero");
        let status = sidecar.status().await.unwrap();
        assert_eq!(status["active"]["error"], why, "{status:#}");
    }
}

/// S9: killed in each state and started again: the state is kept, and the load balancer never hears 200 again.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_sidecar_takes_up_its_state() {
    let mut stage = stage(&plan(&["--zero-samples=100000"]).await).await;
    let load = steady(&stage, 20.0);
    until(&stage, 0, "load arrives", |status| status["active"]["http"].as_u64() > Some(1)).await;
    stage.pods[0].restart_sidecar().await.unwrap();
    assert_eq!(stage.pods[0].sidecar.status().await.unwrap()["state"], "OPEN");

    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    stage.pods[0].restart_sidecar().await.unwrap();
    assert_eq!(stage.pods[0].sidecar.status().await.unwrap()["state"], "DRAINING");
    until_lb_says(&stage, 0, "pod-a", &["NOLB"]).await;
    until(&stage, 0, "zero", |status| status["active"]["http"] == 0).await;

    stage.pods[0].sidecar.ask(Method::POST, "/close-lb", SHORT).await.unwrap();
    stage.pods[0].restart_sidecar().await.unwrap();
    until(&stage, 0, "the end, on the disk", |status| {
        status["state"] == "CLOSED" && status["progress"]["state_file"] == "ok"
    })
    .await;
    stage.pods[0].restart_sidecar().await.unwrap();
    assert_eq!(stage.pods[0].sidecar.status().await.unwrap()["state"], "CLOSED");
    assert_eq!(stage.pods[0].sidecar.public("/health_check.html").await.unwrap(), 503);
    let shots = load.stop().await;
    assert_eq!(Tally::of(&shots).lost(), 0, "{:?}\n{}", lost(&shots), log(&stage, 0));
}

/// Its control: without the file the drain is forgotten and the load balancer sends again.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_file_a_killed_sidecar_forgets_the_drain() {
    let mut stage = stage(&plan(&["--zero-samples=100000"]).await).await;
    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    until_lb_says(&stage, 0, "pod-a", &["NOLB"]).await;
    std::fs::remove_file(stage.pods[0].state_file()).unwrap();
    stage.pods[0].restart_sidecar().await.unwrap();
    assert_eq!(stage.pods[0].sidecar.status().await.unwrap()["state"], "OPEN");
    until_lb_says(&stage, 0, "pod-a", &["UP"]).await;
}

/// FAULT asks for a restart of the sidecar, and cuts nothing where the load balancer understands ...
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_cuts_nothing() {
    let stage = stage(&plan(&[]).await).await;
    let target = get(&stage);
    let mut running = tokio::task::JoinSet::new();
    for number in 0..8 {
        let target = target.clone();
        running.spawn(async move { target.shoot("/sleep?ms=2000", &number.to_string()).await });
    }
    until(&stage, 0, "requests arrive", |status| status["active"]["http"] == 4).await;
    stage.pods[0].sidecar.ask(Method::POST, "/fault", SHORT).await.unwrap();
    assert_eq!(stage.pods[0].sidecar.public("/live").await.unwrap(), 500);
    until_lb_says(&stage, 0, "pod-a", &["NOLB"]).await;
    let shots = running.join_all().await;
    assert_eq!(Tally::of(&shots).lost(), 0, "{:?}", lost(&shots));
}

/// ... and does where it has only 200 and 503 to say.
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_cuts_where_503_is_all_there_is_to_say() {
    let mut plan = plan(&["--order=wait-then-fail"]).await;
    plan.nodes = vec![reference()];
    let stage = stage(&plan).await;
    let target = get(&stage);
    let mut running = tokio::task::JoinSet::new();
    for number in 0..8 {
        let target = target.clone();
        running.spawn(async move { target.shoot("/sleep?ms=3000", &number.to_string()).await });
    }
    until(&stage, 0, "requests arrive", |status| status["active"]["http"] == 4).await;
    stage.pods[0].sidecar.ask(Method::POST, "/fault", SHORT).await.unwrap();
    let shots = running.join_all().await;
    assert_eq!(Tally::of(&shots).lost(), 4, "{:?}", lost(&shots));
}

/// What an Envoy with nothing to do says.
pub(crate) const IDLE: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhttp.ingress.downstream_rq_active: 0\n\
                               listener.0.0.0.0_8080.downstream_cx_active: 0\n";

/// An admin that says one thing to everyone; `hold` keeps the connection open afterwards, as a slow drip does.
pub(crate) async fn fake_admin(said: &'static str, hold: bool) -> std::net::SocketAddr {
    let (admin, turned) = turning_admin(said, hold).await;
    turned.store(true, Ordering::SeqCst);
    admin
}

/// One that is idle until it is turned, and says `said` from then on.
async fn turning_admin(said: &'static str, hold: bool) -> (std::net::SocketAddr, Arc<AtomicBool>) {
    let turned = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&turned);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let turned = now.load(Ordering::SeqCst);
            let said = if turned { said } else { IDLE };
            let _ = stream.write_all(said.as_bytes()).await;
            if hold && turned {
                open.push(stream);
            }
        }
    });
    (addr, turned)
}
