//! A report for reading: one block a name, the verdict first, then what was seen, why, and what to do.

use policies::{Source, Vantage};

use super::words;
use crate::console::{Text, Tone};
use crate::report::{FamilyReport, HostReport, Report};

/// Columns of the label at the left.
const LABEL: usize = 10;
/// Columns of a line.
const WIDTH: usize = 108;
/// Addresses shown of a pool.
const ADDRESSES: usize = 6;

pub(super) fn report(report: &Report, mut text: Text) -> String {
    for (index, host) in report.hosts.iter().enumerate() {
        if index > 0 {
            text.end();
        }
        heading(host, &mut text);
        for family in &host.families {
            measured(family, &mut text);
        }
        for note in &host.notes {
            sentence("note", note, &mut text);
        }
        advice(host, &mut text);
    }
    text.finish()
}

fn heading(host: &HostReport, text: &mut Text) {
    text.add(Tone::Strong, &host.host);
    if let Some(unicode) = &host.unicode {
        text.plain(format!(" ({unicode})"));
    }
    let recommendation = &host.recommendation;
    match recommendation.resolution {
        Some(resolution) => {
            text.plain("  ").add(Tone::Good, words::class(recommendation.class));
            text.plain("  resolution: ").add(Tone::Strong, words::json_name(&resolution));
        }
        None => {
            text.plain("  ").add(Tone::Warn, words::class(recommendation.class)).plain("  no recommendation");
        }
    }
    text.end();
}

fn measured(family: &FamilyReport, text: &mut Text) {
    let (classification, seen) = (&family.classification, &family.observation);
    let mut facts = vec![format!(
        "{} ({}), confidence {:.2}",
        words::class(classification.class),
        words::meaning(classification.class),
        classification.confidence
    )];
    if !seen.addresses.is_empty() {
        let addresses = seen.addresses.iter().map(|address| address.addr);
        facts.push(words::addresses(addresses, ADDRESSES));
    }
    facts.push(effort(family));
    if let Some(ttl) = seen.ttl {
        facts.push(format!("TTL {} s", ttl.strict_s));
    }
    label(&seen.record_type.to_string(), text);
    text.wrapped(facts.join("; "), LABEL + 2, WIDTH);
    if !classification.traits.is_empty() {
        let traits: Vec<_> = classification.traits.iter().map(|seen| words::trait_name(*seen)).collect();
        sentence("traits", &traits.join(", "), text);
    }
    for reason in &classification.reasons {
        sentence("why", reason, text);
    }
    if let Some(needs) = &classification.needs {
        let wait = words::span(jiff::SignedDuration::from_secs(needs.wait_s.try_into().unwrap_or(i64::MAX)));
        sentence(
            "needs",
            &format!("{}, about {wait}", words::count(needs.draws, "more draw", "more draws")),
            text,
        );
    }
    for blind in &classification.blind_spots {
        sentence("unseen", blind, text);
    }
}

/// `5 draws by 7 queries in 3 min at 2 servers (1 authoritative)`.
fn effort(family: &FamilyReport) -> String {
    let seen = &family.observation;
    let authoritative =
        |sources: &[Source]| sources.iter().filter(|s| s.vantage == Vantage::Authority).count();
    format!(
        "{} by {} in {} at {} ({} authoritative)",
        words::count(seen.draws.len(), "draw", "draws"),
        words::count(seen.queries, "query", "queries"),
        words::span(seen.ended_at.duration_since(seen.started_at)),
        words::count(family.sources.len(), "server", "servers"),
        authoritative(&family.sources),
    )
}

fn advice(host: &HostReport, text: &mut Text) {
    let advice = &host.recommendation;
    sentence("for", &words::platform(advice), text);
    for reason in &advice.reasons {
        sentence("advice", &words::reason(reason), text);
    }
    for caveat in &advice.caveats {
        sentence("caveat", &words::reason(caveat), text);
    }
    for cost in &advice.costs {
        sentence("cost", &words::cost(cost), text);
    }
    if let Some(alternative) = &advice.alternative {
        sentence("or", &words::alternative(alternative), text);
    }
    for (index, check) in advice.checks.iter().enumerate() {
        let open = if check.settled { "" } else { " (open)" };
        let number = format!("check {}", index + 1);
        sentence(&number, &format!("{}{open}: {}", check.question, check.answer), text);
    }
    if let Some(remedy) = &advice.remedy {
        sentence("remedy", remedy, text);
    }
}

fn label(word: &str, text: &mut Text) {
    text.plain("  ").add(Tone::Dim, format!("{word:<LABEL$}"));
}

fn sentence(word: &str, sentence: &str, text: &mut Text) {
    label(word, text);
    text.wrapped(sentence, LABEL + 2, WIDTH);
}
