//! How a request can fail, in the words of the people who have to read the report.

use std::fmt;
use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the application would have seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum Failure {
    /// TCP and TLS were not up in time (curl exit 28).
    ConnectTimeout,
    /// Connection refused (curl exit 7).
    ConnectionRefused,
    /// The connection broke during the TLS handshake (curl exit 35).
    TlsHandshake {
        /// What rustls or the system said.
        said: String,
    },
    /// The connection was closed before an answer began (curl exit 52, 56).
    NoAnswer {
        /// What hyper said.
        said: String,
    },
    /// The connection broke after this many bytes of the body (curl exit 18, 56).
    BrokenBody {
        /// Bytes that had arrived.
        at: u64,
    },
    /// Nothing more came within the time that the request had (curl exit 28).
    Silence,
}

impl Failure {
    pub(super) fn of_connect(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            io::ErrorKind::TimedOut => Self::ConnectTimeout,
            _ => Self::NoAnswer { said: error.to_string() },
        }
    }

    pub(super) fn of_request(error: &hyper::Error) -> Self {
        Self::NoAnswer { said: policies::chain(error) }
    }

    /// The same failures under one word, for counting.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ConnectTimeout => "connect timeout",
            Self::ConnectionRefused => "connection refused",
            Self::TlsHandshake { .. } => "TLS handshake",
            Self::NoAnswer { .. } => "closed before the answer",
            Self::BrokenBody { .. } => "broken body",
            Self::Silence => "timed out",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BrokenBody { at } => write!(f, "reset mid-body at byte {at}"),
            Self::TlsHandshake { said } | Self::NoAnswer { said } => write!(f, "{}: {said}", self.kind()),
            _ => f.write_str(self.kind()),
        }
    }
}
