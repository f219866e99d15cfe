//! A DNS name of the lab. Text of a scenario, a command or a query comes in; a checked name goes out that compares
//! without regard to case but remembers its spelling (a mixed-case CNAME target goes over the wire as written).

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// 1 to 253 bytes, labels of 1 to 63 bytes out of letters, digits, `-` and `_`, without the trailing dot. The first
/// label may be `*`, which stands for every name below the rest that is not written out.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name {
    lower: Arc<str>,
    spelled: Arc<str>,
}

/// A text that is no [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a DNS name: {why}")]
pub struct NameError {
    text: String,
    why: &'static str,
}

impl Name {
    /// Reads a name; one trailing dot is accepted.
    ///
    /// # Errors
    /// [`NameError`] says what is wrong; the text is escaped in it.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        let fail = |why| Err(NameError { text: text.chars().take(80).collect(), why });
        if bare.is_empty() || bare.len() > 253 {
            return fail("it must be 1 to 253 bytes long");
        }
        for (i, label) in bare.split('.').enumerate() {
            if label.is_empty() || label.len() > 63 {
                return fail("a label must be 1 to 63 bytes long");
            }
            let plain = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
            if !(plain || (i == 0 && label == "*")) {
                return fail("use letters, digits, `-` and `_` (IDN: punycode), `*` only as the first label");
            }
        }
        let spelled: Arc<str> = bare.into();
        let lower = if bare.bytes().any(|b| b.is_ascii_uppercase()) {
            bare.to_ascii_lowercase().into()
        } else {
            spelled.clone()
        };
        Ok(Self { lower, spelled })
    }

    /// The form that names are compared in: lower case, no trailing dot.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.lower
    }

    /// The form that goes over the wire.
    #[must_use]
    pub fn spelled(&self) -> &str {
        &self.spelled
    }

    /// Whether this is `zone` or lies below it.
    #[must_use]
    pub fn is_within(&self, zone: &Name) -> bool {
        is_within(&self.lower, &zone.lower)
    }
}

/// Whether `name` is `zone` or lies below it; both lower case.
pub(crate) fn is_within(name: &str, zone: &str) -> bool {
    name.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The name without its first label.
pub(crate) fn parent(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, rest)| rest)
}

/// Lower case without the trailing dot; borrowed where it is so already.
pub(crate) fn normal(name: &str) -> Cow<'_, str> {
    let bare = name.strip_suffix('.').unwrap_or(name);
    if bare.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(bare.to_ascii_lowercase())
    } else {
        Cow::Borrowed(bare)
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::parse(&text)
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.spelled.as_ref().to_owned()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.spelled)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.spelled, f)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.lower == other.lower
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.lower.cmp(&other.lower)
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.lower.hash(state);
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_by_lower_case_and_keep_their_spelling() {
        let name = Name::parse("Edge.CDN.example.").unwrap();
        assert_eq!(name, Name::parse("edge.cdn.example").unwrap());
        assert_eq!((name.as_str(), name.spelled()), ("edge.cdn.example", "Edge.CDN.example"));
    }

    #[test]
    fn bad_names_are_refused() {
        for bad in ["", ".", "a..b", "a b.example", "x.*.example", "bücher.example", &"a".repeat(64)] {
            assert!(Name::parse(bad).is_err(), "{bad}");
        }
        assert!(Name::parse("*.pool.example").is_ok());
    }

    #[test]
    fn within_means_on_a_label_boundary() {
        assert!(is_within("a.example", "example") && is_within("example", "example"));
        assert!(!is_within("notexample", "example"));
    }
}
