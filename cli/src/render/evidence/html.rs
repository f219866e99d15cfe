//! The lab's report as one self-contained page: no script, no font and no request to anywhere. Each cell has its
//! timeline, its bars and its tables, folded away until it is opened.

use std::fmt::Write as _;

use probes::experiments::evidence::{Bars, Evidence, Table, Verdict};

use super::literal::html as text;
use super::{groups, svg, verdict};
use crate::report::{LabReport, Report};

const STYLE: &str = "
:root{color-scheme:light dark;--line:#8884;--good:#1a7f37;--bad:#cf222e;--open:#9a6700}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin:2.5rem 0 .3rem}p{margin:.3rem 0}
table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
th,td{border-bottom:1px solid var(--line);padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}
caption{text-align:left;font-weight:600;padding:.4rem 0}
details{border:1px solid var(--line);border-radius:6px;margin:.4rem 0;padding:.3rem .8rem}
summary{cursor:pointer}summary b{display:inline-block;min-width:7.5rem}
.good{color:var(--good)}.bad{color:var(--bad)}.open{color:var(--open)}
svg{width:100%;height:auto;display:block;margin:.6rem 0}svg text{fill:currentColor;font:11px system-ui,sans-serif}
footer{margin:3rem 0 1rem;opacity:.7}";

/// The page.
pub(crate) fn page(report: &Report, run: &LabReport) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{0}</title><style>{STYLE}</style>\n<h1>{0}</h1>\n",
        text(&format!("{} on {}", report.inputs.command, report.inputs.platform)),
    );
    if let Some(matrix) = &run.matrix {
        table(&matrix.table(), &mut out);
    }
    for group in groups(&run.evidence) {
        let _ = writeln!(out, "<h2>{}</h2><p>{}</p>", text(&group[0].experiment), text(&group[0].question));
        for evidence in group {
            cell(evidence, group.len() == 1, &mut out);
        }
    }
    let _ = writeln!(
        out,
        "<footer>egress-audit {} · {} · {}</footer></html>",
        text(&report.tool_version),
        report.generated_at.strftime("%F %T UTC"),
        text(&report.inputs.window)
    );
    out
}

fn cell(evidence: &Evidence, open: bool, out: &mut String) {
    let class = match evidence.verdict {
        Verdict::Inconclusive => "open",
        _ if evidence.is_failure() => "bad",
        _ => "good",
    };
    // What went wrong is what the reader came for.
    let open = if open || class != "good" { " open" } else { "" };
    let _ = writeln!(
        out,
        "<details{open}><summary><b class=\"{class}\">{}</b> {}</summary><p>{}</p>",
        verdict(evidence),
        text(&evidence.cell.to_string()),
        text(&evidence.because)
    );
    svg::timeline(&evidence.timeline, out);
    evidence.bars.iter().for_each(|bars| draw(bars, out));
    evidence.tables.iter().for_each(|each| table(each, out));
    out.push_str("</details>\n");
}

fn draw(bars: &Bars, out: &mut String) {
    let _ = writeln!(out, "<p><b>{}</b></p>", text(&bars.title));
    svg::bars(bars, out);
}

fn table(table: &Table, out: &mut String) {
    let row = |tag: &str, cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", text(cell))).collect();
        format!("<tr>{}</tr>", cells.concat())
    };
    let _ = writeln!(out, "<table><caption>{}</caption>{}", text(&table.title), row("th", &table.columns));
    for cells in &table.rows {
        out.push_str(&row("td", cells));
    }
    out.push_str("</table>\n");
}
