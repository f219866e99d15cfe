//! Where a statement comes from. Tables of behaviour, reasons of a recommendation and findings of the audit carry
//! [`Citation`]s as data; renderers choose the words around them.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One source of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "at")]
pub enum Citation {
    /// A page of the public documentation or a source file, by URL.
    Docs(Cow<'static, str>),
    /// A public issue or pull request, by URL.
    Thread(Cow<'static, str>),
    /// An experiment of the lab, by id: `egress-audit lab run <id>` measures it again.
    Lab(Cow<'static, str>),
    /// The observed window itself.
    Window,
    /// Follows from the other statements.
    Deduced,
}

impl Citation {
    /// A page of the documentation.
    #[must_use]
    pub const fn docs(url: &'static str) -> Self {
        Self::Docs(Cow::Borrowed(url))
    }

    /// An issue or pull request.
    #[must_use]
    pub const fn thread(url: &'static str) -> Self {
        Self::Thread(Cow::Borrowed(url))
    }

    /// An experiment of the lab.
    #[must_use]
    pub const fn lab(experiment: &'static str) -> Self {
        Self::Lab(Cow::Borrowed(experiment))
    }
}

impl fmt::Display for Citation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Docs(url) | Self::Thread(url) => f.write_str(url),
            Self::Lab(id) => write!(f, "measured by `egress-audit lab run {id}`"),
            Self::Window => f.write_str("this window"),
            Self::Deduced => f.write_str("follows from the above"),
        }
    }
}

/// A statement with its sources: one sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// What is so.
    pub text: String,
    /// How it is known, never empty.
    pub evidence: Vec<Citation>,
}

impl Reason {
    pub(crate) fn new(text: impl Into<String>, evidence: &[Citation]) -> Self {
        Self { text: text.into(), evidence: evidence.to_vec() }
    }
}
