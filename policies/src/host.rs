//! An external name as Istio and DNS both accept it. Text from a user, a file or a saved window comes in; a
//! lower-case ASCII (punycode) name goes out, or an error that says what to write instead. Everything downstream
//! holds a [`Host`], so no unchecked text reaches DNS, a terminal or YAML.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Cyrillic and Greek letters that most fonts draw as Latin ones (Unicode's `confusables.txt`, lower case).
const LATIN_LOOK_ALIKES: &str = "\u{430}\u{441}\u{435}\u{43e}\u{440}\u{445}\u{443}\u{456}\u{458}\u{455}\u{4bb}\u{501}\u{51b}\u{51d}\u{4cf}\u{43a}\u{3bf}\u{3bd}\u{3c1}\u{3b1}\u{3b9}\u{3bd}\u{3c5}";

/// A fully qualified name without its trailing dot: 1 to 253 bytes of `[a-z0-9._-]`, every label 1 to 63 bytes
/// (RFC 1035, section 2.3.4) with a letter or digit at both ends (what Istio's validation of `hosts` asks for). Host
/// names proper have no underscore, but names of buckets and the like do, and DNS answers them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(Arc<str>);

/// Why a text is not a [`Host`]. The offending text is escaped, so an error can be printed as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing, or only dots and blanks.
    #[error("empty name")]
    Empty,
    /// Two dots in a row, or a dot in front.
    #[error("{name:?} has an empty label")]
    EmptyLabel {
        /// The text as it was given.
        name: String,
    },
    /// More than 253 bytes in its ASCII form.
    #[error("{name:?} is {length} bytes long, DNS allows 253")]
    TooLong {
        /// The first 40 characters of the text.
        name: String,
        /// Bytes of the ASCII form.
        length: usize,
    },
    /// A label of more than 63 bytes in its ASCII form.
    #[error("label {label:?} is {length} bytes long, DNS allows 63")]
    LabelTooLong {
        /// The first 40 characters of the label.
        label: String,
        /// Bytes of the ASCII form.
        length: usize,
    },
    /// An IPv4 or IPv6 address, which has no DNS answers to classify.
    #[error("{addr} is an IP address, not a name")]
    IpLiteral {
        /// The address.
        addr: IpAddr,
    },
    /// `*.example.com`: DNS cannot be asked about all names at once.
    #[error("{name:?} is a wildcard, which has no DNS answers of its own")]
    Wildcard {
        /// The text as it was given.
        name: String,
    },
    /// A character that no host name may hold, or a hyphen at the edge of a label.
    #[error("label {label:?} of {name:?} is not a host name label")]
    BadLabel {
        /// The text as it was given.
        name: String,
        /// The label at fault.
        label: String,
    },
}

impl HostError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "give a fully qualified name such as api.partner.example",
            Self::EmptyLabel { .. } => "remove the extra dot",
            Self::TooLong { .. } | Self::LabelTooLong { .. } => {
                "check for a pasted URL or a missing line break"
            }
            Self::IpLiteral { .. } => {
                "an address needs no DNS: register it with `resolution: STATIC` and an endpoint"
            }
            Self::Wildcard { .. } => {
                "list the concrete names behind the wildcard, or use `resolution: DYNAMIC_DNS` (Istio 1.30 and later, sidecars)"
            }
            Self::BadLabel { .. } => {
                "use letters, digits and inner hyphens only, without scheme, port or path"
            }
        }
    }
}

