//! The types of a scenario file and of the commands' arguments, without anything that runs. The doc comments of these
//! types are the reference chapter of the book. `scenario` reads and checks them, the zone and the caches carry them out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::command::{Command, Fault};
use crate::name::Name;

pub(crate) mod parts;
pub(crate) mod pool;
pub(crate) mod problem;
pub(crate) mod records;
pub(crate) mod resolver;
pub(crate) mod scalar;

use records::{Cname, RecordSet};
use resolver::ResolverSpec;
use scalar::{Interval, Moment};

/// A zone, what its names answer, and what happens to them as time passes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What the scenario shows, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Apex of the zone that is served; every name lies in it (default `example`).
    #[serde(default = "default_zone")]
    pub zone: Name,
    /// Name servers of the zone (default: `ns1.` and the apex, with the address that the server is bound to).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ns: Vec<NameServer>,
    /// TTL of negative answers and of the SOA record, seconds (default 5).
    #[serde(default = "default_negative_ttl")]
    pub negative_ttl: u32,
    /// Whether the server listens on TCP too (default true).
    #[serde(default = "yes")]
    pub tcp: bool,
    /// Greatest UDP answer in bytes, whatever size the client offers by EDNS (default 4096).
    #[serde(default = "default_max_udp")]
    pub max_udp: u16,
    /// Whether EDNS Client Subnet is honoured (default true); if not, clients are told apart by source address.
    #[serde(default = "yes")]
    pub ecs: bool,
    /// What each name answers.
    #[serde(default)]
    pub names: BTreeMap<Name, NameSpec>,
    /// What happens as time passes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Caching resolvers in front of the zone, each served on a port of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<ResolverSpec>,
}

/// A name server of the zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NameServer {
    /// Its name, within the zone.
    pub name: Name,
    /// Its addresses.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<IpAddr>,
}

/// What one name answers: A and AAAA (independent of each other), or an alias. A name with none of them exists but
/// has no data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NameSpec {
    /// IPv4 addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<RecordSet>,
    /// IPv6 addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aaaa: Option<RecordSet>,
    /// The name is an alias; excludes `a` and `aaaa`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cname: Option<Cname>,
    /// Faults from the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// The right verdict on this name: names with it are scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

/// A command that the clock gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, counted from the start.
    pub at: Moment,
    /// Repeat after this time, 10 ms at least (default: once).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Interval>,
    /// How often in all, with `every` (default: without end).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The command.
    pub r#do: Command,
}

/// The right verdict on a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// How the name answers.
    pub class: ExpectedClass,
    /// What its `ServiceEntry` should say; absent where none can help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<ExpectedResolution>,
}

/// How a name answers: one address of a small pool at a time (`SingleVip`), several of a small pool (`FixedMultiIp`), a
/// few of a large pool (`RotatingPool`), never an address (`Unresolvable`), or nobody could tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum ExpectedClass {
    /// One address per answer out of a small pool.
    SingleVip,
    /// Several addresses per answer out of a small pool.
    FixedMultiIp,
    /// A few addresses per answer out of a large pool.
    RotatingPool,
    /// Never an address.
    Unresolvable,
    /// Cannot be told.
    InsufficientData,
}

/// Istio's `resolution`: `DNS` is Envoy's `STRICT_DNS`, `DNS_ROUND_ROBIN` its `LOGICAL_DNS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExpectedResolution {
    /// `STRICT_DNS`.
    Dns,
    /// `LOGICAL_DNS`.
    DnsRoundRobin,
}

impl Scenario {
    /// An empty scenario for a zone.
    #[must_use]
    pub fn empty(zone: Name) -> Self {
        Self {
            description: None,
            zone,
            ns: Vec::new(),
            negative_ttl: default_negative_ttl(),
            tcp: true,
            max_udp: default_max_udp(),
            ecs: true,
            names: BTreeMap::new(),
            steps: Vec::new(),
            resolvers: Vec::new(),
        }
    }

    /// The names that are scored, with their right verdicts.
    pub fn expectations(&self) -> impl Iterator<Item = (&Name, Expect)> {
        self.names.iter().filter_map(|(name, spec)| Some((name, spec.expect?)))
    }
}

fn default_zone() -> Name {
    Name::parse("example").unwrap_or_else(|_| unreachable!("a valid name"))
}

fn default_negative_ttl() -> u32 {
    5
}

fn default_max_udp() -> u16 {
    4096
}

fn yes() -> bool {
    true
}
