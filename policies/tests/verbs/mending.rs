//! What `--fix` promises of any text: the mended one reads, its findings are gone, and all that no finding is about stays
//! as it was. The tests ask for it with examples that are bent, the fuzz target with whatever it can think of.

use std::collections::BTreeMap;

use policies::Host;
use policies::audit::{Context, Known, apply, audit};
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
    let edits: Vec<Edit> = before.iter().flat_map(|finding| finding.edits.clone()).collect();
    if edits.is_empty() {
        return Ok(false);
    }
    let mended = apply(text, &edits);
    let again = load(&mended);
    if let Some(problem) = again.problems.first() {
        return Err(format!("no longer reads: {problem:?}\n{mended}"));
    }
    if again.resources.len() != loaded.resources.len() {
        return Err(format!(
            "{} resources became {}\n{mended}",
            loaded.resources.len(),
            again.resources.len()
        ));
    }
    let after = audit(&again, known, context, None).findings;
    for finding in before.iter().filter(|finding| !finding.edits.is_empty()) {
        // Its twin, which an anchor or a merge brought in, may have no edit.
        let twins = before.iter().filter(|other| other.fingerprint() == finding.fingerprint());
        let lasting = twins.filter(|twin| twin.edits.is_empty()).count();
        let stays = after.iter().filter(|other| other.fingerprint() == finding.fingerprint()).count();
        if stays > lasting {
            return Err(format!("{} {} stays\n{mended}", finding.code, finding.message));
        }
    }
    untouched_lines_stay(text, &mended, &edits).map(|()| true)
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
