//! `audit` that asks DNS: the lab's own, as a process. What it finds is what `--observations` finds in what it saved.

use std::path::Path;
use std::process::Command;

use harness::egress_audit;

use crate::lab_dns::Lab;
use crate::{POLICY, Run};

/// Name, resolution, what an audit has to say of it.
const ENTRIES: [(&str, &str, Option<&str>); 5] = [
    ("storage.cloud.example", "DNS", Some("EA101")),
    ("files.partner.example", "DNS_ROUND_ROBIN", Some("EA102")),
    ("old.partner.example", "DNS", Some("EA105")),
    ("api.partner.example", "DNS", None),
    ("www.shop.example", "DNS_ROUND_ROBIN", None),
];

fn manifests(dir: &Path) {
    for (host, resolution, _) in ENTRIES {
        let name = host.replace('.', "-");
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}}}\nspec:\n  hosts: \
             [{host}]\n  location: MESH_EXTERNAL\n  resolution: {resolution}\n  ports: [{{number: 443, name: tls, \
             protocol: TLS}}]\n"
        );
        std::fs::write(dir.join(format!("{name}.yaml")), text).unwrap();
    }
}

fn audit(dir: &Path, args: &[&str]) -> Run {
    let mut command: Command = egress_audit();
    command.current_dir(dir).args(["audit", "m", "-o", "json", "--fail-on", "warning"]).args(args);
    Run::of(&mut command)
}

/// File and code of every finding.
fn found(run: &Run) -> Vec<(String, String)> {
    let report = run.report();
    let findings = report["audit"]["result"]["findings"].as_array().unwrap_or_else(|| panic!("{run}"));
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    findings.iter().map(|finding| (text(&finding["at"]["file"]), text(&finding["code"]))).collect()
}

#[test]
fn what_dns_answers_decides_and_a_saved_window_says_the_same() {
    let lab = Lab::serve();
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("m")).unwrap();
    manifests(&dir.path().join("m"));
    let wanted: Vec<(String, String)> = {
        let named = ENTRIES.iter().filter_map(|(host, _, code)| Some((host, (*code)?)));
        let mut named: Vec<_> = named
            .map(|(host, code)| (format!("m/{}.yaml", host.replace('.', "-")), code.to_owned()))
            .collect();
        named.sort();
        named
    };
    let server = lab.authority.to_string();
    let asking = ["--resolver", &server, "--authority", &server, "--save", "windows"];
    let live = audit(dir.path(), &[&POLICY[..], &asking].concat());
    assert_eq!((found(&live), live.code), (wanted.clone(), Some(1)), "{live}");
    let asked = lab.steer(&["log"]).stdout.lines().count();
    assert!(asked >= ENTRIES.len(), "{asked} queries");

    let replayed = audit(dir.path(), &["--observations", "windows"]);
    assert_eq!(found(&replayed), wanted, "{replayed}");
    let offline = audit(dir.path(), &["--offline"]);
    assert_eq!((found(&offline), offline.code), (Vec::new(), Some(0)), "{offline}");
    assert_eq!(lab.steer(&["log"]).stdout.lines().count(), asked, "nothing was asked any more");
}

#[test]
fn a_resolver_that_is_not_there_leaves_the_rest_of_the_audit() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("m")).unwrap();
    let wrong = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: api}\nspec:\n  hosts: \
                 [api.partner.example]\n  resolution: DNS\n  ports: [{number: 443, name: tls, protocol: TCP}]\n";
    std::fs::write(dir.path().join("m/api.yaml"), wrong).unwrap();
    let nobody = harness::ports::free_port().unwrap().to_string();
    let asking = ["--resolver", &nobody, "--authoritative", "never", "--quick"];
    let run = audit(dir.path(), &asking);
    assert_eq!(
        (found(&run), run.code),
        (vec![("m/api.yaml".to_owned(), "EA501".to_owned())], Some(2)),
        "{run}"
    );
    assert!(run.stderr.contains(&nobody) && run.stderr.contains("hint: "), "{run}");
}
