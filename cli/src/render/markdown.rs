//! A report for an issue or a wiki: a table of all names, then a section each. Text from DNS is escaped for Markdown
//! as well as for the terminal.

use std::fmt::Write as _;

use super::markup::{self, clean};
use super::{table, words};
use crate::report::{HostReport, Report};

pub(super) fn report(report: &Report, hosts: &[HostReport]) -> String {
    let mut out = String::new();
    let rows = hosts.iter().map(|host| {
        let advice = &host.recommendation;
        let family = |name: &str| {
            table::pool(host.families.iter().find(|f| f.observation.record_type.to_string() == name))
        };
        [
            host.host.to_string(),
            words::class(advice.class).to_owned(),
            advice.resolution.map_or("-", policies::Resolution::as_str).to_owned(),
            family("A"),
            family("AAAA"),
            format!("{:.2}", advice.confidence),
        ]
    });
    markup::table(["host", "class", "resolution", "A", "AAAA", "confidence"], rows, &mut out);
    for host in hosts {
        section(host, &mut out);
    }
    let _ = writeln!(
        out,
        "\n_egress-audit {} on {}: {}, window {}._",
        report.tool_version,
        report.generated_at.strftime("%F"),
        words::count(report.inputs.names, "name", "names"),
        report.inputs.window,
    );
    out
}

fn section(host: &HostReport, out: &mut String) {
    let advice = &host.recommendation;
    let _ = writeln!(out, "\n## {}\n", host.host);
    let _ = writeln!(out, "Advice for {}.\n", clean(&words::platform(advice)));
    for family in host.families.iter().filter(|family| family.observation.queries > 0) {
        for reason in &family.classification.reasons {
            bullet(family.observation.record_type, reason, out);
        }
        for blind in &family.classification.blind_spots {
            bullet(family.observation.record_type, &format!("not seen: {blind}"), out);
        }
    }
    let reasons = advice.reasons.iter().map(|reason| ("advice", words::reason(reason)));
    let caveats = advice.caveats.iter().map(|reason| ("caveat", words::reason(reason)));
    let costs = advice.costs.iter().map(|cost| ("cost", words::cost(cost)));
    let checks = advice.checks.iter().map(|check| ("check", format!("{}: {}", check.question, check.answer)));
    let remedy = advice.remedy.iter().map(|remedy| ("remedy", remedy.clone()));
    for (word, text) in reasons.chain(caveats).chain(costs).chain(checks).chain(remedy) {
        bullet(word, &text, out);
    }
}

fn bullet(word: impl std::fmt::Display, text: &str, out: &mut String) {
    let _ = writeln!(out, "- **{word}** {}", clean(text));
}
