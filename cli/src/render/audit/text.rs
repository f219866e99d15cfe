//! For reading: severity, code and place first, then the message and what to do.

use policies::finding::Severity;

use super::{evidence, name, resource, summary};
use crate::console::{Text, Tone};
use crate::report::AuditReport;

/// Columns of a line.
const WIDTH: usize = 108;

pub(super) fn audit(audit: &AuditReport, mut text: Text) -> String {
    for finding in &audit.result.findings {
        let tone = match finding.severity {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Warn,
            Severity::Info => Tone::Dim,
        };
        text.add(tone, format!("{:<7}", finding.severity)).plain("  ");
        text.add(Tone::Strong, format!("{} {}", finding.code, name(finding)));
        text.plain(format!("  {}  {}", finding.at, resource(finding))).end();
        text.plain("  ").wrapped(&finding.message, 2, WIDTH);
        let parts = [("do ", finding.hint.clone()), ("see", evidence(finding))];
        for (word, sentence) in parts.into_iter().filter(|(_, sentence)| !sentence.is_empty()) {
            text.plain("  ").add(Tone::Dim, word).plain(" ").wrapped(sentence, 6, WIDTH);
        }
        text.end();
    }
    text.plain(summary(audit)).end();
    text.finish()
}
