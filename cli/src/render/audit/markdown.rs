//! For an issue or a wiki: the summary, a table, then what to do about each.

use std::fmt::Write as _;

use super::{evidence, name, resource, summary};
use crate::render::markdown::clean;
use crate::report::AuditReport;

pub(super) fn audit(audit: &AuditReport) -> String {
    let mut out = format!("{}.\n", clean(&summary(audit)));
    if audit.result.findings.is_empty() {
        return out;
    }
    out.push_str("\n| severity | rule | place | resource | finding |\n|---|---|---|---|---|\n");
    for finding in &audit.result.findings {
        let _ = writeln!(
            out,
            "| {} | {} {} | {} | {} | {} |",
            finding.severity,
            finding.code,
            name(finding),
            clean(&finding.at.to_string()),
            clean(&resource(finding)),
            clean(&finding.message)
        );
    }
    out.push('\n');
    for finding in &audit.result.findings {
        let place = clean(&finding.at.to_string());
        let (hint, evidence) = (clean(&finding.hint), clean(&evidence(finding)));
        let evidence = if evidence.is_empty() { evidence } else { format!(" ({evidence})") };
        let _ = writeln!(out, "- **{}** {place}: {hint}{evidence}", finding.code);
    }
    out
}
