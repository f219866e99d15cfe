//! The opinion: an [`Observation`](crate::observe::Observation) comes in, a [`Classification`] goes out. Whether the
//! absence of an address means something is the question behind the class; the method is a sequential test of the
//! pool's size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observe::pool::ratio;
use crate::policy::Policy;
use crate::{Host, Observation, OutcomeKind, RecordType};

mod explain;
mod explanation;
mod look;
mod needs;
pub(crate) mod sequential;
mod shapes;
mod traits;
pub(crate) mod verdict;
mod words;

use sequential::Test;
use verdict::{Context, Verdict};

/// Share of answers with several addresses from which on a name is one of several addresses.
const SEVERAL: f64 = 0.25;

/// The verdict on what was observed. Total: any observation has a class.
#[must_use]
pub fn classify(observation: &Observation, policy: &Policy) -> Classification {
    let mut test = Test::default();
    for draw in &observation.draws {
        test.push(draw);
    }
    let context = Context {
        policy,
        ttl: observation.ttl.map_or(0, |ttl| ttl.strict_s),
        started_at: observation.started_at.as_millisecond(),
    };
    let verdict = test.verdict(context);
    let class = class(observation, policy, &verdict);
    let (decided, confidence) = match class {
        ResolutionClass::Unresolvable => unresolvable(observation, policy),
        _ if observation.draws.is_empty() => (false, 0.0),
        _ => (verdict.decided, verdict.confidence),
    };
    let traits = traits::traits(observation, class, &verdict);
    Classification {
        host: observation.host.clone(),
        record_type: observation.record_type,
        class,
        confidence,
        decided,
        reasons: words::reasons(observation, policy, class, &traits, &verdict),
        needs: (!decided).then(|| needs::needs(observation, context, &test, &verdict)),
        blind_spots: words::blind_spots(observation, class),
        traits,
    }
}

/// The verdicts on A and AAAA of one name. Each is reached by itself; a name that has addresses of both is dual stack.
#[must_use]
pub fn classify_both(observations: [&Observation; 2], policy: &Policy) -> [Classification; 2] {
    let mut verdicts = observations.map(|observation| classify(observation, policy));
    if observations.iter().all(|observation| !observation.addresses.is_empty()) {
        for Classification { traits, .. } in &mut verdicts {
            traits.push(Trait::DualStack);
            traits.sort_unstable();
        }
    }
    verdicts
}

fn class(observation: &Observation, policy: &Policy, verdict: &Verdict) -> ResolutionClass {
    if observation.draws.is_empty() {
        return match observation.queries {
            0 => ResolutionClass::InsufficientData,
            _ => ResolutionClass::Unresolvable,
        };
    }
    let unsure = !verdict.decided && verdict.confidence < policy.test.min_confidence;
    if observation.draws.len() < 2 || unsure {
        return ResolutionClass::InsufficientData;
    }
    let several = observation.draws.iter().filter(|d| d.set.len() > 1).count();
    if verdict.rotating {
        ResolutionClass::RotatingPool
    } else if ratio(several, observation.draws.len()) >= SEVERAL {
        ResolutionClass::FixedMultiIp
    } else {
        ResolutionClass::SingleVip
    }
}

/// A name that every source denies is certain; one that nobody answered for is not.
fn unresolvable(observation: &Observation, policy: &Policy) -> (bool, f64) {
    let denied = observation.count(OutcomeKind::is_denial);
    let enough = observation.queries >= policy.sampling.give_up as usize;
    let confidence = if denied > 0 { 0.95 } else { 0.6 };
    (enough, if enough { confidence } else { confidence / 2.0 })
}

/// How a name answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ResolutionClass {
    /// One address per answer out of a small pool: an address that stays away was probably taken out.
    SingleVip,
    /// Several addresses per answer out of a small pool: an address that stays away was probably taken out.
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
    /// Members come, go or are replaced a few at a time.
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
    /// The authority and a cache never agreed on an address.
    SplitHorizon,
    /// A draw is held for longer than one query.
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
