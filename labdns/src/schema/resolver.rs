//! A caching resolver in front of the zone, as a scenario file describes it.

use std::net::IpAddr;

use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

use super::records::Order;
use super::scalar::Interval;
use crate::name::Name;

/// A caching resolver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolverSpec {
    /// Caches behind its address, each with contents of its own (default 1).
    #[serde(default = "one")]
    pub caches: usize,
    /// Which cache answers (default `random`).
    #[serde(default)]
    pub pick: CachePick,
    /// Whether the TTL counts down while an answer is cached (default true).
    #[serde(default = "yes")]
    pub countdown: bool,
    /// Share of queries that are lost, 0 to 1 (default 0).
    #[serde(default)]
    pub loss: f64,
    /// Source addresses from which the caches ask the zone, dealt out in turn (default: 198.51.100.1 and on).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub sources: Vec<IpAddr>,
    /// Whether the client's network is passed on (EDNS Client Subnet, /24 or /56) and answers are cached by it
    /// (default false).
    #[serde(default)]
    pub ecs: bool,
    /// Order of the addresses of an answer out of the cache (default `fixed`).
    #[serde(default)]
    pub order: Order,
    /// Answer from an expired entry where the zone fails (RFC 8767).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serve_stale: Option<ServeStale>,
    /// Longest time that an answer is cached, and the greatest TTL that is shown, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ttl: Option<u32>,
    /// Shortest time that an answer is cached, and the smallest TTL that a new answer shows, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ttl: Option<u32>,
    /// Prefix under which AAAA is made up from A for names without one (DNS64, RFC 6147), such as `64:ff9b::/96`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub dns64: Option<Ipv6Net>,
    /// Names that this resolver answers by itself: a sinkhole or a split horizon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
}

/// Which cache of a farm answers a query: any (`random`), each in turn (`cyclic`), or always the same for one client
/// address (`sticky`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CachePick {
    /// Any.
    #[default]
    Random,
    /// In turn.
    Cyclic,
    /// By client.
    Sticky,
}

/// Answers from expired entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeStale {
    /// How long after its end an entry may be used.
    pub r#for: Interval,
    /// TTL of such an answer, seconds (default 30, as RFC 8767 recommends).
    #[serde(default = "thirty")]
    pub ttl: u32,
}

/// A name that a resolver answers by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// The name.
    pub name: Name,
    /// Its addresses; empty: the name does not exist.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<IpAddr>,
    /// Their time to live, seconds (default 30).
    #[serde(default = "thirty")]
    pub ttl: u32,
}

fn one() -> usize {
    1
}

fn thirty() -> u32 {
    30
}

fn yes() -> bool {
    true
}

impl ResolverSpec {
    /// A TTL within `min_ttl` and `max_ttl`.
    pub(crate) fn bounded(&self, ttl: u32) -> u32 {
        ttl.min(self.max_ttl.unwrap_or(u32::MAX)).max(self.min_ttl.unwrap_or(0))
    }
}

impl Default for ResolverSpec {
    fn default() -> Self {
        Self {
            caches: one(),
            pick: CachePick::default(),
            countdown: true,
            loss: 0.0,
            sources: Vec::new(),
            ecs: false,
            order: Order::default(),
            serve_stale: None,
            max_ttl: None,
            min_ttl: None,
            dns64: None,
            overrides: Vec::new(),
        }
    }
}
