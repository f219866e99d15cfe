//! What is wrong with a scenario, where, and what to write instead.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::{Error, MessageFormatter, Options, Spanned};

use crate::schema::problem::{Place, Problem};

/// Greatest size of a scenario file, bytes.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// A scenario that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", position(*line, *column))]
pub struct ScenarioError {
    /// Line, counted from 1; 0 where it is not known.
    pub line: u64,
    /// Column in characters, counted from 1; 0 where it is not known.
    pub column: u64,
    /// What is wrong; control characters are escaped.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

fn position(line: u64, column: u64) -> String {
    if line == 0 { String::new() } else { format!("line {line}, column {column}: ") }
}

impl ScenarioError {
    pub(super) fn too_big(bytes: usize) -> Self {
        Self {
            line: 0,
            column: 0,
            message: format!("the scenario is {bytes} bytes long, the limit is {MAX_BYTES}"),
            hint: "write a large pool as a range, {from: 10.0.0.1, count: 400}, and many names as a wildcard"
                .into(),
        }
    }

    pub(super) fn yaml(error: &Error) -> Self {
        let mut error = error.without_snippet();
        let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
        while let Error::AliasError { error: inner, .. } = error {
            error = inner.without_snippet();
        }
        let hint = match error {
            Error::SerdeUnknownField { field, expected, .. } => nearest(field, expected),
            Error::SerdeUnknownVariant { variant, expected, .. } => nearest(variant, expected),
            Error::SerdeMissingField { field, .. } => format!("add `{field}:`"),
            Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. } => {
                "the file is too large, too deep or refers to itself too often: write it out plainly".into()
            }
            _ => "the scenario reference in the book describes every key".into(),
        };
        let message = escape(&serde_saphyr::DefaultMessageFormatter.format_message(error));
        Self { line, column, message, hint }
    }

    pub(super) fn located(problem: &Problem, text: &str) -> Self {
        let (line, column) = locate(&problem.place, text).unwrap_or((0, 0));
        Self { line, column, message: problem.to_string(), hint: problem.hint.into() }
    }
}

/// Bounds that no honest scenario comes near, so that huge or recursive YAML is refused early.
pub(super) fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(MAX_BYTES),
            max_events: 1_000_000,
            max_nodes: 500_000,
            max_depth: 32,
            max_aliases: 1_000,
            max_anchors: 200,
            max_documents: 1,
            max_total_scalar_bytes: MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 8,
        },
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// The known word that comes closest, or all of them.
fn nearest(word: &str, known: &[&str]) -> String {
    // A long word is not a near miss of any.
    let word: String = word.chars().take(40).collect();
    let close = known.iter().map(|k| (strsim::levenshtein(&word, k), k)).min();
    match close {
        Some((d, known)) if d <= 1 + known.len() / 4 => format!("did you mean `{known}`?"),
        _ => format!("known here: {}", known.join(", ")),
    }
}

/// Text of the file on its way to a terminal.
fn escape(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_debug().collect() } else { vec![c] }).collect()
}

/// Finds the line of a problem that came to light after reading: the file is read again for positions only.
fn locate(place: &Place, text: &str) -> Option<(u64, u64)> {
    #[derive(Deserialize)]
    struct Positions {
        #[serde(default)]
        names: BTreeMap<String, Spanned<IgnoredAny>>,
        #[serde(default)]
        steps: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        resolvers: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        ns: Vec<Spanned<IgnoredAny>>,
    }
    let positions: Positions = serde_saphyr::from_str_with_options(text, options()).ok()?;
    let node = match place {
        Place::Scenario => return None,
        Place::Name(name) => {
            let written = |key: &&String| key.trim_end_matches('.').eq_ignore_ascii_case(name.as_str());
            positions.names.get(positions.names.keys().find(written)?)
        }
        Place::Step(index) => positions.steps.get(*index),
        Place::Resolver(index) => positions.resolvers.get(*index),
        Place::NameServer(index) => positions.ns.get(*index),
    };
    node.map(|node| (node.referenced.line(), node.referenced.column()))
}
