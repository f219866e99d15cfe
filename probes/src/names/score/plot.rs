//! Calibration as a picture: for each view, the share right over the confidence stated, beside the diagonal on which
//! both agree. Scores come in, an SVG goes out. Called by `lab score --plot`.

use std::fmt::Write as _;

use super::{Access, Bin, Scored};

/// Side of a panel, and the space around it, in pixels.
const SIDE: f64 = 180.0;
const MARGIN: f64 = 44.0;
const COLUMNS: usize = 2;
/// Least confidence that a verdict states, and so the left end of the axes.
const LEFT: f64 = 0.5;

/// One panel for each score. A dot's area grows with its verdicts.
#[must_use]
pub fn calibration_svg(scores: &[Scored]) -> String {
    let cell = SIDE + MARGIN;
    let (width, height) =
        (cell * super::real(COLUMNS) + MARGIN, cell * super::real(scores.len().div_ceil(COLUMNS)) + MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"10\">\n\
         <title>Share of verdicts that were right, by the confidence stated</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (i, scored) in scores.iter().enumerate() {
        let (column, row) = (i % COLUMNS, i / COLUMNS);
        panel(&mut svg, scored, MARGIN + cell * super::real(column), MARGIN * 0.7 + cell * super::real(row));
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, scored: &Scored, left: f64, top: f64) {
    let at = |share: f64| SIDE * (share.max(LEFT) - LEFT) / (1.0 - LEFT);
    let (right, bottom) = (left + SIDE, top + SIDE);
    let from = match scored.access {
        Access::CachesOnly => "caches alone",
        Access::Authority | Access::Both => "zone's server",
    };
    let summary = &scored.score.summary;
    let _ = writeln!(
        svg,
        "<text x=\"{left:.1}\" y=\"{:.1}\">{}, {from}: error {:.3}</text>\n\
         <rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" stroke=\"#999\"/>\n\
         <line x1=\"{left:.1}\" y1=\"{bottom:.1}\" x2=\"{right:.1}\" y2=\"{top:.1}\" stroke=\"#bbb\"/>",
        top - 6.0,
        scored.window,
        summary.ece
    );
    for share in [0.5, 0.75, 1.0] {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{share}</text>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{share}</text>",
            left + at(share),
            bottom + 12.0,
            left - 4.0,
            bottom - at(share) + 3.0
        );
    }
    let verdicts: usize = summary.bins.iter().map(|bin| bin.verdicts).sum();
    for Bin { verdicts: n, confidence, right, .. } in summary.bins.iter().filter(|bin| bin.verdicts > 0) {
        let radius = 2.0 + 8.0 * (super::real(*n) / super::real(verdicts)).sqrt();
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\" fill=\"#2a6\" fill-opacity=\"0.6\">\
             <title>{n} verdicts: stated {confidence:.3}, right {right:.3}</title></circle>",
            left + at(*confidence),
            bottom - at(*right)
        );
    }
}
