//! The rules and the dashboard of `manifests/watch`: promtool's own tests of the rules, the queries against the metrics
//! that exist, and a real Prometheus that scrapes a real watch and raises the alert after a flip.

use std::collections::BTreeSet;
use std::process::Command;

use harness::ports::free_port;
use harness::{Child, eventually, find};
use serde_json::Value;

use crate::running::PATIENCE;
use crate::{Running, lab, workspace};

#[test]
fn the_rules_pass_their_own_tests() {
    let promtool = find("promtool", "prometheus").unwrap();
    let folder = workspace().join("manifests/watch");
    let test = |dir: &std::path::Path| {
        Command::new(&promtool).args(["test", "rules", "rules_test.yml"]).current_dir(dir).output().unwrap()
    };
    let output = test(&folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // And they notice a rule that does not fire.
    let broken = tempfile::tempdir().unwrap();
    std::fs::copy(folder.join("rules_test.yml"), broken.path().join("rules_test.yml")).unwrap();
    let rules = std::fs::read_to_string(folder.join("rules.yml")).unwrap();
    let wrong = rules.replace("event=\"flip\"", "event=\"flop\"");
    assert_ne!(wrong, rules);
    std::fs::write(broken.path().join("rules.yml"), wrong).unwrap();
    assert!(!test(broken.path()).status.success());
}

#[test]
fn the_operators_rules_are_the_same() {
    let folder = workspace().join("manifests/watch");
    let read = |file: &str| -> Value {
        serde_saphyr::from_str(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap()
    };
    assert_eq!(read("prometheusrule.yaml")["spec"], read("rules.yml"));
}

/// Names of our metrics in a query.
fn metrics_of(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("egress_audit_")).map(str::to_owned).collect()
}

/// Every string that a key has anywhere below.
fn strings(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, below)| match below {
            Value::String(text) if name == key => found.push(text.clone()),
            other => strings(other, key, found),
        }),
        Value::Array(list) => list.iter().for_each(|below| strings(below, key, found)),
        _ => {}
    }
}

#[test]
fn a_real_prometheus_alerts_after_a_flip_and_knows_every_metric_that_is_asked_for() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let program = find("prometheus", "prometheus").unwrap();
    let manifest = dir.path().join("entry.yaml");
    std::fs::write(
        &manifest,
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: vip, namespace: egress}\n\
         spec:\n  hosts: [vip.lab.example]\n  resolution: DNS\n  ports: [{number: 443, name: tls, protocol: TLS}]\n",
    )
    .unwrap();
    let manifest = manifest.to_str().unwrap();
    let watch = Running::start(&lab, dir.path(), &["pool.lab.example", "--manifests", manifest]);
    let config = dir.path().join("prometheus.yml");
    let rules = workspace().join("manifests/watch/rules.yml");
    std::fs::write(
        &config,
        format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n  \
             - job_name: watch\n    static_configs: [{{targets: ['{}']}}]\n",
            rules.display(),
            watch.address
        ),
    )
    .unwrap();
    let address = free_port().unwrap();
    let args = [
        format!("--config.file={}", config.display()),
        format!("--storage.tsdb.path={}", dir.path().join("tsdb").display()),
        format!("--web.listen-address={address}"),
    ];
    let _prometheus = Child::spawn(&program, args, dir.path().join("prometheus.log")).unwrap();
    watch.settled(&["vip.lab.example", "pool.lab.example"]);
    let ask = |path: &str| -> Result<Value, String> {
        let url = format!("http://{address}{path}");
        let output = Command::new(find("promtool", "prometheus").unwrap())
            .args(["query", "instant", "-o", "json", &format!("http://{address}"), path])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(&text).map_err(|_| format!("{url}: {text}"))
    };
    let has = |query: &str| match ask(query) {
        Ok(found) if found.as_array().is_some_and(|list| !list.is_empty()) => Ok(()),
        other => Err(format!("{query}: {other:?}")),
    };
    eventually(PATIENCE, "two scrapes with the class", || has("egress_audit_class offset 2s")).unwrap();
    assert!(has("ALERTS{alertname=\"EgressNameFlipped\"}").is_err(), "nothing has flipped");
    lab.flip("vip.lab.example", &[[192, 0, 2, 2]]);
    eventually(PATIENCE, "the alert", || {
        has("ALERTS{alertname=\"EgressNameFlipped\", alertstate=\"firing\", host=\"vip.lab.example\"}")
    })
    .unwrap();
    assert!(has("ALERTS{alertname=\"EgressNameFlipped\", host=\"pool.lab.example\"}").is_err());

    // Rules and dashboard ask for nothing that does not exist.
    let mut queries = Vec::new();
    let folder = workspace().join("manifests/watch");
    let rules: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(folder.join("rules.yml")).unwrap()).unwrap();
    let board: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("dashboard.json")).unwrap()).unwrap();
    strings(&rules, "expr", &mut queries);
    strings(&board, "expr", &mut queries);
    strings(&board, "query", &mut queries);
    let wanted: BTreeSet<_> = queries.iter().flat_map(|query| metrics_of(query)).collect();
    assert!(wanted.len() >= 12, "{wanted:?}");
    for metric in wanted {
        eventually(PATIENCE, &metric, || has(&metric)).unwrap();
    }
    assert!(has("egress_audit_no_such_metric").is_err());
}
