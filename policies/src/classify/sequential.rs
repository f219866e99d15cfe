//! The sequential test of the pool's size. Draws come in one by one; for a [`Policy`], a [`Verdict`] goes out at any
//! time. Used by `classify` on a whole observation and by the sampling plan after each draw.
//!
//! H0 "small, up to N0 addresses" stands against H1 "large, N1 or more". Of H0 the most likely size counts, so that
//! "rotating" is only said when no small pool explains the draws; of H1 an average over sizes counts. An answer that
//! repeats the one before it says nothing (it may be held), nor does the first answer of a further source (it may be
//! another region); addresses in most of the answers are set aside, so that a favourite does not hide what turns
//! behind it.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::observe::Draw;
use crate::observe::pool::{Series, ratio, real};
use crate::policy::{Policy, PoolPolicy};

/// Draws that must hold an address, and their share, before it is set aside as a favourite.
const FAVOURITE: (u32, f64) = (3, 0.4);
/// Log-likelihood against a large pool of an answer that comes again, where the model has no size to say it by.
const REPEAT: f64 = 3.0;

/// The state of the test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Test {
    ids: HashMap<IpAddr, u32>,
    counts: Vec<u32>,
    sets: HashMap<Box<[u32]>, u32>,
    sources: Vec<LastDraw>,
    series: Series,
    draws: usize,
    incidences: usize,
    once: usize,
    largest: usize,
    /// A new set held old and new addresses.
    partial: bool,
    /// A set came again after another one.
    returns: u32,
    /// Draws that repeated the one before them.
    repeats: u32,
    /// Quick pairs of draws from one authority: equal, and different.
    quick: (u32, u32),
    /// Changes between draws that were not quick: how many, and their summed Jaccard similarity.
    slow: (u32, f64),
    /// Such changes that brought a new address and kept less than half.
    replaced: u32,
    first_at: i64,
    last_at: i64,
    novel_at: i64,
    direct: bool,
}

#[derive(Debug, Clone)]
struct LastDraw {
    source: usize,
    at: i64,
    cached: bool,
    set: Box<[u32]>,
}

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
    /// Enough draws for a small pool; only time is missing.
    pub(crate) draws_suffice: bool,
}

impl Test {
    /// Adds the next draw.
    pub(crate) fn push(&mut self, draw: &Draw) {
        let at = draw.at.as_millisecond();
        if self.draws == 0 {
            (self.first_at, self.novel_at) = (at, at);
        }
        let favourites = self.favourites();
        let (set, new) = self.learn(draw);
        let known = self.sources.iter().position(|s| s.source == draw.source);
        let last = known.map(|i| self.sources[i].clone());
        let size = set.len();
        let aside = favourites.iter().filter(|id| set.binary_search(id).is_ok()).count();
        match &last {
            Some(last) if last.set == set => self.repeats += 1,
            None if self.draws > 0 && new > 0 => self.series.given(new),
            _ if size > aside => self.series.draw(favourites.len(), size - aside, new),
            _ => {}
        }
        if let Some(last) = &last {
            self.compare(last, &set, draw, new);
        }
        if new > 0 {
            self.partial |= self.draws > 0 && new < size;
            self.novel_at = at;
        }
        let times = self.sets.entry(set.clone()).or_default();
        *times += 1;
        if *times > 1 && size > 1 && last.as_ref().is_some_and(|l| l.set != set) {
            self.returns += 1;
        } else if *times == 1 && self.draws > 0 && new == 0 {
            self.partial = true;
        }
        let now = LastDraw { source: draw.source, at, cached: draw.cached, set };
        match known {
            Some(i) => self.sources[i] = now,
            None => self.sources.push(now),
        }
        self.draws += 1;
        self.largest = self.largest.max(size);
        self.last_at = self.last_at.max(at);
        self.direct |= !draw.cached;
    }

    /// Draws so far.
    pub(crate) fn draws(&self) -> usize {
        self.draws
    }

    /// When a new address was last seen, milliseconds since the epoch.
    pub(crate) fn novel_at(&self) -> i64 {
        self.novel_at
    }

    /// What the draws say under a policy; `ttl` as published, in seconds, `started_at` in milliseconds.
    pub(crate) fn verdict(&self, policy: &Policy, ttl: u32, started_at: i64) -> Verdict {
        self.verdict_after(policy, ttl, started_at, 0)
    }

