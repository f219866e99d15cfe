//! `audit`: manifests in, findings out, with DNS evidence where it may be asked for. `--fix` mends what a machine can,
//! `--explain` tells of a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use policies::audit::{Baseline, Context, Known, asked_hosts, audit, mend};
use policies::finding::Finding;
use policies::manifest::{Kind, LoadProblem, Loadable, Loaded};
use policies::{Host, Platform, Resolution};

use crate::args::AuditArgs;
use crate::cluster::{Cluster, Scope};
use crate::commands::{advise, measure};
use crate::console::Console;
use crate::exit::Exit;
use crate::format::Format;
use crate::input;
use crate::render;
use crate::report::{AuditReport, Body, Counts, FailOn, Inputs, Problem, Report};
use crate::write;

mod explain;
mod files;
mod fix;

use files::Files;

/// Findings of a baseline that are named when they are gone.
const STALE_NAMED: usize = 10;
/// Characters of a file that an error shows.
const LONGEST_QUOTE: usize = 60;
/// Largest baseline, bytes.
const LARGEST_BASELINE: u64 = 64 << 20;

/// Reads, asks, audits and prints.
///
/// # Errors
/// When nothing can be audited at all, a rule to explain does not exist, or a file cannot be written.
pub async fn run(args: &AuditArgs, console: &mut Console) -> anyhow::Result<Exit> {
    if let Some(code) = &args.explain {
        return explain::run(code, console);
    }
    let mut platform = advise::platform(&args.platform);
    let (files, mut problems) = if args.cluster.cluster {
        deployed(args, &mut platform, console).await?
    } else {
        let (mut files, problems) = Files::read(&args.paths);
        if let Some(namespace) = &args.cluster.namespace {
            files.loaded.place_in(namespace);
        }
        (files, problems)
    };
    let (known, evidence) = known(args, &files.loaded, &platform, console).await?;
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    let context = context(args, platform);
    let mut found = audit(&files.loaded, &known, &context, baseline.as_ref());
    if let Some(path) = &args.write_baseline {
        write_baseline(path, &found.findings, console)?;
    }
    tell_stale(&found.stale_baseline, console);
    if args.fix {
        let texts =
            files.texts.iter().filter_map(|(name, text)| Some((name.clone(), text.clone()?))).collect();
        let mended = mend(&texts, &files.loaded, &known, &context, baseline.as_ref());
        let write = args.write.then_some(fix::Write { follow_links: args.follow_links });
        let fixed = fix::run(&files, &found.findings, &mended, write, console)?;
        problems.extend(fixed.problems);
        // What a fix has mended does not fail the run any more.
        found.findings = fixed.left;
    }
    let mut problems = [problems, evidence.problems].concat();
    problems.extend(
        files.loaded.problems.iter().map(|found| problem(found, files.outside.contains(&found.file))),
    );
    let body = Body::Audit(AuditReport {
        files: files.texts.len(),
        file_names: files.texts.keys().cloned().collect(),
        documents: files.loaded.documents,
        passed_over: files.loaded.passed_over,
        // Who writes a baseline has seen the findings.
        fail_on: if args.write_baseline.is_some() { FailOn::Never } else { args.fail_on },
        counts: Counts::of(&found.findings),
        result: found,
    });
    let report = Report { problems, ..Report::new(evidence.inputs, body, Timestamp::now()) };
    if args.fix || (args.write_baseline.is_some() && args.output == Format::Text) {
        render::problems(&report, console);
    } else {
        render::report(&report, args.output, console)?;
    }
    Ok(report.exit())
}

/// A file that a link reaches outside of the folder may be anybody's: nothing of its text is shown.
fn problem(found: &LoadProblem, outside: bool) -> Problem {
    let subject = match found.line {
        0 => found.file.clone(),
        line => format!("{}:{line}:{}", found.file, found.column),
    };
    if outside {
        let hint = "name the file itself if it is meant to be audited";
        return Problem::new(subject, "is no manifest, and a link out of its folder leads to it", hint);
    }
    let near = match found.snippet.trim() {
        "" => String::new(),
        snippet if snippet.chars().count() > LONGEST_QUOTE => {
            format!(" in `{}…`", snippet.chars().take(LONGEST_QUOTE).collect::<String>())
        }
        snippet => format!(" in `{snippet}`"),
    };
    Problem::new(subject, format!("{}{near}", found.message), found.hint.clone())
}

/// What the cluster has, with its own versions where the flags name none.
async fn deployed(
    args: &AuditArgs,
    platform: &mut Platform,
    console: &mut Console,
) -> Result<(Files, Vec<Problem>), Problem> {
    let cluster = Cluster::connect(args.cluster.context.as_deref()).await?;
    let scope = match &args.cluster.namespace {
        Some(namespace) => Scope::Namespace(namespace.clone()),
        None if args.cluster.all_namespaces => Scope::All,
        None => {
            console.note(&format!("namespace {}; `-A` audits all of them", cluster.namespace()));
            Scope::Default
        }
    };
    let (mesh, mut problems) = cluster.mesh(&args.root_namespace).await;
    mesh.tell(&args.platform, platform, console);
    let kinds: Vec<Kind> = Kind::resources().collect();
    let mut deployed = cluster.deployed(&kinds, &scope, console).await;
    deployed.add_config(mesh.config);
    problems.extend(deployed.problems);
    let texts = deployed.texts.into_iter().map(|(name, text)| (name, Some(text)));
    Ok((Files { loaded: deployed.loaded, texts: texts.collect(), ..Files::default() }, problems))
}

