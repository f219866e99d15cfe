//! The lab's report for an issue or a wiki: the forms of the guide's appendix.

use std::fmt::Write as _;

use probes::experiments::evidence::Table;

use super::{groups, verdict};
use crate::render::markup::{self, clean};
use crate::report::{LabReport, Report};

/// Summary tables first, then the tables of every cell.
pub(in crate::render) fn report(report: &Report, run: &LabReport) -> String {
    let mut out = format!("# Lab run on {}\n", clean(&report.inputs.platform));
    if let Some(matrix) = &run.matrix {
        table(&matrix.table(), &mut out);
    }
    for group in groups(&run.evidence) {
        let _ = writeln!(out, "\n## {}\n\n{}\n", clean(&group[0].experiment), clean(&group[0].question));
        let rows = group.iter().map(|evidence| {
            [evidence.cell.to_string(), verdict(evidence).to_owned(), evidence.because.clone()]
        });
        markup::table(["cell", "verdict", "figures"], rows, &mut out);
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
    let _ = writeln!(out, "\n**{}**\n", clean(&table.title));
    markup::table(&table.columns, &table.rows, out);
}