    /// The same if `more` draws of known addresses followed.
    pub(crate) fn verdict_after(&self, policy: &Policy, ttl: u32, started_at: i64, more: usize) -> Verdict {
        let weighing = self.weigh(&policy.pool);
        let threshold = ((1.0 - policy.test.error_rate) / policy.test.error_rate).ln();
        let drifts = self.drifts(policy);
        let min_sets = if self.partial { policy.test.min_sets } else { policy.test.min_disjoint_sets };
        let evidence = weighing.rotating - REPEAT * f64::from(self.returns);
        let rotates = evidence >= threshold
            && self.sets.len() >= min_sets
            && self.counts.len() >= policy.test.min_addresses
            && !drifts;
        let draws_suffice = self.draws_suffice(policy, weighing.small, threshold, more);
        let quiet = self.last_at - self.novel_at.min(self.last_at);
        let quiet =
            if self.novel_at == self.first_at { self.last_at - started_at.min(self.first_at) } else { quiet };
        let settled = draws_suffice && quiet >= self.quiet_needed(policy, ttl) && !rotates;
        let odds = self.log_odds(policy, &weighing, drifts, quiet);
        let rotating = rotates || odds > 0.0 && !settled;
        let confidence = (1.0 / (1.0 + (-odds.abs()).exp())).min(0.999);
        let confidence =
            if rotates || settled { confidence.max(1.0 - policy.test.error_rate) } else { confidence };
        Verdict { rotating, decided: rotates || settled, confidence, evidence, draws_suffice }
    }

    /// How long no new address may have come before a small pool is settled, milliseconds.
    pub(crate) fn quiet_needed(&self, policy: &Policy, ttl: u32) -> i64 {
        let ttls = if self.direct { 0 } else { policy.test.quiet_ttls.saturating_mul(ttl) };
        1000 * i64::from(policy.test.quiet_s.max(ttls))
    }

    /// Whether quick draws of one authority were seen to differ.
    pub(crate) fn varies_at_once(&self) -> bool {
        self.quick.1 > 0
    }

    /// Quick pairs of equal draws.
    pub(crate) fn equal_at_once(&self) -> u32 {
        self.quick.0
    }

    /// Whether any two draws differ.
    pub(crate) fn varies(&self) -> bool {
        self.sets.len() > 1
    }

    /// Changes that brought a new set at a later time.
    pub(crate) fn replaced(&self) -> u32 {
        self.replaced
    }

    /// Addresses that most draws hold, sorted.
    fn favourites(&self) -> Vec<u32> {
        let (least, share) = FAVOURITE;
        if self.draws < least as usize {
            return Vec::new();
        }
        let enough = (share * real(self.draws)).max(f64::from(least));
        (0..).zip(&self.counts).filter(|(_, count)| f64::from(**count) >= enough).map(|(id, _)| id).collect()
    }

    /// Counts the addresses; their sorted numbers, and how many are new.
    fn learn(&mut self, draw: &Draw) -> (Box<[u32]>, usize) {
        let before = self.counts.len();
        let mut set: Vec<u32> = Vec::with_capacity(draw.set.len());
        for addr in &draw.set {
            let next = u32::try_from(self.counts.len()).unwrap_or(u32::MAX);
            let id = *self.ids.entry(*addr).or_insert(next);
            if id == next {
                self.counts.push(0);
            }
            let count = &mut self.counts[id as usize];
            *count += 1;
            match *count {
                1 => self.once += 1,
                2 => self.once -= 1,
                _ => {}
            }
            set.push(id);
        }
        set.sort_unstable();
        self.incidences += set.len();
        (set.into(), self.counts.len() - before)
    }

    fn compare(&mut self, last: &LastDraw, set: &[u32], draw: &Draw, new: usize) {
        let at_once = !last.cached && !draw.cached && draw.at.as_millisecond() - last.at <= 1000;
        let same = *last.set == *set;
        match (at_once, same) {
            (true, true) => self.quick.0 += 1,
            (true, false) => self.quick.1 += 1,
            (false, true) => {}
            (false, false) => {
                let common = set.iter().filter(|id| last.set.binary_search(id).is_ok()).count();
                let similarity = ratio(common, last.set.len() + set.len() - common);
                self.slow.0 += 1;
                self.slow.1 += similarity;
                self.replaced += u32::from(new > 0 && similarity < 0.5);
            }
        }
    }

