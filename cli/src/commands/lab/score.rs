//! `lab score`: how right the classifier is on scenarios, in simulated time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use policies::{Policy, Window};
use probes::names::score::{Access, Case, Score, Settings, markdown, score};

use super::scenarios::unusable;
use crate::args::ScoreArgs;
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
    let access = if args.caches_only { Access::CachesOnly } else { Access::Authority };
    let settings = settings(args, access, policy);
    let score = score(&cases, &settings);
    match args.output {
        Format::Json => console.json(&score)?,
        Format::Markdown => console.data(&markdown(&score))?,
        _ => console.data(&text(&score))?,
    }
    Ok(if problems.is_empty() { Exit::Clean } else { Exit::CouldNot })
}

/// Simulated time costs nothing: without a bound, each run lasts until the test decides.
fn settings(args: &ScoreArgs, access: Access, policy: Policy) -> Settings {
    let patient = Settings::patient(args.runs as usize, args.seed, access, &policy);
    let window = match args.window {
        Some(length) => Window::Fixed(length),
        None if args.quick => Window::Quick,
        None if args.bounded => Window::Auto,
        None => return patient,
    };
    Settings { window, policy: Arc::new(policy), ..patient }
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

fn text(score: &Score) -> String {
    let header = ["BEHAVIOUR", "RIGHT CLASS", "RIGHT", "CLASS RIGHT", "QUERIES", "SECONDS"];
    let rows = score.rows.iter().map(|row| {
        [
            row.name.clone(),
            format!("{:?}", row.class),
            format!("{:.3}", row.right()),
            format!("{:.3}", row.exact()),
            format!("{:.1}", row.mean_queries()),
            format!("{:.1}", row.mean_span().as_secs_f64()),
        ]
    });
    let worst =
        score.worst().map_or_else(String::new, |row| format!(", worst {:.3} ({})", row.right(), row.name));
    format!(
        "{}\nmean right {:.4}{worst}; mean with the exact class {:.4}; mean queries {:.2}\n",
        columns(header, rows),
        score.mean_right(),
        score.mean_exact(),
        score.mean_queries(),
    )
}
