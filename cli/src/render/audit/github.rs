//! Workflow commands of GitHub Actions: one annotation a finding.

use std::fmt::Write as _;

use policies::finding::Severity;

use super::{name, sentences, summary};
use crate::report::AuditReport;

pub(super) fn annotations(audit: &AuditReport) -> String {
    let mut out = String::new();
    for finding in &audit.result.findings {
        let command = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "notice",
        };
        let at = &finding.at;
        let title = property(&format!("{} {}", finding.code, name(finding)));
        let text = message(&sentences(finding));
        let file = property(&at.file);
        let _ =
            writeln!(out, "::{command} file={file},line={},col={},title={title}::{text}", at.line, at.column);
    }
    let _ = writeln!(out, "{}", message(&summary(audit)));
    out
}

/// Escapes as the runner's own toolkit does, and makes a line of what would be two.
fn message(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect();
    clean.replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_command_early() {
        assert_eq!(message("100 %\n::stop\r"), "100 %25%0A::stop?");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
    }
}
