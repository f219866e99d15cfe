//! The state of the sequential test. Draws come in one by one; what they say under a policy is worked out by
//! `verdict`. Used by `classify` on a whole observation and by the sampling plan after each draw.
//!
//! An answer that repeats the one before it says nothing about the pool (it may be held), nor does a new address in
//! the first answer of a further source (it may be another region). Addresses in most of the answers are set aside,
//! so that a favourite does not hide what turns behind it. Draws at about the same time form a look: what a look
//! showed is compared with what the next one shows, since a draw of several may be held too.

use std::net::IpAddr;
use std::sync::Arc;

use super::look::Looks;
use crate::observe::Draw;
use crate::observe::pool::{Series, common, ln_choose, ratio, real};

/// Draws that must hold an address, and their share, before it is set aside as a favourite.
const FAVOURITE: (u32, f64) = (4, 0.4);
/// Log-likelihood of an operator's change that keeps less than half of a set, and not none (1 in 20).
const MIXED: f64 = 3.0;
/// Draws of one authority this close are simultaneous, milliseconds.
pub(crate) const AT_ONCE_MS: i64 = 1000;

/// The state of the test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Test {
    /// The addresses, sorted, each with its number in the order of first appearance.
    pub(super) ids: Vec<(IpAddr, u32)>,
    /// Draws that held each of them.
    pub(super) counts: Vec<u32>,
    /// When each of them was first seen, milliseconds.
    since: Vec<i64>,
    /// Longest time between two draws of one address, milliseconds.
    pub(super) stayed_ms: i64,
    /// Different sets, each a sorted list of numbers, in the order of their first appearance.
    pub(super) sets: Vec<Box<[u32]>>,
    /// Indices into the sets, sorted by what they hold.
    sorted: Vec<usize>,
    /// The last draw of each source.
    sources: Vec<LastDraw>,
    pub(super) steps: Vec<Step>,
    /// The last draw's addresses, and the index of their set.
    last: Option<(Arc<[IpAddr]>, usize)>,
    /// Sorted numbers of the addresses that most draws hold.
    pub(super) favourites: Vec<u32>,
    /// Draws without the favourites.
    pub(super) series: Series,
    /// Draws as a whole: which set came.
    pub(super) groups: Series,
    /// Draws that repeated the one before them, with more in them than favourites.
    pub(super) repeats: u32,
    /// Draws that repeated the one before them, with nothing in them but favourites.
    pub(super) favourite_runs: usize,
    pub(super) looks: Looks,
    pub(super) draws: usize,
    pub(super) incidences: usize,
    /// Addresses that one draw held.
    pub(super) once: usize,
    /// Addresses of the largest draw.
    pub(super) largest: usize,
    /// Two sets share a part of their addresses.
    pub(super) partial: bool,
    /// Quick pairs of draws from one authority: equal, and different.
    pub(super) quick: (u32, u32),
    /// Changes between draws that were not quick: how many, and their summed Jaccard similarity.
    pub(super) slow: (u32, f64),
    /// Those of them that kept less than half.
    pub(super) far: u32,
    /// Logarithm of the number of ways in which those changes can keep as many addresses as they did, and addresses
    /// that came back by them after they were gone.
    pub(super) kept: (f64, u32),
    pub(super) first_at: i64,
    pub(super) last_at: i64,
    /// When a new address was last seen.
    pub(super) novel_at: i64,
    /// The last draw brought a new address.
    pub(super) news: bool,
    /// Some source draws for every query.
    pub(super) direct: bool,
}

#[derive(Debug, Clone, Copy)]
struct LastDraw {
    source: usize,
    at: i64,
    cached: bool,
    /// Index into the sets.
    set: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Index into the sets.
    pub(super) set: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counts,
    Repeats,
    FirstOfSource,
}

impl Test {
    /// Adds the next draw.
    pub(crate) fn push(&mut self, draw: &Draw) {
        let at = draw.at.as_millisecond();
        if self.draws == 0 {
            (self.first_at, self.novel_at) = (at, at);
        }
        let known = self.sets.len();
        let (set, new) = self.learn(draw);
        let place = self.sources.iter().position(|s| s.source == draw.source);
        let kind = match place.map(|i| self.sources[i]) {
            Some(last) if last.set == set => Kind::Repeats,
            None if self.draws > 0 && new > 0 => Kind::FirstOfSource,
            _ => Kind::Counts,
        };
        let now = LastDraw { source: draw.source, at, cached: draw.cached, set };
        match place {
            Some(i) => {
                let last = std::mem::replace(&mut self.sources[i], now);
                self.compare(last, now, new);
            }
            None => self.sources.push(now),
        }
        self.since.resize(self.counts.len(), at);
        for id in &self.sets[set] {
            self.stayed_ms = self.stayed_ms.max(at - self.since[*id as usize]);
        }
        self.see_set(set, set == known, new, kind);
        self.looks.push(at, &self.sets[set], new, kind == Kind::FirstOfSource);
        self.news = new > 0;
        if new > 0 {
            self.novel_at = at;
        }
        self.draws += 1;
        self.largest = self.largest.max(self.sets[set].len());
        self.last_at = self.last_at.max(at);
        self.direct |= !draw.cached;
        self.steps.push(Step { set, kind });
        self.set_aside(new);
    }

    /// Draws so far.
    pub(crate) fn draws(&self) -> usize {
        self.draws
    }

    /// Distinct addresses so far.
    pub(crate) fn addresses(&self) -> usize {
        self.counts.len()
    }

    /// Addresses of the largest draw.
    pub(crate) fn answer_size(&self) -> usize {
        self.largest
    }

