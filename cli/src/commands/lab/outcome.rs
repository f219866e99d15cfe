//! What a run of the lab ends with, wherever its cells ran: evidence in, the report printed and, with `--save`, files out.
//! Called by `experiments`, `in_cluster` and `drain`.

use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;
use policies::Version;
use probes::experiments::evidence::Evidence;
use probes::lab::envoy::Binary;

use crate::args::EnvoyArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::render;
use crate::report::{Body, Inputs, LabReport, Problem, Report};

/// Writes the evidence of one cell beside its Envoy's files.
pub(super) fn keep(folder: &Path, evidence: &Evidence) -> anyhow::Result<()> {
    let folder = folder.join(&evidence.experiment).join(evidence.cell.slug());
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("evidence.json"), serde_json::to_vec_pretty(evidence)?)?;
    Ok(())
}

pub(super) fn no_cell() -> Problem {
    let hint = "`egress-audit lab list` shows the axes of each experiment; leave a filter out";
    Problem::new("these filters", "leave no cell to run", hint)
}

pub(super) fn stream(args: &EnvoyArgs) -> String {
    format!("stream {:?}", args.stream())
}

pub(super) fn versions(binaries: &[Binary]) -> Vec<Version> {
    binaries.iter().map(|binary| binary.version).collect()
}

/// The report on a run of the lab.
pub(super) fn report(command: &str, window: String, versions: &[Version], lab: LabReport) -> Report {
    let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
    let inputs = Inputs {
        command: command.to_owned(),
        names: 0,
        resolvers: Vec::new(),
        window,
        platform: format!("Envoy {}", versions.join(", ")),
    };
    Report::new(inputs, Body::Lab(lab), Timestamp::now())
}

/// Prints and saves the report of a run; one that was cut short says so in the report.
pub(super) fn finish(
    mut report: Report,
    whole: bool,
    args: &EnvoyArgs,
    console: &Console,
) -> anyhow::Result<Exit> {
    if !whole {
        let hint = "run again without interrupting it for all cells";
        report.problems.push(Problem::new(
            "the run",
            "was interrupted: only completed cells are shown",
            hint,
        ));
    }
    render::report(&report, args.output, console)?;
    if let Some(folder) = &args.save {
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join("report.html"), render::html(&report)))
            .and_then(|()| std::fs::write(folder.join("report.json"), serde_json::to_vec_pretty(&report)?))
            .with_context(|| format!("cannot write into {}", folder.display()))?;
        console.note(&format!("saved in {}", folder.display()));
    }
    Ok(report.exit())
}
