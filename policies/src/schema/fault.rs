//! A departure of a resource from its shape: what `check` and `metadata` find, and the audit tells.

use crate::manifest::node::Place;

/// One departure from the shape.
pub(crate) struct Fault {
    pub(crate) at: Place,
    /// `spec.ports[0].number`.
    pub(crate) path: String,
    pub(crate) what: What,
    /// One sentence without a full stop.
    pub(crate) message: String,
}

/// Kinds of departure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A field that the release does not know; `instead` are those that it knows there, `since` the release that has it.
    Unknown { instead: Vec<&'static str>, since: Option<&'static str> },
    /// A value of another type, or none.
    Type,
    /// A field that has to be there.
    Missing,
    /// A value that is none of those that are allowed.
    Value,
    /// Fields that do not go together.
    Together,
    /// `apiVersion` or `metadata`.
    Metadata,
}

impl What {
    /// The API server takes the resource all the same.
    pub(crate) fn is_dropped(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}
