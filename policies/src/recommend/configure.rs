//! Settings of the `DestinationRule` and what they cost. Facts, platform and the user's settings come in; numbers go
//! out, without words: `explain` finds those.

use super::facts::Facts;
use super::{Alternative, Cost, OutlierAdvice, Refresh, Settings, TrafficAdvice};
use crate::ejection::max_ejection_percent;
use crate::{Behaviour, Platform, Resolution, ResolutionClass, Trait};

/// A dead address among live ones is known after this long: the decision guide's measured configuration.
const CONNECT_TIMEOUT_WITH_ALTERNATIVE_S: u64 = 1;
/// With nothing else to try, one retransmitted SYN (1 s) is worth waiting for; Istio's default is 10 s.
const CONNECT_TIMEOUT_S: u64 = 3;
/// Pools of at most so many addresses are worth listing by hand.
const STATIC_POOL_MAX: usize = 16;
/// Coverage from which every address counts as seen.
const STATIC_COVERAGE: f64 = 0.99;

pub(super) fn refresh(facts: &Facts, resolution: Resolution, platform: &Platform) -> Option<Refresh> {
    let ttl = facts.ttl?;
    let ttl_s = if resolution == Resolution::DnsRoundRobin { ttl.logical_s } else { ttl.strict_s };
    let fallback = ttl_s == 0;
    let refresh_s = if fallback { platform.refresh_rate().as_secs() } else { u64::from(ttl_s) };
    Some(Refresh {
        refresh_s: refresh_s.max(1),
        ttl_s,
        fallback,
        lowest_s: ttl.lowest_s,
        highest_s: ttl.highest_s,
    })
}

pub(super) fn traffic(
    facts: &Facts,
    resolution: Resolution,
    platform: &Platform,
    settings: &Settings,
) -> TrafficAdvice {
    let outlier_detection = outlier_detection(facts, resolution, settings);
    let connect_timeout_s = match outlier_detection {
        Some(_) => CONNECT_TIMEOUT_WITH_ALTERNATIVE_S,
        None => CONNECT_TIMEOUT_S,
    };
    let (max_connection_duration_s, idle_timeout_s) = lifetime(facts, resolution, platform, settings);
    TrafficAdvice { connect_timeout_s, max_connection_duration_s, idle_timeout_s, outlier_detection }
}

/// Only where another address is listed at the same time, and never for the one logical host of `LOGICAL_DNS`.
fn outlier_detection(facts: &Facts, resolution: Resolution, settings: &Settings) -> Option<OutlierAdvice> {
    if resolution != Resolution::Dns || facts.members < 2 {
        return None;
    }
    Some(OutlierAdvice {
        members: facts.members,
        consecutive_local_origin_failures: 3,
        consecutive_gateway_errors: settings.protocol.is_http().then_some(5),
        interval_s: 5,
        base_ejection_time_s: 30,
        max_ejection_percent: settings.max_ejection_percent.unwrap_or_else(|| half_percent(facts.members)),
        min_health_percent: 0,
    })
}

/// The smallest percentage that lets half of the addresses be ejected, and one at least: with more, a fault of the
/// partner as a whole leaves too few for the load.
fn half_percent(members: usize) -> u32 {
    let half = (members / 2).max(1);
    u32::try_from((100 * half).div_ceil(members.max(1))).unwrap_or(50).min(max_ejection_percent(members))
}

/// `maxConnectionDuration` and `idleTimeout` in seconds, where a fail-over target is given and connections would
/// otherwise stay on a removed address.
fn lifetime(
    facts: &Facts,
    resolution: Resolution,
    platform: &Platform,
    settings: &Settings,
) -> (Option<u64>, Option<u64>) {
    let drains = resolution != Resolution::DnsRoundRobin || platform.behaves(Behaviour::LogicalFlipDrains);
    let (Some(target), Some(refresh)) = (settings.failover_target, refresh(facts, resolution, platform))
    else {
        return (None, None);
    };
    if settings.protocol.is_http() && drains {
        return (None, None);
    }
    let target = target.as_secs().max(1);
    // Where the refresh alone takes longer, the target is out of reach; `explain` says so.
    let budget = target.checked_sub(refresh.refresh_s).filter(|left| *left > 0).unwrap_or(target);
    let stream = settings.longest_stream.map_or(0, |stream| stream.as_secs());
    // A byte stream is cut when its time is up, a request is finished first.
    if settings.protocol.is_http() || stream <= budget {
        (Some(budget), None)
    } else {
        (Some(stream), Some(budget))
    }
}

/// What `resolution` costs for this name.
#[expect(clippy::cast_precision_loss, reason = "seconds, far below 2^52")]
pub(super) fn cost(
    facts: &Facts,
    resolution: Resolution,
    platform: &Platform,
    settings: &Settings,
) -> Option<Cost> {
    let refresh = refresh(facts, resolution, platform)?;
    let per_hour = 3600.0 / refresh.refresh_s as f64;
    let merged = platform.behaves(Behaviour::LogicalFlipDrains);
    let replaced = match resolution {
        Resolution::DnsRoundRobin if merged => facts.differs,
        Resolution::DnsRoundRobin => 0.0,
        _ => facts.replaced,
    };
    let traffic = traffic(facts, resolution, platform, settings);
    let drains = settings.protocol.is_http() && (resolution != Resolution::DnsRoundRobin || merged);
    let longest = settings.longest_stream.map_or(0, |stream| stream.as_secs());
    let released = if drains { Some(0) } else { traffic.max_connection_duration_s };
    Some(Cost {
        resolution,
        refresh_s: refresh.refresh_s,
        members_replaced_per_hour: per_hour * replaced,
        reconnects_per_hour: if drains { per_hour * replaced } else { 0.0 },
        worst_failover_s: released.map(|lifetime| refresh.refresh_s + lifetime.max(longest)),
        dns_queries_per_hour: per_hour * f64::from(facts.families),
        failover_recorded: resolution != Resolution::DnsRoundRobin
            || platform.behaves(Behaviour::LogicalFlipRecorded),
    })
}

/// The third way: all addresses of a small pool that hands out a part of it per answer.
pub(super) fn alternative(facts: &Facts) -> Option<Alternative> {
    let partial = facts.union.len() > facts.members && facts.class != ResolutionClass::Unresolvable;
    let stable = [
        Trait::Failover,
        Trait::Regional,
        Trait::SplitHorizon,
        Trait::SlowDrift,
        Trait::Flapping,
        Trait::Sinkhole,
    ]
    .iter()
    .all(|moving| !facts.has(*moving));
    let known = facts.coverage >= STATIC_COVERAGE && facts.union.len() <= STATIC_POOL_MAX;
    (facts.is_small_pool() && partial && stable && known)
        .then(|| Alternative { resolution: Resolution::Static, endpoints: facts.union.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_limit_is_the_guide_s_for_small_sets() {
        for (members, percent) in [(2, 50), (3, 67), (4, 75), (8, 88), (100, 99)] {
            assert_eq!(max_ejection_percent(members), percent);
        }
    }

    proptest! {
        #[test]
        fn the_limit_allows_all_but_one_and_never_all(members in 2usize..5000) {
            let limit = max_ejection_percent(members) as usize;
            prop_assert!(100 * (members - 1) <= limit * members || members > 100, "N-1 ejections fit");
            prop_assert!(100 * members > limit * members, "N do not");
        }
    }
}
