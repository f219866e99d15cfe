//! Looks: draws at about the same time, taken together. Part of the sequential test. If an authority holds several
//! addresses for a while and answers each query out of them, its answers return at once and are gone for good later;
//! only looks, compared with each other, show that.

use crate::observe::pool::{Series, common};

/// A longer pause than this starts a new look, milliseconds: between paced queries lies a second.
const PAUSE_MS: i64 = 3000;

/// A look that found other addresses than the one before, milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    /// When the addresses before were last seen.
    pub(super) before: i64,
    /// When the new ones were seen.
    pub(super) at: i64,
}

/// The series of looks.
#[derive(Debug, Clone, Default)]
pub(super) struct Looks {
    series: Series,
    /// Looks with new addresses.
    novel: usize,
    last: Vec<u32>,
    current: Vec<u32>,
    new: usize,
    at: i64,
    /// Looks that found other addresses than the look before.
    moves: Vec<Move>,
    /// When the look before ended, milliseconds.
    before: i64,
}

impl Looks {
    /// Adds a draw, `new` of whose addresses were never seen. What the first answer of a further source brings is
    /// taken as given.
    pub(super) fn push(&mut self, at: i64, set: &[u32], new: usize, given: bool) {
        if at - self.at > PAUSE_MS && !self.current.is_empty() {
            self.close();
            self.before = self.at;
        }
        self.at = at;
        if given {
            self.series.given(new);
            return;
        }
        for id in set {
            if let Err(place) = self.current.binary_search(id) {
                self.current.insert(place, *id);
            }
        }
        self.new += new;
    }

    /// The looks so far, the one that is going on included: their series, and how many brought new addresses.
    pub(super) fn so_far(&self) -> (Series, usize) {
        let mut series = self.series.clone();
        if self.is_held() {
            return (series, self.novel);
        }
        series.draw(self.current.len(), self.new);
        (series, self.novel + usize::from(self.new > 0))
    }

    /// Looks that found other addresses than the look before.
    pub(super) fn moves(&self) -> Vec<Move> {
        let now = self.moves_now().then_some(Move { before: self.before, at: self.at });
        self.moves.iter().copied().chain(now).collect()
    }

    /// How often.
    pub(super) fn moved(&self) -> usize {
        self.moves.len() + usize::from(self.moves_now())
    }

    /// When that was last so, milliseconds; 0 if never.
    pub(super) fn moved_at(&self) -> i64 {
        if self.moves_now() { self.at } else { self.moves.last().map_or(0, |last| last.at) }
    }

    fn moves_now(&self) -> bool {
        !self.last.is_empty() && self.new > 0 && 2 * common(&self.current, &self.last) < self.current.len()
    }

    /// Nothing that the look before did not show: the same draw may still be held.
    fn is_held(&self) -> bool {
        self.current.iter().all(|id| self.last.binary_search(id).is_ok())
    }

    fn close(&mut self) {
        if self.is_held() {
            self.current.clear();
            return;
        }
        if self.moves_now() {
            self.moves.push(Move { before: self.before, at: self.at });
        }
        self.novel += usize::from(self.new > 0);
        self.series.draw(self.current.len(), self.new);
        self.last = std::mem::take(&mut self.current);
        self.new = 0;
    }
}
