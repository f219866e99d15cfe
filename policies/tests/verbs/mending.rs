//! What `--fix` promises of any text: the mended one reads, it has no more findings than before, and all that no finding
//! is about stays as it was. The tests ask for it with examples that are bent, the fuzz target with whatever it can think of.

use std::collections::BTreeMap;

use policies::Host;
use policies::audit::{Context, Known, apply, audit, mend};
use policies::finding::Edit;
use policies::manifest::Loaded;

/// `Ok(false)` where the text cannot be read or there is nothing to mend.
pub(crate) fn mends(text: &str, known: &BTreeMap<Host, Known>, context: &Context) -> Result<bool, String> {
    let load = |text: &str| {
        let mut loaded = Loaded::default();
        loaded.add("m.yaml", text.as_bytes());
        loaded
    };
    let loaded = load(text);
    if !loaded.problems.is_empty() {
        return Ok(false);
    }
    let before = audit(&loaded, known, context, None).findings;
    let texts = BTreeMap::from([("m.yaml".to_owned(), text.to_owned())]);
    let mended = mend(&texts, &loaded, known, context, None);
    let Some(new) = mended.texts.get("m.yaml") else { return Ok(false) };
    let again = load(new);
    if let Some(problem) = again.problems.first() {
        return Err(format!("no longer reads: {problem:?}\n{new}"));
    }
    if again.resources.len() != loaded.resources.len() {
        return Err(format!("{} resources became {}\n{new}", loaded.resources.len(), again.resources.len()));
    }
    let after = audit(&again, known, context, None).findings;
    if after.len() > before.len() {
        return Err(format!("{} findings became {}: {after:?}\n{new}", before.len(), after.len()));
    }
    if after != mended.left {
        return Err(format!("{after:?} is left, and not {:?}\n{new}", mended.left));
    }
    let mut current = text.to_owned();
    for step in &mended.steps {
        let edits = &step["m.yaml"];
        let next = apply(&current, edits);
        untouched_lines_stay(&current, &next, edits)?;
        current = next;
    }
    if current == *new { Ok(true) } else { Err(format!("the steps lead to\n{current}\nand not to\n{new}")) }
}

fn untouched_lines_stay(text: &str, mended: &str, edits: &[Edit]) -> Result<(), String> {
    let mut left = mended.split_inclusive('\n');
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let touched = edits.iter().any(|edit| (edit.start as usize) < end && edit.end as usize >= start);
        if !touched && !left.any(|kept| kept == line) {
            return Err(format!("lost {line:?}\n{mended}"));
        }
        start = end;
    }
    // One that follows no white space is part of a key or a value.
    let opens = |before: &str| before.is_empty() || before.ends_with(char::is_whitespace);
    let comments = |text: &str| text.match_indices('#').filter(|(at, _)| opens(&text[..*at])).count();
    if comments(text) > comments(mended) {
        return Err(format!("lost a comment\n{mended}"));
    }
    Ok(())
}
