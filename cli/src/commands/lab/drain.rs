//! `lab run drain`: a pod that leaves. It has a stage of its own, so it runs apart from the experiments on
//! DNS; its evidence is theirs in form.

use anyhow::Context;
use probes::experiments::drain::{Options, Order, Scenario, acts, run_all};
use probes::experiments::evidence::Evidence;
use probes::lab::ingress::sidecar;

use super::outcome::{finish, keep, report, versions};
use crate::args::RunArgs;
use crate::commands::envoy::chosen;
use crate::console::Console;
use crate::exit::Exit;
use crate::report::{LabReport, Problem};

/// Cells at once: each waits most of its time, but a machine that is too busy delays checks and tells lies about them.
const AT_ONCE: usize = 6;

/// Plays the scenarios on each Envoy and prints their evidence.
///
/// # Errors
/// No Envoy, no sidecar, or stdout that cannot be written. A cell that fails is inconclusive instead.
pub(super) async fn run(args: &RunArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let binaries = chosen(&args.envoy.envoy, console).await?;
    let binary = sidecar::find().map_err(Problem::from)?;
    let scale = args.scale.unwrap_or(1.0);
    let all = args.scenario.is_empty();
    let scenarios: Vec<Scenario> =
        Scenario::ALL.into_iter().filter(|one| all || args.scenario.contains(one)).collect();
    let mut evidence: Vec<Evidence> = Vec::new();
    let mut whole = true;
    for envoy in &binaries {
        let options = Options {
            envoy: envoy.clone(),
            sidecar: binary.clone(),
            scale,
            scenarios: scenarios.clone(),
            orders: if args.order.is_empty() { Order::ALL.to_vec() } else { args.order.clone() },
            controls: !args.no_controls,
        };
        console.start_progress(acts(&options).len() as u64);
        let mut ended: Vec<Evidence> = Vec::new();
        let shown = &*console;
        let all = run_all(&options, AT_ONCE.min(usize::from(args.envoy.jobs)), |evidence| {
            ended.push(evidence.clone());
            shown.progress(ended.len() as u64, &evidence.cell.to_string());
        });
        tokio::select! {
            _ = all => {}
            () = crate::commands::interrupted() => whole = false,
        }
        console.end_progress();
        evidence.extend(ended);
        if !whole {
            break;
        }
    }
    if let Some(folder) = &args.envoy.save {
        for one in &evidence {
            keep(folder, one).with_context(|| format!("cannot write into {}", folder.display()))?;
        }
    }
    let lab = LabReport { evidence, matrix: None };
    let report = report("lab run drain", format!("scale {scale}"), &versions(&binaries), lab);
    finish(report, whole, &args.envoy, console)
}