    /// Slow change of one set: large overlap from answer to answer, and never two answers at once. Once it has
    /// brought as many addresses as a large pool has, it is no replacement of members any more.
    fn drifts(&self, policy: &Policy) -> bool {
        self.quick.1 == 0
            && self.slow.0 > 0
            && self.slow.1 / f64::from(self.slow.0) >= policy.test.drift_overlap
            && self.counts.len() < large(&policy.pool, self.largest)
    }

    /// Good and Turing: the share of draws that go to addresses not seen yet is about that of addresses seen once.
    fn draws_suffice(&self, policy: &Policy, small: f64, threshold: f64, more: usize) -> bool {
        if self.draws == 0 {
            return false;
        }
        let k = self.incidences.div_ceil(self.draws);
        let incidences = self.incidences + more * k;
        let unseen = ratio(self.once, incidences);
        let cautious = ratio(self.once + k, incidences + k);
        let small = small + real(more);
        unseen <= policy.test.max_unseen
            && (cautious <= policy.test.max_unseen || small >= threshold && self.draws + more >= 5)
    }

    fn weigh(&self, pool: &PoolPolicy) -> Weighing {
        let k = self.largest.max(1);
        let (n0, n1) = (small(pool, k), large(pool, k));
        let likelihood = |n: usize| self.series.log_likelihood(n);
        let small = grid(k, n0).map(likelihood).collect::<Vec<_>>();
        let large = [n1, 2 * n1, 8 * n1, 64 * n1].map(likelihood);
        let best = |of: &[f64]| of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = |of: &[f64]| {
            let top = best(of);
            if top == f64::NEG_INFINITY {
                return top;
            }
            top + (of.iter().map(|l| (l - top).exp()).sum::<f64>() / real(of.len())).ln()
        };
        Weighing {
            rotating: difference(mean(&large), best(&small)),
            small: difference(mean(&small), best(&large)),
            balanced: difference(mean(&large), mean(&small)),
        }
    }

    /// Log odds of "rotating", the prior included. What a held draw or a favourite would explain bounds them from
    /// below.
    fn log_odds(&self, policy: &Policy, weighing: &Weighing, drifts: bool, quiet: i64) -> f64 {
        let prior = &policy.prior;
        let ordinary = 1.0 - prior.held - prior.favourite;
        let balanced = weighing.balanced.clamp(-50.0, 50.0) - REPEAT * f64::from(self.returns);
        if drifts {
            return -2.0;
        }
        let repeated = REPEAT * f64::from(self.repeats);
        // A small pool is seldom changed within a window: one new set is a fail-over, three are not.
        let changes = if self.quick.1 == 0 { 1.6 * f64::from(self.replaced) } else { 0.0 };
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a window")]
        let quiet_s = quiet as f64 / 1000.0;
        let survives = 1.0 / (1.0 + quiet_s / 30.0);
        let run = self.draws.saturating_sub(1).min(40);
        let likelihood = ordinary * (balanced - repeated).exp()
            + prior.held * (balanced + changes).exp() * survives
            + prior.favourite * 0.5_f64.powi(i32::try_from(run).unwrap_or(40));
        (prior.rotating / (1.0 - prior.rotating) * likelihood).ln()
    }
}

#[derive(Debug, Clone, Copy)]
struct Weighing {
    /// An average large pool against the best small one.
    rotating: f64,
    /// An average small pool against the best large one.
    small: f64,
    /// Average against average.
    balanced: f64,
}

/// The difference of two log-likelihoods, of which both may be impossible.
fn difference(a: f64, b: f64) -> f64 {
    if a == f64::NEG_INFINITY && b == f64::NEG_INFINITY { 0.0 } else { a - b }
}

/// Sizes from k to N0, each about 1.4 times the one before.
fn grid(k: usize, n0: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(k), move |n| (*n < n0).then(|| (n + 1).max(n * 7 / 5).min(n0)))
}

/// The greatest small pool for answers of k.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
pub(crate) fn small(pool: &PoolPolicy, k: usize) -> usize {
    pool.small.max((real(k) * pool.small_per_answer) as usize)
}

/// The smallest large pool for answers of k.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
pub(crate) fn large(pool: &PoolPolicy, k: usize) -> usize {
    pool.large.max((real(k) * pool.large_per_answer).ceil() as usize)
}
