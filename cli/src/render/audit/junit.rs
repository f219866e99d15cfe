//! `JUnit` XML: one test case a finding, which fails, and one for each file without a finding, which passes.

use std::collections::BTreeSet;

use policies::finding::{Finding, Severity};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{evidence, name, resource, summary};
use crate::report::AuditReport;

pub(super) fn suite(audit: &AuditReport) -> String {
    let found = &audit.result.findings;
    let with_findings: BTreeSet<&str> = found.iter().map(|finding| finding.at.file.as_str()).collect();
    let clean = audit.file_names.iter().filter(|file| !with_findings.contains(file.as_str()));
    let clean: Vec<TestCase> = clean.map(|file| passed(file, "no finding")).collect();
    let mut suite = TestSuite::new("egress-audit");
    if found.is_empty() && clean.is_empty() {
        suite.add_test_case(passed("audit", &summary(audit)));
    }
    suite.add_test_cases(clean);
    suite.add_test_cases(audit.result.findings.iter().map(case));
    let mut report = Report::new("egress-audit");
    report.add_test_suite(suite);
    // Only text that is not UTF-8 could fail it.
    report.to_string().unwrap_or_default()
}

fn passed(class: &str, name: &str) -> TestCase {
    let mut case = TestCase::new(visible(name), TestCaseStatus::success());
    case.set_classname(visible(class));
    case
}

fn case(finding: &Finding) -> TestCase {
    let title = visible(&format!("{} {} {}", finding.code, name(finding), resource(finding)));
    let (place, said) = (visible(&finding.at.to_string()), visible(&finding.message));
    let body = visible(&format!("{}\n{}", finding.hint, evidence(finding)));
    let note = finding.severity == Severity::Info;
    let status = if note {
        TestCaseStatus::success()
    } else {
        let mut failed = TestCaseStatus::non_success(NonSuccessKind::Failure);
        failed
            .set_type(finding.severity.to_string())
            .set_message(said.clone())
            .set_description(format!("{place}\n{body}"));
        failed
    };
    let mut case = TestCase::new(title, status);
    case.set_classname(visible(&finding.at.file));
    if note {
        case.set_system_out(format!("{place}: {said}\n{body}"));
    }
    case
}

/// XML 1.0 has no way to write most control characters: they become a question mark, where the library would drop them.
fn visible(text: &str) -> String {
    let hidden = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if hidden(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_xml_cannot_write_is_seen() {
        assert_eq!(visible("a<b>\u{1b}[0m\n\u{fffe}"), "a<b>?[0m\n?");
    }
}
