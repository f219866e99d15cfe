//! `--explain`: a rule as its table has it.

use policies::audit::{Example, RULES, Rule, rule};

use crate::console::{Console, Text, Tone};
use crate::exit::Exit;
use crate::report::Problem;

/// Columns of a line.
const WIDTH: usize = 100;

/// Prints one rule, or the list of all.
///
/// # Errors
/// When there is no such rule, or stdout cannot be written.
pub(super) fn run(code: &str, console: &Console) -> anyhow::Result<Exit> {
    let mut text = console.text();
    if code.eq_ignore_ascii_case("all") {
        for rule in RULES.iter().copied().flatten() {
            text.add(Tone::Strong, rule.code).plain(format!("  {:<8} ", rule.severity.as_str()));
            text.wrapped(format!("{}: {}", rule.name, rule.what), 16, WIDTH);
        }
    } else {
        let hint = "`egress-audit audit --explain all` lists the rules";
        let rule = rule(code).ok_or_else(|| Problem::new(code, "is no rule", hint))?;
        explain(rule, &mut text);
    }
    console.data(&text.finish())?;
    Ok(Exit::Clean)
}

fn explain(rule: &Rule, text: &mut Text) {
    text.add(Tone::Strong, format!("{} {}", rule.code, rule.name))
        .plain(format!("  {}", rule.severity))
        .end();
    for (word, sentence) in [("what", rule.what), ("why", rule.why), ("do", rule.fix)] {
        text.plain("  ").add(Tone::Dim, format!("{word:<6}")).wrapped(sentence, 8, WIDTH);
    }
    for source in rule.source {
        text.plain("  ").add(Tone::Dim, "see   ").wrapped(source, 8, WIDTH);
    }
    let examples = rule.examples();
    for (fires, word) in [(true, "fires"), (false, "silent")] {
        if let Some(found) = examples.iter().find(|example| example.fires == fires) {
            example(word, found, text);
        }
    }
}

fn example(word: &str, example: &Example<'_>, text: &mut Text) {
    text.end().add(Tone::Dim, format!("# {word}: {}", example.title)).end();
    for dns in &example.dns {
        let answers = format!("# DNS: {} of {} addresses, TTL {} s", dns.per_answer, dns.pool, dns.ttl);
        text.add(Tone::Dim, format!("{answers}, {:?}", dns.class)).end();
    }
    if !example.flags.is_empty() {
        text.add(Tone::Dim, format!("# {}", example.flags.join(" "))).end();
    }
    for line in example.yaml.lines() {
        text.plain(line).end();
    }
}
