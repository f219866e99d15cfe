//! The hook and the signals of a termination, and what the two listeners let whom do.

use std::time::Duration;

use hyper::Method;
use probes::lab::child::Signal;
use probes::lab::ingress::Ending;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{get, plan, reference, stage, until, until_lb_says};

const GRACE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(3);

/// Delivered twice, and by the subcommand: all wait for one drain. SIGTERM in the middle is ignored until CLOSED.
#[tokio::test(flavor = "multi_thread")]
async fn hooks_join_one_drain_and_sigterm_waits_for_it() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let mut stage = stage(&plan).await;
    let target = get(&stage);
    let long = tokio::spawn(async move { target.shoot("/sleep?ms=2000", "1").await });
    until(&stage, 0, "the request arrives", |status| status["active"]["http"] == 1).await;
    let url = format!("http://{}", stage.pods[0].sidecar.control);
    let mut command = tokio::process::Command::new(&plan.sidecar);
    command.args(["prestop", "--url", &url]).stderr(std::process::Stdio::piped());
    let subcommand = command.spawn().unwrap();
    let (first, second) = tokio::join!(stage.pods[0].hook(GRACE), async {
        until(&stage, 0, "the drain has begun", |status| status["state"] == "DRAINING").await;
        stage.pods[0].sidecar.signal(Signal::TERM).unwrap();
        stage.pods[0].hook(GRACE).await
    });
    for (code, answer) in [first.unwrap(), second.unwrap()] {
        assert_eq!((code.as_u16(), &answer["state"]), (200, &Value::from("CLOSED")));
    }
    let output = subcommand.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(long.await.unwrap().ending, Ending::Whole);
    assert!(stage.pods[0].sidecar.ended(Duration::from_secs(10)).await, "CLOSED and told to end");
    let begun = stage.pods[0].sidecar.log().iter().filter(|line| line["to"] == "DRAINING").count();
    assert_eq!(begun, 1);
}

/// A port that is taken is named, with the flags that choose another.
#[tokio::test]
async fn a_taken_port_is_named() {
    let plan = plan(&[]).await;
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let output = std::process::Command::new(&plan.sidecar)
        .args(["serve", "--control=127.0.0.1:0", &format!("--public={taken}")])
        .output()
        .unwrap();
    drop(holder);
    let line: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((output.status.code(), &line["event"]), (Some(2), &"serve_failed".into()), "{line}");
    let said = line["error"].as_str().unwrap();
    assert!(said.contains(&taken.to_string()) && said.contains("in use"), "{line}");
    assert!(line["hint"].as_str().unwrap().contains("--public"), "{line}");
}

/// The hook's wait is bounded by the drain's own deadline.
#[tokio::test(flavor = "multi_thread")]
async fn the_hook_is_bounded_and_tells_what_was_left() {
    let mut plan = plan(&["--drain-timeout=1s"]).await;
    plan.pods = 1;
    let mut stage = stage(&plan).await;
    let target = get(&stage);
    let endless = tokio::spawn(async move { target.shoot("/sleep?ms=60000", "1").await });
    until(&stage, 0, "the request arrives", |status| status["active"]["http"] == 1).await;
    let answer = stage.pods[0].delete(GRACE).await.unwrap();
    assert_eq!((&answer["forced"], &answer["remaining"]), (&true.into(), &1.into()), "{answer}");
    assert_ne!(endless.await.unwrap().ending, Ending::Whole);
}

/// Nobody who only reaches the health port can drain the pod.
#[tokio::test(flavor = "multi_thread")]
async fn the_health_port_obeys_nobody() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let sidecar = &stage.pods[0].sidecar;
    for path in ["/drain", "/prestop", "/drain/status", "/metrics", "/reopen", "/fault"] {
        assert_eq!(sidecar.public(path).await.unwrap(), 404, "{path}");
    }
    for (path, code) in [("/health_check.html", 200), ("/health", 200), ("/live", 200)] {
        assert_eq!(sidecar.public(path).await.unwrap(), code, "{path}");
        assert_eq!(sidecar.ask(Method::POST, path, SHORT).await.unwrap().0, 405, "{path}");
    }
    assert_eq!(sidecar.ask(Method::GET, "/drain", SHORT).await.unwrap().0, 405);
    let (code, body) = sidecar.ask(Method::POST, "/close", SHORT).await.unwrap();
    assert_eq!((code.as_u16(), &body["state"]), (409, &Value::from("OPEN")));
}

