//! Manifests at the API server with Istio's validation: what the tool writes and ships is accepted, and the audit's own
//! examples are refused where the audit says that Istio refuses them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use harness::egress_audit;
use policies::audit::{Context, RULES, audit};
use policies::manifest::Loaded;
use serde_json::{Value, json};

use crate::Test;
use crate::control_plane::ControlPlane;

pub(crate) const TESTS: &[Test] = &[
    ("what generate writes is accepted", generated_is_accepted),
    ("what the repository ships is accepted", shipped_is_accepted),
    ("what Istio refuses the audit names", the_audit_and_istio_agree),
];

/// Rules of which Istio's validation, or the schema of its CRDs, refuses examples too.
const REFUSED_TOO: &[&str] = &[
    "EA504", "EA505", "EA506", "EA510", "EA511", "EA512", "EA513", "EA516", "EA517", "EA518", "EA601",
    "EA602",
];

/// Examples that Istio refuses and the audit leaves to it.
const LEFT_TO_ISTIO: &[(&str, &str)] = &[
    ("EA504", "a newer field"),
    ("EA510", "an underscore, which Istio is to judge"),
    ("EA516", "a field that is newer than the table"),
    ("EA516", "fields of an extension"),
];

/// Groups of installers' and other projects' objects, which this API server does not serve.
const UNSERVED: &[&str] =
    &["install.istio.io", "sailoperator.io", "gateway.networking.k8s.io", "monitoring.coreos.com"];

/// Saved windows with one name of each class.
pub(crate) fn windows() -> PathBuf {
    repository().join("cli/tests/fixtures/windows")
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."))
}

/// What `generate` prints for the saved windows.
pub(crate) fn generate(args: &[&str]) -> anyhow::Result<String> {
    let output = egress_audit().args(["generate", "--from"]).arg(windows()).args(args).output()?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.contains("kind: ServiceEntry"), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

fn generated_is_accepted(plane: &ControlPlane) -> anyhow::Result<()> {
    let protocols: [&[&str]; 5] = [
        &["--protocol", "tls"],
        &["--protocol", "https"],
        &["--protocol", "http"],
        &["--protocol", "tls-origination"],
        &["--protocol", "tcp", "--port", "5432"],
    ];
    let wishes: [&[&str]; 5] = [
        &[],
        &["--proxy", "gateway"],
        &["--group", "--export-to", "."],
        &["--failover-target", "2m", "--longest-stream", "1m"],
        &["--proxy", "ambient"],
    ];
    for protocol in protocols {
        for wish in wishes {
            let args = [protocol, wish, &["--namespace", "default"]].concat();
            let yaml = generate(&args)?;
            plane.objects.accepts(&yaml).with_context(|| format!("generate {}:\n{yaml}", args.join(" ")))?;
        }
    }
    Ok(())
}

/// Every manifest of `manifests/`, but for kustomizations and examples that need a namespace of their own: those are
/// made first.
fn shipped_is_accepted(plane: &ControlPlane) -> anyhow::Result<()> {
    let mut files = Vec::new();
    collect(&repository().join("manifests"), &mut files)?;
    ensure!(!files.is_empty(), "manifests/ has no manifest");
    let mut documents = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file)?;
        let all: Vec<Value> =
            serde_saphyr::from_str_multiple(&text).with_context(|| file.display().to_string())?;
        let served = |one: &Value| {
            let version = one["apiVersion"].as_str().unwrap_or_default();
            !UNSERVED.iter().any(|group| version.starts_with(group))
        };
        let all = all.into_iter().filter(|one| !one.is_null() && served(one));
        documents.extend(all.map(|one| (file, one)));
    }
    let namespaces = documents.iter().filter(|(_, document)| document["kind"] == "Namespace");
    for (_, namespace) in namespaces {
        plane.objects.apply(&serde_saphyr::to_string(namespace)?)?;
    }
    for (file, document) in &documents {
        let yaml = serde_saphyr::to_string(document)?;
        plane.objects.accepts(&yaml).with_context(|| file.display().to_string())?;
    }
    // Pod security is checked on pods, not on what makes them.
    let mut restricted = 0;
    for (file, document) in &documents {
        let template = match document["kind"].as_str() {
            Some("Deployment") => &document["spec"]["template"],
            Some("CronJob") => &document["spec"]["jobTemplate"]["spec"]["template"],
            _ => continue,
        };
        let namespace = document["metadata"]["namespace"].as_str();
        // The ingress gateway's namespace is the user's own.
        let Some(namespace) = namespace else { continue };
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "pod", "namespace": namespace }, "spec": template["spec"],
        });
        plane.objects.accepts(&pod.to_string()).with_context(|| file.display().to_string())?;
        let mut loose = pod.clone();
        loose["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
        let refusal = plane.objects.accepts(&loose.to_string()).err().map(|error| format!("{error:#}"));
        ensure!(refusal.is_some_and(|words| words.contains("restricted")), "{namespace} takes any pod");
        restricted += 1;
    }
    ensure!(restricted >= 5, "{restricted} pods");
    Ok(())
}

/// YAML files that are no kustomization and no patch of one.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml")
            && !path.ends_with("kustomization.yaml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// What Istio refuses the audit names as well, and it does refuse examples of the rules that say so.
fn the_audit_and_istio_agree(plane: &ControlPlane) -> anyhow::Result<()> {
    let examples = || RULES.iter().copied().flatten().flat_map(|rule| rule.examples());
    let mut namespaces = BTreeSet::new();
    for example in examples() {
        let documents: Vec<Value> = serde_saphyr::from_str_multiple(example.yaml)?;
        let named = documents.iter().filter_map(|one| one["metadata"]["namespace"].as_str());
        namespaces.extend(named.map(ToOwned::to_owned));
    }
    for name in namespaces {
        plane.objects.apply(
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }).to_string(),
        )?;
    }
    let (mut unnamed, mut refusing) = (Vec::new(), BTreeSet::new());
    for rule in RULES.iter().copied().flatten() {
        for example in rule.examples() {
            if UNSERVED.iter().any(|group| example.yaml.contains(group)) {
                continue;
            }
            let Err(refusal) = plane.objects.accepts(example.yaml) else { continue };
            if example.fires {
                refusing.insert(rule.code);
            }
            let mut loaded = Loaded::default();
            loaded.add("example.yaml", example.yaml.as_bytes());
            let found = audit(&loaded, &BTreeMap::new(), &Context::default(), None).findings;
            if found.is_empty() && !LEFT_TO_ISTIO.contains(&(rule.code, example.title)) {
                unnamed.push(format!("{} {}: {refusal:#}", rule.code, example.title));
            }
        }
    }
    ensure!(unnamed.is_empty(), "refused and not named:\n{}", unnamed.join("\n"));
    let accepted: Vec<_> = REFUSED_TOO.iter().filter(|code| !refusing.contains(*code)).collect();
    ensure!(accepted.is_empty(), "no example of {accepted:?} is refused; refused are {refusing:?}");
    Ok(())
}
