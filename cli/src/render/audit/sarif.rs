//! SARIF 2.1.0 (OASIS), as code scanning reads it: rules from the table, one result a finding, with places, the
//! fingerprint that a baseline uses and the edit as a fix.

use std::collections::BTreeSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use policies::Citation;
use policies::audit::{Rule, rule};
use policies::finding::{Finding, Severity, Spot};
use serde_json::{Value, json};

use super::{evidence, sentences};
use crate::report::{AuditReport, Report};

pub(super) fn log(report: &Report, audit: &AuditReport) -> Value {
    let codes: BTreeSet<&str> = audit.result.findings.iter().map(|finding| finding.code.as_str()).collect();
    let rules: Vec<&Rule> = codes.iter().filter_map(|code| rule(code)).collect();
    let notifications: Vec<Value> = report
        .problems
        .iter()
        .map(|problem| {
            let text = format!("{problem}. {}", problem.hint);
            json!({ "level": "error", "message": { "text": text } })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "egress-audit",
                "semanticVersion": report.tool_version,
                "rules": rules.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": report.problems.is_empty(),
                "toolExecutionNotifications": notifications,
            }],
            "results": audit.result.findings.iter().map(|found| result(found, &rules)).collect::<Vec<_>>(),
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn descriptor(rule: &Rule) -> Value {
    let sources: Vec<String> = rule.source.iter().map(ToString::to_string).collect();
    let mut descriptor = json!({
        "id": rule.code,
        "name": rule.name,
        "shortDescription": { "text": rule.what },
        "fullDescription": { "text": format!("{}. {}.", rule.what, rule.why) },
        "help": { "text": format!("{}. Sources: {}", rule.fix, sources.join("; ")) },
        "defaultConfiguration": { "level": level(rule.severity) },
    });
    if let Some(page) = help_uri(rule) {
        descriptor["helpUri"] = page.into();
    }
    descriptor
}

/// The first public page that the rule rests on.
fn help_uri(rule: &Rule) -> Option<&str> {
    rule.source.iter().find_map(|source| match source {
        Citation::Docs(url) | Citation::Thread(url) => Some(&**url),
        _ => None,
    })
}

fn result(finding: &Finding, rules: &[&Rule]) -> Value {
    let mut text = sentences(finding);
    let evidence = evidence(finding);
    if !evidence.is_empty() {
        text = format!("{text} [{evidence}]");
    }
    let mut result = json!({
        "ruleId": finding.code,
        "level": level(finding.severity),
        "message": { "text": text },
        "locations": [location(&finding.at)],
        "partialFingerprints": { "egressAudit/v1": finding.fingerprint() },
    });
    if let Some(index) = rules.iter().position(|rule| rule.code == finding.code) {
        result["ruleIndex"] = index.into();
    }
    if !finding.related.is_empty() {
        result["relatedLocations"] = finding.related.iter().map(location).collect();
    }
    if !finding.edits.is_empty() {
        result["fixes"] = json!([{
            "description": { "text": finding.hint },
            "artifactChanges": [{
                "artifactLocation": { "uri": uri(&finding.at.file) },
                "replacements": finding.edits.iter().map(|edit| json!({
                    "deletedRegion": { "byteOffset": edit.start, "byteLength": edit.end - edit.start },
                    "insertedContent": { "text": edit.text },
                })).collect::<Vec<_>>(),
            }],
        }]);
    }
    result
}

fn location(at: &Spot) -> Value {
    json!({
        "physicalLocation": {
            "artifactLocation": { "uri": uri(&at.file) },
            "region": { "startLine": at.line.max(1), "startColumn": at.column.max(1) },
        },
        "logicalLocations": [{ "fullyQualifiedName": format!("{}/{}/{}", at.kind, at.namespace, at.name) }],
    })
}

/// What a relative reference may hold as it is: unreserved characters and slashes (RFC 3986).
const REFERENCE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

fn uri(file: &str) -> String {
    utf8_percent_encode(file.trim_start_matches("./"), REFERENCE).to_string()
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn a_file_name_becomes_a_reference() {
        assert_eq!(uri("./a b/ä.yaml"), "a%20b/%C3%A4.yaml");
    }
}
