//! `JUnit` XML: one test case a finding, which fails, and one for each file without a finding, which passes.

use std::fmt::Write as _;

use policies::finding::Severity;

use super::{evidence, name, resource, summary};
use crate::report::AuditReport;

pub(super) fn suite(audit: &AuditReport) -> String {
    let findings = &audit.result.findings;
    let failures = findings.iter().filter(|finding| finding.severity > Severity::Info).count();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    let clean = audit.file_names.iter().filter(|file| findings.iter().all(|found| found.at.file != **file));
    let clean: Vec<&String> = clean.collect();
    let tests = (findings.len() + clean.len()).max(1);
    let _ = writeln!(out, "  <testsuite name=\"egress-audit\" tests=\"{tests}\" failures=\"{failures}\">");
    for file in &clean {
        let _ = writeln!(out, "    <testcase classname=\"{}\" name=\"no finding\"/>", xml(file));
    }
    if findings.is_empty() && clean.is_empty() {
        let _ = writeln!(out, "    <testcase classname=\"audit\" name=\"{}\"/>", xml(&summary(audit)));
    }
    for finding in findings {
        let case = xml(&format!("{} {} {}", finding.code, name(finding), resource(finding)));
        let class = xml(&finding.at.file);
        let _ = writeln!(out, "    <testcase classname=\"{class}\" name=\"{case}\">");
        let place = xml(&finding.at.to_string());
        let body = xml(&format!("{}\n{}", finding.hint, evidence(finding)));
        let said = xml(&finding.message);
        if finding.severity == Severity::Info {
            let _ = writeln!(out, "      <system-out>{place}: {said}\n{body}</system-out>");
        } else {
            let kind = finding.severity;
            let _ =
                writeln!(out, "      <failure type=\"{kind}\" message=\"{said}\">{place}\n{body}</failure>");
        }
        out.push_str("    </testcase>\n");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// XML 1.0 has no way to write most control characters: they become a question mark.
fn xml(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('?'),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::xml;

    #[test]
    fn text_stays_text() {
        assert_eq!(xml("a<b>&\"\u{1b}[0m\n"), "a&lt;b&gt;&amp;&quot;?[0m\n");
    }
}
