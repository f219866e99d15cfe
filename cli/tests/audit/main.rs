//! `audit` as a pipeline meets it: exit codes, words, baselines and what may not be read, by the real binary.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;
use std::path::Path;

use assert_cmd::Command;
use policies::audit::RULES;

mod forms;
mod hostile;
mod patches;

const ENTRY: &str = "# partner API, owned by team payments
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata:
  name: api
  namespace: egress
spec:
  hosts: [api.partner.example] # see wiki
  resolution: STRICT_DNS
  ports:
  - {number: 443, name: https, protocol: TCP}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: api, namespace: egress}
spec:
  host: api.partner.example
  trafficPolicy:
    outlierDetection:
      consecutiveLocalOriginFailures: 3
";
const CLEAN: &str = "apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api}
spec:
  hosts: [api.partner.example]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: tls, protocol: TLS}]
";

struct Outcome {
    code: i32,
    out: String,
    err: String,
}

/// Runs `audit` in a folder that holds the given files.
fn audit(files: &[(&str, &str)], args: &[&str]) -> (tempfile::TempDir, Outcome) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let outcome = again(dir.path(), args);
    (dir, outcome)
}

fn again(dir: &Path, args: &[&str]) -> Outcome {
    run(Command::cargo_bin("egress-audit").unwrap().current_dir(dir).arg("audit").args(args))
}

/// The first input that fires of every rule, but for those too long to read, by the name of a file.
fn every_fault() -> Vec<(String, &'static str)> {
    let named = RULES.iter().copied().flatten().filter_map(|rule| {
        let first = rule.examples().into_iter().find(|example| example.fires)?;
        Some((format!("{}.yaml", rule.code), first.yaml))
    });
    named.filter(|(_, text)| text.len() < 3000).collect()
}

