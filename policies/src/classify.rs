//! The opinion: an [`Observation`](crate::observe::Observation) comes in, a [`Classification`] goes out. Whether the
//! absence of an address means something is the question behind the class; the method is a sequential test of the
//! pool's size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Host, RecordType};

/// How a name answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ResolutionClass {
    /// One address per answer out of a small pool: an absent address was withdrawn.
    SingleVip,
    /// Several addresses per answer out of a small pool: an absent address was withdrawn.
    FixedMultiIp,
    /// A few addresses per answer out of a large pool: an absent address was not drawn this time.
    RotatingPool,
    /// No address was ever answered.
    Unresolvable,
    /// The window cannot tell.
    InsufficientData,
}

/// What else was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trait {
    /// The set changed once or twice and then stayed.
    Failover,
    /// Sources or client subnets see different members of one small pool.
    Regional,
    /// An answer holds only a part of the small pool.
    PartialAnswers,
    /// The same set comes in changing order.
    OrderShuffled,
    /// Members are drawn with clearly unequal shares.
    Weighted,
    /// A member leaves and comes back.
    Flapping,
    /// Members are replaced slowly, a few at a time.
    SlowDrift,
    /// The name is an alias.
    Cname,
    /// The alias points to different targets.
    CnameFlip,
    /// A and AAAA both answer.
    DualStack,
    /// A record with TTL 0: Envoy falls back to `dnsRefreshRate`.
    TtlZero,
    /// A reply was truncated.
    Truncated,
    /// Good answers were interrupted by NXDOMAIN or NODATA, which empties a `STRICT_DNS` cluster.
    EmptyAnswers,
    /// Some lookups failed (timeout, SERVFAIL, REFUSED, malformed).
    Lossy,
    /// One source answers with a sinkhole or otherwise unroutable address.
    Sinkhole,
    /// Sources never agreed on an address.
    SplitHorizon,
    /// A draw is held longer than its TTL.
    HeldDraws,
}

/// The verdict on one host and record type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Classification {
    /// The name.
    pub host: Host,
    /// The record type.
    pub record_type: RecordType,
    /// How the name answers.
    pub class: ResolutionClass,
    /// What else was seen, sorted.
    pub traits: Vec<Trait>,
    /// How sure the class is, 0 to 1.
    pub confidence: f64,
    /// The test has reached its threshold: more samples would not be asked for.
    pub decided: bool,
    /// Why, most important first. One sentence each, without a full stop.
    pub reasons: Vec<String>,
    /// What more would be needed for a decision; absent once decided.
    pub needs: Option<Needs>,
    /// What a window of this length and these vantages could not have seen.
    pub blind_spots: Vec<String>,
}

/// What more would be needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Further independent draws.
    pub draws: usize,
    /// Time that they take, seconds.
    pub wait_s: u64,
}
