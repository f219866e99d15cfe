//! `lab score`: how right the classifier is on scenarios, in simulated time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use policies::{Policy, Window};
use probes::names::score::{
    Access, Case, Scored, Settings, View, calibration_svg, markdown, score, score_views, summary_markdown,
};
use serde::Serialize;

use super::scenarios::unusable;
use crate::args::{ScoreArgs, Windows};
use crate::commands::advise::policy;
use crate::console::Console;
use crate::exit::Exit;
use crate::format::Format;
use crate::render::table::columns;
use crate::report::Problem;

/// Scores and prints; a scenario that cannot be read is a problem, the others are scored.
pub(super) fn run(args: &ScoreArgs, console: &Console) -> anyhow::Result<Exit> {
    let policy = policy(args.policy.as_deref())?;
    let (cases, problems) = cases(&args.scenarios);
    for problem in &problems {
        console.error(&problem.to_string());
        console.hint(&problem.hint);
    }
    let scores = scores(args, &cases, &policy);
    if let Some(path) = &args.plot {
        std::fs::write(path, calibration_svg(&scores))
            .with_context(|| format!("cannot write the plot to {}", path.display()))?;
    }
    match args.output {
        Format::Json => {
            console.json(&Scores { runs: args.runs, seed: args.seed, windows: scores })?;
        }
        Format::Markdown => console.data(&page(&scores))?,
        _ => console.data(&text(&scores))?,
    }
    Ok(if problems.is_empty() { Exit::Clean } else { Exit::CouldNot })
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Scores {
    /// Runs of each behaviour in each window.
    runs: u32,
    /// Seed of the first run.
    seed: u64,
    windows: Vec<Scored>,
}

fn scores(args: &ScoreArgs, cases: &[Case], policy: &Policy) -> Vec<Scored> {
    let runs = args.runs as usize;
    if let Some(windows) = args.windows {
        let wanted = match windows {
            Windows::All => None,
            Windows::Decided => Some("decided"),
            Windows::Default => Some("default"),
            Windows::Quick => Some("quick"),
        };
        let views: Vec<View> =
            View::ALL.into_iter().filter(|view| wanted.is_none_or(|name| view.window == name)).collect();
        return score_views(cases, &views, runs, args.seed, policy);
    }
    let access = if args.caches_only { Access::CachesOnly } else { Access::Authority };
    let name = match args.window {
        Some(length) => {
            let window = Window::Fixed(length);
            let patient = Settings::patient(runs, args.seed, access, policy);
            let settings = Settings { window, policy: Arc::new(policy.clone()), ..patient };
            return vec![Scored {
                window: format!("{} s", length.as_secs_f64()),
                access,
                score: score(cases, &settings),
            }];
        }
        None if args.quick => "quick",
        None if args.bounded => "default",
        None => "decided",
    };
    score_views(cases, &[View { window: name, access }], runs, args.seed, policy)
}

pub(super) fn cases(paths: &[PathBuf]) -> (Vec<Case>, Vec<Problem>) {
    if paths.is_empty() {
        return match Case::zoo() {
            Ok(cases) => (cases, Vec::new()),
            Err(error) => (Vec::new(), vec![Problem::about("the zoo", &error)]),
        };
    }
    let (mut cases, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match files(path) {
            Ok(files) => files.iter().for_each(|file| match read(file) {
                Ok(found) => cases.extend(found),
                Err(problem) => problems.push(problem),
            }),
            Err(error) => problems.push(unusable(path, &error)),
        }
    }
    (cases, problems)
}

/// The scenario files of a folder, by name, or the file itself.
fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "yaml" || ending == "yml"));
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<Vec<Case>, Problem> {
    let text = std::fs::read_to_string(file).map_err(|error| unusable(file, &error))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let cases = Case::all_of(&name, &text).map_err(|error| Problem::about(file.display(), &error))?;
    if cases.is_empty() {
        let hint = "give its names an `expect: {class: .., resolution: ..}`";
        return Err(Problem::new(file.display(), "says of no name what would be right", hint));
    }
    Ok(cases)
}

fn text(scores: &[Scored]) -> String {
    scores.iter().map(|scored| window_text(scored) + "\n").collect::<String>() + &summary_text(scores)
}

/// A row for each behaviour.
fn window_text(scored: &Scored) -> String {
    let header = ["BEHAVIOUR", "RIGHT CLASS", "RIGHT", "UNDECIDED", "WRONG", "QUERIES", "SECONDS"];
    let rows = scored.score.rows.iter().map(|row| {
        [
            row.name.clone(),
            format!("{:?}", row.class),
            format!("{:.3}", row.right()),
            format!("{:.3}", row.undecided()),
            format!("{:.3}", row.wrong()),
            format!("{:.1}", row.mean_queries()),
            format!("{:.1}", row.mean_span().as_secs_f64()),
        ]
    });
    let table = columns(header, rows);
    match scored.score.worst() {
        Some(row) => format!("{table}\nright least often: {} ({:.3})\n", row.name, row.right()),
        None => table,
    }
}

/// The windows beside each other, and how far the confidences stated in them hold.
fn summary_text(scores: &[Scored]) -> String {
    let header = ["WINDOW", "FROM", "RIGHT", "UNDECIDED", "WRONG", "CALIBRATION ERROR", "QUERIES", "SECONDS"];
    let rows = scores.iter().map(|scored| {
        let s = &scored.score.summary;
        [
            scored.window.clone(),
            from(scored.access).to_owned(),
            format!("{:.4}", s.right),
            format!("{:.4}", s.undecided),
            format!("{:.4}", s.wrong),
            format!("{:.4}", s.ece),
            format!("{:.2}", s.queries),
            format!("{:.1}", s.seconds),
        ]
    });
    let bins = scores.iter().flat_map(|scored| {
        let stated = scored.score.summary.bins.iter().filter(|bin| bin.verdicts > 0);
        stated.map(|bin| {
            [
                scored.window.clone(),
                from(scored.access).to_owned(),
                format!("{} to {}", bin.from, bin.to),
                bin.verdicts.to_string(),
                format!("{:.3}", bin.confidence),
                format!("{:.3}", bin.right),
            ]
        })
    });
    let stated = ["WINDOW", "FROM", "CONFIDENCE", "VERDICTS", "MEAN", "RIGHT"];
    format!("{}\n{}", columns(header, rows), columns(stated, bins))
}

fn from(access: Access) -> &'static str {
    match access {
        Access::CachesOnly => "caches alone",
        Access::Authority | Access::Both => "zone's server",
    }
}

/// For the book: the summary, then each window.
fn page(scores: &[Scored]) -> String {
    let windows = scores.iter().map(|scored| {
        format!("\n### {}, {}\n\n{}", scored.window, from(scored.access), markdown(&scored.score))
    });
    summary_markdown(scores) + &windows.collect::<String>()
}
