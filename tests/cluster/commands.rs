//! The commands against the API server: audit, classify, apply with its conflicts, and what a missing right says.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use anyhow::{Context, ensure};
use harness::egress_audit;
use labdns::{LabDns, Options, Scenario};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::Test;
use crate::control_plane::ControlPlane;
use crate::manifests::{repository, windows};

pub(crate) const TESTS: &[Test] = &[
    ("audit --cluster finds what audit finds in the files", audit_as_the_files),
    ("audit --cluster reads every page", every_page),
    ("classify --cluster measures the names of the mesh", classify),
    ("generate --apply changes what it shows, and nothing on a dry run", apply),
    ("generate --apply leaves others' fields alone", conflict),
    ("a missing right is named and the rest goes on", rights),
    ("an unknown context names those that there are", unknown_context),
];

/// An entry of a namespace for a host that DNS knows, with one port.
fn entry(namespace: &str, name: &str, host: &str, resolution: &str, port: &str) -> String {
    format!(
        "---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  hosts: [{host}]
  location: MESH_EXTERNAL
  resolution: {resolution}
  exportTo: [.]
  ports: [{port}]
"
    )
}

const TLS: &str = "{number: 443, name: tls, protocol: TLS}";

/// What is wrong with it can be seen without DNS: two resolutions, a rule for nobody, TCP on 443.
fn faulty() -> String {
    entry("faulty", "one", "api.faulty.example", "DNS", TLS)
        + &entry(
            "faulty",
            "two",
            "api.faulty.example",
            "DNS_ROUND_ROBIN",
            "{number: 8443, name: tls, protocol: TLS}",
        )
        + &entry("faulty", "three", "db.faulty.example", "DNS", "{number: 443, name: tcp, protocol: TCP}")
        + "---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: four, namespace: faulty}
spec:
  host: nobody.faulty.example
  exportTo: [.]
"
}

/// What a run said, for an assertion that fails.
fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn report(command: &mut Command) -> anyhow::Result<(Value, Output)> {
    let output = command.output()?;
    let report = serde_json::from_slice(&output.stdout).with_context(|| said(&output))?;
    Ok((report, output))
}

fn namespace(plane: &ControlPlane, name: &str) -> anyhow::Result<()> {
    plane.objects.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"))
}

/// Code, kind and name of every finding.
fn findings(report: &Value) -> BTreeSet<String> {
    let all = report["audit"]["result"]["findings"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| format!("{} {} {}", one["code"], one["at"]["kind"], one["at"]["name"])).collect()
}

fn audit_as_the_files(plane: &ControlPlane) -> anyhow::Result<()> {
    namespace(plane, "faulty")?;
    plane.objects.apply(&faulty())?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("faulty.yaml");
    std::fs::write(&file, faulty())?;
    let audit = ["audit", "--offline", "-o", "json"];
    let (of_files, _) = report(egress_audit().args(audit).args(["--istio-version", "1.31"]).arg(&file))?;
    let (of_cluster, output) = report(plane.egress_audit().args(audit).args(["--cluster", "-n", "faulty"]))?;
    ensure!(findings(&of_files).len() >= 3, "{of_files:#}");
    ensure!(findings(&of_cluster) == findings(&of_files), "{of_cluster:#}\n{of_files:#}");
    ensure!(output.status.code() == Some(1), "{}", said(&output));
    let place = &of_cluster["audit"]["result"]["findings"][0]["at"];
    ensure!(place["file"].as_str().is_some_and(|file| file.starts_with("faulty/")), "{place}");
    ensure!(place["line"].as_u64() > Some(0), "{place}");
    // The version is the cluster's own, and decides the advice.
    ensure!(of_cluster["inputs"]["platform"] == "Envoy 1.39", "{}", of_cluster["inputs"]);
    // Another namespace shows none of it.
    let (elsewhere, _) = report(plane.egress_audit().args(audit).args(["--cluster", "-n", "istio-system"]))?;
    ensure!(findings(&elsewhere).is_empty(), "{elsewhere:#}");
    Ok(())
}

