//! What happens to names while they are watched, and how it is told: on standard output, over HTTP, by `events`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use harness::eventually;

use crate::running::{PATIENCE, run};
use crate::{Running, lab};

#[test]
fn a_flip_is_stored_printed_counted_and_served() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let watch = Running::start(&lab, dir.path(), &["vip.lab.example", "pool.lab.example"]);
    watch.settled(&["vip.lab.example", "pool.lab.example"]);
    assert_eq!(watch.get("/readyz"), "ok\n");

    let mut stream = TcpStream::connect(watch.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /api/v1/events/stream HTTP/1.1\r\nHost: {}\r\n\r\n", watch.address).unwrap();
    let mut live = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(live.any(|line| line.is_empty()), "the head");

    lab.flip("vip.lab.example", &[[192, 0, 2, 2]]);
    let flips = watch.wait_for("vip.lab.example", "flip", 1);
    let flip = &flips[0]["event"];
    assert_eq!(flip["what"]["flip"], serde_json::json!({"from": ["192.0.2.1"], "to": ["192.0.2.2"]}));
    let message = live.find(|line| line.starts_with("data:") && line.contains("\"flip\"")).unwrap();
    assert!(message.contains(flip["id"].as_str().unwrap()), "{message}");

    let printed = watch.printed();
    assert!(printed.contains(flip), "{printed:?}");
    let metrics = eventually(PATIENCE, "the count", || {
        let text = watch.get("/metrics");
        let series = "egress_audit_events_total{host=\"vip.lab.example\",event=\"flip\"} ";
        let count = text.lines().find_map(|found| found.strip_prefix(series)?.parse::<u32>().ok());
        if count >= Some(1) { Ok(text) } else { Err(text) }
    })
    .unwrap();
    assert!(metrics.contains("egress_audit_events_total{host=\"pool.lab.example\",event=\"flip\"} 0"));
    assert!(metrics.contains("class=\"RotatingPool\"} 1"), "{metrics}");
    assert!(metrics.trim_end().ends_with("# EOF") && !metrics.contains("192.0.2"), "{metrics}");

    let store = watch.store.to_str().unwrap();
    let told = run(&["events", "--store", store, "--since", "1h", "--kind", "flip"]);
    assert!(told.contains("vip.lab.example A flipped from 192.0.2.1 to 192.0.2.2"), "{told}");
    let ids = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let live = ids(run(&["events", "--store", store, "--kind", "flip", "-o", "jsonl"]));
    let copy = store.to_owned();
    watch.stop();
    assert_eq!(ids(run(&["events", "--store", &copy, "--kind", "flip", "-o", "jsonl"])), live);
    assert!(run(&["events", "--store", &copy, "-o", "html"]).contains("flipped from"));
}

#[test]
fn a_host_header_of_somebody_else_is_refused_and_nothing_can_be_written() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let args = ["vip.lab.example", "--allow-host", "watch.example"];
    let watch = Running::start(&lab, dir.path(), &args);
    for path in ["/", "/metrics", "/api/v1/names", "/api/v1/events", "/openapi.json"] {
        assert_eq!(watch.get_as(path, "attacker.example").0, 421, "{path}");
        assert_eq!(watch.get_as(path, "watch.example:80").0, 200, "{path}");
    }
    assert_eq!(watch.get_as("/api/v1/names/nobody.example", "localhost").0, 404);
    assert_eq!(watch.get_as("/api/v1/events?since=soon", "localhost").0, 400);
    let page = watch.get("/");
    assert!(page.contains("<title>") && !page.contains("http://") || page.contains("www.w3.org"), "{page}");
    let api = watch.json("/openapi.json");
    for (path, methods) in api["paths"].as_object().unwrap() {
        let methods: Vec<_> = methods.as_object().unwrap().keys().collect();
        assert_eq!(methods, ["get"], "{path}");
    }
}

