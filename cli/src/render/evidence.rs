//! Evidence of the lab, in words: one group per experiment with a row per cell, then the tables of each cell. What is
//! shown was counted and judged in `probes`.

mod html;
mod markdown;
mod svg;

use probes::evidence::{Evidence, Table, Verdict};

use super::table::columns;
use crate::console::{Text, Tone, escape};
use crate::exit::Exit;
use crate::report::Report;

pub(crate) use html::page as html;
pub(super) use markdown::report as markdown;

/// Most cells whose tables are shown as text.
const DETAILED: usize = 4;

/// The report as text.
pub(super) fn text(report: &Report, mut text: Text) -> String {
    for group in groups(&report.evidence) {
        text.add(Tone::Strong, &group[0].experiment).plain("  ").plain(&group[0].question).end();
        for evidence in group {
            text.plain("  ")
                .add(tone(evidence), format!("{:13}", verdict(evidence)))
                .plain(&evidence.cell)
                .end();
            text.plain(format!("{:15}", "")).wrapped(&evidence.because, 15, 110);
        }
        text.end();
    }
    if report.evidence.len() <= DETAILED {
        for evidence in &report.evidence {
            for table in &evidence.tables {
                text.add(Tone::Strong, format!("{}: {}", evidence.cell, table.title)).end();
                text.plain(plain_table(table)).end();
            }
        }
    }
    if let Some(matrix) = &report.matrix {
        let table = matrix.table();
        text.add(Tone::Strong, &table.title).end();
        text.plain(plain_table(&table)).end();
    }
    text.finish()
}

/// Whether the text leaves out the tables of the cells.
pub(super) fn is_summary(report: &Report) -> bool {
    report.evidence.len() > DETAILED
}

/// 1 when an experiment was refuted, a control was not, or a version does not do what the platform's table says; 2
/// when a cell has no result.
pub(super) fn exit(report: &Report) -> Exit {
    let differs = report.matrix.as_ref().is_some_and(probes::matrix::Matrix::differs);
    // A control's verdict is no finding of the matrix, which reads it as a measurement.
    let refuted = report.matrix.is_none() && report.evidence.iter().any(Evidence::is_failure);
    if differs || refuted {
        return Exit::Findings;
    }
    let open = report.evidence.iter().any(|evidence| evidence.verdict == Verdict::Inconclusive);
    if open { Exit::CouldNot } else { Exit::Clean }
}

/// Evidence of one experiment after the other, in the order of the run.
fn groups(evidence: &[Evidence]) -> impl Iterator<Item = &[Evidence]> {
    evidence.chunk_by(|one, other| one.experiment == other.experiment)
}

/// A control that is refuted did what it is for.
fn verdict(evidence: &Evidence) -> &'static str {
    match (evidence.verdict, &evidence.cell.control) {
        (Verdict::Confirmed, None) => "confirmed",
        (Verdict::Refuted, None) => "REFUTED",
        (Verdict::Refuted, Some(_)) => "as it must",
        (Verdict::Confirmed, Some(_)) => "NO CONTROL",
        (Verdict::Inconclusive, _) => "inconclusive",
    }
}

fn tone(evidence: &Evidence) -> Tone {
    match evidence.verdict {
        Verdict::Inconclusive => Tone::Warn,
        _ if evidence.is_failure() => Tone::Bad,
        _ => Tone::Good,
    }
}

fn plain_table(table: &Table) -> String {
    columns(&table.columns, table.rows.iter())
}

/// Text for Markdown cells and headings.
fn clean(text: &str) -> String {
    escape(text).replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}
