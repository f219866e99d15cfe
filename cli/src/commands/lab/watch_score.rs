//! `lab watch-score`: how often `watch` is wrong on scenarios, over days of simulated time.

use policies::watch::Pace;
use probes::names::score::Access;
use probes::names::score::watching::{WatchScore, WatchSettings, watch_score};

use super::score::cases;
use crate::args::WatchScoreArgs;
use crate::commands::advise::policy;
use crate::console::Console;
use crate::exit::Exit;
use crate::format::Format;
use crate::render::markup;
use crate::render::table::columns;

const HEADER: [&str; 8] =
    ["BEHAVIOUR", "LOOKUPS", "FALSE FLIPS", "WRONG CLASSES", "FALSE ALARMS", "FOUND", "SLOWEST", "DAY 1"];

/// Scores and prints; a scenario that cannot be read is a problem, the others are scored.
pub(super) fn run(args: &WatchScoreArgs, console: &Console) -> anyhow::Result<Exit> {
    let (cases, problems) = cases(&args.scenarios);
    for problem in &problems {
        console.error(&problem.to_string());
        console.hint(&problem.hint);
    }
    let settings = WatchSettings {
        days: args.days,
        seed: args.seed,
        access: match (args.caches_only, args.both) {
            (true, _) => Access::CachesOnly,
            (_, true) => Access::Both,
            _ => Access::Authority,
        },
        policy: policy(args.policy.as_deref())?,
        pace: Pace { every: args.every, ..Pace::default() },
    };
    let score = watch_score(&cases, &settings);
    match args.output {
        Format::Json => console.json(&score)?,
        Format::Markdown => {
            let mut text = String::new();
            markup::table(HEADER.map(str::to_lowercase), rows(&score), &mut text);
            console.data(&format!("{text}\n{}\n", sums(&score)))?;
        }
        _ => {
            console.data(&format!("{}\n{}\n", columns(HEADER, rows(&score)), sums(&score)))?;
        }
    }
    Ok(if problems.is_empty() { Exit::Clean } else { Exit::CouldNot })
}

fn rows(score: &WatchScore) -> impl Iterator<Item = [String; 8]> {
    score.rows.iter().map(|row| {
        [
            row.name.clone(),
            row.queries.to_string(),
            row.false_flips.to_string(),
            row.wrong_classes.to_string(),
            row.false_troubles.to_string(),
            format!("{} of {}", row.found, row.operations),
            format!("{:.0} s", row.slowest_s),
            if row.first_day { "right".to_owned() } else { "wrong".to_owned() },
        ]
    })
}

fn sums(score: &WatchScore) -> String {
    format!(
        "{:.0} name-days: {:.2} false flips per 1,000, {:.2} wrong classes per 10,000, {} of {} operations found",
        score.days, score.false_flips_per_1000, score.wrong_classes_per_10000, score.found, score.operations
    )
}