#[test]
fn names_come_and_go_without_a_restart() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let names = dir.path().join("names.txt");
    std::fs::write(&names, "vip.lab.example\n").unwrap();
    let watch = Running::start(&lab, dir.path(), &["-f", names.to_str().unwrap()]);
    watch.settled(&["vip.lab.example"]);
    std::fs::write(&names, "other.lab.example\n").unwrap();
    watch.wait_for("other.lab.example", "entry_added", 1);
    watch.wait_for("vip.lab.example", "entry_removed", 1);
    watch.settled(&["other.lab.example"]);
    let watched = watch.json("/api/v1/names");
    assert_eq!(watched.as_array().unwrap().len(), 1, "{watched}");
    assert!(!watch.get("/metrics").contains("vip.lab.example"));
}

#[test]
fn manifests_are_watched_and_judged() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let manifest = dir.path().join("entry.yaml");
    let entry = |resolution: &str| {
        format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: pool, namespace: egress}}\n\
             spec:\n  hosts: [pool.lab.example]\n  location: MESH_EXTERNAL\n  resolution: {resolution}\n  \
             ports: [{{number: 443, name: tls, protocol: TLS}}]\n"
        )
    };
    std::fs::write(&manifest, entry("DNS")).unwrap();
    let watch = Running::start(&lab, dir.path(), &["--manifests", manifest.to_str().unwrap()]);
    watch.settled(&["pool.lab.example"]);
    let fits = |wanted: bool| {
        eventually(PATIENCE, "the judgement", || {
            let name = &watch.json("/api/v1/names")[0];
            if name["fits"] == wanted { Ok(()) } else { Err(name.to_string()) }
        })
        .unwrap();
    };
    fits(false);
    assert!(watch.get("/metrics").contains("egress_audit_resolution_fits{host=\"pool.lab.example\"} 0"));
    std::fs::write(&manifest, entry("DNS_ROUND_ROBIN")).unwrap();
    fits(true);

    // The store's answers are evidence for an audit and for a verdict, while it is filled and afterwards.
    let store = watch.store.to_str().unwrap().to_owned();
    std::fs::write(&manifest, entry("DNS")).unwrap();
    let verdict = || run(&["classify", "--from-store", &store]);
    eventually(PATIENCE, "stored answers", || {
        let text = verdict();
        if text.contains("RotatingPool") { Ok(()) } else { Err(text) }
    })
    .unwrap();
    let audit = || {
        let manifest = manifest.to_str().unwrap();
        run(&["audit", manifest, "--from-store", &store, "--fail-on", "never"])
    };
    assert!(audit().contains("EA101"), "{}", audit());
    watch.stop();
    assert!(verdict().contains("RotatingPool"));
    assert!(audit().contains("EA101"));
}

#[test]
fn saved_windows_raise_the_same_events() {
    let dir = tempfile::tempdir().unwrap();
    let sample = |second: u32, last: u32| {
        format!(
            r#"{{"at":"2026-07-01T{:02}:{:02}:{:02}Z","source":0,"rtt_ms":1.0,"outcome":{{"answered":{{"answers":[{{"addr":"192.0.2.{last}","ttl_s":30}}]}}}},"response":{{"size":64,"authoritative":true,"truncated":false,"transport":"udp"}}}}"#,
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    };
    let samples: Vec<_> = (0..200).map(|i| sample(i * 30, if i < 100 { 1 } else { 2 })).collect();
    let window = format!(
        r#"{{"host":"api.example","record_type":"A","sources":[{{"server":"192.0.2.53:53","vantage":"authority"}}],"started_at":"2026-07-01T00:00:00Z","ended_at":"2026-07-01T02:00:00Z","samples":[{}]}}"#,
        samples.join(",")
    );
    std::fs::write(dir.path().join("api.example.A.json"), window).unwrap();
    let told = run(&["watch", "--replay", dir.path().to_str().unwrap()]);
    let kinds: Vec<_> = ["class_changed", "flip"].iter().map(|kind| told.matches(kind).count()).collect();
    assert_eq!(kinds, [1, 1], "{told}");
    assert!(told.contains("2026-07-01T00:50:"), "{told}");
}

#[test]
fn a_second_watch_on_one_store_is_told_so() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let watch = Running::start(&lab, dir.path(), &["vip.lab.example"]);
    let mut second = harness::egress_audit();
    second.args(["watch", "vip.lab.example", "--store"]).arg(&watch.store);
    let output = second.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is in use by another process") && said.contains("hint:"), "{said}");
}
