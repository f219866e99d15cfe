//! What the draws say under a policy. H0 "small, up to N0 addresses" stands against H1 "large, N1 or more". Of H0 the
//! most likely size counts, so that "rotating" is only said when no small pool explains the draws; of H1 an average
//! over sizes counts. A decision needs the likelihood ratio and its guards; the confidence, and the guess before a
//! decision, come from weighing everything that could explain the draws.

use super::explanation::Explanation;
use super::sequential::Test;
use crate::observe::pool::{Series, ratio, real};
use crate::policy::{Policy, PoolPolicy};

/// Log-likelihood of a pool that consists of a few groups (1 in 10).
const GROUPS: f64 = 2.3;
/// The same where confidence is weighed: sites and regions are usual.
const SITES: f64 = 1.0;
/// Greatest share, of what comes beside favourites, of addresses that came once, before it counts as seen.
const REST_UNSEEN: f64 = 0.34;
/// No verdict is surer than this.
const MOST_CONFIDENT: f64 = 0.999;
/// Draws below which a likelihood ratio does not settle a small pool.
const LEAST_DRAWS: usize = 5;

/// What the test says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    /// The better supported hypothesis.
    pub(crate) rotating: bool,
    /// The test has reached its threshold and its guards hold.
    pub(crate) decided: bool,
    /// Of the hypothesis, 0 to 1.
    pub(crate) confidence: f64,
    /// Log-likelihood ratio for a large pool against the most likely small one.
    pub(crate) evidence: f64,
    /// Answers are equal at once and different later, or come out of a few that are replaced together.
    pub(crate) held: bool,
    /// What explains the draws best if the pool is small.
    pub(crate) small: Explanation,
    /// What explains them best if it is large.
    pub(crate) large: Explanation,
}

/// What a verdict needs to know beside the draws.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) policy: &'a Policy,
    /// As published, seconds.
    pub(crate) ttl: u32,
    /// When the window started, milliseconds.
    pub(crate) started_at: i64,
}

impl Test {
    /// What the draws say.
    pub(crate) fn verdict(&self, context: Context<'_>) -> Verdict {
        let policy = context.policy;
        let draws = self.weigh_draws(policy);
        let (looks, _) = self.looks.so_far();
        let looks = self.weigh(&policy.pool, &looks, 0, self.largest);
        let rotates = self.rotates(policy);
        let settled = !rotates && self.settled(context);
        let held = match self.quick {
            (equal, 0) => equal > 0 || 2 * self.repeats as usize > self.draws,
            _ => looks.rotating > draws.rotating,
        };
        let explained = self.explain(context, draws, looks);
        let decided = rotates || settled;
        let rotating = rotates || explained.rotating > 0.5 && !settled;
        let guess = if rotating { explained.rotating } else { 1.0 - explained.rotating };
        let least = if decided { 1.0 - policy.test.error_rate } else { 0.0 };
        let confidence = guess.clamp(least, MOST_CONFIDENT);
        let evidence = draws.rotating.max(looks.rotating);
        Verdict {
            rotating,
            decided,
            confidence,
            evidence,
            held,
            small: explained.small,
            large: explained.large,
        }
    }

    /// Whether the verdict is final. Cheap while it is not: what a draw may change comes before what has to be weighed.
    pub(crate) fn decided(&self, context: Context<'_>) -> bool {
        self.rotates(context.policy) || self.settled(context)
    }

    fn rotates(&self, policy: &Policy) -> bool {
        if self.addresses() < policy.test.min_addresses || self.drifts(policy) {
            return false;
        }
        // A small pool in turn shows nothing but new addresses until it has shown all.
        if self.only_new() && self.addresses() <= small(&policy.pool, self.largest) {
            return false;
        }
        let enough = threshold(policy);
        let min_sets = if self.partial { policy.test.min_sets } else { policy.test.min_disjoint_sets };
        if self.sets() >= min_sets && self.weigh_draws(policy).rotating >= enough {
            return true;
        }
        let (looks, novel) = self.looks.so_far();
        novel >= min_sets && self.weigh(&policy.pool, &looks, 0, self.largest).rotating >= enough
    }

    /// A small pool that was seen as a whole, and for long enough; unless it rotates.
    fn settled(&self, context: Context<'_>) -> bool {
        let quiet = self.quiet_needed(context).max(self.cadence());
        self.last_at - self.settling_since(context) >= quiet && self.draws_suffice(context.policy, 0)
    }

    /// How long no new address may have come before a small pool is settled, milliseconds.
    pub(crate) fn quiet_needed(&self, Context { policy, ttl, .. }: Context<'_>) -> i64 {
        let ttls = if self.direct { 0 } else { policy.test.quiet_ttls.saturating_mul(ttl) };
        1000 * i64::from(policy.test.quiet_s.max(ttls))
    }

    /// New sets that came again and again may be draws that are held: that none came then only counts after three
    /// times the time that one usually takes. Milliseconds; 0 for up to two changes, which operations explain.
    fn cadence(&self) -> i64 {
        let moved = i64::from(self.moved());
        if moved < 3 { 0 } else { 3 * (self.novel_at - self.first_at) / moved }
    }

