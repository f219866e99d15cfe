//! One question and one answer, as data. A [`Query`] goes to the zone or to a resolver front, a [`Reply`] comes
//! back; the server puts it on the wire, `lab score` reads it as it is. Faults of the wire (drop, delay, garbage) are
//! [`Effects`] for the caller to carry out, so a simulation can carry them out too.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::command::TcpPort;
use crate::name::Name;

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// The name, in any case.
    pub name: &'a str,
    /// The type.
    pub record_type: RecordType,
    /// Who asks.
    pub client: IpAddr,
    /// EDNS Client Subnet.
    pub ecs: Option<IpNet>,
}

/// Types that the zone knows; the value of any other is carried along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RecordType {
    /// IPv4 address.
    A,
    /// IPv6 address.
    Aaaa,
    /// Alias.
    Cname,
    /// Name server of the zone.
    Ns,
    /// Start of authority.
    Soa,
    /// Any other, by number.
    Other(u16),
}

/// Response codes that the lab gives (RFC 1035, section 4.1.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum Rcode {
    #[default]
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// Response code.
    pub rcode: Rcode,
    /// CNAME links from the name that was asked for to the owner of the addresses.
    pub chain: Vec<Alias>,
    /// Addresses in wire order; empty with `NoError` is NODATA.
    pub addresses: Vec<Answer>,
    /// Prefix length of the client subnet that the answer is for (RFC 7871); absent where none was asked with.
    pub ecs_scope: Option<u8>,
    /// What happens to the answer on its way.
    pub effects: Effects,
}

/// One link of a CNAME chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Alias {
    /// Where it points.
    pub target: Name,
    /// Its time to live, seconds.
    pub ttl: u32,
}

/// One address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The address.
    pub addr: IpAddr,
    /// Its time to live, seconds.
    pub ttl: u32,
}

/// Faults of the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effects {
    /// The answer is never sent.
    pub drop: bool,
    /// The answer is sent this much later.
    pub delay: Duration,
    /// UDP carries an empty answer with TC set.
    pub truncate: Option<TcpPort>,
    /// What is sent is no answer to the question.
    pub mangle: Option<Mangle>,
}

/// Why what is sent is no answer to the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mangle {
    /// Not a DNS message.
    Garbage,
    /// Another id.
    WrongId,
    /// Another question.
    WrongQuestion,
}

impl Reply {
    pub(crate) fn reset(&mut self) {
        self.rcode = Rcode::NoError;
        self.chain.clear();
        self.addresses.clear();
        self.ecs_scope = None;
        self.effects = Effects::default();
    }

    /// A reply that holds nothing but a response code.
    pub(crate) fn fail(&mut self, rcode: Rcode) {
        self.rcode = rcode;
        self.chain.clear();
        self.addresses.clear();
    }
}

impl From<u16> for RecordType {
    fn from(code: u16) -> Self {
        match code {
            1 => Self::A,
            28 => Self::Aaaa,
            5 => Self::Cname,
            2 => Self::Ns,
            6 => Self::Soa,
            other => Self::Other(other),
        }
    }
}

impl From<RecordType> for u16 {
    fn from(record_type: RecordType) -> Self {
        match record_type {
            RecordType::A => 1,
            RecordType::Aaaa => 28,
            RecordType::Cname => 5,
            RecordType::Ns => 2,
            RecordType::Soa => 6,
            RecordType::Other(code) => code,
        }
    }
}

impl std::fmt::Display for RecordType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::A => f.pad("A"),
            Self::Aaaa => f.pad("AAAA"),
            Self::Cname => f.pad("CNAME"),
            Self::Ns => f.pad("NS"),
            Self::Soa => f.pad("SOA"),
            // RFC 3597, section 5.
            Self::Other(code) => f.pad(&format!("TYPE{code}")),
        }
    }
}

/// A text that names no record type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no record type that the lab knows")]
pub struct RecordTypeError(String);

impl std::str::FromStr for RecordType {
    type Err = RecordTypeError;
    fn from_str(text: &str) -> Result<Self, RecordTypeError> {
        Ok(match text.to_ascii_uppercase().as_str() {
            "A" => Self::A,
            "AAAA" => Self::Aaaa,
            "CNAME" => Self::Cname,
            "NS" => Self::Ns,
            "SOA" => Self::Soa,
            other => match other.strip_prefix("TYPE").and_then(|code| code.parse::<u16>().ok()) {
                Some(code) => code.into(),
                None => return Err(RecordTypeError(text.to_owned())),
            },
        })
    }
}

impl TryFrom<String> for RecordType {
    type Error = RecordTypeError;
    fn try_from(text: String) -> Result<Self, RecordTypeError> {
        text.parse()
    }
}

impl From<RecordType> for String {
    fn from(record_type: RecordType) -> Self {
        record_type.to_string()
    }
}
