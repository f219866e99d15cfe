//! Scores as Markdown: the windows beside each other with their calibration; of one, a row for each behaviour, the
//! means, and the confusion matrix. Called by `lab score`.

use std::fmt::Write as _;

use super::{Access, CLASSES, Row, Score, Scored};

/// The windows beside each other: what came of the runs, and how far stated confidences hold.
#[must_use]
pub fn summary_markdown(scores: &[Scored]) -> String {
    let mut text = String::from(
        "| window | right | undecided | wrong | calibration error | queries | seconds |\n|---|---|---|---|---|---|---|\n",
    );
    for scored in scores {
        let s = &scored.score.summary;
        let _ = writeln!(
            text,
            "| {} | {:.4} | {:.4} | {:.4} | {:.4} | {:.1} | {:.0} |",
            words(scored),
            s.right,
            s.undecided,
            s.wrong,
            s.ece,
            s.queries,
            s.seconds
        );
    }
    text.push_str("\n| confidence stated |");
    for scored in scores {
        let _ = write!(text, " {} |", words(scored));
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(scores.len()));
    text.push('\n');
    for bin in 0..scores.first().map_or(0, |scored| scored.score.summary.bins.len()) {
        let bins = || scores.iter().map(|scored| &scored.score.summary.bins[bin]);
        if bins().all(|bin| bin.verdicts == 0) {
            continue;
        }
        if let Some(range) = bins().next() {
            let _ = write!(text, "| {} to {} |", range.from, range.to);
        }
        for bin in bins() {
            let _ = match bin.verdicts {
                0 => write!(text, " |"),
                n => write!(text, " {:.3} of {n} |", bin.right),
            };
        }
        text.push('\n');
    }
    text
}

/// A window in words.
fn words(scored: &Scored) -> String {
    let from = match scored.access {
        Access::CachesOnly => "caches alone",
        Access::Authority | Access::Both => "zone's server",
    };
    format!("{}, {from}", scored.window)
}

/// The table and the confusion matrix.
#[must_use]
pub fn markdown(score: &Score) -> String {
    let mut text = String::from(
        "| behaviour | right class | right | undecided | wrong | class right | decided | confidence | queries | seconds |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in &score.rows {
        line(&mut text, row);
    }
    let _ = writeln!(
        text,
        "| **mean** | | **{:.4}** | **{:.4}** | **{:.4}** | **{:.4}** | | | **{:.2}** | **{:.1}** |\n",
        score.summary.right,
        score.summary.undecided,
        score.summary.wrong,
        score.summary.exact,
        score.summary.queries,
        score.summary.seconds
    );
    matrix(&mut text, score);
    text
}

fn line(text: &mut String, row: &Row) {
    let runs = super::real(row.runs.max(1));
    let _ = writeln!(
        text,
        "| {} | {:?} | {:.3} | {:.3} | {:.3} | {:.3} | {:.2} | {:.3} | {:.1} | {:.1} |",
        row.name,
        row.class,
        row.right(),
        row.undecided(),
        row.wrong(),
        row.exact(),
        super::real(row.decided) / runs,
        row.confidence / runs,
        row.mean_queries(),
        row.mean_span().as_secs_f64()
    );
}

/// Rows: the right class. Columns: the class that was found. Shares of all runs of the right class, in per cent.
fn matrix(text: &mut String, score: &Score) {
    text.push_str("| right \\ found |");
    for class in CLASSES {
        let _ = write!(text, " {class:?} |");
    }
    text.push_str("\n|---|---|---|---|---|---|\n");
    for right in CLASSES {
        let rows = || score.rows.iter().filter(|row| row.class == right);
        let runs: usize = rows().map(|row| row.runs).sum();
        if runs == 0 {
            continue;
        }
        let _ = write!(text, "| {right:?} |");
        for class in CLASSES {
            let found: usize = rows().map(|row| row.found.get(&class).copied().unwrap_or_default()).sum();
            let _ = write!(text, " {:.2} % |", 100.0 * super::real(found) / super::real(runs));
        }
        text.push('\n');
    }
}
