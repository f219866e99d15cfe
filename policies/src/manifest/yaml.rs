//! YAML out and in, by serde-saphyr. Text is quoted where YAML needs it, and comments hold printable characters only.

use std::fmt::Write as _;

use super::{Manifest, Resource};

/// Why YAML could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The serialiser refused a value.
    #[error("cannot write {kind} {name:?} as YAML")]
    Write {
        /// Kind of the resource.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What the serialiser says.
        source: serde_saphyr::SerializeError,
    },
    /// The text is no manifest of ours.
    #[error("cannot read the manifests")]
    Read(#[source] Box<serde_saphyr::Error>),
}

/// Columns of a comment line.
const WIDTH: usize = 110;

/// The manifests as one multi-document text, with `header` (tool, date, command; any text) as comment on top.
///
/// # Errors
/// [`ManifestError::Write`], where the serialiser refuses a value.
pub fn render(manifests: &[Manifest], header: &str) -> Result<String, ManifestError> {
    let mut text = String::new();
    comment(&mut text, header);
    for (index, manifest) in manifests.iter().enumerate() {
        if index > 0 {
            text.push_str("---\n");
        }
        for line in &manifest.comment {
            comment(&mut text, line);
        }
        let yaml = serde_saphyr::to_string(&manifest.resource).map_err(|source| {
            let (kind, _, name) = manifest.resource.identity();
            ManifestError::Write { kind, name: name.to_owned(), source }
        })?;
        text.push_str(&yaml);
    }
    Ok(text)
}

/// Reads back what [`render`] wrote; comments are left behind.
///
/// # Errors
/// [`ManifestError::Read`], for text that is no YAML, holds other kinds or fields, or exceeds the limits.
pub fn parse(text: &str) -> Result<Vec<Resource>, ManifestError> {
    serde_saphyr::from_str_multiple_with_options(text, yaml_options())
        .map_err(|error| ManifestError::Read(Box::new(error)))
}

/// Enough for tens of thousands of entries; serde-saphyr's own limits end alias bombs and deep nesting.
fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000_000,
            max_nodes: 10_000_000,
            max_documents: 200_000,
        },
        with_snippet: false,
    }
}

/// Comment lines of at most [`WIDTH`] columns where words allow it. Control characters and everything else that ends
/// a line or hides text is escaped, so that no comment becomes a node.
fn comment(out: &mut String, text: &str) {
    for line in text.lines() {
        let mut column = 0;
        for word in line.split(' ').filter(|word| !word.is_empty()) {
            let word: String = word.chars().flat_map(printable).collect();
            let length = word.chars().count();
            if column == 0 || column + 1 + length > WIDTH {
                out.push_str(if column == 0 { "#" } else { "\n#  " });
                column = if column == 0 { 1 } else { 3 };
            }
            let _ = write!(out, " {word}");
            column += 1 + length;
        }
        out.push_str(if column == 0 { "#\n" } else { "\n" });
    }
}

fn printable(c: char) -> Box<dyn Iterator<Item = char>> {
    let hidden = c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if hidden { Box::new(c.escape_unicode()) } else { Box::new(std::iter::once(c)) }
}