impl Host {
    /// Reads a name as a person writes it: any case, Unicode (IDNA, UTS 46), one trailing dot, blanks around it.
    ///
    /// # Errors
    /// One [`HostError`] for each way in which a text is no host name.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let given = text.trim();
        let bare = given.strip_suffix('.').unwrap_or(given);
        if bare.is_empty() {
            return Err(HostError::Empty);
        }
        if let Ok(addr) = bare.trim_start_matches('[').trim_end_matches(']').parse() {
            return Err(HostError::IpLiteral { addr });
        }
        let name = || clip(given);
        if bare.split('.').any(|label| label == "*") {
            return Err(HostError::Wildcard { name: name() });
        }
        if bare.split('.').any(str::is_empty) {
            return Err(HostError::EmptyLabel { name: name() });
        }
        let ascii = idna::domain_to_ascii(bare).unwrap_or_else(|_| bare.to_ascii_lowercase());
        for label in ascii.split('.') {
            let inner = label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'));
            if !inner || label.is_empty() || label.starts_with(['-', '_']) || label.ends_with(['-', '_']) {
                return Err(HostError::BadLabel { name: name(), label: clip(label) });
            }
            if label.len() > 63 {
                return Err(HostError::LabelTooLong { label: clip(label), length: label.len() });
            }
        }
        if ascii.len() > 253 {
            return Err(HostError::TooLong { name: name(), length: ascii.len() });
        }
        Ok(Self(ascii.into()))
    }

    /// What a reader should know of `given`, the text that was read as this name: characters that cannot be seen, or
    /// letters of another script that look like Latin ones. Nothing for nearly all names.
    #[must_use]
    pub fn doubt(&self, given: &str) -> Option<&'static str> {
        if given.trim().is_ascii() {
            return None;
        }
        let seen = |label: &str| label.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let invisible = |c: char| matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}');
        if given.chars().any(invisible) {
            return Some("it holds characters that cannot be seen");
        }
        let foreign = |c: char| matches!(c, '\u{370}'..='\u{52f}' | '\u{13a0}'..='\u{13ff}');
        let looks_alike = |label: &str| {
            let label = seen(&label.to_lowercase());
            let letters = || label.chars().filter(|c| c.is_alphabetic());
            letters().any(foreign)
                && (letters().any(|c| c.is_ascii()) || letters().all(|c| LATIN_LOOK_ALIKES.contains(c)))
        };
        given
            .split('.')
            .any(looks_alike)
            .then_some("it holds letters of another script that look like Latin ones")
    }

    /// The ASCII form, without a trailing dot.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The Unicode form where the name is internationalised and differs from the ASCII form.
    #[must_use]
    pub fn unicode(&self) -> Option<String> {
        if !self.0.contains("xn--") {
            return None;
        }
        let (unicode, result) = idna::domain_to_unicode(&self.0);
        (result.is_ok() && unicode != *self.0).then_some(unicode)
    }
}

fn clip(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(40).chain(['…']).collect() }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::str::FromStr for Host {
    type Err = HostError;
    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text)
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Host {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Host".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "host name, lower case, punycode", "maxLength": 253 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_people_write_are_normalised() {
        for (given, host) in [
            ("API.Partner.Example.", "api.partner.example"),
            (" api.partner.example\n", "api.partner.example"),
            ("münchen.example", "xn--mnchen-3ya.example"),
            ("localhost", "localhost"),
            ("my_bucket.S3.example", "my_bucket.s3.example"),
        ] {
            assert_eq!(Host::parse(given).unwrap().as_str(), host);
        }
        assert_eq!(Host::parse("xn--mnchen-3ya.example").unwrap().unicode().unwrap(), "münchen.example");
        assert_eq!(Host::parse("plain.example").unwrap().unicode(), None);
    }

    #[test]
    fn names_that_do_not_show_what_they_are_raise_a_doubt() {
        for (given, wanted) in [
            ("a\u{200b}pi.example", "cannot be seen"),
            ("\u{430}pi.example", "another script"),
            ("\u{430}\u{440}\u{440}.example", "another script"),
        ] {
            let doubt = Host::parse(given).unwrap().doubt(given).unwrap();
            assert!(doubt.contains(wanted), "{given:?}: {doubt}");
        }
        for given in
            ["api.example", "m\u{fc}nchen.example", "\u{43f}\u{440}\u{438}\u{43c}\u{435}\u{440}.example"]
        {
            assert_eq!(Host::parse(given).unwrap().doubt(given), None, "{given:?}");
        }
    }

    #[test]
    fn each_bad_name_has_its_own_error() {
        let long = format!("{}.example", "a.".repeat(150));
        let label = format!("{}.example", "a".repeat(64));
        for (given, wanted) in [
            ("", "empty name"),
            (".", "empty name"),
            ("a..example", "empty label"),
            (".example", "empty label"),
            (long.as_str(), "empty label"),
            (label.as_str(), "64 bytes long"),
            ("192.0.2.1", "is an IP address"),
            ("[2001:db8::1]", "is an IP address"),
            ("*.partner.example", "is a wildcard"),
            ("https://api.partner.example/x", "is not a host name label"),
            ("api.partner.example:443", "is not a host name label"),
            ("_under.example", "is not a host name label"),
            ("nul\0.example", "is not a host name label"),
            ("-edge.example", "is not a host name label"),
            ("new\nline.example", "is not a host name label"),
            ("esc\u{1b}[31m.example", "is not a host name label"),
        ] {
            let error = Host::parse(given).unwrap_err();
            assert!(error.to_string().contains(wanted), "{given:?}: {error}");
            assert!(!error.to_string().chars().any(char::is_control), "{given:?}");
            assert!(!error.hint().is_empty());
        }
        assert!(matches!(Host::parse(&"abcdefghi.".repeat(30)), Err(HostError::TooLong { length: 299, .. })));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_clean_name_or_a_clean_error(text in "\\PC{0,80}|[a-z0-9.*_:/\\-]{0,300}|.{0,40}") {
            match Host::parse(&text) {
                Ok(host) => {
                    prop_assert!(host.as_str().len() <= 253);
                    prop_assert_eq!(Host::parse(host.as_str()).unwrap(), host);
                }
                Err(error) => prop_assert!(!error.to_string().chars().any(char::is_control)),
            }
        }
    }
}
