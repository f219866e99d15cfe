//! What the two listeners answer beside the drain itself: caching of health, a control socket, a control port that is
//! public on purpose, metrics, and a pod whose health nobody checks.

use std::path::Path;
use std::time::Duration;

use harness::eventually;
use hyper::Method;
use probes::lab::child::{Child, Signal};
use prometheus_parse::{Sample, Scrape, Value as Reading};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::faults::{IDLE, fake_admin};
use crate::{plan, stage, until};

const SHORT: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(60);

/// A health answer that is known already is not sent again; 503 is never turned into 304.
#[tokio::test(flavor = "multi_thread")]
async fn known_health_is_not_sent_again() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let sidecar = &stage.pods[0].sidecar;
    let first = ask(sidecar.health, "/health_check.html", "").await;
    assert!(first.starts_with("HTTP/1.1 200") && first.contains("cache-control: max-age=1"), "{first}");
    let tag = first.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let again = ask(sidecar.health, "/health_check.html", tag).await;
    assert!(again.starts_with("HTTP/1.1 304") && again.ends_with("\r\n\r\n"), "{again}");
    stage.pods[0].hook(GRACE).await.unwrap();
    let down = ask(sidecar.health, "/health_check.html", tag).await;
    assert!(down.starts_with("HTTP/1.1 503"), "{down}");
    let tag = down.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    assert!(ask(sidecar.health, "/health_check.html", tag).await.starts_with("HTTP/1.1 503"));
}

