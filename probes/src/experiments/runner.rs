//! Many cells side by side: experiments, versions and axes come in, evidence goes out as each cell ends. Called by
//! `lab run` and `lab matrix`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::experiments::bench::{Bench, Setup, inconclusive};
use crate::experiments::evidence::{EgressCell, Evidence, Topology};
use crate::experiments::{Control, Experiment};
use crate::lab::envoy::Binary;
use crate::lab::envoy::bootstrap::{HttpVersion, Layer};
use policies::Resolution;
use policies::Version;
use policies::platform::NEW_DNS_SINCE;

/// Starting is what costs CPU; a cell that runs mostly waits.
const STARTS_AT_ONCE: usize = 4;

/// Which cells to run. An empty list means: all values that the experiment has.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Resolutions.
    pub resolutions: Vec<Resolution>,
    /// Paths.
    pub paths: Vec<Layer>,
    /// HTTP versions.
    pub http: Vec<HttpVersion>,
    /// Topologies; not empty.
    pub topologies: Vec<Topology>,
    /// Whether controls run too.
    pub controls: bool,
    /// Also run with the DNS implementation of 1.38 where that can be chosen.
    pub old_dns: bool,
}

/// One cell to run.
pub struct Job {
    /// What runs.
    pub experiment: &'static Experiment,
    /// Where.
    pub cell: EgressCell,
    /// With which Envoy.
    pub binary: Binary,
}

/// How to run them.
#[derive(Debug, Clone)]
pub struct Options {
    /// The stream time that all other times are derived from. The guide's runs had 40 s.
    pub stream: Duration,
    /// Cells at once.
    pub at_once: usize,
    /// Where Envoy's configuration and logs stay, one folder a cell.
    pub save: Option<PathBuf>,
}

/// What happens during a run.
pub enum Progress<'a> {
    /// A cell began.
    Started(&'a Experiment, &'a EgressCell),
    /// A cell ended.
    Finished(&'a Evidence),
}

/// The cells of a selection. Controls run once per path where they apply: with the first resolution, HTTP version
/// and variant that they apply to.
#[must_use]
pub fn jobs(experiments: &[&'static Experiment], binaries: &[Binary], selection: &Selection) -> Vec<Job> {
    let mut jobs = Vec::new();
    for &experiment in experiments {
        for binary in binaries {
            let guards: &[bool] =
                if selection.old_dns && binary.version >= NEW_DNS_SINCE { &[false, true] } else { &[false] };
            for &old_dns in guards {
                let cells = cells(experiment, binary.version, old_dns, selection).into_iter();
                jobs.extend(cells.map(|cell| Job { experiment, cell, binary: binary.clone() }));
            }
        }
    }
    jobs
}

/// The cells of one experiment on one Envoy, its controls last.
#[must_use]
pub fn cells(
    experiment: &Experiment,
    envoy: Version,
    old_dns: bool,
    selection: &Selection,
) -> Vec<EgressCell> {
    let axes = &experiment.axes;
    let variants: Vec<Option<&str>> =
        if axes.variants.is_empty() { vec![None] } else { axes.variants.iter().copied().map(Some).collect() };
    let mut cells = Vec::new();
    for &topology in &selection.topologies {
        for &path in wanted(axes.paths, &selection.paths) {
            for &http in wanted(axes.http, &selection.http) {
                for &resolution in wanted(axes.resolutions, &selection.resolutions) {
                    for variant in &variants {
                        let variant = variant.map(str::to_owned);
                        cells.push(EgressCell {
                            envoy,
                            old_dns,
                            topology,
                            path,
                            http,
                            resolution,
                            variant,
                            control: None,
                        });
                    }
                }
            }
        }
    }
    cells.retain(axes.fits);
    if selection.controls {
        cells.extend(controls(experiment, &cells));
    }
    cells
}

/// The values of an axis that were asked for.
fn wanted<'a, T: PartialEq + 'a>(axis: &'a [T], asked: &'a [T]) -> impl Iterator<Item = &'a T> + 'a {
    axis.iter().filter(move |value| asked.is_empty() || asked.contains(value))
}

fn controls(experiment: &Experiment, cells: &[EgressCell]) -> Vec<EgressCell> {
    let mut chosen: Vec<EgressCell> = Vec::new();
    for Control { name, applies, .. } in experiment.controls {
        for cell in cells.iter().filter(|cell| applies(cell)) {
            let control = EgressCell { control: Some((*name).to_owned()), ..cell.clone() };
            let same = |other: &EgressCell| {
                (&other.control, other.path, other.topology)
                    == (&control.control, control.path, control.topology)
            };
            if !chosen.iter().any(same) {
                chosen.push(control);
            }
        }
    }
    chosen
}

/// Runs the jobs side by side and tells `progress` about each. A cell that fails is
/// inconclusive; the others go on. Dropping the future tears everything down.
pub async fn run(jobs: Vec<Job>, options: Options, mut progress: impl FnMut(Progress<'_>)) -> Vec<Evidence> {
    let (slots, starts) =
        (Arc::new(Semaphore::new(options.at_once.max(1))), Arc::new(Semaphore::new(STARTS_AT_ONCE)));
    let options = Arc::new(options);
    let (started, mut starting) = tokio::sync::mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    for (order, job) in jobs.into_iter().enumerate() {
        let (slots, starts, started) = (Arc::clone(&slots), Arc::clone(&starts), started.clone());
        let options = Arc::clone(&options);
        running.spawn(async move {
            // Neither semaphore is ever closed.
            let _slot = slots.acquire().await;
            let _ = started.send((job.experiment, job.cell.clone()));
            (order, run_one(job, &options, &starts).await)
        });
    }
    drop(started);
    let mut done: Vec<(usize, Evidence)> = Vec::new();
    loop {
        tokio::select! {
            biased;
            Some((experiment, cell)) = starting.recv() => progress(Progress::Started(experiment, &cell)),
            next = running.join_next() => match next {
                Some(Ok((order, evidence))) => {
                    progress(Progress::Finished(&evidence));
                    done.push((order, evidence));
                }
                // A panic in a cell is a fault of the lab: no evidence of it is better than a made-up one.
                Some(Err(error)) => tracing::error!(%error, "a cell ended without evidence"),
                None => break,
            },
        }
    }
    done.sort_by_key(|(order, _)| *order);
    done.into_iter().map(|(_, evidence)| evidence).collect()
}

async fn run_one(job: Job, options: &Options, starts: &Semaphore) -> Evidence {
    let Job { experiment, cell, binary } = job;
    let setup = Setup {
        experiment: experiment.id,
        question: experiment.question,
        plan: (experiment.plan)(&cell, options.stream),
        stream: options.stream,
        keep: options.save.as_ref().map(|folder| folder.join(experiment.id).join(cell.slug())),
        cell: cell.clone(),
        publish: None,
    };
    let bench = {
        let _start = starts.acquire().await;
        Bench::start(setup, &binary).await
    };
    match bench {
        Ok(bench) => (experiment.conduct)(bench).await,
        Err(error) => inconclusive(experiment, cell, &error),
    }
}