fn every_page(plane: &ControlPlane) -> anyhow::Result<()> {
    const MANY: usize = 603;
    namespace(plane, "many")?;
    // Where there is no entry at all, nothing is said of rules without one.
    plane.objects.apply(&entry("many", "other", "other.example", "DNS", TLS))?;
    let each = |n| {
        format!(
            "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: rule-{n}, namespace: many}}\n\
             spec: {{host: host-{n}.many.example, exportTo: [.]}}\n"
        )
    };
    for n in 0..MANY {
        plane.objects.apply(&each(n))?;
    }
    let args = ["audit", "--cluster", "-n", "many", "--offline", "-o", "json", "--fail-on", "never"];
    let (report, output) = report(plane.egress_audit().args(args))?;
    ensure!(report["audit"]["result"]["resources"] == MANY + 1, "{}", said(&output));
    let orphans = findings(&report).iter().filter(|finding| finding.contains("EA701")).count();
    ensure!(orphans == MANY, "{orphans} rules without a host");
    Ok(())
}

fn classify(plane: &ControlPlane) -> anyhow::Result<()> {
    namespace(plane, "measured")?;
    plane.objects.apply(&entry("measured", "two", "two.measured.example", "DNS", TLS))?;
    let runtime = Runtime::new()?;
    let zone = "zone: measured.example\nnames:\n  two.measured.example: {a: {pool: [192.0.2.1, 192.0.2.2], ttl: 1}}\n";
    let dns = runtime.block_on(LabDns::start(&Scenario::from_yaml(zone)?, &Options::default()))?;
    let server = dns.authority_addr().to_string();
    let args =
        ["classify", "--cluster", "--quick", "-o", "json", "--authoritative", "never", "--resolver", &server];
    let (report, output) = report(plane.egress_audit().args(args))?;
    let hosts = report["hosts"].as_array().cloned().unwrap_or_default();
    let host =
        hosts.iter().find(|host| host["host"] == "two.measured.example").with_context(|| said(&output))?;
    let addresses = host["families"][0]["observation"]["addresses"].as_array().map(Vec::len);
    ensure!(addresses == Some(2), "{host:#}");
    ensure!(host["notes"].to_string().contains("declared by measured/two"), "{host:#}");
    Ok(())
}

/// `generate --apply` of one saved name into a namespace.
fn generate(plane: &ControlPlane, namespace: &str, more: &[&str]) -> anyhow::Result<Output> {
    let mut command = plane.egress_audit();
    command.args(["generate", "--from"]).arg(windows().join("pay.partner.example.A.json"));
    Ok(command.args(["--namespace", namespace, "--export-to", ".", "--apply"]).args(more).output()?)
}

fn apply(plane: &ControlPlane) -> anyhow::Result<()> {
    const API: (&str, &str) = ("networking.istio.io/v1", "ServiceEntry");
    namespace(plane, "applied")?;
    let found = || plane.objects.get(API.0, API.1, "applied", "pay-partner-example");

    let dry = generate(plane, "applied", &["--dry-run"])?;
    let shown = String::from_utf8_lossy(&dry.stdout).into_owned();
    ensure!(shown.contains("+kind: ServiceEntry") && shown.contains("--- /dev/null"), "{}", said(&dry));
    ensure!(found().is_err(), "a dry run made an object");

    let done = generate(plane, "applied", &[])?;
    ensure!(done.status.success() && String::from_utf8_lossy(&done.stdout) == shown, "{}", said(&done));
    let managers: Vec<_> =
        found()?.metadata.managed_fields.into_iter().flatten().filter_map(|each| each.manager).collect();
    // istiod writes the status.
    ensure!(managers.iter().any(|manager| manager == "egress-audit"), "{managers:?}");

    let again = generate(plane, "applied", &[])?;
    ensure!(again.status.success() && again.stdout.is_empty(), "{}", said(&again));

    let missing = generate(plane, "nowhere", &[])?;
    ensure!(missing.status.code() == Some(2), "{}", said(&missing));
    ensure!(said(&missing).contains("there is no such namespace"), "{}", said(&missing));
    Ok(())
}

