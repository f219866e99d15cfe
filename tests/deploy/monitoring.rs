//! The alert rules and the dashboard: Prometheus itself reads the rules and plays them, a real Prometheus scrapes a real
//! sidecar, and every metric that is named is one that the sidecar has.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::{eventually, find};
use serde_json::Value;

use crate::sidecar::Sidecar;
use crate::workspace;

const LONG: Duration = Duration::from_secs(60);

fn manifest(file: &str) -> String {
    std::fs::read_to_string(workspace().join("manifests/ingress/monitoring").join(file)).unwrap()
}

/// The rules as a rule file: what the operator makes of the resource.
fn rules_into(folder: &Path) {
    let resource: Value = serde_saphyr::from_str(&manifest("rules.yaml")).unwrap();
    // JSON is YAML.
    std::fs::write(folder.join("rules.yaml"), resource["spec"].to_string()).unwrap();
}

fn promtool(folder: &Path, args: &[&str]) -> (bool, String) {
    let output = Command::new(find("promtool", "prometheus").unwrap())
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    (output.status.success(), said)
}

#[test]
fn prometheus_plays_every_alert() {
    let folder = tempfile::tempdir().unwrap();
    rules_into(folder.path());
    let played = workspace().join("tests/deploy/alerts.yaml");
    std::fs::copy(&played, folder.path().join("alerts.yaml")).unwrap();
    let (ok, said) = promtool(folder.path(), &["check", "rules", "rules.yaml"]);
    assert!(ok, "{said}");
    let (ok, said) = promtool(folder.path(), &["test", "rules", "alerts.yaml"]);
    assert!(ok, "{said}");
    // It would see a rule that fires later, and no alert goes unplayed.
    let rules = std::fs::read_to_string(folder.path().join("rules.yaml")).unwrap();
    let later = rules.replace("drain_remaining_at_close > 0", "drain_remaining_at_close > 5");
    assert_ne!(rules, later);
    std::fs::write(folder.path().join("rules.yaml"), later).unwrap();
    assert!(!promtool(folder.path(), &["test", "rules", "alerts.yaml"]).0);
    let resource: Value = serde_saphyr::from_str(&manifest("rules.yaml")).unwrap();
    let text = std::fs::read_to_string(played).unwrap();
    for rule in resource["spec"]["groups"][0]["rules"].as_array().unwrap() {
        let fires = format!("alertname: {}\n        exp_alerts:", rule["alert"].as_str().unwrap());
        assert!(text.contains(&fires), "{fires} is not in alerts.yaml");
    }
}

/// Names like `drain_state` in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("drain_")).map(str::to_owned).collect()
}

/// After a drain every metric is there.
#[test]
fn what_is_watched_is_what_the_sidecar_counts() {
    let sidecar = Sidecar::start();
    sidecar.get("control", "/prestop");
    let metrics = sidecar.get("metrics", "/metrics");
    let there = |name: &String| metrics.contains(&format!("# TYPE {name} "));
    let dashboard: Value = serde_json::from_str(&manifest("drain.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: String = queries.map(|target| target["expr"].as_str().unwrap().to_owned() + "\n").collect();
    let rules: Value = serde_saphyr::from_str(&manifest("rules.yaml")).unwrap();
    let rules = rules["spec"]["groups"][0]["rules"].as_array().unwrap();
    let rules: String = rules.iter().map(|rule| rule["expr"].as_str().unwrap().to_owned() + "\n").collect();
    let missing: Vec<_> =
        names(&(queries.clone() + &rules)).into_iter().filter(|name| !there(name)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in\n{metrics}");
    assert!(names(&queries).len() >= 10 && names(&rules).len() >= 6);
    assert!(!there(&"drain_made_up".to_owned()));
    // Prometheus' own opinion of the text.
    let mut linter = Command::new(find("promtool", "prometheus").unwrap());
    let mut linter =
        linter.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let body = metrics.split("\r\n\r\n").nth(1).unwrap();
    linter.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = linter.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() != Some(1), "{said}");
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// By the port and the path of the pods' annotations.
#[test]
fn a_real_prometheus_scrapes_the_sidecar_with_the_rules_loaded() {
    let sidecar = Sidecar::start();
    let folder = tempfile::tempdir().unwrap();
    rules_into(folder.path());
    let config = serde_json::json!({
        "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{
            "job_name": "igw",
            "static_configs": [{ "targets": [sidecar.at("metrics").to_string()], "labels": { "pod": "a" } }],
        }],
    });
    std::fs::write(folder.path().join("prometheus.yaml"), config.to_string()).unwrap();
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(find("prometheus", "prometheus").unwrap());
    command.args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data"]);
    command.arg(format!("--web.listen-address={at}")).current_dir(folder.path());
    let _prometheus = Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let seen = |query: &str, wanted: &str| {
        let answer = ask(at, query).unwrap_or_default();
        if answer.contains(wanted) { Ok(()) } else { Err(answer) }
    };
    let open = "/api/v1/query?query=drain_state%7Bstate%3D%22OPEN%22%2Cpod%3D%22a%22%7D%3D%3D1";
    eventually(LONG, "the scraped state", || seen(open, "\"state\":\"OPEN\"")).unwrap();
    eventually(LONG, "the rules", || seen("/api/v1/rules", "DrainForced")).unwrap();
    assert!(seen(&open.replace("OPEN", "CLOSED"), "\"state\":\"CLOSED\"").is_err());
}

fn ask(at: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: x\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
