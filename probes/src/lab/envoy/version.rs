//! Which Envoy a binary is, read from what it prints for `--version`, and the one question that the version decides
//! before anything runs: how its DNS clusters have to be written.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `major.minor.patch` of an Envoy release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct EnvoyVersion {
    /// Always 1 so far.
    pub major: u16,
    /// The quarterly release.
    pub minor: u16,
    /// The fix release.
    pub patch: u16,
}

/// A text that is no Envoy version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an Envoy version")]
pub struct VersionError {
    /// The text as it was given, clipped.
    pub text: String,
}

impl VersionError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "write all three numbers, such as 1.40.0"
    }
}

impl EnvoyVersion {
    /// A version from its numbers.
    #[must_use]
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// Whether STRICT_DNS and LOGICAL_DNS are one class by default (Envoy 1.39.0 turned on
    /// `envoy.reloadable_features.enable_new_dns_implementation` and deprecated the cluster's own DNS fields).
    #[must_use]
    pub fn unified_dns(self) -> bool {
        self >= Self::new(1, 39, 0)
    }

    /// Reads the line of `envoy --version`: `.../envoy  version: <sha>/1.40.0/Clean/RELEASE/BoringSSL`.
    #[must_use]
    pub fn from_banner(banner: &str) -> Option<Self> {
        let build = banner.split("version:").nth(1)?;
        build.split('/').find_map(|part| part.trim().parse().ok())
    }
}

impl FromStr for EnvoyVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError { text: text.chars().take(40).collect() };
        // A development build calls itself 1.41.0-dev, a distributor's 1.38.3-1.
        let bare = text.trim().trim_start_matches('v').split('-').next().unwrap_or_default();
        let numbers: Vec<u16> =
            bare.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| error())?;
        match numbers[..] {
            [major, minor, patch] => Ok(Self { major, minor, patch }),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for EnvoyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}.{}", self.major, self.minor, self.patch))
    }
}

impl From<EnvoyVersion> for String {
    fn from(version: EnvoyVersion) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for EnvoyVersion {
    type Error = VersionError;
    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_of_real_builds_are_read() {
        for (banner, version) in [
            (
                "\n/tmp/x/envoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/1.40.0/Clean/RELEASE/BoringSSL\n",
                "1.40.0",
            ),
            ("envoy  version: 0/1.36.4-dev/Modified/DEBUG/BoringSSL", "1.36.4"),
        ] {
            assert_eq!(EnvoyVersion::from_banner(banner).unwrap().to_string(), version);
        }
        assert_eq!(EnvoyVersion::from_banner("bash: envoy: cannot execute binary file"), None);
    }

    #[test]
    fn order_is_numeric_and_a_short_version_is_refused() {
        let parse = |text: &str| text.parse::<EnvoyVersion>();
        assert!(parse("1.9.9").unwrap() < parse("1.36.0").unwrap());
        assert!(!parse("1.38.3").unwrap().unified_dns() && parse("1.39.0").unwrap().unified_dns());
        for bad in ["1.40", "", "latest", "1.40.0.1", "../1.2.3", "-1.2.3"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
