//! What went otherwise than hoped, beside the samples: a server that is down or lame, a zone whose servers cannot be
//! found. Made by `authority` and `sweep`, printed by the commands; the remedy is apart from the message. Names come
//! in presentation format, so the text can be printed as it is.

use std::fmt;
use std::net::SocketAddr;

use policies::{Malformed, ObservationWindow, Outcome};

/// One remark about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// No lookup at this server brought a usable answer.
    Silent {
        /// The server.
        server: SocketAddr,
        /// Its own name, where it was found by NS.
        name: Option<String>,
        /// What came back first.
        outcome: Outcome,
    },
    /// The zone's NS record leads to a server that does not speak for it.
    Lame {
        /// The zone.
        zone: String,
        /// The server's name.
        name: String,
        /// Its address.
        server: SocketAddr,
        /// What it answered.
        outcome: Outcome,
    },
    /// The caches do not say which zone the name is in.
    NoZone {
        /// The name.
        name: String,
    },
    /// None of the zone's servers can be used: the caches alone are asked.
    NoAuthority {
        /// The zone.
        zone: String,
        /// What each server answered, by its name; empty where no address was found for any.
        tried: Vec<(String, Outcome)>,
    },
    /// The name is an alias that ends in another zone, whose servers are asked too.
    Alias {
        /// The targets, in order.
        chain: Vec<String>,
    },
    /// The queries of this name, or those of the sweep, were used up before it was done.
    Budget,
    /// The search for the zone's servers was given up.
    SlowSearch,
}

impl Note {
    /// What to do about it; absent where nothing is wrong.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Silent { outcome, .. } => Some(match outcome {
                Outcome::Timeout => "check the address and that UDP port 53 is open to it",
                Outcome::Unreachable => "nothing listens there: check the address and port",
                Outcome::Refused => "it serves other clients or zones only: name another with --resolver",
                Outcome::Malformed(_) => {
                    "what listens there is no DNS server, or a middlebox rewrites its answers"
                }
                Outcome::Truncated => "open TCP port 53 to it: its answers do not fit a datagram",
                _ => "try another one with --resolver",
            }),
            Self::Lame { .. } => Some("tell the zone's operator: some lookups will fail or be slow"),
            Self::NoZone { .. } => {
                Some("name the zone's servers with --authority, or give --authoritative never")
            }
            Self::NoAuthority { .. } => {
                Some("open UDP and TCP port 53 to them for a quick verdict, or give --authoritative never")
            }
            Self::Alias { .. } => None,
            Self::Budget => Some("raise --max-queries"),
            Self::SlowSearch => Some("give it more time, or name the zone's servers with --authority"),
        }
    }

    /// One remark for each server that never gave a usable answer in these windows.
    #[must_use]
    pub fn of_windows(windows: &[ObservationWindow]) -> Vec<Self> {
        let mut notes = Vec::new();
        let Some(window) = windows.first() else { return notes };
        for (index, source) in window.sources.iter().enumerate() {
            let mut samples =
                windows.iter().flat_map(|w| &w.samples).filter(|s| s.source == index).peekable();
            let Some(outcome) = samples.peek().map(|s| s.outcome.clone()) else { continue };
            let usable = |outcome: &Outcome| {
                matches!(outcome, Outcome::Answered { .. } | Outcome::NoData | Outcome::NxDomain)
            };
            let note = Self::Silent { server: source.server, name: source.name.clone(), outcome };
            if !samples.any(|s| usable(&s.outcome)) && !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { server, name: None, outcome } => write!(f, "{server} {}", words(outcome)),
            Self::Silent { server, name: Some(name), outcome } => {
                write!(f, "{name} ({server}) {}", words(outcome))
            }
            Self::Lame { zone, name, server, outcome } => {
                write!(f, "{name} ({server}) is listed as a server of {zone} but {}", words(outcome))
            }
            Self::NoZone { name } => {
                write!(f, "no zone found for {name}: its authoritative servers are not asked")
            }
            Self::NoAuthority { zone, tried } if tried.is_empty() => {
                write!(f, "no address found for any server of {zone}: only the caches are asked")
            }
            Self::NoAuthority { zone, tried } => {
                write!(f, "no server of {zone} can be asked directly, only the caches:")?;
                for (index, (name, outcome)) in tried.iter().enumerate() {
                    write!(f, "{}{name} {}", if index == 0 { " " } else { ", " }, words(outcome))?;
                }
                Ok(())
            }
            Self::Alias { chain } => write!(f, "an alias of {}", chain.join(", then ")),
            Self::Budget => f.write_str("stopped early: all queries that it may take are used up"),
            Self::SlowSearch => {
                f.write_str("the search for the zone's own servers took too long: only the caches are asked")
            }
        }
    }
}

/// The predicate of a sentence whose subject is a server.
fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answered { .. } => "answers without authority".into(),
        Outcome::NoData => "has no such address".into(),
        Outcome::NxDomain => "says that the name does not exist".into(),
        Outcome::ServFail => "answers SERVFAIL".into(),
        Outcome::Refused => "refuses to answer".into(),
        Outcome::OtherRcode(code) => format!("answers with response code {code}"),
        Outcome::Lame => "refers to other servers".into(),
        Outcome::Truncated => "truncates its answers and gives none over TCP".into(),
        Outcome::Timeout => "does not answer".into(),
        Outcome::Unreachable => "cannot be reached".into(),
        Outcome::Malformed(Malformed::Garbage) => "answers what is no DNS message".into(),
        Outcome::Malformed(Malformed::WrongId) => "answers with a wrong id".into(),
        Outcome::Malformed(Malformed::WrongQuestion) => "answers another question".into(),
    }
}
