//! The audit against Istio: documents of Istio's own tests and samples, of our examples and of public reports, and
//! thousands of mutations of valid ones, through Istio's validation and through the audit. What one refuses, the other has
//! to refuse. The judge runs the API server's and istiod's libraries; a sample goes to the real ones too, and they have to
//! agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use policies::audit::refused::{self, is_refusal};
use policies::audit::{Context, audit};
use policies::manifest::Loaded;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Test;
use crate::control_plane::{ControlPlane, programs};
use crate::manifests::repository;

mod corpus;
mod mutate;

pub(crate) const TESTS: &[Test] = &[
    ("the audit and Istio refuse the same documents", the_same_documents),
    ("the judge says what the API server and istiod say", the_judge_is_right),
    ("every function that a refusal names is where it says", functions_are_there),
    ("every message of istioctl analyze has an answer in the book", messages_are_answered),
];

/// Mutations, and the seed of the generator.
const MUTATIONS: usize = 6000;
const SEED: u64 = 20_261_201;
/// The release that the tier builds.
const RELEASE: &str = "1.31";

/// What the audit leaves to Istio, by the text of its refusal, with the reason; the book has the same table.
const LEFT: &[(&str, &str)] = &[(
    "Envoy filter: ",
    "the value of an EnvoyFilter's patch is one of hundreds of Envoy's messages, which are not shipped",
)];

/// What became of a document at the judge.
#[derive(Debug, Deserialize)]
struct Verdict {
    refused: bool,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    dropped: Vec<String>,
}

#[derive(Default)]
struct Tally {
    documents: usize,
    refused: usize,
    found: usize,
    /// By the rules that were there before this family.
    found_before: usize,
    wrong: usize,
}

fn the_same_documents(_: &ControlPlane) -> anyhow::Result<()> {
    let originals = corpus::documents()?;
    let verdicts = judge(&originals)?;
    let valid: Vec<&Value> = originals
        .iter()
        .zip(&verdicts)
        .filter(|(_, said)| !said.refused)
        .map(|(document, _)| document)
        .collect();
    let mutated = mutate::mutations(&valid, MUTATIONS, SEED);
    let said = judge(&mutated)?;
    let mut failures = Vec::new();
    let originals = compare("documents", &originals, &verdicts, &mut failures)?;
    let mutations = compare("mutations", &mutated, &said, &mut failures)?;
    report(&format!("{originals}{mutations}"));
    let shown: Vec<&String> = failures.iter().take(60).collect();
    ensure!(failures.is_empty(), "{} disagreements:\n{shown:#?}", failures.len());
    Ok(())
}

#[expect(clippy::print_stderr, reason = "the figures are what the test is for")]
fn report(text: &str) {
    eprintln!("{text}");
}

/// A table by kind; disagreements go to `failures`.
fn compare(
    what: &str,
    documents: &[Value],
    verdicts: &[Verdict],
    failures: &mut Vec<String>,
) -> anyhow::Result<String> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for (document, verdict) in documents.iter().zip(verdicts) {
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        let tally = tallies.entry(kind).or_default();
        tally.documents += 1;
        let (found, before) = (ours(document, &[])?, ours(document, &["EA10*"])?);
        let refuses = found.iter().any(is_refusal);
        let left = LEFT.iter().any(|(reason, _)| verdict.reason.starts_with(reason));
        if verdict.refused && !left {
            tally.refused += 1;
            tally.found += usize::from(refuses);
            tally.found_before += usize::from(
                before.iter().any(|finding| finding.severity == policies::finding::Severity::Error),
            );
        }
        tally.wrong += usize::from(!verdict.refused && refuses);
        if refuses != verdict.refused && !left {
            let ours: Vec<String> = found
                .iter()
                .filter(|one| is_refusal(one))
                .map(|one| format!("{} {}", one.code, one.message))
                .collect();
            failures.push(format!(
                "{document}\n    Istio: {}\n    audit: {}",
                verdict.reason,
                ours.join("; ")
            ));
        }
        let told: BTreeSet<&str> = found
            .iter()
            .filter(|one| matches!(&*one.code, "EA1001" | "EA516"))
            .map(|one| &*one.code)
            .collect();
        let dropped = verdict.dropped.iter().any(|path| !path.starts_with("metadata"));
        if !verdict.refused && dropped && told.is_empty() {
            failures.push(format!("{document}\n    Istio drops {:?}\n    audit: nothing", verdict.dropped));
        }
    }
    let mut table = format!("\n{what:10}| documents | refused | audit before | audit now | wrong\n");
    for (kind, tally) in &tallies {
        let Tally { documents, refused, found, found_before, wrong } = tally;
        let _ = writeln!(table, "{kind:16} | {documents} | {refused} | {found_before} | {found} | {wrong}");
    }
    Ok(table)
}

