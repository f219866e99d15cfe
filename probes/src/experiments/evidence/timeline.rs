//! A cell on one time axis. Filled by the bench's recorder, drawn by the HTML page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lanes over a common time axis, ms from the start of the cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// From top to bottom.
    pub lanes: Vec<Lane>,
    /// Moments that matter to all lanes.
    pub marks: Vec<Mark>,
    /// The end of the axis.
    pub end_ms: u64,
}

/// One row of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// `DNS answer`, `Envoy's list`, `connection 1`.
    pub name: String,
    /// In order of time.
    pub spans: Vec<Span>,
}

/// A stretch of time during which one thing held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Start.
    pub from_ms: u64,
    /// End.
    pub to_ms: u64,
    /// What held.
    pub label: String,
}

/// A moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// When.
    pub at_ms: u64,
    /// What happened.
    pub label: String,
}
