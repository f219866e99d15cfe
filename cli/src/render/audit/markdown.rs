//! For an issue or a wiki: the summary, a table, then what to do about each.

use std::fmt::Write as _;

use super::{evidence, name, resource, summary};
use crate::render::markup::{self, clean};
use crate::report::AuditReport;

pub(super) fn audit(audit: &AuditReport) -> String {
    let mut out = format!("{}.\n", clean(&summary(audit)));
    if audit.result.findings.is_empty() {
        return out;
    }
    out.push('\n');
    let rows = audit.result.findings.iter().map(|finding| {
        [
            finding.severity.to_string(),
            format!("{} {}", finding.code, name(finding)),
            finding.at.to_string(),
            resource(finding),
            finding.message.clone(),
        ]
    });
    markup::table(["severity", "rule", "place", "resource", "finding"], rows, &mut out);
    out.push('\n');
    for finding in &audit.result.findings {
        let place = clean(&finding.at.to_string());
        let (hint, evidence) = (clean(&finding.hint), clean(&evidence(finding)));
        let evidence = if evidence.is_empty() { evidence } else { format!(" ({evidence})") };
        let _ = writeln!(out, "- **{}** {place}: {hint}{evidence}", finding.code);
    }
    out
}
