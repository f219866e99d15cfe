//! The scenario file: YAML comes in, a checked [`Scenario`] goes out, or an error with line, column and remedy.
//! Unknown keys are refused. The doc comments of these types are the reference chapter of the book. Read by the
//! zone, the resolver front, the server and everything that lists scenarios.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::behaviour::Behaviour;
use crate::command::{Command, Fault};
use crate::name::Name;
use crate::resolver::ResolverSpec;

pub(crate) mod check;
mod error;
mod pool;
mod scalar;

pub use check::Problem;
pub use error::ScenarioError;
pub use pool::Pool;
pub use scalar::{Interval, Moment, Take, Ttl};

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

/// The addresses of one family and how answers are drawn from them. Either `pool` or `groups`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordSet {
    /// The addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
    /// Several pools: an answer comes out of one of them, chosen by who asks (`clients`) or by `weight`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// How many of the pool are in service, counted from its start (default: all). `rotate` replaces the oldest by
    /// the next of the pool; `set` changes the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<usize>,
    /// How an answer is drawn (default `all`).
    #[serde(default)]
    pub answer: Behaviour,
    /// Keep one draw for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Members that leave and come back by the clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaps: Vec<Flap>,
    /// Order on the wire (default `fixed`).
    #[serde(default)]
    pub order: Order,
    /// Time to live (default 30).
    #[serde(default)]
    pub ttl: Ttl,
}

/// One of several pools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The addresses.
    pub pool: Pool,
    /// How an answer is drawn from them (default: the record set's `answer`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Behaviour>,
    /// Share of the answers that come out of this group, any scale (default 1). Drawn for each answer among the
    /// groups without `clients`.
    #[serde(default = "one")]
    pub weight: f64,
    /// Networks that this group answers: of the client subnet, else of the source address. The longest match wins;
    /// a client that no group names gets one of the groups without `clients`, else no data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub clients: Vec<IpNet>,
}

/// Draws that are held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Length of a slot. Where the first one ends is drawn by the seed.
    pub every: Interval,
    /// Draw only a subset of this size per slot, at random, and answer each query out of it by `answer`; absent: the
    /// answer itself is held for the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<usize>,
    /// Hold for each client apart (default: one draw for all).
    #[serde(default)]
    pub per_client: bool,
}

/// A member that leaves and comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Flap {
    /// The member.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// How long it stays. Where in the first cycle the run starts is drawn by the seed.
    pub up: Interval,
    /// How long it is gone.
    pub down: Interval,
}

/// Order of the addresses on the wire: as drawn (`fixed`: the pool's order for `all`, random for a random draw),
/// turned by one with each answer (`cyclic`), or random for each answer (`shuffled`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As drawn.
    #[default]
    Fixed,
    /// Turned by one with each answer.
    Cyclic,
    /// Random for each answer.
    Shuffled,
}

/// An alias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Cname {
    /// Targets, spelled as they go over the wire; a target outside the zone ends the answer.
    pub to: Vec<Name>,
    /// Which target an answer names (default `first`).
    #[serde(default)]
    pub pick: Pick,
    /// Choose anew only once per this time (default: with each answer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Interval>,
    /// Time to live of the alias itself, seconds (default 30).
    #[serde(default = "default_ttl")]
    pub ttl: u32,
}

/// How one of several targets is chosen: the `first`, until a `flip` or `rotate` names another; in turn (`cyclic`); or
/// at `random`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The first.
    #[default]
    First,
    /// In turn.
    Cyclic,
    /// At random.
    Random,
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
    /// Reads and checks a scenario. Size, depth and references of the YAML are bounded.
    ///
    /// # Errors
    /// [`ScenarioError`]: what is wrong, where, and what to write instead.
    pub fn from_yaml(text: &str) -> Result<Self, ScenarioError> {
        if text.len() > error::MAX_BYTES {
            return Err(ScenarioError::too_big(text.len()));
        }
        let scenario: Self = serde_saphyr::from_str_with_options(text, error::options())
            .map_err(|error| ScenarioError::yaml(&error))?;
        check::check(&scenario).map_err(|problem| ScenarioError::located(&problem, text))?;
        Ok(scenario)
    }

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

impl RecordSet {
    /// All of these addresses in every answer.
    #[must_use]
    pub fn all(addresses: Vec<IpAddr>, ttl: Ttl) -> Self {
        Self { pool: Some(Pool::list(addresses)), ttl, ..Self::default() }
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

fn default_ttl() -> u32 {
    30
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests;
