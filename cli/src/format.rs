//! The forms of output, one list, and which of them each kind of result has. Arguments are read against it before any
//! work begins, and `report` looks a saved result's forms up in it.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error, ValueEnum};

use crate::problem::Problem;

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For reading.
    Text,
    /// One row for each name, proxy or cell.
    Table,
    /// The whole result, for other programs (`egress-audit schema` has the form of a report).
    Json,
    /// One JSON document a line for each name, proxy or cell.
    Jsonl,
    /// For an issue or a wiki.
    Markdown,
    /// A page of its own, with timelines.
    Html,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
    /// `JUnit` XML, for CI servers.
    Junit,
}

/// What a result is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Names and their classes.
    Hosts,
    /// An audit of manifests.
    Audit,
    /// Cells of the lab.
    Lab,
    /// Running proxies.
    Proxies,
    /// The classifier's score.
    Score,
    /// The query log of the lab DNS.
    QueryLog,
}

impl Kind {
    /// The forms that it has; the first is the default.
    #[must_use]
    pub fn formats(self) -> &'static [Format] {
        use Format::{Github, Html, Json, Jsonl, Junit, Markdown, Sarif, Table, Text};
        match self {
            Self::Hosts | Self::Proxies => &[Text, Table, Json, Jsonl, Markdown],
            Self::Audit => &[Text, Json, Sarif, Markdown, Github, Junit],
            Self::Lab => &[Text, Table, Json, Jsonl, Markdown, Html],
            Self::Score => &[Text, Json, Markdown],
            Self::QueryLog => &[Text, Json],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Hosts => "a classification",
            Self::Audit => "an audit",
            Self::Lab => "a run of the lab",
            Self::Proxies => "a status of proxies",
            Self::Score => "a score",
            Self::QueryLog => "a query log",
        }
    }

    /// The format, where this kind has it.
    ///
    /// # Errors
    /// It does not; the problem names the formats that it has.
    pub fn check(self, format: Format) -> Result<Format, Problem> {
        if self.formats().contains(&format) {
            return Ok(format);
        }
        let hint = format!("{} has {}", self.name(), self.names().join(", "));
        Err(Problem::new(format!("`{}`", format.name()), format!("is not a format of {}", self.name()), hint))
    }

    fn names(self) -> Vec<String> {
        self.formats().iter().map(|format| format.name()).collect()
    }
}

impl Format {
    /// The word that is typed.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Reads the formats of one kind of result from the command line.
#[derive(Debug, Clone, Copy)]
pub struct FormatOf(pub Kind);

impl TypedValueParser for FormatOf {
    type Value = Format;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<Format, Error> {
        let word = value.to_string_lossy();
        let refuse = |text: String| Error::raw(ErrorKind::InvalidValue, text + "\n").with_cmd(command);
        let format = Format::from_str(&word, false).map_err(|_| {
            let known = self.0.names().join(", ");
            refuse(format!("`{}` is not a format; {} has {known}", word.escape_default(), self.0.name()))
        })?;
        self.0.check(format).map_err(|problem| refuse(format!("{problem}; {}", problem.hint)))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.formats().iter().filter_map(Format::to_possible_value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 6] =
        [Kind::Hosts, Kind::Audit, Kind::Lab, Kind::Proxies, Kind::Score, Kind::QueryLog];

    #[test]
    fn what_a_kind_lacks_is_refused_with_what_it_has() {
        for kind in KINDS {
            for format in Format::value_variants() {
                match kind.check(*format) {
                    Ok(same) => assert!(same == *format && kind.formats().contains(format)),
                    Err(problem) => {
                        let text = format!("{problem}; {}", problem.hint);
                        let known = kind.names();
                        assert!(text.contains(&format.name()) && text.contains(kind.name()), "{text}");
                        assert!(known.iter().all(|name| problem.hint.contains(name)), "{text}");
                    }
                }
            }
        }
    }
}
