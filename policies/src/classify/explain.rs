//! What may stand behind the draws: kinds of small and of large pools, each weighed by how common it is and how well it
//! explains what was seen. The share of the large ones is the confidence; the best of either side are what an
//! undecided verdict names. Part of the sequential test's verdict, beside the likelihood ratio that decides.

use super::explanation::Explanation;
use super::sequential::Test;
use super::verdict::{Context, Weighed, small};
use crate::observe::pool::real;

/// Log-likelihood of an answer that comes again out of a large pool (1 in 20), where no size says it better.
const COINCIDENCE: f64 = 3.0;
/// Log-likelihood of an operator's change of a whole set within three minutes (1 in 10).
const OPERATION: f64 = 2.3;
/// Log-likelihood of an operator's change of a part of a set (1 in 3).
const STEP: f64 = 1.1;
/// Share of fixed sets whose members are replaced one after the other for longer than a window.
const ROLLING: f64 = 0.03;
/// How much rarer a favourite beside a large pool is where answers are blocks that share no address.
const BLOCKS: f64 = 0.1;
/// The time for which [`OPERATION`] holds, seconds.
const OPERATION_S: f64 = 180.0;
/// Shares of names, by what stands behind them; the rest of either side is the ordinary kind.
const IN_TURN: f64 = 0.15;
/// A small pool in turn whose order is not that of its addresses.
const IN_SOME_TURN: f64 = 0.004;
const SLIDING_SMALL: f64 = 0.03;
const SLIDING_LARGE: f64 = 0.1;
const HELD_SMALL: f64 = 0.06;
/// Share of what is held that holds several addresses and answers each query with one of them.
const SEVERAL: f64 = 0.75;
/// How long answers are held, seconds, and the share of each.
const HOLDS: [(f64, f64); 5] = [(20.0, 0.1), (30.0, 0.25), (60.0, 0.35), (120.0, 0.25), (300.0, 0.05)];
/// Least share of the large pools where an address came back and all others came once: nothing was seen of what they
/// come out of.
const REST_UNKNOWN: f64 = 0.2;
/// Likelihood of one such repeat out of a few, where a favourite has 1.
const REPEATED: f64 = 0.6;
/// Shares of the answers that do not go to a favourite lie between these two.
const MINORITY: (f64, f64) = (0.1, 0.7);

/// The explanations weighed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explained {
    /// Share of the large pools, 0 to 1.
    pub(super) rotating: f64,
    pub(super) small: Explanation,
    pub(super) large: Explanation,
}

impl Test {
    /// Weighs the explanations: draws one by one, and looks for what is held.
    pub(super) fn explain(&self, context: Context<'_>, draws: Weighed, looks: Weighed) -> Explained {
        let (small, large) = (self.small(context, draws, looks), self.large(context, draws, looks));
        let sum = |of: &[(Explanation, f64)]| of.iter().map(|(_, weight)| weight).sum::<f64>().max(1e-12);
        let best = |of: &[(Explanation, f64)]| {
            of.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(Explanation::Fixed, |(what, _)| *what)
        };
        let rotating = sum(&large) / (sum(&large) + sum(&small));
        let doubt = if self.rest_came_once() { REST_UNKNOWN } else { 0.0 };
        Explained { rotating: rotating.max(doubt), small: best(&small), large: best(&large) }
    }

    fn small(&self, context: Context<'_>, draws: Weighed, looks: Weighed) -> [(Explanation, f64); 6] {
        let prior = &context.policy.prior;
        let all = 1.0 - prior.rotating;
        let at_once = self.varies_at_once();
        let fits = self.addresses() <= small(&context.policy.pool, self.largest);
        let turn = match (fits && self.only_new(), self.walks()) {
            _ if self.sets() < 2 => 0.0,
            (false, _) => 0.0,
            (true, true) => IN_TURN,
            (true, false) => IN_SOME_TURN,
        };
        let changed = if at_once { 0.0 } else { self.operations() };
        let few = draws.small_prior.exp();
        let few = few * self.repeated();
        let plain = all * (1.0 - prior.weighted) * few;
        let weighted = match (self.mixture(), self.favourites.is_empty(), self.series.seen) {
            (Some(mixture), ..) => {
                mixture.share * self.weigh(&context.policy.pool, &mixture.rest, 1, 1).small_prior.exp()
            }
            (None, true, _) => 0.0,
            _ if self.sets() < 2 => 0.0,
            (None, false, 0) => 1.0,
            (None, false, _) => self.runs() * few,
        };
        let held = HELD_SMALL * self.held_for() * (looks.small_prior.exp() + turn);
        [
            (Explanation::Fixed, all * changed),
            (
                Explanation::Few,
                if self.sets() > 1 && (self.favourites.is_empty() || self.largest == 1) {
                    plain
                } else {
                    0.0
                },
            ),
            (Explanation::FewInTurn, all * turn),
            (Explanation::FewWeighted, all * prior.weighted * weighted),
            (Explanation::FewHeld, if at_once { 0.0 } else { all * held }),
            (Explanation::FewSliding, if fits && self.slides() { all * SLIDING_SMALL } else { 0.0 }),
        ]
    }