fn conflict(plane: &ControlPlane) -> anyhow::Result<()> {
    namespace(plane, "contested")?;
    let first = generate(plane, "contested", &[])?;
    ensure!(first.status.success(), "{}", said(&first));
    let found =
        || plane.objects.get("networking.istio.io/v1", "ServiceEntry", "contested", "pay-partner-example");
    let resolution = || found().map(|found| found.data["spec"]["resolution"].clone());
    let ours = resolution()?;
    // Somebody else takes the resolution over.
    let theirs = if ours == "DNS" { "DNS_ROUND_ROBIN" } else { "DNS" };
    plane.objects.apply(&entry("contested", "pay-partner-example", "pay.partner.example", theirs, TLS))?;
    let refused = generate(plane, "contested", &[])?;
    let words = said(&refused);
    ensure!(refused.status.code() == Some(2), "{words}");
    for word in [".spec.resolution", "test", "--force-conflicts"] {
        ensure!(words.contains(word), "{word} is not named:\n{words}");
    }
    ensure!(resolution()? == theirs, "a field of another manager was taken");
    let forced = generate(plane, "contested", &["--force-conflicts"])?;
    ensure!(forced.status.success() && resolution()? == ours, "{}", said(&forced));
    Ok(())
}

/// Roles are bound to a user name one by one; each time the run does one thing more.
fn rights(plane: &ControlPlane) -> anyhow::Result<()> {
    const USER: &str = "newcomer";
    let bind = |role: &str| {
        let rbac = std::fs::read_to_string(repository().join(format!("manifests/rbac/{role}.yaml")))?;
        plane.objects.apply(&rbac)?;
        plane.objects.apply(&format!(
            "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: newcomer-{role}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: egress-audit-{role}}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {USER}}}]
"
        ))
    };
    // Findings go to stdout; what could not be done, to stderr.
    let run = |args: &[&str]| -> anyhow::Result<String> {
        Ok(String::from_utf8(plane.egress_audit_as(USER)?.args(args).output()?.stderr)?)
    };
    let audit = ["audit", "--cluster", "-A", "--offline", "--fail-on", "never"];
    let window = windows().join("pay.partner.example.A.json").display().to_string();
    namespace(plane, "rights")?;
    let generate = ["generate", "--from", &window, "-n", "rights", "--export-to", ".", "--apply"];
    let proxies = ["proxy", "status", "-A"];

    let nothing = run(&audit)?;
    for words in [
        "may not list serviceentries.networking.istio.io in all namespaces",
        "may not list services in all namespaces",
        "may not list deployments.apps in namespace istio-system",
        "may not get configmaps in namespace istio-system",
        "manifests/rbac/read.yaml",
    ] {
        ensure!(nothing.contains(words), "{words}:\n{nothing}");
    }
    bind("read")?;
    harness::eventually(std::time::Duration::from_secs(20), "the role to take effect", || {
        let all = run(&audit)?;
        ensure!(!all.contains("may not") && !all.contains("error:"), "{all}");
        Ok::<_, anyhow::Error>(())
    })?;

    let refused = run(&generate)?;
    ensure!(
        refused.contains("may not get serviceentries.networking.istio.io in namespace rights"),
        "{refused}"
    );
    ensure!(refused.contains("manifests/rbac/apply.yaml"), "{refused}");
    bind("apply")?;
    harness::eventually(std::time::Duration::from_secs(20), "the role to take effect", || {
        let applied = run(&generate)?;
        ensure!(!applied.contains("may not"), "{applied}");
        Ok::<_, anyhow::Error>(())
    })?;

    let refused = run(&proxies)?;
    ensure!(refused.contains("may not list pods in all namespaces"), "{refused}");
    ensure!(refused.contains("manifests/rbac/proxies.yaml"), "{refused}");
    Ok(())
}

fn unknown_context(plane: &ControlPlane) -> anyhow::Result<()> {
    let output = plane.egress_audit().args(["audit", "--cluster", "--context", "no-such"]).output()?;
    let words = said(&output);
    ensure!(output.status.code() == Some(2) && words.contains("the kubeconfig knows test"), "{words}");
    Ok(())
}