async fn ask(at: std::net::SocketAddr, path: &str, known: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nif-none-match: {known}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The control listener as a unix socket, left by a process that was killed: the next one takes it over, and the
/// subcommands ask it.
#[tokio::test(flavor = "multi_thread")]
async fn the_control_listener_may_be_a_socket() {
    let plan = plan(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", folder.path().join("control.sock").display());
    let args = [format!("--admin=http://{}", fake_admin(IDLE, false).await), format!("--control={socket}")];
    let mut first = serve(&plan.sidecar, &args, folder.path());
    first.signal(Signal::KILL).unwrap();
    assert!(first.ended(GRACE).await);
    let _second = serve(&plan.sidecar, &args, folder.path());
    for command in ["preflight", "prestop"] {
        let asked = tokio::process::Command::new(&plan.sidecar).args([command, "--url", &socket]).output();
        let output = asked.await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        // The stand-in has no server_info, which preflight calls a failure.
        assert_eq!(output.status.code(), Some(i32::from(command == "preflight")), "{command}: {said}");
    }
}

/// On the public port only where that was asked for, and then it is said.
#[tokio::test(flavor = "multi_thread")]
async fn control_on_the_public_port_is_warned_of() {
    let plan = plan(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let args =
        [format!("--admin=http://{}", fake_admin(IDLE, false).await), "--control-on-public".to_owned()];
    let serving = serve(&plan.sidecar, &args, folder.path());
    let lines = log(&serving);
    let listening = lines.iter().find(|line| line["event"] == "listening").unwrap();
    let at = listening["public"].as_str().unwrap().parse().unwrap();
    assert!(ask(at, "/drain/status", "").await.starts_with("HTTP/1.1 200"));
    let warned =
        || log(&serving).into_iter().find(|line| line["event"] == "control_is_public").ok_or("no warning");
    let warning = eventually(GRACE, "the warning", warned).unwrap();
    assert_eq!(warning["level"], "warn");
}

/// Starts it on free ports and waits until it listens.
fn serve(binary: &Path, args: &[String], folder: &Path) -> Child {
    let log_file = folder.join("sidecar.log");
    let _ = std::fs::remove_file(&log_file);
    let fixed = ["serve", "--public=127.0.0.1:0", "--lb-buffer=200ms"].map(str::to_owned);
    let child = Child::start(binary, fixed.iter().chain(args), log_file).unwrap();
    let said = |line: &Value| line["event"] == "listening";
    let listening = || if log(&child).iter().any(said) { Ok(()) } else { Err(child.log()) };
    eventually(GRACE, "listening", listening).unwrap();
    child
}

fn log(child: &Child) -> Vec<Value> {
    child.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Nobody checks this pod's health: the waits end by time, and status, metrics and log say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_nobody_checks_waits_by_time() {
    let plan = plan(&["--lb-buffer=700ms"]).await;
    let folder = tempfile::tempdir().unwrap();
    let mut args = plan.sidecar_args.clone();
    args.push(format!("--admin=http://{}", fake_admin(IDLE, false).await));
    args.extend(["--public=127.0.0.1:0", "--control=127.0.0.1:0"].map(str::to_owned));
    let sidecar =
        probes::lab::ingress::Sidecar::start(&plan.sidecar, &args, folder.path().join("log")).await.unwrap();
    let (code, answer) = sidecar.ask(Method::GET, "/prestop", GRACE).await.unwrap();
    assert_eq!((code.as_u16(), &answer["forced"]), (200, &Value::from(false)), "{answer}");
    assert!(answer["waited_ms"].as_u64() >= Some(1_400), "once for no new work, once for DOWN: {answer}");
    let status = sidecar.status().await.unwrap();
    let lb = &status["lb"];
    assert_eq!(
        (&lb["lb_probe_seen"], &lb["nolb_acked_ms"], &lb["down_acked_ms"]),
        (&false.into(), &Value::Null, &Value::Null)
    );
    assert!(sidecar.said("lb_not_acknowledged", "detail", "no_new_work").is_some());
    let (_, metrics) = sidecar.ask(Method::GET, "/metrics", SHORT).await.unwrap();
    assert!(metrics.as_str().unwrap().contains("\ndrain_lb_probe_seen 0\n"), "{metrics}");
}

/// Envoy's statistics fail for a while in service: health does not flap, and the load balancer keeps the pod.
#[tokio::test(flavor = "multi_thread")]
async fn health_does_not_hang_on_statistics() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let pod = &stage.pods[0];
    pod.envoy.signal(Signal::STOP).unwrap();
    let told = until(&stage, 0, "it is noticed", |status| status["active"]["error"] == "timeout").await;
    let seen = |status: &Value| status["lb"]["probers"][0]["last_ms"].as_u64().unwrap();
    // Ten checks of the load balancer later.
    until(&stage, 0, "ten checks", |status| seen(status) > seen(&told) + 2_000).await;
    assert_eq!(pod.sidecar.public("/health_check.html").await.unwrap(), 200);
    assert_eq!(pod.sidecar.public("/health").await.unwrap(), 200);
    assert_eq!(stage.nodes[0].servers().await.unwrap()[0].status, "UP");
    assert_eq!(pod.sidecar.status().await.unwrap()["state"], "OPEN");
    pod.envoy.signal(Signal::CONT).unwrap();
    until(&stage, 0, "it is well again", |status| status["active"]["stats"] == "ok").await;
}

/// What is to be watched is there after a drain, by the names of the runbook.
#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_are_those_of_the_runbook() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    stage.pods[0].hook(GRACE).await.unwrap();
    let (_, metrics) = stage.pods[0].sidecar.ask(Method::GET, "/metrics", SHORT).await.unwrap();
    let metrics = metrics.as_str().unwrap();
    let scrape = Scrape::parse(metrics.lines().map(|line| Ok(line.to_owned()))).unwrap();
    let one = |name: &str, labels: &[(&str, &str)]| {
        let has = |sample: &Sample| labels.iter().all(|(key, value)| sample.labels.get(key) == Some(*value));
        let found: Vec<&Sample> =
            scrape.samples.iter().filter(|sample| sample.metric == name && has(sample)).collect();
        let [sample] = found[..] else { panic!("{name} {labels:?}: {found:?} of {:#?}", scrape.samples) };
        match sample.value {
            Reading::Counter(value) | Reading::Gauge(value) | Reading::Untyped(value) => value,
            ref other => panic!("{name}: {other:?}"),
        }
    };
    for (name, labels, value) in [
        ("drain_state", &[("state", "CLOSED")][..], 1.0),
        ("drain_state", &[("state", "OPEN")], 0.0),
        ("drain_transitions_total", &[("from", "OPEN"), ("to", "DRAINING"), ("reason", "prestop")], 1.0),
        ("drain_active_requests", &[("proto", "http")], 0.0),
        ("drain_active_requests", &[("proto", "tcp")], 0.0),
        ("drain_lb_probe_seen", &[], 1.0),
        ("drain_forced_total", &[], 0.0),
        ("drain_remaining_at_close", &[], 0.0),
        ("drain_late_requests_total", &[], 0.0),
        ("drain_trigger_failures_total", &[], 0.0),
        ("drain_envoy_config_ok", &[], 1.0),
    ] {
        assert!((one(name, labels) - value).abs() < f64::EPSILON, "{name} {labels:?}: {}", one(name, labels));
    }
    assert!(one("drain_lb_probe_total", &[("answer", "no_new_work")]) >= 1.0);
    for (name, labels) in [
        ("drain_lb_ack_seconds", &[("kind", "no_new_work")][..]),
        ("drain_lb_ack_seconds", &[("kind", "down")]),
        ("drain_duration_seconds", &[]),
        ("drain_stats_age_seconds", &[]),
    ] {
        assert!((0.0..60.0).contains(&one(name, labels)), "{name} {labels:?}: {}", one(name, labels));
    }
    // A counter of errors has no sample before the first one.
    let declared = |name: &str| metrics.contains(&format!("# TYPE {name} "));
    assert!(metrics.contains("# TYPE drain_stats_errors_total counter\n"), "{metrics}");
    let runbook = include_str!("../../book/src/guides/drain-runbook.md");
    let watched = runbook.split("## What to watch").nth(1).unwrap().split("##").next().unwrap();
    let names: Vec<&str> = watched.split('`').filter(|word| word.starts_with("drain_")).collect();
    assert!(names.len() > 6, "{names:?}");
    for name in names.iter().map(|name| name.split('{').next().unwrap()) {
        assert!(declared(name), "{name} of the runbook is not in\n{metrics}");
    }
}
