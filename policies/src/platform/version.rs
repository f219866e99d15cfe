//! Versions of Istio and Envoy as people write them: `1.31`, `1.31.2`, `v1.31`, `1.31.2-distroless`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A release line, or one release of it. `1.39` stands for every 1.39 release and compares as `1.39.0`.
#[derive(Debug, Clone, Copy)]
pub struct Version {
    major: u16,
    minor: u16,
    patch: Option<u16>,
}

/// Why a text is not a version. The text is escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a version")]
pub struct VersionError {
    text: String,
}

impl VersionError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "write major.minor or major.minor.patch, such as 1.31 or 1.40.0"
    }
}

impl Version {
    /// A release line.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor, patch: None }
    }

    /// One release, such as 1.40.0.
    #[must_use]
    pub const fn release(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch: Some(patch) }
    }

    /// Whether all three numbers were given.
    #[must_use]
    pub const fn is_release(self) -> bool {
        self.patch.is_some()
    }

    /// The same line without the patch number.
    #[must_use]
    pub const fn line(self) -> Self {
        Self::new(self.major, self.minor)
    }

    /// Second number, which is what Istio and Envoy count their releases by.
    #[must_use]
    pub const fn minor(self) -> u16 {
        self.minor
    }

    fn key(self) -> (u16, u16, u16) {
        (self.major, self.minor, self.patch.unwrap_or(0))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Version {}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// A leading `v` and a suffix after `-` or `+` (a build's flavour) are accepted and ignored.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError { text: text.chars().take(40).collect() };
        let given = text.trim();
        let bare = given.strip_prefix('v').unwrap_or(given);
        let numbers = bare.split(['-', '+']).next().unwrap_or_default();
        let parts = numbers
            .split('.')
            .map(|part| {
                let digits = part.bytes().all(|b| b.is_ascii_digit());
                part.parse::<u16>().ok().filter(|_| digits).ok_or_else(error)
            })
            .collect::<Result<Vec<_>, _>>()?;
        match parts[..] {
            [major, minor] => Ok(Self { major, minor, patch: None }),
            [major, minor, patch] => Ok(Self { major, minor, patch: Some(patch) }),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self.patch {
            Some(patch) => format!("{}.{}.{patch}", self.major, self.minor),
            None => format!("{}.{}", self.major, self.minor),
        })
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Version {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Version".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": r"^\d+\.\d+(\.\d+)?$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_as_people_write_them() {
        for (text, shown) in [
            ("1.31", "1.31"),
            ("v1.31", "1.31"),
            (" 1.31.2\n", "1.31.2"),
            ("1.40.0", "1.40.0"),
            ("1.31.2-distroless", "1.31.2"),
        ] {
            assert_eq!(text.parse::<Version>().unwrap().to_string(), shown);
        }
        assert_eq!("1.40".parse::<Version>().unwrap(), "1.40.0".parse().unwrap());
        assert!("1.9".parse::<Version>().unwrap() < Version::new(1, 10));
        assert!("1.39.1".parse::<Version>().unwrap() > Version::new(1, 39));
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        for text in ["", "1", "latest", "1.", ".31", "1.31.2.4", "1.x", "+1.31", "1.99999", "1.31\u{1b}[0m"] {
            let error = text.parse::<Version>().unwrap_err();
            assert!(!error.to_string().chars().any(char::is_control), "{text:?}");
            assert!(error.hint().contains("1.31"));
        }
    }

    proptest! {
        #[test]
        fn printed_versions_read_back(major in 0u16..9, minor in 0u16..99, patch in proptest::option::of(0u16..99)) {
            let version = Version { major, minor, patch };
            prop_assert_eq!(version.to_string().parse::<Version>().unwrap().key(), version.key());
            prop_assert_eq!(version.to_string().parse::<Version>().unwrap().to_string(), version.to_string());
        }
    }
}