/// Findings of one document alone.
fn ours(document: &Value, ignore: &[&str]) -> anyhow::Result<Vec<policies::finding::Finding>> {
    let mut loaded = Loaded::default();
    loaded.add("document.yaml", serde_json::to_string(document)?.as_bytes());
    let mut context = Context::default();
    context.platform.istio_version = Some(RELEASE.parse()?);
    context.ignore = ignore.iter().map(|code| (*code).to_owned()).collect();
    Ok(audit(&loaded, &BTreeMap::new(), &context, None).findings)
}

/// One verdict a document.
fn judge(documents: &[Value]) -> anyhow::Result<Vec<Verdict>> {
    let programs = programs()?;
    let mut child = Command::new(programs.join("judge"))
        .arg(programs.join("istio-crds.yaml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("judge")?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let lines: Vec<u8> =
        documents.iter().flat_map(|one| [one.to_string().into_bytes(), vec![b'\n']].concat()).collect();
    let writer = std::thread::spawn(move || stdin.write_all(&lines));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer died"))??;
    let verdicts: Result<Vec<Verdict>, _> =
        serde_json::Deserializer::from_slice(&output.stdout).into_iter().collect();
    let verdicts = verdicts?;
    ensure!(verdicts.len() == documents.len(), "{} verdicts on {}", verdicts.len(), documents.len());
    Ok(verdicts)
}

/// Every seventh document and every fortieth mutation, created at the API server without being kept.
fn the_judge_is_right(plane: &ControlPlane) -> anyhow::Result<()> {
    let originals = corpus::documents()?;
    let verdicts = judge(&originals)?;
    let valid: Vec<&Value> = originals
        .iter()
        .zip(&verdicts)
        .filter(|(_, said)| !said.refused)
        .map(|(document, _)| document)
        .collect();
    let mutated = mutate::mutations(&valid, MUTATIONS, SEED);
    let sample = originals.iter().step_by(7).chain(mutated.iter().step_by(40));
    let sample: Vec<Value> = sample
        .filter(|one| one["metadata"].is_object() && one["metadata"]["namespace"].as_str() != Some(""))
        .map(|one| {
            let mut one = one.clone();
            one["metadata"]["namespace"] = json!("default");
            one
        })
        .collect();
    let verdicts = judge(&sample)?;
    let refused = verdicts.iter().filter(|said| said.refused).count();
    ensure!(refused > 20 && refused < sample.len() - 20, "{refused} of {} refused", sample.len());
    let mut differ = Vec::new();
    for (document, verdict) in sample.iter().zip(&verdicts) {
        let said = plane.objects.creates(document);
        if said.is_ok() == verdict.refused {
            differ.push(format!("{document}\n    judge: {}\n    server: {said:?}", verdict.reason));
        }
    }
    ensure!(differ.is_empty(), "{} of {} differ:\n{}", differ.len(), sample.len(), differ.join("\n"));
    Ok(())
}

fn functions_are_there(_: &ControlPlane) -> anyhow::Result<()> {
    let source = programs()?.join("istio-source");
    let mut missing = Vec::new();
    for check in refused::CHECKS {
        let text = std::fs::read_to_string(source.join(check.file)).context(check.file)?;
        let line = text.lines().nth(check.line as usize - 1).unwrap_or_default();
        if !line.contains(check.function) {
            let at = text.lines().position(|line| {
                line.starts_with(&format!("func {}(", check.function))
                    || line.starts_with(&format!("var {} ", check.function))
            });
            missing.push(format!("{} {}: {:?}", check.function, check.line, at.map(|at| at + 1)));
        }
    }
    ensure!(missing.is_empty() && refused::CHECKS.len() > 50, "{missing:#?}");
    Ok(())
}

/// The page's tables: a row for each of istioctl's messages, rules that exist, and the reasons of [`LEFT`].
fn messages_are_answered(_: &ControlPlane) -> anyhow::Result<()> {
    let page = std::fs::read_to_string(repository().join("book/src/reference/istio.md"))?;
    let source = programs()?.join("istio-source/pkg/config/analysis/msg/messages.yaml");
    let messages: Value = serde_saphyr::from_str(&std::fs::read_to_string(source)?)?;
    let codes = messages["messages"].as_array().context("no messages")?;
    let codes: Vec<&str> = codes.iter().filter_map(|message| message["code"].as_str()).collect();
    let unanswered: Vec<_> = codes.iter().filter(|code| !page.contains(&format!("| {code} | "))).collect();
    ensure!(codes.len() > 50 && unanswered.is_empty(), "{unanswered:?}");
    let named = page.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.starts_with("EA"));
    let unknown: Vec<&str> = named.filter(|code| policies::audit::rule(code).is_none()).collect();
    ensure!(unknown.is_empty(), "no such rules: {unknown:?}");
    for (starts, reason) in LEFT {
        ensure!(page.contains(&format!("| `{starts}` | {reason} |")), "the book lacks {starts:?}");
    }
    Ok(())
}