    fn large(&self, context: Context<'_>, draws: Weighed, looks: Weighed) -> [(Explanation, f64); 4] {
        let prior = &context.policy.prior;
        let all = prior.rotating;
        let coincidences = (-COINCIDENCE * f64::from(self.repeats)).exp();
        let many = draws.large.exp() * coincidences;
        let plain = if self.favourites.is_empty() { many } else { 0.0 };
        let favourite = match (self.mixture(), self.favourites.is_empty(), self.series.seen) {
            (Some(mixture), ..) => {
                mixture.share * self.weigh(&context.policy.pool, &mixture.rest, 1, 1).large.exp()
            }
            (None, true, _) => 0.0,
            (None, false, 0) => all_favourites(self.draws),
            (None, false, _) if self.partial => self.runs() * many,
            (None, false, _) => BLOCKS * self.runs() * many,
        };
        let at_once = self.varies_at_once();
        let whole = if at_once { 0.0 } else { self.held_for() * looks.large.exp() };
        let several = match self.sets() {
            0 | 1 => 0.0,
            _ => SEVERAL * self.several_held(context, draws, looks),
        };
        let held = prior.held * (whole + several);
        // Equal at once and different later is no window that slides with every answer.
        let slides = self.slides() && self.equal_at_once() == 0;
        [
            (Explanation::Many, all * (1.0 - prior.held - prior.favourite) * plain),
            (Explanation::ManyAndFavourite, all * prior.favourite * favourite),
            (Explanation::ManyHeld, all * held),
            (Explanation::ManySliding, if slides { all * SLIDING_LARGE } else { 0.0 }),
        ]
    }

    /// That draws of one address each repeated the one before as often as they did, beside the same by a favourite.
    fn repeated(&self) -> f64 {
        let repeats = f64::from(self.repeats) + real(self.favourite_runs);
        let repeats =
            if self.varies_at_once() { repeats } else { (repeats - f64::from(self.quick.0)).max(0.0) };
        if self.mixture().is_some() { REPEATED.powf(repeats) } else { 1.0 }
    }

    /// Answers out of several addresses that are held together: within that time they are as few as a small pool has.
    fn several_held(&self, context: Context<'_>, draws: Weighed, looks: Weighed) -> f64 {
        let few = draws.small_prior.exp() * self.repeated();
        let stayed: f64 =
            HOLDS.iter().map(|(held, share)| share * (1.0 - self.stayed() / held).max(0.0)).sum();
        if self.varies_at_once() && self.moved() > 0 {
            return few * self.held_for() * (looks.large - looks.small_prior).clamp(-50.0, 20.0).exp();
        }
        let parts = self.parts();
        let pool = &context.policy.pool;
        let apart: f64 = parts.iter().map(|part| self.weigh(pool, part, 0, self.largest).small_prior).sum();
        stayed * (apart.exp() * self.repeated()).max(few)
    }

    /// Favourites that came again and again, whatever stands behind them.
    fn runs(&self) -> f64 {
        0.5_f64.powi(i32::try_from(self.favourite_runs.min(60)).unwrap_or_default())
    }

    /// That operators changed the set as often as it did.
    fn operations(&self) -> f64 {
        let near = self.slow.0.saturating_sub(self.far);
        let (ways, back) = self.kept;
        let changes = OPERATION * f64::from(self.far) + STEP * f64::from(near);
        let one_by_one = (-changes - ways - OPERATION * f64::from(back.saturating_sub(1))).exp();
        if self.far == 0 && self.slides() { one_by_one.max(ROLLING) } else { one_by_one }
    }

    /// That answers which are held changed when they did: none is held for less than the longest time without a
    /// change, and all are held for about the same time. A density over [`OPERATION_S`] for each change.
    fn held_for(&self) -> f64 {
        let moves = self.looks.moves();
        let seconds = |ms: i64| real(usize::try_from(ms.max(0)).unwrap_or_default()) / 1000.0;
        let whole = seconds(self.last_at - self.first_at);
        let (Some(first), Some(last)) = (moves.first(), moves.last()) else {
            return HOLDS.iter().map(|(held, share)| share * (1.0 - whole / held).max(0.0)).sum();
        };
        let gap = whole / real(self.draws.max(2) - 1);
        let ends = seconds(first.before - self.first_at).max(seconds(self.last_at - last.at));
        if moves.len() == 1 {
            let density = |held: f64| if self.draws > 2 { OPERATION_S / held } else { 1.0 };
            let fits = HOLDS.iter().filter(|(held, _)| ends <= held + 3.0);
            return fits.map(|(held, share)| share * density(*held)).sum();
        }
        let between: Vec<f64> = moves.windows(2).map(|pair| seconds(pair[1].at - pair[0].at)).collect();
        let mean = between.iter().sum::<f64>() / real(between.len());
        let even = between.iter().all(|span| (span - mean).abs() <= gap + 2.0) && ends <= mean + gap + 2.0;
        let share = if even { 0.35 } else { 0.02 };
        // Where each draw may bring another answer, it says nothing that they came as often as draws do.
        let density = if mean >= 1.8 * gap { (OPERATION_S / mean).max(1.0) } else { 1.0 };
        share * density.powi(i32::try_from(moves.len().min(3)).unwrap_or(3))
    }
}

/// That nothing but favourites came in so many draws although the rest gets some share of them, averaged over shares.
fn all_favourites(draws: usize) -> f64 {
    let (least, most) = MINORITY;
    let power = i32::try_from(draws.min(1000)).unwrap_or(1000) + 1;
    ((1.0 - least).powi(power) - (1.0 - most).powi(power)) / ((most - least) * f64::from(power))
}
