//! The lab's report for an issue or a wiki: the forms of the guide's appendix.

use std::fmt::Write as _;

use probes::experiments::evidence::Table;

use super::{clean, groups, verdict};
use crate::report::Report;

/// Summary tables first, then the tables of every cell.
pub(in crate::render) fn report(report: &Report) -> String {
    let mut out = format!("# Lab run on {}\n", clean(&report.inputs.platform));
    if let Some(matrix) = &report.matrix {
        table(&matrix.table(), &mut out);
    }
    for group in groups(&report.evidence) {
        let _ = writeln!(out, "\n## {}\n\n{}\n", clean(&group[0].experiment), clean(&group[0].question));
        let _ = writeln!(out, "| cell | verdict | figures |\n|---|---|---|");
        for evidence in group {
            let cell = clean(&evidence.cell.to_string());
            let _ = writeln!(out, "| {cell} | {} | {} |", verdict(evidence), clean(&evidence.because));
        }
        for evidence in group.iter().filter(|evidence| !evidence.tables.is_empty()) {
            let _ = writeln!(out, "\n### {}", clean(&evidence.cell.to_string()));
            evidence.tables.iter().for_each(|each| table(each, &mut out));
        }
    }
    let _ = writeln!(
        out,
        "\n_egress-audit {} on {}, {}._",
        report.tool_version,
        report.generated_at.strftime("%F"),
        report.inputs.window
    );
    out
}

fn table(table: &Table, out: &mut String) {
    let row = |cells: &[String]| cells.iter().map(|cell| clean(cell)).collect::<Vec<_>>().join(" | ");
    let _ = writeln!(out, "\n**{}**\n\n| {} |", clean(&table.title), row(&table.columns));
    let _ = writeln!(out, "|{}", "---|".repeat(table.columns.len()));
    for cells in &table.rows {
        let _ = writeln!(out, "| {} |", row(cells));
    }
}