    /// From when on nothing new came, milliseconds: no new address, or where answers vary at once (so that a member
    /// may well be met late) no look at nothing but new ones. The opening, a tenth of the time that is needed, counts
    /// as the start.
    pub(crate) fn settling_since(&self, context: Context<'_>) -> i64 {
        let opening = context.started_at.saturating_add(self.quiet_needed(context) / 10);
        let changed_at = if self.varies_at_once() { self.looks.moved_at() } else { self.novel_at };
        if changed_at <= opening { context.started_at } else { changed_at }
    }

    /// Whether the draws would suffice for a small pool if `more` of addresses that are known followed: only time is
    /// missing then. By Good and Turing, the share of draws that go to addresses not seen yet is about that of
    /// addresses seen once.
    pub(crate) fn draws_suffice(&self, policy: &Policy, more: usize) -> bool {
        if self.draws == 0 || !self.rest_is_known() {
            return false;
        }
        let k = self.incidences.div_ceil(self.draws);
        let incidences = self.incidences + more * k;
        let unseen = ratio(self.once, incidences);
        let cautious = ratio(self.once + 1, incidences + 1);
        let most = policy.test.max_unseen;
        if cautious <= most {
            return true;
        }
        unseen <= most && self.draws + more >= LEAST_DRAWS && {
            self.weigh_draws(policy).small + real(more) >= threshold(policy)
        }
    }

    /// Whether what turns behind favourites was seen as well as a pool of its own: most of it came more than once.
    fn rest_is_known(&self) -> bool {
        let (rest, once) = self.rest();
        self.favourites.is_empty() || ratio(once, rest) <= REST_UNSEEN
    }

    /// Slow change of one set: large overlap from answer to answer, and never two answers at once. Once it has
    /// brought as many addresses as a large pool has, it is no replacement of members any more.
    pub(super) fn drifts(&self, policy: &Policy) -> bool {
        self.quick.1 == 0
            && self.slow.0 > 0
            && self.slow.1 / f64::from(self.slow.0) >= policy.test.drift_overlap
            && self.addresses() < large(&policy.pool, self.largest)
    }

    fn weigh_draws(&self, policy: &Policy) -> Weighed {
        self.weigh(&policy.pool, &self.series, self.favourites.len(), self.largest)
    }

    pub(super) fn weigh(&self, pool: &PoolPolicy, series: &Series, aside: usize, k: usize) -> Weighed {
        let k = k.max(1);
        let (n0, n1) = (small(pool, k), large(pool, k));
        let likelihood = |n: usize| series.log_likelihood(n.saturating_sub(aside));
        let mut small: Vec<f64> = grid(k, n0).map(likelihood).collect();
        let rotating_against = best(&small);
        let mut small_prior: Vec<f64> =
            grid(k, n0).map(|n| likelihood(n) + series.arrangements + shares(n, k, n0)).collect();
        if k > 1 && !self.partial {
            // Sets that never overlap in part may be groups, of which an answer names one.
            let groups = |n: usize| self.groups.log_likelihood(n);
            small.extend(grid(1, pool.small).map(|n| groups(n) - GROUPS));
            small_prior.extend(grid(1, pool.small).map(|n| groups(n) + shares(n, 1, pool.small) - SITES));
        }
        let large = [n1, 4 * n1, 64 * n1].map(likelihood);
        let (small_mean, large_mean) = (mean(&small), mean(&large));
        let any_large = [n0.midpoint(n1), n1, 4 * n1, 64 * n1].map(likelihood);
        Weighed {
            rotating: difference(large_mean, rotating_against),
            small: difference(small_mean, best(&large)),
            large: mean(&any_large) + series.arrangements,
            small_prior: sum(&small_prior),
        }
    }
}

/// Log-likelihoods and their ratios.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weighed {
    /// An average large pool against the best small one.
    rotating: f64,
    /// An average small pool against the best large one.
    small: f64,
    /// An average large pool.
    pub(super) large: f64,
    /// A small pool, the likelier the smaller.
    pub(super) small_prior: f64,
}

/// The log-likelihood ratio at which the test decides.
pub(super) fn threshold(policy: &Policy) -> f64 {
    ((1.0 - policy.test.error_rate) / policy.test.error_rate).ln()
}

fn best(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The logarithm of the mean.
fn mean(of: &[f64]) -> f64 {
    let top = best(of);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + (of.iter().map(|l| (l - top).exp()).sum::<f64>() / real(of.len())).ln()
}

/// The logarithm of the sum.
fn sum(of: &[f64]) -> f64 {
    mean(of) + real(of.len()).ln()
}

/// The logarithm of the share of pools of n among the small ones for answers of k: half as many of twice the size.
fn shares(n: usize, k: usize, n0: usize) -> f64 {
    let all: f64 = grid(k, n0).map(|n| 1.0 / real(n)).sum();
    -(real(n) * all).ln()
}

/// The difference of two log-likelihoods, of which both may be impossible.
fn difference(a: f64, b: f64) -> f64 {
    if a == f64::NEG_INFINITY && b == f64::NEG_INFINITY { 0.0 } else { a - b }
}

/// Sizes from k to N0, each twice the one before.
fn grid(k: usize, n0: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(k), move |n| (*n < n0).then(|| (2 * n).min(n0)))
}

/// The greatest small pool for answers of k.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
pub(super) fn small(pool: &PoolPolicy, k: usize) -> usize {
    pool.small.max((real(k) * pool.small_per_answer) as usize)
}

/// The smallest large pool for answers of k.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
pub(super) fn large(pool: &PoolPolicy, k: usize) -> usize {
    pool.large.max((real(k) * pool.large_per_answer).ceil() as usize)
}