    /// Different sets so far.
    pub(crate) fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Whether quick draws of one authority were seen to differ.
    pub(crate) fn varies_at_once(&self) -> bool {
        self.quick.1 > 0
    }

    /// Quick pairs of equal draws.
    pub(crate) fn equal_at_once(&self) -> u32 {
        self.quick.0
    }

    /// Whether the last draw brought a new address.
    pub(crate) fn news(&self) -> bool {
        self.news
    }

    /// Looks that found other addresses than the look before.
    pub(crate) fn moved(&self) -> u32 {
        u32::try_from(self.looks.moved()).unwrap_or(u32::MAX)
    }

    /// Counts the addresses; the index of their set, and how many of them are new.
    fn learn(&mut self, draw: &Draw) -> (usize, usize) {
        let before = self.counts.len();
        let set = match &self.last {
            // Equal answers in a row share one set: the usual case, and there is nothing to look up.
            Some((last, set)) if Arc::ptr_eq(last, &draw.set) => *set,
            _ => {
                let set = self.index_of(&draw.set);
                self.last = Some((Arc::clone(&draw.set), set));
                set
            }
        };
        for id in &self.sets[set] {
            let count = &mut self.counts[*id as usize];
            *count += 1;
            match *count {
                1 => self.once += 1,
                2 => self.once -= 1,
                _ => {}
            }
        }
        self.incidences += self.sets[set].len();
        (set, self.counts.len() - before)
    }

    /// The index of a set, which becomes known, as its addresses do.
    fn index_of(&mut self, addresses: &[IpAddr]) -> usize {
        let mut numbers = Vec::with_capacity(addresses.len());
        for addr in addresses {
            let place = self.ids.binary_search_by_key(addr, |(known, _)| *known);
            let place = place.unwrap_or_else(|place| {
                let next = u32::try_from(self.counts.len()).unwrap_or(u32::MAX);
                self.ids.insert(place, (*addr, next));
                self.counts.push(0);
                place
            });
            numbers.push(self.ids[place].1);
        }
        numbers.sort_unstable();
        numbers.dedup();
        match self.sorted.binary_search_by(|set| (*self.sets[*set]).cmp(&numbers)) {
            Ok(place) => self.sorted[place],
            Err(place) => {
                self.sorted.insert(place, self.sets.len());
                self.sets.push(numbers.into());
                self.sets.len() - 1
            }
        }
    }

    fn compare(&mut self, last: LastDraw, now: LastDraw, new: usize) {
        let at_once = !last.cached && !now.cached && now.at - last.at <= AT_ONCE_MS;
        match (at_once, last.set == now.set) {
            (true, true) => self.quick.0 += 1,
            (true, false) => self.quick.1 += 1,
            (false, true) => {}
            (false, false) => {
                let (before, after) = (&self.sets[last.set], &self.sets[now.set]);
                let common = common(before, after);
                self.slow.0 += 1;
                let similar = ratio(common, before.len() + after.len() - common);
                self.slow.1 += similar;
                let (old, back) = (after.len() - new, after.len() - new - common);
                let far = 2 * common < after.len();
                self.far += u32::from(far);
                if far || new > 2 && common < before.len() {
                    self.kept.0 += if far && common > 0 && common < before.len() { MIXED } else { 0.0 };
                    self.kept.0 += ln_choose(before.len() + back, old.min(before.len() + back));
                }
                self.kept.1 += u32::try_from(back).unwrap_or(u32::MAX);
            }
        }
    }

    fn see_set(&mut self, set: usize, first: bool, new: usize, kind: Kind) {
        self.partial |= first && self.draws > 0 && new < self.sets[set].len();
        match kind {
            Kind::Repeats => {}
            Kind::FirstOfSource => self.groups.given(1),
            Kind::Counts => self.groups.draw(1, usize::from(first)),
        }
    }

    /// Keeps the favourites and, without them, the series: step by step as long as they stay the same.
    fn set_aside(&mut self, new: usize) {
        let (least, share) = FAVOURITE;
        let enough = (share * real(self.draws)).max(f64::from(least));
        let is_favourite = |count: &u32| f64::from(*count) >= enough;
        let now = self.counts.iter().filter(|count| is_favourite(count)).count();
        let same = now == self.favourites.len()
            && self.favourites.iter().all(|id| self.counts.get(*id as usize).is_some_and(is_favourite));
        if same {
            if let Some(Step { set, kind }) = self.steps.last().copied() {
                // None of the new ones is a favourite yet.
                let turning = self.sets[set].len() - common(&self.sets[set], &self.favourites);
                self.count_step(kind, turning, new);
            }
            return;
        }
        self.favourites =
            (0..).zip(&self.counts).filter(|(_, count)| is_favourite(count)).map(|(id, _)| id).collect();
        (self.series, self.repeats, self.favourite_runs) = (Series::default(), 0, 0);
        let mut seen = vec![false; self.counts.len()];
        let steps = std::mem::take(&mut self.steps);
        for step in &steps {
            let (mut turning, mut new) = (0, 0);
            for id in self.sets[step.set].iter().filter(|id| self.favourites.binary_search(id).is_err()) {
                turning += 1;
                new += usize::from(!std::mem::replace(&mut seen[*id as usize], true));
            }
            self.count_step(step.kind, turning, new);
        }
        self.steps = steps;
    }

    fn count_step(&mut self, kind: Kind, turning: usize, new: usize) {
        match kind {
            Kind::Repeats if turning == 0 => self.favourite_runs += 1,
            _ if turning == 0 => {}
            Kind::Repeats => self.repeats += 1,
            Kind::FirstOfSource => self.series.given(new),
            Kind::Counts => self.series.draw(turning, new),
        }
    }
}
