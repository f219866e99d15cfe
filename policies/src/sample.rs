//! The nouns of measurement: one lookup is a [`DnsSample`], a series of them for one host and record type an
//! [`ObservationWindow`], which is also the file that `--save` writes and `--from` replays. Filled by `probes`
//! (real time) and by `lab score` (simulated time); read by `observe`. A failed lookup is data, never an error.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Host;

/// The two address families, always observed apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RecordType {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

/// Who answers: a caching resolver, which repeats one answer until it expires, or an authoritative server of the
/// zone itself, which draws anew for every query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// A recursive resolver or a forwarder (queries carry RD=1).
    Cache,
    /// An authoritative server of the zone (queries carry RD=0).
    Authority,
}

/// One way to ask: a server, what it is to the zone, and the client subnet that is sent along.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Address and port of the server.
    #[schemars(with = "String")]
    pub server: SocketAddr,
    /// What the server is to the zone.
    pub vantage: Vantage,
    /// EDNS Client Subnet sent with the query (RFC 7871).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub ecs: Option<IpNet>,
    /// The server's own name, where it was found by NS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// How the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// One datagram.
    Udp,
    /// After a truncated datagram, or because the server has no UDP.
    Tcp,
}

/// One lookup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DnsSample {
    /// When the query was sent.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Index into [`ObservationWindow::sources`].
    pub source: usize,
    /// From the first query sent to the last answer received, retries and the TCP attempt included.
    #[serde(rename = "rtt_ms", with = "duration_ms")]
    #[schemars(with = "f64")]
    pub rtt: Duration,
    /// What came back.
    pub outcome: Outcome,
    /// The header and size of the message, where one came back that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
}

/// What came back, in the words of the RFCs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// NOERROR with at least one address of the type asked for.
    Answered {
        /// In wire order, duplicates kept.
        answers: Vec<Answer>,
        /// The CNAME links that lead from the host to the addresses, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cname_chain: Vec<Cname>,
    },
    /// NOERROR without an address of the type asked for (RFC 2308).
    NoData,
    /// NXDOMAIN.
    NxDomain,
    /// SERVFAIL.
    ServFail,
    /// REFUSED.
    Refused,
    /// Any other response code, by number (RFC 6895).
    OtherRcode(u16),
    /// A referral instead of an answer: the server is not authoritative for the name (lame delegation).
    Lame,
    /// TC was set and TCP gave no answer either.
    Truncated,
    /// No answer in time.
    Timeout,
    /// The server's host or port cannot be reached (ICMP unreachable, connection refused).
    Unreachable,
    /// Something came back that is no answer to this query.
    Malformed(Malformed),
}

/// What kind of [`Outcome`] a lookup had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// At least one address.
    Answered,
    /// NOERROR without an address of the type asked for.
    NoData,
    /// NXDOMAIN.
    NxDomain,
    /// SERVFAIL.
    ServFail,
    /// REFUSED.
    Refused,
    /// Any other response code.
    OtherRcode,
    /// A referral instead of an answer.
    Lame,
    /// TC was set and TCP gave no answer either.
    Truncated,
    /// No answer in time.
    Timeout,
    /// The server's host or port cannot be reached.
    Unreachable,
    /// Something that is not an answer to the query.
    Malformed,
}

/// Why a message is no answer to the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// The bytes are no DNS message.
    Garbage,
    /// The message carries another id.
    WrongId,
    /// The message answers another question.
    WrongQuestion,
}

/// One address of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The address.
    pub addr: IpAddr,
    /// Remaining time to live as it came over the wire, seconds.
    #[serde(rename = "ttl_s")]
    pub ttl: u32,
}

/// One link of a CNAME chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cname {
    /// Where the alias points, in presentation format (RFC 1035 escapes for bytes that are not printable).
    pub target: String,
    /// Remaining time to live of the link, seconds.
    #[serde(rename = "ttl_s")]
    pub ttl: u32,
}

/// Header and size of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// Bytes of the message.
    pub size: usize,
    /// AA: the server speaks for the zone.
    pub authoritative: bool,
    /// TC was set on the datagram.
    pub truncated: bool,
    /// What carried the answer that was used.
    pub transport: Transport,
    /// The server's EDNS payload size, where it sent an OPT record (RFC 6891).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edns: Option<u16>,
    /// The scope prefix length of the client subnet (RFC 7871); absent where the server ignored it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecs_scope: Option<u8>,
}

/// A series of lookups of one host and record type: what `--save` writes and `--from` reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObservationWindow {
    /// The name that was asked for.
    pub host: Host,
    /// The record type that was asked for.
    pub record_type: RecordType,
    /// The servers that were asked.
    pub sources: Vec<Source>,
    /// When the first query was about to be sent.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// When the window was closed: the last moment that it can speak of.
    #[schemars(with = "String")]
    pub ended_at: Timestamp,
    /// In the order in which they were sent.
    pub samples: Vec<DnsSample>,
}

impl ObservationWindow {
    /// An empty window that starts now.
    #[must_use]
    pub fn new(host: Host, record_type: RecordType, sources: Vec<Source>, now: Timestamp) -> Self {
        Self { host, record_type, sources, started_at: now, ended_at: now, samples: Vec::new() }
    }
}

impl Outcome {
    /// What kind of outcome it is, without its details.
    #[must_use]
    pub const fn kind(&self) -> OutcomeKind {
        match self {
            Self::Answered { .. } => OutcomeKind::Answered,
            Self::NoData => OutcomeKind::NoData,
            Self::NxDomain => OutcomeKind::NxDomain,
            Self::ServFail => OutcomeKind::ServFail,
            Self::Refused => OutcomeKind::Refused,
            Self::OtherRcode(_) => OutcomeKind::OtherRcode,
            Self::Lame => OutcomeKind::Lame,
            Self::Truncated => OutcomeKind::Truncated,
            Self::Timeout => OutcomeKind::Timeout,
            Self::Unreachable => OutcomeKind::Unreachable,
            Self::Malformed(_) => OutcomeKind::Malformed,
        }
    }
}

impl OutcomeKind {
    /// In snake case, as it is spelled in a saved window.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::NoData => "no_data",
            Self::NxDomain => "nx_domain",
            Self::ServFail => "serv_fail",
            Self::Refused => "refused",
            Self::OtherRcode => "other_rcode",
            Self::Lame => "lame",
            Self::Truncated => "truncated",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Malformed => "malformed",
        }
    }

    /// The server says that there is no such address: NXDOMAIN, or NOERROR without one.
    #[must_use]
    pub const fn is_denial(self) -> bool {
        matches!(self, Self::NxDomain | Self::NoData)
    }

    /// The lookup failed: neither an address nor a denial came back.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Answered) && !self.is_denial()
    }

    /// No server was heard.
    #[must_use]
    pub const fn is_silence(self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable)
    }
}

impl std::fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl RecordType {
    /// Both, in the order in which they are reported.
    pub const BOTH: [Self; 2] = [Self::A, Self::Aaaa];
}

impl std::fmt::Display for RecordType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
        })
    }
}

/// A duration as a JSON number of milliseconds.
pub(crate) mod duration_ms {
    use super::{Deserialize, Duration};
    use serde::{Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        let micros = (duration.as_secs_f64() * 1e6).round();
        serializer.serialize_f64(micros / 1e3)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let ms = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(ms / 1e3).map_err(D::Error::custom)
    }
}
