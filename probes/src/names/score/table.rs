//! A score as Markdown: one row for each behaviour, the means, and the confusion matrix.

use std::fmt::Write as _;

use super::{CLASSES, Row, Score};

/// The table and the confusion matrix.
#[must_use]
pub fn markdown(score: &Score) -> String {
    let mut text = String::from(
        "| behaviour | right class | right | class right | decided | confidence | queries | seconds |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for row in &score.rows {
        line(&mut text, row);
    }
    let _ = writeln!(
        text,
        "| **mean** | | **{:.4}** | **{:.4}** | | | **{:.2}** | |\n",
        score.mean_right(),
        score.mean_exact(),
        score.mean_queries()
    );
    matrix(&mut text, score);
    text
}

fn line(text: &mut String, row: &Row) {
    let runs = super::real(row.runs.max(1));
    let _ = writeln!(
        text,
        "| {} | {:?} | {:.3} | {:.3} | {:.2} | {:.3} | {:.1} | {:.1} |",
        row.name,
        row.class,
        row.right(),
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
    for class in CLASSES {
        let rows = || score.rows.iter().filter(|row| row.class == class);
        let runs: usize = rows().map(|row| row.runs).sum();
        if runs == 0 {
            continue;
        }
        let _ = write!(text, "| {class:?} |");
        for column in 0..CLASSES.len() {
            let found: usize = rows().map(|row| row.found[column]).sum();
            let _ = write!(text, " {:.2} % |", 100.0 * super::real(found) / super::real(runs));
        }
        text.push('\n');
    }
}
