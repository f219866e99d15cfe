//! Timelines and bars as inline SVG, drawn from finished figures.

use std::fmt::Write as _;

use probes::experiments::evidence::{Bars, Mark, Span, Timeline};

use super::literal::html as text;

const WIDTH: f64 = 1000.0;
/// Where the axis begins; lane names stand before it.
const LEFT: f64 = 150.0;
const LANE: f64 = 22.0;
/// A row of labels of marks.
const LABEL: f64 = 13.0;
/// About the width of a letter at 11 px.
const LETTER: f64 = 6.2;
const COLOURS: [&str; 8] =
    ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#72b7b2", "#eeca3b", "#9d755d", "#79706e"];

/// Lanes over a common axis, with marks as vertical lines.
pub(super) fn timeline(timeline: &Timeline, out: &mut String) {
    if timeline.lanes.is_empty() || timeline.end_ms == 0 {
        return;
    }
    let x = |ms: u64| LEFT + (WIDTH - LEFT - 10.0) * ratio(ms, timeline.end_ms);
    let (marks, rows) = labelled(&timeline.marks, &x);
    let top = LABEL * rows + 7.0;
    let lanes = f64::from(u32::try_from(timeline.lanes.len()).unwrap_or(0));
    let bottom = top + lanes * LANE;
    let _ =
        write!(out, "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"timeline\">", bottom + 20.0);
    let mut known: Vec<&str> = Vec::new();
    let mut y = top;
    for lane in &timeline.lanes {
        let _ = write!(out, "<text x=\"0\" y=\"{}\">{}</text>", y + 15.0, text(&lane.name));
        for span in &lane.spans {
            rect(span, &x, y, colour(&span.label, &mut known), out);
        }
        y += LANE;
    }
    for Labelled { mark, at, before, row } in marks {
        let anchor = if before { "end" } else { "start" };
        let row = LABEL * (row + 1.0) - 1.0;
        let _ = write!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{row}\" y2=\"{bottom}\" stroke=\"currentColor\" \
             stroke-dasharray=\"2 3\" opacity=\".6\"/><text x=\"{at:.1}\" y=\"{row}\" text-anchor=\"{anchor}\" \
             dx=\"2\">{}</text>",
            text(&mark.label)
        );
    }
    axis(timeline.end_ms, bottom, &x, out);
    out.push_str("</svg>\n");
}

/// A mark, where its line stands, and where its label does.
struct Labelled<'a> {
    mark: &'a Mark,
    at: f64,
    /// A label that would leave the drawing stands before its line.
    before: bool,
    row: f64,
}

/// Each label in the first row in which it does not run into another; and how many rows there are.
fn labelled<'a>(marks: &'a [Mark], x: &impl Fn(u64) -> f64) -> (Vec<Labelled<'a>>, f64) {
    let mut marks: Vec<&Mark> = marks.iter().collect();
    marks.sort_by_key(|mark| mark.at_ms);
    let mut ends: Vec<f64> = Vec::new();
    let placed = marks.into_iter().map(|mark| {
        let at = x(mark.at_ms);
        let letters = f64::from(u32::try_from(mark.label.chars().count()).unwrap_or(u32::MAX));
        let width = letters * LETTER + 8.0;
        let before = at + width > WIDTH;
        let from = if before { at - width } else { at };
        let row = ends.iter().position(|end| *end <= from).unwrap_or(ends.len());
        ends.resize(ends.len().max(row + 1), 0.0);
        ends[row] = from + width;
        Labelled { mark, at, before, row: f64::from(u32::try_from(row).unwrap_or(0)) }
    });
    let placed: Vec<_> = placed.collect();
    (placed, f64::from(u32::try_from(ends.len()).unwrap_or(0)))
}

