//! `generate`: names in, their `ServiceEntries` and `DestinationRules` out. A name that nothing can be advised for gets no
//! manifest but a problem that says why.

use std::collections::BTreeMap;

use jiff::Timestamp;
use policies::audit::{Context, Known, audit};
use policies::finding::Severity;
use policies::manifest::{Comments, Loaded, manifests_for, reduce, render as yaml, warnings};
use policies::recommend::Recommendation;
use policies::{Host, Platform};

use crate::args::{CommentsWord, GenerateArgs};
use crate::cluster::{Applied, Change, Cluster};
use crate::commands::advise::{Advisor, policy};
use crate::commands::measure;
use crate::console::{Console, escape};
use crate::exit::Exit;
use crate::render;
use crate::report::{Problem, Report};

/// Measures or replays, judges and prints the manifests.
///
/// # Errors
/// When nothing can be measured at all, or the output cannot be written.
pub async fn run(args: &GenerateArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let advisor =
        Advisor::new(policy(args.measure.ask.policy.as_deref())?, &args.advice, Some(&args.manifest))?;
    let measured = measure::run(&args.measure, &advisor.policy, console).await?;
    let mut report = advisor.report("generate", measured, Timestamp::now());
    let undecided: Vec<_> = report.body.hosts().iter().filter_map(undecided).collect();
    report.problems.extend(undecided);
    if args.apply.apply {
        apply(args, &mut report, console).await?;
    } else {
        let comments = match args.manifest.comments {
            CommentsWord::Full => Comments::Full,
            CommentsWord::Short => Comments::Short,
            CommentsWord::None => Comments::None,
        };
        let text = manifests(&report, args.manifest.group, comments)?;
        if !text.is_empty() {
            console.note(&format!("{}, window {}", report.generated_at.strftime("%F"), report.inputs.window));
        }
        tell(&report, &text, &advisor.platform, console);
        console.data(&text)?;
    }
    render::problems(&report, console);
    Ok(report.exit())
}

/// Applies the manifests and prints what that changes; one that is refused becomes a problem, and the others are
/// applied all the same.
async fn apply(args: &GenerateArgs, report: &mut Report, console: &mut Console) -> anyhow::Result<()> {
    let cluster = Cluster::connect(args.measure.context.as_deref()).await?;
    let change = Change { dry_run: args.apply.dry_run, force: args.apply.force_conflicts };
    for manifest in manifests_for(&advice(report), args.manifest.group) {
        match cluster.apply(&manifest.resource, change).await {
            Ok(Applied { resource, diff }) => {
                let done = match (diff.is_empty(), change.dry_run) {
                    (true, _) => "is as it should be",
                    (false, true) => "would change",
                    (false, false) => "is applied",
                };
                console.note(&format!("{resource} {done}"));
                console.data(&escape(&diff))?;
            }
            Err(problem) => report.problems.push(problem),
        }
    }
    Ok(())
}

fn advice(report: &Report) -> Vec<Recommendation> {
    report.body.hosts().iter().map(|host| host.recommendation.clone()).collect()
}

/// What the manifests cannot give, and what the audit finds in them: it is the same audit that will read them later.
fn tell(report: &Report, text: &str, platform: &Platform, console: &Console) {
    for advice in report
        .body
        .hosts()
        .iter()
        .map(|host| &host.recommendation)
        .filter(|advice| advice.resolution.is_some())
    {
        for warning in warnings(advice) {
            console.note(&format!("{}: {warning}", advice.host));
        }
    }
    let known = report.body.hosts().iter().filter_map(|host| {
        let [a, aaaa] = host.families.first_chunk::<2>()?;
        let [a, aaaa] = [a, aaaa].map(|family| (family.observation.clone(), family.classification.clone()));
        Some((host.host.clone(), Known { a, aaaa: Some(aaaa) }))
    });
    let known: BTreeMap<Host, Known> = known.collect();
    let mut loaded = Loaded::default();
    loaded.add("manifests", text.as_bytes());
    let context = Context { platform: platform.clone(), ..Context::default() };
    for finding in audit(&loaded, &known, &context, None).findings {
        if finding.severity > Severity::Info {
            console.note(&format!(
                "{} {}: {}; {}",
                finding.code, finding.at.name, finding.message, finding.hint
            ));
        }
    }
}

/// The manifests of a report as YAML, with the tool on top; nothing where none is advised. The same behaviour gives the
/// same text, whatever the day and the window.
///
/// # Errors
/// When a value cannot be written as YAML.
pub fn manifests(report: &Report, group: bool, comments: Comments) -> anyhow::Result<String> {
    let mut manifests = manifests_for(&advice(report), group);
    if manifests.is_empty() {
        return Ok(String::new());
    }
    reduce(&mut manifests, comments);
    let header = match comments {
        Comments::None => String::new(),
        _ => format!("egress-audit {}", report.tool_version),
    };
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
