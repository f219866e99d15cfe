//! What can be done to a zone while it is served. The same [`Command`] comes from a timed step, the control API and
//! a test, and goes to [`Zone::apply`](crate::Zone::apply).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::schema::records::{Cname, RecordSet};
use crate::schema::scalar::{Interval, Ttl};

/// A change of the zone. Visible to the very next query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Replaces what a name answers, as far as it is given; creates the name where it is new.
    Set(Box<Set>),
    /// Answer exactly these addresses, or alias these names, from now on. TTL and order stay.
    Flip(Flip),
    /// Replaces the oldest members in service by the next of the pool; an alias goes on to its next target.
    Rotate(Rotate),
    /// Changes the weights of a `weighted` answer or of the groups.
    Weight(Weight),
    /// Adds a fault.
    Fault(FaultOn),
    /// Removes every fault.
    Clear(Clear),
}

/// New data of a name; what is left out stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The name.
    pub name: Name,
    /// IPv4 addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<RecordSet>,
    /// IPv6 addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aaaa: Option<RecordSet>,
    /// An alias, in place of addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cname: Option<Cname>,
    /// Time to live of the records that the name has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Ttl>,
    /// How many of the pool are in service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<usize>,
}

/// New addresses or alias targets of a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    /// The name.
    pub name: Name,
    /// Addresses (a family that is not named keeps its own), or names.
    pub to: Vec<Target>,
}

/// An address or a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// An address.
    Addr(IpAddr),
    /// A name.
    Name(Name),
}

/// A rolling replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotate {
    /// The name.
    pub name: Name,
    /// Members to replace (default 1).
    #[serde(default = "one")]
    pub by: usize,
}

/// New weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// The name.
    pub name: Name,
    /// One per member of the pool, or one per group.
    pub weights: Vec<f64>,
}

/// A fault and where it applies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultOn {
    /// The name; absent: every name of the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The fault.
    pub fault: Fault,
}

/// Removal of faults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// The name; absent: the whole zone and every name in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
}

/// A fault of the server or the network. A second one of the same kind and family replaces the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Share of the answers that it hits, 0 to 1 (default 1).
    #[serde(default = "all")]
    pub share: f64,
    /// Only answers about this family (default: both).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Family>,
}

/// What goes wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// NXDOMAIN: the name does not exist.
    Nxdomain,
    /// NOERROR without an address.
    Nodata,
    /// SERVFAIL.
    Servfail,
    /// REFUSED.
    Refused,
    /// No answer at all.
    Drop,
    /// The answer comes this much later.
    Delay(Interval),
    /// An empty answer with TC set over UDP; TCP then gives the full answer (`open`) or none
    /// (`closed`).
    Truncate(TcpPort),
    /// Bytes that are no DNS message; over TCP no answer, as for the next two.
    Garbage,
    /// The right answer under another id.
    WrongId,
    /// An answer to another question.
    WrongQuestion,
}

/// What TCP does for a truncated answer: gives the full one (`open`), or never answers (`closed`; for a port that
/// refuses connections set `tcp: false` in the scenario).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TcpPort {
    /// Answers.
    Open,
    /// Never answers.
    Closed,
}

/// A family of addresses, by its record type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// IPv4.
    A,
    /// IPv6.
    Aaaa,
}

/// Why a command does not fit the zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The name is not in the zone's data.
    #[error("no such name: {name}")]
    UnknownName {
        /// The name.
        name: Name,
    },
    /// The name lies outside the zone that is served.
    #[error("{name} is outside the zone {zone}")]
    OutsideZone {
        /// The name.
        name: Name,
        /// The zone.
        zone: Name,
    },
    /// A flip without a target.
    #[error("flip of {name} names no address and no alias")]
    FlipToNothing {
        /// The name.
        name: Name,
    },
    /// A flip to addresses and names at once.
    #[error("flip of {name} names addresses and aliases at once")]
    FlipToBoth {
        /// The name.
        name: Name,
    },
    /// Nothing of the name can be replaced in turn.
    #[error("{name} has no pool and no alias to rotate")]
    NoPool {
        /// The name.
        name: Name,
    },
    /// The record sets have no weights, or another number of them.
    #[error("{name} has no {given} weights to change")]
    NoWeights {
        /// The name.
        name: Name,
        /// Weights that the command gave.
        given: usize,
    },
    /// New data that breaks a rule of the scenario file.
    #[error(transparent)]
    Data(#[from] crate::schema::problem::Problem),
}

impl CommandError {
    /// What to do instead.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::UnknownName { .. } => "list the names in service, or create the name with `set`",
            Self::OutsideZone { .. } => "choose a name in the zone, or change `zone` in the scenario",
            Self::FlipToNothing { .. } => "give an address, or use the fault `nodata` for an empty answer",
            Self::FlipToBoth { .. } => "give either addresses or one or more names",
            Self::NoPool { .. } => "give the name a `pool`; `groups` do not rotate",
            Self::NoWeights { .. } => {
                "give one weight per pool member of a `weighted` answer, or one per group"
            }
            Self::Data(problem) => problem.hint,
        }
    }
}

impl Set {
    /// A command that changes nothing yet.
    #[must_use]
    pub fn of(name: Name) -> Self {
        Self { name, a: None, aaaa: None, cname: None, ttl: None, members: None }
    }
}

fn one() -> usize {
    1
}

fn all() -> f64 {
    1.0
}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Self {
        Self { kind, share: 1.0, only: None }
    }
}

impl TryFrom<String> for Target {
    type Error = crate::name::NameError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.parse() {
            Ok(addr) => Ok(Self::Addr(addr)),
            Err(_) => Name::parse(&text).map(Self::Name),
        }
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        match target {
            Target::Addr(addr) => addr.to_string(),
            Target::Name(name) => name.into(),
        }
    }
}
