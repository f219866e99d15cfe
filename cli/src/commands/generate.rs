//! `generate`: names in, their `ServiceEntries` and `DestinationRules` out. A name that nothing can be advised for gets no
//! manifest but a problem that says why.

use jiff::Timestamp;
use policies::manifest::{manifests_for, render as yaml};

use crate::args::GenerateArgs;
use crate::commands::advise::{Advisor, policy};
use crate::commands::measure;
use crate::console::Console;
use crate::exit::Exit;
use crate::render;
use crate::report::{Problem, Report};

/// Measures or replays, judges and prints the manifests.
///
/// # Errors
/// When nothing can be measured at all, or the output cannot be written.
pub async fn run(args: &GenerateArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let advisor = Advisor::new(policy(args.measure.policy.as_deref())?, &args.advice, Some(&args.manifest))?;
    let measured = measure::run(&args.measure, &advisor.policy, console).await?;
    let mut report = advisor.report("generate", measured, Timestamp::now());
    let undecided: Vec<_> = report.hosts.iter().filter_map(undecided).collect();
    report.problems.extend(undecided);
    console.data(&manifests(&report, args.manifest.group)?)?;
    render::problems(&report, console);
    Ok(render::exit(&report))
}

/// The manifests of a report as YAML, with the tool, the date and the window on top; nothing where none is advised.
///
/// # Errors
/// When a value cannot be written as YAML.
pub fn manifests(report: &Report, group: bool) -> anyhow::Result<String> {
    let advice: Vec<_> = report.hosts.iter().map(|host| host.recommendation.clone()).collect();
    let manifests = manifests_for(&advice, group);
    if manifests.is_empty() {
        return Ok(String::new());
    }
    let date = report.generated_at.strftime("%F");
    let header = format!("egress-audit {}, {date}, window {}", report.tool_version, report.inputs.window);
    Ok(yaml(&manifests, &header)?)
}

fn undecided(host: &crate::report::HostReport) -> Option<Problem> {
    let answered = host.families.iter().any(|family| !family.observation.addresses.is_empty());
    let advice = &host.recommendation;
    (advice.resolution.is_none() && answered).then(|| {
        let hint = advice.remedy.clone().unwrap_or_else(|| "observe for longer with `--window`".to_owned());
        Problem::new(&host.host, "got no manifest: the window does not decide its class", hint)
    })
}
