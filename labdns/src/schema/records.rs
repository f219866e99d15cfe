//! What a name answers: record sets and aliases, as a scenario file or a command gives them.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::pool::Pool;
use super::scalar::{Interval, Ttl};
use crate::behaviour::Behaviour;
use crate::name::Name;

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

impl RecordSet {
    /// All of these addresses in every answer.
    #[must_use]
    pub fn all(addresses: Vec<IpAddr>, ttl: Ttl) -> Self {
        Self { pool: Some(Pool::list(addresses)), ttl, ..Self::default() }
    }
}

fn default_ttl() -> u32 {
    30
}

fn one() -> f64 {
    1.0
}