/// The document and the listener are one table: each path of it is served, each method of it allowed.
#[tokio::test(flavor = "multi_thread")]
async fn the_open_api_document_tells_the_truth() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let sidecar = &stage.pods[0].sidecar;
    let (_, document) = sidecar.ask(Method::GET, "/openapi.json", SHORT).await.unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 13);
    for (path, operations) in paths {
        let (code, _) = sidecar.ask(Method::PUT, path, SHORT).await.unwrap();
        assert_eq!(code, 405, "{path}");
        if operations.get("get").is_some() && path != "/prestop" {
            let (code, _) = sidecar.ask(Method::GET, path, SHORT).await.unwrap();
            let told = &operations["get"]["responses"][code.as_str()];
            assert!(told.is_object(), "{path} answered {code}, which the document does not list");
        }
    }
}

/// `/drain/status` is what its schema says, in every state on the way out, and the schema is the one that is served.
#[tokio::test(flavor = "multi_thread")]
async fn the_status_obeys_the_schema_that_is_served() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let sidecar = &stage.pods[0].sidecar;
    let (_, document) = sidecar.ask(Method::GET, "/openapi.json", SHORT).await.unwrap();
    let answer = &document["paths"]["/drain/status"]["get"]["responses"]["200"];
    let schema = &answer["content"]["application/json"]["schema"];
    let validator = jsonschema::draft202012::new(schema).unwrap();
    let mut seen = Vec::new();
    for (path, state) in [("", "OPEN"), ("/prestop", "CLOSED")] {
        if !path.is_empty() {
            sidecar.ask(Method::GET, path, GRACE).await.unwrap();
        }
        let status = until(&stage, 0, state, |status| status["state"] == state).await;
        let errors: Vec<_> = validator.iter_errors(&status).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{status:#}");
        seen.push(status);
    }
    // It would see a field that is gone, one of another type, and a state that there is not.
    for (pointer, wrong) in [("/progress", Value::Null), ("/lb/probers", 3.into()), ("/state", "LOST".into())]
    {
        let mut status = seen[1].clone();
        *status.pointer_mut(pointer).unwrap() = wrong;
        assert!(!validator.is_valid(&status), "{pointer}");
    }
}

/// Back from CLOSING, even by a sidecar that was killed in it: the load balancer has marked the pod DOWN, the answer
/// says that it comes back by its checks, and it does. CLOSED does not come back.
#[tokio::test(flavor = "multi_thread")]
async fn reopening_from_closing_warns_and_brings_the_pod_back() {
    let mut plan = plan(&["--lb-buffer=30s", "--drain-mode=lb-only", "--zero-samples=100000"]).await;
    plan.pods = 1;
    plan.nodes = vec![reference()];
    let mut stage = stage(&plan).await;
    for (path, warns) in [("/drain", false), ("/reopen", false), ("/drain", false), ("/close-lb", false)] {
        let answer = post(stage.pods[0].sidecar.control, path).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert_eq!(answer.contains("warning: 199 "), warns, "{path}: {answer}");
    }
    until_lb_says(&stage, 0, "pod-a", &["DOWN"]).await;
    stage.pods[0].restart_sidecar().await.unwrap();
    assert_eq!(stage.pods[0].sidecar.status().await.unwrap()["state"], "CLOSING");
    let answer = post(stage.pods[0].sidecar.control, "/reopen").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("warning: 199 - \"the load balancer"),
        "{answer}"
    );
    until_lb_says(&stage, 0, "pod-a", &["UP"]).await;
    assert_eq!(get(&stage).shoot("/sleep?ms=1", "1").await.ending, Ending::Whole);

    for path in ["/drain", "/close-lb", "/close"] {
        assert!(post(stage.pods[0].sidecar.control, path).await.starts_with("HTTP/1.1 200"), "{path}");
    }
    let answer = post(stage.pods[0].sidecar.control, "/reopen").await;
    assert!(answer.starts_with("HTTP/1.1 409") && answer.contains("\"CLOSED\""), "{answer}");
}

async fn post(control: std::net::SocketAddr, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(control).await.unwrap();
    let request = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
