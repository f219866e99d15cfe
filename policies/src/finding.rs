//! What the audit says: one [`Finding`] is one thing to change at one place, with what it rests on. Made by `audit`,
//! printed by `cli`'s renderers, remembered by a baseline.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Citation;
use crate::manifest::Kind;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Costs something, or will.
    Warning,
    /// Does not work, or takes traffic down.
    Error,
}

impl Severity {
    /// In lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One thing to change at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The rule, such as `EA101`.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub at: Spot,
    /// What is wrong: one sentence without a full stop.
    pub message: String,
    /// What to do: one sentence without a full stop.
    pub hint: String,
    /// How it is known.
    pub evidence: Vec<Citation>,
    /// Other resources that it involves.
    pub related: Vec<Spot>,
    /// What tells this finding from the rule's others on the same resource, such as a host; stays the same when lines
    /// move.
    pub detail: String,
    /// Changes of the file that remove the finding; empty where a person has to decide.
    pub edits: Vec<Edit>,
}

/// A place in a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spot {
    /// The file.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1, in characters.
    pub column: u32,
    /// Kind of the resource.
    pub kind: Kind,
    /// Its namespace; empty where the file leaves it to `kubectl`.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Replaces the bytes from `start` up to `end` of the file by `text`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
    /// What comes there.
    pub text: String,
}

impl Finding {
    /// What a baseline remembers: rule, resource and detail, but no line.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let Spot { kind, namespace, name, .. } = &self.at;
        format!("{} {kind} {namespace}/{name} {}", self.code, self.detail)
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
