//! What could not be done: the thing at fault, what is wrong and what would help. Part of every report, and the error that
//! commands end with.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that could not be done; a command that cannot go on returns it as its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{subject}: {message}")]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The thing at fault: a name, a file and line, a resolver.
    pub subject: String,
    /// What is wrong with it, a lower-case fragment that reads after the subject.
    pub message: String,
    /// What would help.
    pub hint: String,
}

impl Problem {
    /// A problem with its remedy.
    pub fn new(subject: impl Display, message: impl Display, hint: impl Into<String>) -> Self {
        Self { subject: subject.to_string(), message: message.to_string(), hint: hint.into() }
    }
}