fn rect(span: &Span, x: &impl Fn(u64) -> f64, y: f64, colour: &str, out: &mut String) {
    let (from, to) = (x(span.from_ms), x(span.to_ms));
    let width = (to - from).max(1.5);
    let label = text(&span.label);
    let _ = write!(
        out,
        "<rect x=\"{from:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"{}\" rx=\"2\" fill=\"{colour}\" \
         fill-opacity=\".75\"><title>{label}: {} to {} ms</title></rect>",
        y + 2.0,
        LANE - 5.0,
        span.from_ms,
        span.to_ms
    );
    let letters = f64::from(u32::try_from(span.label.chars().count()).unwrap_or(u32::MAX));
    if letters * LETTER + 8.0 < width {
        let _ = write!(out, "<text x=\"{:.1}\" y=\"{}\">{label}</text>", from + 4.0, y + 15.0);
    }
}

fn axis(end_ms: u64, bottom: f64, x: &impl Fn(u64) -> f64, out: &mut String) {
    // The smallest of the usual steps that leaves ten marks at most.
    let step = [500, 1000, 2000, 5000, 10_000, 20_000, 60_000].into_iter().find(|step| end_ms / step <= 10);
    let step = step.unwrap_or(end_ms);
    for at in (0..=end_ms).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" opacity=\".7\">{}</text>",
            x(at),
            bottom + 14.0,
            if at % 1000 == 0 {
                format!("{} s", at / 1000)
            } else {
                format!("{}.{} s", at / 1000, at % 1000 / 100)
            }
        );
    }
}

/// Failures are red; everything else gets a colour when it is first seen.
fn colour<'a>(label: &'a str, known: &mut Vec<&'a str>) -> &'static str {
    if label.starts_with("failed") {
        return "#cf222e";
    }
    let number = known.iter().position(|other| *other == label).unwrap_or_else(|| {
        known.push(label);
        known.len() - 1
    });
    COLOURS[number % COLOURS.len()]
}

/// Horizontal bars, the longest over the whole width.
pub(super) fn bars(bars: &Bars, out: &mut String) {
    let most = bars.bars.iter().map(|(_, value)| *value).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let rows = f64::from(u32::try_from(bars.bars.len()).unwrap_or(0));
    let _ =
        write!(out, "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"bars\">", rows * LANE + 4.0);
    let mut y = 0.0;
    for (number, (label, value)) in bars.bars.iter().enumerate() {
        let width = (WIDTH - LEFT - 120.0) * value / most;
        let _ = write!(
            out,
            "<text x=\"0\" y=\"{0}\">{1}</text><rect x=\"{LEFT}\" y=\"{2}\" width=\"{width:.1}\" height=\"{3}\" rx=\"2\" \
             fill=\"{4}\" fill-opacity=\".75\"/><text x=\"{5:.1}\" y=\"{0}\">{6}</text>",
            y + 15.0,
            text(label),
            y + 2.0,
            LANE - 5.0,
            COLOURS[number % COLOURS.len()],
            LEFT + width + 6.0,
            (value * 100.0).round() / 100.0
        );
        y += LANE;
    }
    out.push_str("</svg>\n");
}

fn ratio(part: u64, whole: u64) -> f64 {
    let small = |ms: u64| f64::from(u32::try_from(ms).unwrap_or(u32::MAX));
    small(part) / small(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_would_run_into_each_other_stand_in_rows_of_their_own() {
        let marks = [(900, "at the very end"), (100, "flip"), (101, "listed"), (500, "later")];
        let marks = marks.map(|(at_ms, label)| Mark { at_ms, label: label.to_owned() });
        let (placed, rows) = labelled(&marks, &|ms| f64::from(u32::try_from(ms).unwrap()) * 1.1);
        let shown: Vec<_> = placed.iter().map(|it| (it.mark.label.as_str(), it.row, it.before)).collect();
        let known = [
            ("flip", 0.0, false),
            ("listed", 1.0, false),
            ("later", 0.0, false),
            ("at the very end", 0.0, true),
        ];
        assert_eq!(shown, known);
        assert!((rows - 2.0).abs() < f64::EPSILON);
    }
}
