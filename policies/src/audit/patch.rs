//! Changes of a file's bytes: the rules make them, [`apply`] carries them out. Everything else of the file, comments
//! and formatting included, stays as it is.

use crate::finding::Edit;
use crate::manifest::node::{Node, Place};

/// The text with all edits applied. Of edits that overlap, the first one is kept; exact duplicates count once.
#[must_use]
pub fn apply(text: &str, edits: &[Edit]) -> String {
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_unstable();
    edits.dedup();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for edit in edits {
        let (start, end) = (edit.start as usize, edit.end as usize);
        let (Some(kept), true) = (text.get(done..start.max(done)), start >= done && start <= end) else {
            continue;
        };
        if text.get(start..end).is_none() {
            continue;
        }
        out.push_str(kept);
        out.push_str(&edit.text);
        done = end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// Another value in place of the one that stands there.
pub(super) fn replace(at: Place, text: impl Into<String>) -> Option<Edit> {
    let (start, end) = at.bytes.filter(|(start, end)| start < end)?;
    Some(Edit { start, end, text: text.into() })
}

/// One more key at the head of a mapping, in block or in flow style.
pub(super) fn insert(map: &Node, key: &str, value: &str) -> Option<Edit> {
    let (first, _) = map.entries().first()?;
    let (start, _) = first.at.bytes?;
    let (opens, _) = map.at.bytes?;
    let text = if opens < start {
        format!("{key}: {value}, ")
    } else {
        format!("{key}: {value}\n{:indent$}", "", indent = first.at.column.checked_sub(1)? as usize)
    };
    Some(Edit { start, end: start, text })
}

/// Sets a key to a value: replaces it where it stands, else adds it.
pub(super) fn set(map: &Node, key: &str, value: &str) -> Option<Edit> {
    match map.get(key) {
        Some(found) => replace(found.at, value),
        None => insert(map, key, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set_in(text: &str, path: &str, key: &str, value: &str) -> String {
        let root = crate::manifest::read(text).unwrap().remove(0);
        let edit = set(root.get(path).unwrap(), key, value).unwrap();
        apply(text, &[edit])
    }

    #[test]
    fn keys_are_replaced_or_added_in_both_styles() {
        let block = "spec: # ä\n  outlier:\n    interval: 5s # keep\n";
        assert_eq!(
            set_in(block, "spec.outlier", "interval", "9s"),
            "spec: # ä\n  outlier:\n    interval: 9s # keep\n"
        );
        assert_eq!(
            set_in(block, "spec.outlier", "max", "50"),
            "spec: # ä\n  outlier:\n    max: 50\n    interval: 5s # keep\n"
        );
        assert_eq!(
            set_in("spec: {outlier: {interval: 5s}}\n", "spec.outlier", "max", "50"),
            "spec: {outlier: {max: 50, interval: 5s}}\n"
        );
    }

    #[test]
    fn overlapping_and_senseless_edits_change_nothing_else() {
        let edit = |start, end, text: &str| Edit { start, end, text: text.to_owned() };
        assert_eq!(apply("abcdef", &[edit(1, 3, "X"), edit(2, 4, "Y"), edit(1, 3, "X")]), "aXdef");
        assert_eq!(apply("ä", &[edit(1, 2, "X"), edit(9, 9, "Y"), edit(1, 0, "Z")]), "ä");
    }

    proptest! {
        #[test]
        fn applying_never_panics(text in "\\PC{0,20}", edits in proptest::collection::vec((0u32..30, 0u32..30), 0..5)) {
            let edits: Vec<Edit> =
                edits.into_iter().map(|(start, end)| Edit { start, end, text: "x".to_owned() }).collect();
            let _ = apply(&text, &edits);
        }
    }
}
