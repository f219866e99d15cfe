//! An audit in the form asked for: one file a form. All of them show the same findings in the same order; none counts
//! or judges.

use std::io;

use policies::Citation;
use policies::audit::{Rule, rule};
use policies::finding::Finding;

use crate::console::Console;
use crate::format::Format;
use crate::report::{AuditReport, Report};

mod github;
mod junit;
mod markdown;
mod sarif;
mod text;

/// Prints an audit.
///
/// # Errors
/// When stdout cannot be written.
pub(super) fn audit(
    report: &Report,
    audit: &AuditReport,
    format: Format,
    console: &Console,
) -> io::Result<()> {
    match format {
        Format::Sarif => console.json(&sarif::log(report, audit)),
        Format::Markdown => console.data(&markdown::audit(audit)),
        Format::Github => console.data(&github::annotations(audit)),
        Format::Junit => console.data(&junit::suite(audit)),
        _ => console.data(&text::audit(audit, console.text())),
    }
}

/// `rotating-pool-on-dns`; empty for a code of another version.
fn name(finding: &Finding) -> &'static str {
    rule(&finding.code).map_or("", |rule: &Rule| rule.name)
}

/// `ServiceEntry egress/api`.
fn resource(finding: &Finding) -> String {
    let at = &finding.at;
    let slash = if at.namespace.is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", at.kind, at.namespace, at.name)
}

/// Message and remedy as two sentences.
fn sentences(finding: &Finding) -> String {
    format!("{}. To do: {}.", finding.message, finding.hint)
}

/// Sources and other resources, in one line; empty where the message is all there is.
fn evidence(finding: &Finding) -> String {
    let sources = finding.evidence.iter().filter(|source| **source != Citation::Deduced);
    let sources = sources.map(ToString::to_string);
    let related = finding.related.iter().map(ToString::to_string);
    sources.chain(related).collect::<Vec<_>>().join("; ")
}

/// `2 errors, 1 warning and 0 notes in 12 resources of 3 files`, and what was left out.
fn summary(audit: &AuditReport) -> String {
    let words = |n, one: &str, many: &str| super::words::count(n, one, many);
    let mut parts = vec![format!(
        "{}, {} and {} in {} of {}",
        words(audit.counts.errors, "error", "errors"),
        words(audit.counts.warnings, "warning", "warnings"),
        words(audit.counts.notes, "note", "notes"),
        words(audit.result.resources, "resource", "resources"),
        words(audit.files, "file", "files"),
    )];
    let mut more = |n: usize, text: String| {
        if n > 0 {
            parts.push(text);
        }
    };
    let (suppressed, known) = (audit.result.suppressed, audit.result.baselined);
    let (passed, stale) = (audit.passed_over.values().sum::<usize>(), audit.result.stale_baseline.len());
    let fixable = audit.counts.fixable;
    more(fixable, format!("{fixable} that `--fix` mends"));
    more(suppressed, format!("{suppressed} suppressed"));
    more(known, format!("{known} known by the baseline"));
    more(stale, format!("{stale} of the baseline not found"));
    more(passed, format!("{} of other kinds passed over", words(passed, "resource", "resources")));
    let observed = audit.result.observed_hosts;
    parts.push(match observed {
        0 => "no DNS evidence".to_owned(),
        _ => format!("DNS evidence on {}", words(observed, "host", "hosts")),
    });
    parts.join("; ")
}