fn context(args: &AuditArgs, platform: Platform) -> Context {
    Context {
        platform,
        failover_target: args.platform.failover_target.map(advise::whole_seconds),
        longest_stream: args.platform.longest_stream.map(advise::whole_seconds),
        proxies: args.proxies,
        root_namespace: args.root_namespace.clone(),
        ignore: args.ignore.clone(),
    }
}

fn write_baseline(path: &Path, findings: &[Finding], console: &Console) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&Baseline::of(findings))?;
    write::write(path, (text + "\n").as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    console.note(&format!("{} holds {} findings", path.display(), findings.len()));
    Ok(())
}

fn tell_stale(stale: &[String], console: &Console) {
    for known in stale.iter().take(STALE_NAMED) {
        console.note(&format!("not found any more: {}", known.trim_end()));
    }
    if !stale.is_empty() {
        console
            .note("write the baseline anew with `--write-baseline`, where all of the manifests were audited");
    }
}

fn read_baseline(path: &Path) -> anyhow::Result<Baseline> {
    let text = input::text(path, LARGEST_BASELINE)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is no baseline; write one with `--write-baseline`", path.display()))
}

/// How the evidence came about.
struct Evidence {
    inputs: Inputs,
    problems: Vec<Problem>,
}

/// What DNS is known to answer for the hosts of the entries; hosts that nothing was observed of are left out.
async fn known(
    args: &AuditArgs,
    loaded: &Loaded,
    platform: &Platform,
    console: &mut Console,
) -> anyhow::Result<(BTreeMap<Host, Known>, Evidence)> {
    let hosts = hosts(loaded);
    let mut inputs = Inputs {
        command: "audit".to_owned(),
        names: hosts.len(),
        resolvers: Vec::new(),
        window: "offline".to_owned(),
        platform: format!("Envoy {}", platform.envoy().version),
    };
    if args.offline || hosts.is_empty() {
        return Ok((BTreeMap::new(), Evidence { inputs, problems: Vec::new() }));
    }
    let policy = advise::policy(args.ask.policy.as_deref())?;
    let measured = match (&args.observations, &args.from_store) {
        (Some(from), _) => measure::replay(from),
        (None, Some(store)) => measure::stored(store).await?,
        (None, None) => measure::ask(hosts.iter().cloned().collect(), &args.ask, &policy, console).await?,
    };
    inputs.resolvers = measured.resolvers;
    inputs.window = measured.window;
    let heard: BTreeSet<&Host> =
        measured.hosts.iter().filter(|host| host.is_heard()).map(|host| &host.host).collect();
    let mut problems = measured.problems;
    problems.extend(unheard(hosts.iter().filter(|host| !heard.contains(host)), args.observations.is_some()));
    let known = measured.hosts.into_iter().filter(|host| hosts.contains(&host.host)).map(|host| {
        let families = advise::families(host.families, &policy);
        let [a, aaaa] = families.map(|family| (family.observation, family.classification));
        (host.host, Known { a, aaaa: Some(aaaa) })
    });
    Ok((known.collect(), Evidence { inputs, problems }))
}

/// Hosts that were to be asked for and of which nothing is known: one problem, however many they are.
fn unheard<'h>(mut hosts: impl Iterator<Item = &'h Host>, saved: bool) -> Option<Problem> {
    let first = hosts.next()?;
    let others = match hosts.count() {
        0 => String::new(),
        1 => ", nor of one other host".to_owned(),
        others => format!(", nor of {others} other hosts"),
    };
    let hint = if saved {
        "save their windows with `classify --save`, or audit without `--observations`"
    } else {
        "see why no server answers, name another with `--resolver`, or ask for no evidence with `--offline`"
    };
    Some(Problem::new(first, format!("nothing is known of its DNS answers{others}"), hint))
}

/// Hosts of the entries that ask DNS for them.
fn hosts(loaded: &Loaded) -> BTreeSet<Host> {
    asked_hosts(loaded).map(|(_, host)| host).collect()
}

/// The hosts of the entries in files and folders that ask DNS for them, each with its `resolution`, in the order read.
pub(super) fn declared(paths: &[PathBuf]) -> (Vec<(Host, Resolution)>, Vec<Problem>) {
    let (files, mut problems) = Files::read(paths);
    problems.extend(
        files.loaded.problems.iter().map(|found| problem(found, files.outside.contains(&found.file))),
    );
    let resolution = |entry: &Loadable| {
        entry.root.text_at("spec.resolution").and_then(Resolution::parse).unwrap_or_default()
    };
    let hosts = asked_hosts(&files.loaded).map(|(entry, host)| (host, resolution(entry))).collect();
    (hosts, problems)
}
