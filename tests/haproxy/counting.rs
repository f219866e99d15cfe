//! The gauges that the shipped manifest lets Envoy report, on a real Envoy that reports nothing else: they suffice for
//! every setting of what counts.

use std::time::Duration;

use harness::eventually_async;
use probes::lab::envoy::Envoy;
use probes::lab::envoy::process::Launch;
use probes::lab::ingress::config::bootstrap;
use probes::lab::ingress::{Backend, Sidecar};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::plan;

/// `inclusionRegexps` of the manifest, as istiod puts them into the bootstrap.
fn shipped() -> Vec<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/ingress/base/deployment.yaml");
    let deployment: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    let config: Value =
        serde_saphyr::from_str(annotations["proxy.istio.io/config"].as_str().unwrap()).unwrap();
    let patterns = config["proxyStatsMatcher"]["inclusionRegexps"].as_array().unwrap();
    patterns.iter().map(|pattern| pattern.as_str().unwrap().to_owned()).collect()
}

/// An Envoy that reports only what `patterns` match, with two idle HTTP connections and one TCP session open, and what a
/// sidecar with each of `settings` counts there.
async fn counted(patterns: &[String], settings: impl Fn(&str) -> Vec<Vec<String>>) -> Vec<Value> {
    let plan = plan(&[]).await;
    let backend = Backend::start().await.unwrap();
    // A port of its own: Envoy names the gauges of a listener by the port that it was told.
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = bootstrap(free(), free(), backend.http, backend.raw, None);
    let patterns: Vec<_> = patterns.iter().map(|regex| json!({ "safe_regex": { "regex": regex } })).collect();
    config["stats_config"] = json!({ "stats_matcher": { "inclusion_list": { "patterns": patterns } } });
    let args = ["--drain-strategy", "immediate", "--drain-time-s", "600"];
    let envoy = Envoy::start_with(&plan.envoy, &config, Launch { args: &args, keep: None }).await.unwrap();
    let listeners = envoy.admin().listeners().await.unwrap();
    let (http, tcp) = (listeners["front"], listeners["tcp"]);
    let mut open = Vec::new();
    for (at, said) in [
        (http, "GET /sleep?ms=0 HTTP/1.1\r\nhost: x\r\n\r\n"),
        (http, "GET /sleep?ms=0 HTTP/1.1\r\nhost: x\r\n\r\n"),
        (tcp, "ping"),
    ] {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        stream.read_u8().await.unwrap();
        open.push(stream);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for (number, setting) in settings(&format!("127.0.0.1_{}", http.port())).into_iter().enumerate() {
        let fixed = [
            "--public=127.0.0.1:0",
            "--control=127.0.0.1:0",
            "--metrics=off",
            "--fast-poll=10ms",
            "--poll-interval=50ms",
        ];
        let mut args: Vec<String> = fixed.map(str::to_owned).to_vec();
        args.extend([format!("--admin=http://{}", envoy.admin().addr()), format!("--data={http}")]);
        args.extend(setting);
        let log = folder.path().join(format!("{number}.log"));
        let sidecar = Sidecar::start(&plan.sidecar, &args, log).await.unwrap();
        // Envoy merges a worker's gauges into what its admin says with a moment's delay.
        let mut last = Value::Null;
        let settled = async || {
            last = sidecar.status().await.unwrap()["active"].clone();
            let settled = last["error"] != Value::Null || last["http"] == 0;
            if settled && last["connections"] != 0 { Ok(()) } else { Err(last.to_string()) }
        };
        // A setting that never settles is told by its last word.
        let _ = eventually_async(Duration::from_secs(20), "the count settles", settled).await;
        all.push(last);
    }
    all
}

fn every_setting(http: &str) -> Vec<Vec<String>> {
    let flags = |flags: &[&str]| flags.iter().map(|&flag| flag.to_owned()).collect::<Vec<_>>();
    let listener = format!("--exclude-listeners={http}");
    vec![
        flags(&[]),
        flags(&[&listener]),
        flags(&["--exclude-http=stats,agent"]),
        flags(&["--exclude-http=stats,agent", &listener]),
        flags(&["--ignore-tcp"]),
        flags(&["--ignore-tcp", &listener]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_gauges_suffice_for_every_setting() {
    for (number, active) in counted(&shipped(), every_setting).await.into_iter().enumerate() {
        assert_eq!(active["error"], Value::Null, "{number}: {active}");
        let tcp = if number < 4 { json!(1) } else { Value::Null };
        assert_eq!((&active["http"], &active["tcp"]), (&json!(0), &tcp), "{number}: {active}");
    }
}

/// Its control: without the counter that links managers to listeners a skipped listener hides a session, so the number is
/// not known and never zero.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_link_a_skipped_listener_is_unknown() {
    let patterns: Vec<String> =
        shipped().into_iter().filter(|pattern| !pattern.contains("rq_completed")).collect();
    assert_eq!(patterns.len() + 1, shipped().len());
    let all = counted(&patterns, |http| every_setting(http)[..2].to_vec()).await;
    assert_eq!((&all[0]["error"], &all[0]["tcp"]), (&Value::Null, &json!(1)), "{all:#?}");
    assert_eq!(all[1]["error"], "listener_link_missing", "{all:#?}");
}
