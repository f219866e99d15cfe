//! The numbers of an observation that a proxy's cluster feels: how many members it lists, how many each refresh
//! replaces, how often the answer differs at all. Both families come in, those that the proxy asks for are merged.

use std::net::IpAddr;

use super::{Family, Observed};
use crate::observe::TtlSeen;
use crate::{LookupFamily, Observation, ResolutionClass, Trait};

/// What the proxy's cluster will feel.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) class: ResolutionClass,
    pub(super) confidence: f64,
    pub(super) traits: Vec<Trait>,
    /// Mean addresses per answer.
    pub(super) answer_size: f64,
    /// Addresses that are listed at any one time, a lower bound: what ejection percentages are counted from.
    pub(super) members: usize,
    /// All addresses seen, sorted.
    pub(super) union: Vec<IpAddr>,
    /// Addresses in all: estimated for a rotating pool, as seen for a small one.
    pub(super) pool: usize,
    /// The pool is at least that large; nothing bounds it from above.
    pub(super) unbounded: bool,
    /// Estimated share of the pool that was seen.
    pub(super) coverage: f64,
    /// Members that an average refresh takes out of the list, fail-overs and other operations set aside.
    pub(super) replaced: f64,
    /// Share of the refreshes whose answer differs from the one before, by its order or by its set.
    pub(super) differs: f64,
    pub(super) ttl: Option<TtlSeen>,
    /// Lookups per refresh.
    pub(super) families: u32,
}

impl Facts {
    /// `None` where the proxy's family was not observed.
    pub(super) fn of(observed: &Observed<'_>, lookup: LookupFamily) -> Option<Self> {
        let a = Self::of_family(observed.a);
        let aaaa = observed.aaaa.map(Self::of_family);
        match lookup {
            LookupFamily::V4Only => Some(a),
            LookupFamily::V6Only => aaaa,
            LookupFamily::All => Some(match aaaa {
                Some(aaaa) => Self { families: 2, ..a.merge(aaaa) },
                None => a,
            }),
        }
    }

    fn of_family(family: Family<'_>) -> Self {
        let seen = family.observation;
        let mut union: Vec<IpAddr> = seen.addresses.iter().map(|address| address.addr).collect();
        union.sort_unstable();
        let draws: Vec<usize> = seen.draws.iter().map(|draw| draw.set.len()).collect();
        let members =
            if seen.answer_size.median >= 2 { seen.answer_size.min.max(2) } else { seen.answer_size.median };
        Self {
            class: family.classification.class,
            confidence: family.classification.confidence,
            traits: family.classification.traits.clone(),
            answer_size: ratio(draws.iter().sum(), draws.len()),
            members,
            pool: match family.classification.class {
                ResolutionClass::RotatingPool => seen.pool.map_or(union.len(), |pool| pool.estimate),
                _ => union.len(),
            },
            unbounded: family.classification.class == ResolutionClass::RotatingPool
                && seen.pool.is_some_and(|pool| pool.high.is_none()),
            coverage: seen.pool.map_or(0.0, |pool| pool.coverage),
            replaced: replaced_per_draw(seen),
            differs: share_that_differs(seen),
            ttl: seen.ttl,
            families: 1,
            union,
        }
    }

    /// What a proxy sees that asks for both families and puts the addresses into one list.
    fn merge(self, other: Self) -> Self {
        let ttl = match (self.ttl, other.ttl) {
            (Some(a), Some(b)) => Some(TtlSeen {
                strict_s: a.strict_s.min(b.strict_s),
                logical_s: a.logical_s,
                lowest_s: a.lowest_s.min(b.lowest_s),
                highest_s: a.highest_s.max(b.highest_s),
            }),
            (a, b) => a.or(b),
        };
        let mut traits = [self.traits, other.traits].concat();
        traits.sort_unstable();
        traits.dedup();
        Self {
            class: merged_class(self.class, other.class),
            confidence: self.confidence.min(other.confidence),
            traits,
            answer_size: self.answer_size + other.answer_size,
            members: self.members + other.members,
            union: [self.union, other.union].concat(),
            pool: self.pool + other.pool,
            unbounded: self.unbounded || other.unbounded,
            coverage: self.coverage.min(other.coverage),
            replaced: self.replaced + other.replaced,
            differs: 1.0 - (1.0 - self.differs) * (1.0 - other.differs),
            ttl,
            families: self.families.max(other.families),
        }
    }

    pub(super) fn has(&self, wanted: Trait) -> bool {
        self.traits.contains(&wanted)
    }

    pub(super) fn is_small_pool(&self) -> bool {
        matches!(self.class, ResolutionClass::SingleVip | ResolutionClass::FixedMultiIp)
    }
}

/// One rotating family makes the list rotate; one family without answers adds nothing to the other.
fn merged_class(one: ResolutionClass, other: ResolutionClass) -> ResolutionClass {
    use ResolutionClass::{FixedMultiIp, InsufficientData, RotatingPool, Unresolvable};
    match (one, other) {
        (RotatingPool, _) | (_, RotatingPool) => RotatingPool,
        (Unresolvable, class) | (class, Unresolvable) => class,
        (InsufficientData, _) | (_, InsufficientData) => InsufficientData,
        _ => FixedMultiIp,
    }
}

/// Successive draws of one source that could be compared.
fn draw_pairs(seen: &Observation) -> usize {
    seen.sources.iter().map(|source| source.draws.saturating_sub(1)).sum()
}

/// churn = k - mean overlap of successive answers, less what the flips account for: a fail-over in the window is not
/// what every refresh does.
fn replaced_per_draw(seen: &Observation) -> f64 {
    let pairs = draw_pairs(seen);
    // One change is not a rate.
    if pairs == 0 || seen.set_changes < 2 {
        return 0.0;
    }
    let size = ratio(seen.draws.iter().map(|draw| draw.set.len()).sum(), seen.draws.len());
    let flipped: usize =
        seen.flips.iter().map(|flip| flip.from.iter().filter(|addr| !flip.to.contains(addr)).count()).sum();
    (size - seen.mean_overlap - ratio(flipped, pairs)).max(0.0)
}

/// The chance that the set differs, or else that the same set comes in another order.
fn share_that_differs(seen: &Observation) -> f64 {
    let set = ratio(seen.set_changes.saturating_sub(seen.flips.len()), draw_pairs(seen));
    let replies: usize = seen.sources.iter().map(|source| source.answered.saturating_sub(1)).sum();
    let order = ratio(seen.order_changes, replies.saturating_sub(seen.set_changes));
    (set + (1.0 - set) * order).clamp(0.0, 1.0)
}

#[expect(clippy::cast_precision_loss, reason = "counts of one window, far below 2^52")]
fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).max(0.0) }
}
