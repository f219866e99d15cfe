//! `lab list`, `lab run` and `lab matrix`: experiments on real Envoys. Cells run side by side; what has ended is kept
//! when the run is cut short.

use probes::experiments::evidence::{Evidence, Topology};
use probes::experiments::matrix::{self, Matrix};
use probes::experiments::runner::{self, Job, Options, Progress, Selection};
use probes::experiments::{CATALOG, Experiment, drain, find};

use super::in_cluster;
use super::outcome::{finish, keep, no_cell, report, stream, versions};
use crate::args::{EnvoyArgs, RunArgs};
use crate::commands::envoy::chosen;
use crate::console::{Console, Tone};
use crate::exit::Exit;
use crate::report::{LabReport, Problem};

/// Prints the catalogue.
///
/// # Errors
/// When stdout cannot be written.
pub(super) fn list(console: &Console) -> anyhow::Result<Exit> {
    let mut text = console.text();
    for experiment in CATALOG {
        let letter = experiment.appendix.map_or_else(|| " ".to_owned(), |letter| letter.to_string());
        text.plain(letter).plain("  ").add(Tone::Strong, format!("{:18}", experiment.id)).wrapped(
            experiment.question,
            21,
            100,
        );
        if !experiment.axes.variants.is_empty() {
            text.plain(format!("{:21}variants: ", "")).wrapped(experiment.axes.variants.join(", "), 31, 100);
        }
        for control in experiment.controls {
            text.plain(format!("{:21}", "")).add(Tone::Dim, "control ").wrapped(
                format!("{}: {}", control.name, control.what),
                29,
                100,
            );
        }
    }
    text.plain("   ").add(Tone::Strong, format!("{:18}", drain::ID)).wrapped(drain::QUESTION, 21, 100);
    let scenarios = drain::Scenario::ALL.map(drain::Scenario::name).join(", ");
    text.plain(format!("{:21}scenarios: ", "")).wrapped(scenarios, 32, 100);
    for (control, what) in drain::CONTROLS {
        text.plain(format!("{:21}", "")).add(Tone::Dim, "control ").wrapped(
            format!("{}: {what}", control.name()),
            29,
            100,
        );
    }
    console.data(&text.finish())?;
    Ok(Exit::Clean)
}

/// Runs experiments and prints their evidence.
///
/// # Errors
/// An unknown experiment, no Envoy, or stdout that cannot be written. A cell that fails is inconclusive instead.
pub(super) async fn run(args: &RunArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let experiments = named(&args.experiments)?;
    let selection = Selection {
        resolutions: args.resolution.clone(),
        paths: args.path.iter().map(|&word| word.into()).collect(),
        http: args.http.iter().map(|&word| word.into()).collect(),
        topologies: topologies(args),
        controls: !args.no_controls,
        old_dns: args.old_dns,
    };
    if args.in_cluster {
        return in_cluster::run(args, &experiments, &selection, console).await;
    }
    let binaries = chosen(&args.envoy.envoy, console).await?;
    let jobs = runner::jobs(&experiments, &binaries, &selection);
    if jobs.is_empty() {
        return Err(no_cell().into());
    }
    let (evidence, whole) = side_by_side(jobs, &args.envoy, console).await;
    let lab = LabReport { evidence, matrix: None };
    let report = report("lab run", stream(&args.envoy), &versions(&binaries), lab);
    finish(report, whole, &args.envoy, console)
}

/// Measures the platform's table by version and prints it.
///
/// # Errors
/// As [`run`].
pub(super) async fn matrix(args: &EnvoyArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let binaries = chosen(&args.envoy, console).await?;
    let (evidence, whole) = side_by_side(matrix::jobs(&binaries), args, console).await;
    let matrix = Some(Matrix::of(&binaries, &evidence, &matrix::ask(&binaries).await));
    let report = report("lab matrix", stream(args), &versions(&binaries), LabReport { evidence, matrix });
    finish(report, whole, args, console)
}

/// Those that were asked for; the sidecar without a word.
fn topologies(args: &RunArgs) -> Vec<Topology> {
    let asked: Vec<Topology> = args.topology.iter().map(|&word| word.into()).collect();
    if asked.is_empty() { vec![Topology::Sidecar] } else { asked }
}

/// `appendix` and `all` stand for several; each experiment runs once.
fn named(words: &[String]) -> anyhow::Result<Vec<&'static Experiment>> {
    let mut chosen: Vec<&'static Experiment> = Vec::new();
    for word in words {
        let meant: Vec<&Experiment> = match word.as_str() {
            "all" => CATALOG.iter().collect(),
            drain::ID => {
                let hint = "`egress-audit lab run drain`, without others beside it";
                return Err(Problem::new("`drain`", "runs alone: it has a stage of its own", hint).into());
            }
            "appendix" => CATALOG.iter().filter(|experiment| experiment.appendix.is_some()).collect(),
            id => vec![find(id).ok_or_else(|| {
                let known: Vec<&str> = CATALOG.iter().map(|experiment| experiment.id).collect();
                let hint = format!("write all, appendix, or one of {}", known.join(", "));
                Problem::new(format!("`{}`", id.escape_default()), "no such experiment", hint)
            })?],
        };
        for experiment in meant {
            if !chosen.iter().any(|other| other.id == experiment.id) {
                chosen.push(experiment);
            }
        }
    }
    Ok(chosen)
}

/// Runs the jobs until all have ended or the user has had enough; tells which.
async fn side_by_side(jobs: Vec<Job>, args: &EnvoyArgs, console: &mut Console) -> (Vec<Evidence>, bool) {
    let options = Options { stream: args.stream(), at_once: usize::from(args.jobs), save: args.save.clone() };
    console.start_progress(jobs.len() as u64);
    let mut finished: Vec<Evidence> = Vec::new();
    let mut running: Vec<String> = Vec::new();
    let shown = &*console;
    let all = runner::run(jobs, options, |progress| {
        match progress {
            Progress::Started(experiment, cell) => running.push(format!("{} {cell}", experiment.id)),
            Progress::Finished(evidence) => {
                let name = format!("{} {}", evidence.experiment, evidence.cell);
                running.retain(|other| *other != name);
                if let Some(folder) = &args.save
                    && let Err(error) = keep(folder, evidence)
                {
                    shown.warn(&format!("{name} is not saved: {error:#}"));
                }
                finished.push(evidence.clone());
            }
        }
        shown.progress(finished.len() as u64, &running.join(" · "));
    });
    let outcome = tokio::select! {
        all = all => Some(all),
        () = crate::commands::interrupted() => None,
    };
    console.end_progress();
    match outcome {
        Some(all) => (all, true),
        None => (finished, false),
    }
}