fn run(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    Outcome {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn the_exit_code_follows_the_worst_finding() {
    let files = [("m/api.yaml", ENTRY)];
    for (args, code) in [
        (vec!["m", "--offline"], 1),
        (vec!["m", "--offline", "--fail-on", "never"], 0),
        (vec!["m", "--offline", "--ignore", "EA5*", "--ignore", "EA206", "--ignore", "EA10*"], 0),
        (
            vec![
                "m",
                "--offline",
                "--ignore",
                "EA5*",
                "--ignore",
                "EA206",
                "--ignore",
                "EA10*",
                "--fail-on",
                "warning",
            ],
            1,
        ),
    ] {
        for form in ["text", "json", "sarif", "markdown", "github", "junit"] {
            let args = [args.as_slice(), &["-o", form]].concat();
            assert_eq!(audit(&files, &args).1.code, code, "{args:?}");
        }
    }
    let (_dir, clean) = audit(&[("a.yaml", CLEAN)], &["a.yaml", "--offline", "--fail-on", "info"]);
    assert_eq!(clean.code, 0, "{}", clean.out);
}

#[test]
fn text_and_annotations_read_well() {
    let files = [("m/api.yaml", ENTRY), ("m/notes.md", "x"), ("m/other.yaml", "kind: Pod\napiVersion: v1\n")];
    for form in ["text", "markdown", "github", "junit"] {
        let (_dir, found) = audit(&files, &["m", "--offline", "-o", form]);
        insta::assert_snapshot!(form, found.out);
    }
}

#[test]
fn a_saved_report_reads_the_same_again_and_exits_as_the_run_did() {
    for args in [&["m", "--offline"][..], &["m", "--offline", "--fail-on", "never"]] {
        let (dir, first) = audit(&[("m/api.yaml", ENTRY)], args);
        let saved = again(dir.path(), &[args, &["-o", "json"]].concat());
        std::fs::write(dir.path().join("saved.json"), saved.out).unwrap();
        let report = |more: &[&str]| {
            let mut command = Command::cargo_bin("egress-audit").unwrap();
            run(command.current_dir(dir.path()).args(["report", "saved.json"]).args(more))
        };
        let second = report(&[]);
        assert_eq!((first.out, first.code), (second.out, second.code));
        let junit = report(&["-o", "junit"]);
        assert_eq!((junit.out.contains("<testsuite "), junit.code), (true, first.code));
        let html = report(&["-o", "html"]);
        assert_eq!((html.out.as_str(), html.code), ("", 2));
        assert!(html.err.contains("`html`: is not a format of an audit"), "{}", html.err);
        assert!(html.err.contains("text, json, sarif, markdown, github, junit"), "{}", html.err);
    }
}

#[test]
fn a_format_that_an_audit_lacks_is_refused_before_any_work() {
    let (_dir, found) = audit(&[], &["no-such-folder", "-o", "html"]);
    assert_eq!((found.out.as_str(), found.code), ("", 2));
    assert!(found.err.contains("`html`: is not a format of an audit"), "{}", found.err);
    assert!(!found.err.contains("no-such-folder"), "{}", found.err);
}

#[test]
fn broken_files_are_named_and_the_others_audited() {
    let files = [
        ("m/a.yaml", "spec: [\n"),
        ("m/b.yaml", ENTRY),
        ("m/c.yaml", "kind: ServiceEntry\nmetadata: {name: {{ .Values.name }}}\n"),
    ];
    let (_dir, found) = audit(&files, &["m", "missing", "--offline"]);
    assert_eq!(found.code, 2);
    for wanted in ["m/a.yaml:1:7: ", "helm template . | egress-audit audit -", "missing: cannot be read"] {
        assert!(found.err.contains(wanted), "{wanted}: {}", found.err);
    }
    assert!(found.out.contains("EA501"), "{}", found.out);
}

#[test]
fn a_baseline_lets_old_findings_pass_and_new_ones_not() {
    let (dir, wrote) = audit(&[("m/api.yaml", ENTRY)], &["m", "--offline", "--write-baseline", "known.json"]);
    assert_eq!(wrote.code, 0);
    let args = ["m", "--offline", "--baseline", "known.json", "--fail-on", "info"];
    let known = again(dir.path(), &args);
    assert_eq!((known.code, known.out.contains("4 known by the baseline")), (0, true), "{}", known.out);
    std::fs::write(
        dir.path().join("m/new.yaml"),
        CLEAN.replace("DNS", "dns").replace("name: api", "name: web").replace("api.", "web."),
    )
    .unwrap();
    let new = again(dir.path(), &args);
    assert_eq!((new.code, new.out.contains("EA506")), (1, true), "{}", new.out);
}

#[test]
fn rules_explain_themselves() {
    let (_dir, one) = audit(&[], &["--explain", "ea201"]);
    assert!(one.code == 0 && one.out.contains("# fires:") && one.out.contains("# silent:"), "{}", one.out);
    let (_dir, all) = audit(&[], &["--explain", "all"]);
    let listed = all.out.lines().filter(|line| line.starts_with("EA")).count();
    assert_eq!(listed, RULES.iter().copied().flatten().count());
    let (_dir, none) = audit(&[], &["--explain", "EA999"]);
    assert!(none.code == 2 && none.err.contains("EA999: is no rule"), "{}", none.err);
}

#[test]
fn saved_windows_are_the_evidence() {
    let windows = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/windows");
    let entry = |host: &str, resolution: &str| {
        CLEAN
            .replace("api.partner.example", host)
            .replace("name: api", &format!("name: {}", &host[..3]))
            .replace("resolution: DNS", &format!("resolution: {resolution}"))
    };
    let files = [
        ("m/pool.yaml", &*entry("storage.cloud.example", "DNS")),
        ("m/fixed.yaml", &entry("www.shop.example", "DNS_ROUND_ROBIN")),
        ("m/dead.yaml", &entry("old.partner.example", "DNS")),
        ("m/good.yaml", &entry("pay.partner.example", "DNS")),
    ];
    let args = ["m", "--observations", windows, "--envoy-version", "1.39.3", "--fail-on", "warning"];
    let (_dir, found) = audit(&files, &args);
    insta::assert_snapshot!("observed", found.out);
    assert_eq!(found.code, 1, "{}", found.err);
}

#[test]
fn the_rule_reference_is_current() {
    let mut page = String::from(
        "# Audit rules\n\nGenerated from the table that the audit runs. `egress-audit audit --explain CODE` shows a rule with \
         examples.\n\n| code | severity | rule |\n|---|---|---|\n",
    );
    for rule in RULES.iter().copied().flatten() {
        let (code, severity) = (rule.code, rule.severity);
        let _ = writeln!(page, "| [{code}](#{}) | {severity} | {} |", code.to_lowercase(), rule.what);
    }
    for rule in RULES.iter().copied().flatten() {
        let sources: Vec<String> = rule.source.iter().map(|source| format!("- {source}")).collect();
        let examples = rule.examples();
        let shown = |fires: bool| examples.iter().find(|example| example.fires == fires).unwrap();
        let (bad, good) = (shown(true), shown(false));
        let _ = write!(
            page,
            "\n## {}\n\n**{}** ({}): {}.\n\nWhy: {}.\n\nWhat to do: {}.\n\n{}\n\nFires on {}:\n\n```yaml\n{}\n```\n\nSilent on \
             {}.\n",
            rule.code,
            rule.name,
            rule.severity,
            rule.what,
            rule.why,
            rule.fix,
            sources.join("\n"),
            bad.title,
            if bad.yaml.len() > 2000 { "# too long to show here" } else { bad.yaml },
            good.title
        );
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/reference/audit-rules.md");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == page, "{} is not what the code says: run with UPDATE_REFERENCE=1", file.display());
}

#[test]
fn what_is_shipped_is_clean() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests");
    let (_dir, found) = audit(&[], &[shipped, "--offline", "--fail-on", "info"]);
    assert!(found.code == 0 && found.out.contains(" 0 notes "), "{}{}", found.out, found.err);
}
