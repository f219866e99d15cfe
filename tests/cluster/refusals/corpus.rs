//! Where the documents come from: the source of Istio (test data of its analyzers and its validation, samples), the
//! examples of our rules, and reduced public reports. Each is a JSON object of one of the kinds that the audit knows.

use std::path::Path;

use anyhow::{Context as _, ensure};
use policies::audit::RULES;
use serde_json::Value;

use crate::control_plane::programs;
use crate::manifests::repository;

const KINDS: [&str; 7] = [
    "ServiceEntry",
    "DestinationRule",
    "VirtualService",
    "Gateway",
    "Sidecar",
    "WorkloadEntry",
    "EnvoyFilter",
];

/// Folders of Istio's source that hold manifests.
const FOLDERS: [&str; 4] = [
    "pkg/config/analysis/analyzers/testdata",
    "pkg/config/validation/testdata",
    "samples",
    "tests/integration",
];

/// All documents, in a stable order.
pub(super) fn documents() -> anyhow::Result<Vec<Value>> {
    let source = programs()?.join("istio-source");
    let mut documents = Vec::new();
    for folder in FOLDERS {
        let before = documents.len();
        folder_of(&source.join(folder), &mut documents)?;
        ensure!(documents.len() > before, "{folder} has no document");
    }
    folder_of(&repository().join("tests/fixtures/reports"), &mut documents)?;
    for example in RULES.iter().copied().flatten().flat_map(|rule| rule.examples()) {
        add(example.yaml, &mut documents);
    }
    ensure!(documents.len() > 500, "{} documents", documents.len());
    Ok(documents)
}

fn folder_of(folder: &Path, documents: &mut Vec<Value>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            folder_of(&path, documents)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            add(&std::fs::read_to_string(&path)?, documents);
        }
    }
    Ok(())
}

/// Documents of our kinds; what is a template (of Helm or of envsubst) or not YAML is left out.
fn add(text: &str, documents: &mut Vec<Value>) {
    for part in format!("\n{text}")
        .split("\n---")
        .filter(|part| !part.contains("{{") && !part.contains("$CREDENTIAL_NAME"))
    {
        let Ok(mut document) = serde_saphyr::from_str::<Value>(part) else { continue };
        let ours = document["kind"].as_str().is_some_and(|kind| KINDS.contains(&kind))
            && document["apiVersion"]
                .as_str()
                .is_some_and(|version| version.starts_with("networking.istio.io/"));
        if let Some(fields) = document.as_object_mut().filter(|_| ours) {
            // What Istio's tests expect of the document.
            fields.remove("_err");
            if let Some(annotations) =
                fields.get_mut("metadata").and_then(|one| one.get_mut("annotations")?.as_object_mut())
            {
                annotations.remove("egress-audit/ignore");
            }
            documents.push(document);
        }
    }
}
