//! A report for reading: one block a name, the verdict first, then what was seen, why, and what to do. Sources of the
//! statements are numbered and listed at the end of the block.

use std::fmt::Write as _;

use policies::{Citation, Reason, Source, Vantage};

use super::words;
use crate::console::{Text, Tone};
use crate::report::{FamilyReport, HostReport};

/// Columns of the label at the left.
const LABEL: usize = 10;
/// Columns of a line.
const WIDTH: usize = 108;
/// Addresses shown of a pool.
const ADDRESSES: usize = 6;

pub(super) fn report(hosts: &[HostReport], mut text: Text) -> String {
    for (index, host) in hosts.iter().enumerate() {
        if index > 0 {
            text.end();
        }
        heading(host, &mut text);
        let mut block = Block { text: &mut text, last: String::new(), sources: Vec::new() };
        for family in &host.families {
            block.measured(family);
        }
        for note in &host.notes {
            block.line("note", note);
        }
        block.advice(host);
        block.footnotes();
    }
    text.finish()
}

fn heading(host: &HostReport, text: &mut Text) {
    text.add(Tone::Strong, &host.host);
    if let Some(unicode) = &host.unicode {
        text.plain(format!(" ({unicode})"));
    }
    let recommendation = &host.recommendation;
    let class = words::class(recommendation.class);
    match recommendation.resolution {
        Some(resolution) => {
            text.plain("  ").add(Tone::Good, class).plain("  resolution: ").add(Tone::Strong, resolution)
        }
        None => text.plain("  ").add(Tone::Warn, class).plain("  no recommendation"),
    };
    text.end();
}

/// The lines of one name; a label is printed where it changes.
struct Block<'a> {
    text: &'a mut Text,
    last: String,
    sources: Vec<&'a Citation>,
}

impl<'a> Block<'a> {
    fn measured(&mut self, family: &FamilyReport) {
        let (classification, seen) = (&family.classification, &family.observation);
        if seen.queries == 0 {
            return;
        }
        let mut facts = vec![if words::absent(family) {
            format!("no {} records", seen.record_type)
        } else {
            let class = classification.class;
            let confidence = classification.confidence;
            format!("{} ({}), confidence {confidence:.2}", words::class(class), words::meaning(class))
        }];
        if !seen.addresses.is_empty() {
            let addresses = seen.addresses.iter().map(|address| address.addr);
            facts.push(words::addresses(addresses, ADDRESSES));
        }
        facts.push(effort(family));
        if let Some(ttl) = seen.ttl {
            facts.push(format!("TTL {} s", ttl.strict_s));
        }
        self.line(&seen.record_type.to_string(), &facts.join("; "));
        if words::absent(family) {
            return;
        }
        if !classification.traits.is_empty() {
            let traits: Vec<_> = classification.traits.iter().map(|seen| words::trait_name(*seen)).collect();
            self.line("traits", &traits.join(", "));
        }
        for reason in &classification.reasons {
            self.line("why", reason);
        }
        if let Some(needs) = &classification.needs {
            let draws = words::count(needs.draws, "more draw", "more draws");
            let wait = words::seconds(needs.wait_s);
            self.line(
                "needs",
                &format!("not final yet: {draws}, about {wait}; `--until decided` waits for it"),
            );
        }
        for blind in &classification.blind_spots {
            self.line("unseen", blind);
        }
    }

    fn advice(&mut self, host: &'a HostReport) {
        let advice = &host.recommendation;
        self.line("for", &words::platform(advice));
        for reason in &advice.reasons {
            self.cited("advice", reason);
        }
        for caveat in &advice.caveats {
            self.cited("caveat", caveat);
        }
        for cost in &advice.costs {
            self.line("cost", &words::cost(cost));
        }
        if let Some(alternative) = &advice.alternative {
            self.line("or", &words::alternative(alternative));
        }
        for (index, check) in advice.checks.iter().enumerate() {
            let open = if check.settled { "" } else { " (open)" };
            self.line(
                &format!("check {}", index + 1),
                &format!("{}{open}: {}", check.question, check.answer),
            );
        }
        if let Some(remedy) = &advice.remedy {
            self.line("remedy", remedy);
        }
    }

    /// A statement with the numbers of its sources; the window and what follows from it need none.
    fn cited(&mut self, label: &str, reason: &'a Reason) {
        let mut numbers = String::new();
        for source in &reason.evidence {
            if matches!(source, Citation::Window | Citation::Deduced) {
                continue;
            }
            let number = self.sources.iter().position(|known| *known == source).unwrap_or_else(|| {
                self.sources.push(source);
                self.sources.len() - 1
            });
            let _ = write!(numbers, " [{}]", number + 1);
        }
        self.line(label, &(reason.text.clone() + &numbers));
    }

    fn footnotes(&mut self) {
        for (index, source) in std::mem::take(&mut self.sources).into_iter().enumerate() {
            self.line(&format!("[{}]", index + 1), &source.to_string());
        }
    }

    fn line(&mut self, label: &str, sentence: &str) {
        let shown = if label == self.last { "" } else { label };
        self.text.plain("  ").add(Tone::Dim, format!("{shown:<LABEL$}"));
        self.text.wrapped(sentence, LABEL + 2, WIDTH);
        label.clone_into(&mut self.last);
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
