//! Evidence of the lab, in words: one group per experiment with a row per cell, then the tables of each cell. What is
//! shown was counted and judged in `probes`.

mod html;
mod literal;
mod markdown;
mod svg;

use probes::experiments::evidence::{Evidence, Table, Verdict};

use super::table::columns;
use crate::console::{Text, Tone};
use crate::report::LabReport;

pub(super) use html::page as html;
pub(super) use markdown::report as markdown;

/// Most cells whose tables are shown as text.
const DETAILED: usize = 4;

/// The report as text.
pub(super) fn text(run: &LabReport, mut text: Text) -> String {
    for group in groups(&run.evidence) {
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
    if run.evidence.len() <= DETAILED {
        for evidence in &run.evidence {
            for table in &evidence.tables {
                text.add(Tone::Strong, format!("{}: {}", evidence.cell, table.title)).end();
                text.plain(plain_table(table)).end();
            }
        }
    }
    if let Some(matrix) = &run.matrix {
        let table = matrix.table();
        text.add(Tone::Strong, &table.title).end();
        text.plain(plain_table(&table)).end();
    }
    text.finish()
}

/// One row a cell.
pub(super) fn table(run: &LabReport) -> String {
    let rows = run.evidence.iter().map(|cell| {
        [cell.experiment.clone(), cell.cell.to_string(), verdict(cell).to_owned(), cell.because.clone()]
    });
    columns(["EXPERIMENT", "CELL", "VERDICT", "FIGURES"], rows)
}

/// Whether the text leaves out the tables of the cells.
pub(super) fn is_summary(run: &LabReport) -> bool {
    run.evidence.len() > DETAILED
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

#[cfg(test)]
mod tests {
    use policies::Resolution;
    use policies::Version;
    use probes::experiments::evidence::{Bars, Cell, EgressCell, Lane, Mark, Span, Topology};
    use probes::lab::envoy::bootstrap::{HttpVersion, Layer};

    use super::*;
    use crate::exit::Exit;
    use crate::report::{Body, Inputs, Report};

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

    fn report(run: LabReport) -> Report {
        let inputs = Inputs {
            command: "lab run".to_owned(),
            names: 0,
            resolvers: Vec::new(),
            window: "stream 4s".to_owned(),
            platform: "Envoy 1.40.0".to_owned(),
        };
        Report::new(inputs, Body::Lab(run), jiff::Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_refuted_control_is_what_it_is_for_and_a_confirmed_one_is_a_finding() {
        let of = |evidence| report(LabReport { evidence, matrix: None }).exit();
        let exit_of = |verdict, control| of(vec![evidence(verdict, control)]);
        assert_eq!(exit_of(Verdict::Confirmed, None), Exit::Clean);
        assert_eq!(exit_of(Verdict::Refuted, Some("no-flip")), Exit::Clean);
        assert_eq!(exit_of(Verdict::Refuted, None), Exit::Findings);
        assert_eq!(exit_of(Verdict::Confirmed, Some("no-flip")), Exit::Findings);
        assert_eq!(exit_of(Verdict::Inconclusive, None), Exit::CouldNot);
        let both = vec![evidence(Verdict::Inconclusive, None), evidence(Verdict::Refuted, None)];
        assert_eq!(of(both), Exit::Findings);
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
        let run = LabReport { evidence: vec![one], matrix: None };
        let (page_text, rows, report) = (text(&run, Text::default()), table(&run), report(run.clone()));
        let (page, page_md) = (html(&report, &run), markdown(&report, &run));
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
        assert_eq!(page.matches("</style>").count(), 1);
        assert!(!page_md.contains("<script") && page_md.contains("\\|"));
        for shown in [page, page_md, page_text, rows] {
            assert!(!shown.contains('\u{1b}'));
        }
    }
}
