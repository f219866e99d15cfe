//! `lab run --in-cluster`: the same experiments and the same report, on a lab whose parts are pods. A cell is published
//! in the mesh, run in the client's pod, and taken away again; one after the other, since they share the pods.

use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use probes::experiments::Experiment;
use probes::experiments::bench::agent::{Greeting, Order};
use probes::experiments::bench::mesh;
use probes::experiments::evidence::{Cell, EgressCell, Evidence, Topology};
use probes::experiments::runner::{Selection, cells};
use serde_json::Value;

use super::outcome::{finish, keep, no_cell, report};
use crate::args::RunArgs;
use crate::cluster::{Cluster, LabPods};
use crate::console::Console;
use crate::exit::Exit;
use crate::report::{LabReport, Problem};

/// For a pod to answer, a proxy to be sent a cluster, and a cell to be slow.
const PATIENCE: Duration = Duration::from_secs(90);

/// Runs the cells and prints their evidence.
///
/// # Errors
/// The lab is not there, the API server refuses, or stdout cannot be written.
pub(super) async fn run(
    args: &RunArgs,
    experiments: &[&'static Experiment],
    selection: &Selection,
    console: &mut Console,
) -> anyhow::Result<Exit> {
    if selection.topologies != [Topology::Sidecar] || selection.old_dns {
        let hint = "leave `--topology` and `--old-dns` out, or run without `--in-cluster`";
        return Err(Problem::new("`--in-cluster`", "runs on the client's own sidecar as it is", hint).into());
    }
    let stream = args.envoy.stream();
    let cluster = Cluster::connect(args.context.as_deref()).await?;
    let lab = cluster.lab(&args.namespace).await?;
    let greeting = cluster.order(&lab, "/greeting", &(), PATIENCE).await?;
    let greeting: Greeting =
        serde_json::from_slice(&greeting).context("the client's pod speaks another version")?;
    let version = greeting.envoy;
    let jobs: Vec<(&Experiment, EgressCell)> = experiments
        .iter()
        .flat_map(|experiment| {
            cells(experiment, version, false, selection).into_iter().map(|cell| (*experiment, cell))
        })
        .collect();
    for (experiment, cell) in &jobs {
        if let Some(obstacle) = mesh::obstacle(&(experiment.plan)(cell, stream)) {
            let hint =
                "`lab run appendix --in-cluster` has those that can; this one runs without `--in-cluster`";
            return Err(Problem::new(
                format!("`{}`", experiment.id),
                format!("cannot run in a cluster: {obstacle}"),
                hint,
            )
            .into());
        }
    }
    if jobs.is_empty() {
        return Err(no_cell().into());
    }
    console.note(&format!(
        "Envoy {version} in namespace {}: {} cells one after the other, at most {} min",
        args.namespace,
        jobs.len(),
        (jobs.len() as u64 * (stream.as_secs() * 3 / 2 + 5)).div_ceil(60)
    ));
    let mut run = Run { cluster: &cluster, lab: &lab, stream, published: Vec::new(), evidence: Vec::new() };
    console.start_progress(jobs.len() as u64);
    let ended = tokio::select! {
        ended = run.all(&jobs, args, console) => Some(ended),
        () = crate::commands::interrupted() => None,
    };
    console.end_progress();
    // However it ended, the mesh is as it was.
    let withdrawn = cluster.withdraw(&run.published).await;
    let whole = ended.is_some();
    let lab = LabReport { evidence: run.evidence, matrix: None };
    let mut report = report("lab run", super::outcome::stream(&args.envoy), &[version], lab);
    report.problems.extend(ended.and_then(Result::err));
    report.problems.extend(withdrawn.err());
    finish(report, whole, &args.envoy, console)
}

struct Run<'a> {
    cluster: &'a Cluster,
    lab: &'a LabPods,
    stream: Duration,
    /// What is in the mesh at the moment.
    published: Vec<Value>,
    evidence: Vec<Evidence>,
}

impl Run<'_> {
    async fn all(
        &mut self,
        jobs: &[(&Experiment, EgressCell)],
        args: &RunArgs,
        console: &Console,
    ) -> Result<(), Problem> {
        for (experiment, cell) in jobs {
            console.progress(self.evidence.len() as u64, &format!("{} {cell}", experiment.id));
            let evidence = self.one(experiment, cell).await?;
            if let Some(folder) = &args.envoy.save
                && let Err(error) = keep(folder, &evidence)
            {
                console.warn(&format!("{} {cell} is not saved: {error:#}", experiment.id));
            }
            self.evidence.push(evidence);
        }
        Ok(())
    }

    async fn one(&mut self, experiment: &Experiment, cell: &EgressCell) -> Result<Evidence, Problem> {
        let plan = (experiment.plan)(cell, self.stream);
        self.published = mesh::resources(cell, &plan, &self.lab.ground()).into();
        self.cluster.publish(&self.published).await?;
        let order = Order {
            experiment: experiment.id.to_owned(),
            cell: cell.clone(),
            stream_ms: u64::try_from(self.stream.as_millis()).unwrap_or(u64::MAX),
            site: self.lab.site.clone(),
        };
        let answer = self.cluster.order(self.lab, "/cells", &order, self.stream * 4 + PATIENCE).await;
        self.cluster.withdraw(&self.published).await?;
        self.published.clear();
        let evidence = answer.and_then(|body| {
            serde_json::from_slice(&body).map_err(|error| {
                Problem::new(
                    "the client's pod",
                    error,
                    "it may be of another version: `make image` and roll it out",
                )
            })
        });
        self.cluster.order(self.lab, "/gone", &(), PATIENCE).await?;
        Ok(evidence.unwrap_or_else(|problem| Evidence {
            because: problem.to_string(),
            ..Evidence::blank(
                experiment.id,
                experiment.question,
                Cell::Egress(cell.clone()),
                Timestamp::now(),
            )
        }))
    }
}
