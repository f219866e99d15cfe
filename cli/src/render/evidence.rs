//! Evidence of the lab, in words: one group per experiment with a row per cell, then the tables of each cell. What is
//! shown was counted and judged in `probes`.

mod html;
mod markdown;
mod svg;

use probes::experiments::evidence::{Evidence, Table, Verdict};

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
    let differs = report.matrix.as_ref().is_some_and(probes::experiments::matrix::Matrix::differs);
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
    match (evidence.verdict, evidence.cell.control()) {
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

#[cfg(test)]
mod tests {
    use policies::Resolution;
    use policies::Version;
    use probes::experiments::evidence::{Bars, Cell, EgressCell, Lane, Mark, Span, Topology};
    use probes::lab::envoy::bootstrap::{HttpVersion, Layer};

    use super::*;
    use crate::report::Inputs;

    fn evidence(verdict: Verdict, control: Option<&str>) -> Evidence {
        let cell = EgressCell {
            envoy: Version::release(1, 40, 0),
            old_dns: false,
            topology: Topology::Sidecar,
            path: Layer::Passthrough,
            http: HttpVersion::H1,
            resolution: Resolution::Dns,
            variant: None,
            control: control.map(str::to_owned),
        };
        let mut evidence = Evidence::blank(
            "flip-record",
            "Is it recorded?",
            Cell::Egress(cell),
            jiff::Timestamp::UNIX_EPOCH,
        );
        evidence.verdict = verdict;
        evidence
    }

    fn report(evidence: Vec<Evidence>) -> Report {
        let inputs = Inputs {
            command: "lab run".to_owned(),
            names: 0,
            resolvers: Vec::new(),
            window: "stream 4s".to_owned(),
            platform: "Envoy 1.40.0".to_owned(),
        };
        Report { evidence, ..Report::new(inputs, jiff::Timestamp::UNIX_EPOCH) }
    }

    #[test]
    fn a_refuted_control_is_what_it_is_for_and_a_confirmed_one_is_a_finding() {
        let exit_of = |verdict, control| exit(&report(vec![evidence(verdict, control)]));
        assert_eq!(exit_of(Verdict::Confirmed, None), Exit::Clean);
        assert_eq!(exit_of(Verdict::Refuted, Some("no-flip")), Exit::Clean);
        assert_eq!(exit_of(Verdict::Refuted, None), Exit::Findings);
        assert_eq!(exit_of(Verdict::Confirmed, Some("no-flip")), Exit::Findings);
        assert_eq!(exit_of(Verdict::Inconclusive, None), Exit::CouldNot);
        let both = vec![evidence(Verdict::Inconclusive, None), evidence(Verdict::Refuted, None)];
        assert_eq!(exit(&report(both)), Exit::Findings);
    }

    #[test]
    fn hostile_text_is_shown_and_never_acts() {
        let hostile = "<script>\u{1b}[31m|`\"&\n</style>";
        let mut one = evidence(Verdict::Refuted, None);
        one.because = hostile.to_owned();
        one.tables = vec![Table::new(hostile, &[hostile], vec![vec![hostile.to_owned()]])];
        one.bars = vec![Bars { title: hostile.to_owned(), bars: vec![(hostile.to_owned(), 1.0)] }];
        one.timeline.end_ms = 10;
        let span = Span { from_ms: 0, to_ms: 10, label: hostile.to_owned() };
        one.timeline.lanes = vec![Lane { name: hostile.to_owned(), spans: vec![span] }];
        one.timeline.marks = vec![Mark { at_ms: 5, label: hostile.to_owned() }];
        let report = report(vec![one]);
        let (page, page_md, page_text) = (html(&report), markdown(&report), text(&report, Text::default()));
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
        assert_eq!(page.matches("</style>").count(), 1);
        assert!(!page_md.contains("<script") && page_md.contains("\\|"));
        for shown in [page, page_md, page_text] {
            assert!(!shown.contains('\u{1b}'));
        }
    }
}
