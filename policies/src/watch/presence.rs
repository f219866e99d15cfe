//! How surprising is it that something is missing? One [`Presence`] a thing that comes and goes: an address in the
//! answers of a name, addresses at all, a reply at all. What each draw showed comes in; whether the absence that is
//! going on can still be chance goes out. Used by the machine of a source.
//!
//! Of a thing that never was missing, a few absences in a row are news. One that is drawn with a share is missing for
//! long by chance, and one that is held for several draws for longer still: the absence is weighed by how often the
//! thing was there, in units of how long its absences usually last.

use serde::{Deserialize, Serialize};

/// Prior weight of presence and of absence: most addresses are in every answer or in none.
const PRIOR: (f64, f64) = (0.5, 0.05);
/// Chance that is taken for none, where there was no absence before: this is tried once in the life of a name.
const NEVER_MISSING: f64 = 1e-5;
/// And where there was: this is tried at each absence, for years.
const SOMETIMES_MISSING: f64 = 1e-10;
/// Of what was there for as many draws without a gap, an absence that is longer than this is an operation, not a draw:
/// it says nothing about the share.
const LONGEST_DRAW: u32 = 64;
/// From here on old draws count half.
const REMEMBERED: u32 = 4096;

/// The record of one thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Presence {
    /// Draws that showed it.
    seen: u32,
    /// Draws that did not, of absences that ended.
    missed: u32,
    /// Absences that ended.
    returns: u32,
    /// Draws of the absence that is going on.
    absent: u32,
}

impl Presence {
    /// Adds a draw.
    pub(super) fn push(&mut self, present: bool) {
        if !present {
            self.absent = self.absent.saturating_add(1);
            return;
        }
        let operation = self.absent > LONGEST_DRAW && self.steady() && self.seen >= LONGEST_DRAW;
        if self.absent > 0 && !operation {
            self.missed += self.absent;
            self.returns += 1;
        }
        self.absent = 0;
        self.seen += 1;
        if self.seen + self.missed > REMEMBERED {
            self.seen /= 2;
            self.missed /= 2;
            self.returns = (self.returns / 2).max(u32::from(self.missed > 0));
        }
    }

    /// Draws of the absence that is going on.
    pub(super) fn absent(&self) -> u32 {
        self.absent
    }

    /// Draws that showed it.
    pub(super) fn seen(&self) -> u32 {
        self.seen
    }

    /// It was in every draw until now.
    pub(super) fn steady(&self) -> bool {
        self.missed == 0
    }

    /// The share of draws that show it.
    pub(super) fn share(&self) -> f64 {
        f64::from(self.seen) / f64::from((self.seen + self.missed).max(1))
    }

    /// Its absence is no chance any more.
    pub(super) fn gone(&self) -> bool {
        let bound = if self.steady() { NEVER_MISSING } else { SOMETIMES_MISSING };
        self.absent >= 2 && self.seen > 0 && self.log_chance() < bound.ln()
    }

    /// One absence is a surprise that is worth another look.
    pub(super) fn surprising(&self) -> bool {
        self.absent > 0 && self.seen >= 4 && (self.steady() || self.share() > 0.98)
    }

    /// Log of the chance of an absence of this length (Beta-binomial), in independent draws.
    fn log_chance(&self) -> f64 {
        let (seen, missed) = (f64::from(self.seen), f64::from(self.missed));
        let independent = (f64::from(self.absent) / self.held()).floor();
        let (mut log, mut i) = (0.0, 0.0);
        while i < independent && log > -60.0 {
            log += ((missed + PRIOR.1 + i) / (seen + missed + PRIOR.0 + PRIOR.1 + i)).ln();
            i += 1.0;
        }
        log
    }

    /// How many draws say what one independent draw says: the absences would be that much shorter if each draw were
    /// independent of the one before.
    fn held(&self) -> f64 {
        if self.returns == 0 {
            return 1.0;
        }
        let length = f64::from(self.missed) / f64::from(self.returns);
        let expected = 1.0 / self.share().max(0.01);
        if self.returns < 3 { length.max(1.0) } else { (length / expected).max(1.0) }
    }
}

/// Whether something with this record is new: it was in none of the `before` draws, and that is no chance.
pub(super) fn is_new(presence: &Presence, before: u32) -> bool {
    let missing = 1.0 - presence.share() * 0.9;
    presence.seen >= 2 && before >= 3 && f64::from(before) * missing.max(1e-9).ln() < NOT_THERE.ln()
}

/// Chance at which an address that is met late is taken for new.
const NOT_THERE: f64 = 1e-4;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(draws: impl IntoIterator<Item = bool>) -> Presence {
        let mut presence = Presence::default();
        draws.into_iter().for_each(|present| presence.push(present));
        presence
    }

    /// Absent draws until it counts as gone.
    fn patience(mut presence: Presence) -> u32 {
        for n in 1..100_000 {
            presence.push(false);
            if presence.gone() {
                return n;
            }
        }
        u32::MAX
    }

    #[test]
    fn what_was_always_there_is_soon_missed() {
        assert_eq!(patience(of(vec![true; 500])), 2);
        assert!((3..=5).contains(&patience(of(vec![true; 30]))));
        assert!((5..=9).contains(&patience(of(vec![true; 6]))));
    }

    #[test]
    fn what_is_drawn_with_a_share_is_missed_late() {
        let quarter = patience(of((0..2000).map(|i| i % 4 == 0)));
        assert!((70..=100).contains(&quarter), "{quarter}");
        let rare = patience(of((0..4000).map(|i| i % 100 == 0)));
        assert!(rare > 1500, "{rare}");
        let favourite = patience(of((0..4000).map(|i| i % 100 != 0)));
        assert!((4..=7).contains(&favourite), "{favourite}");
    }

    #[test]
    fn what_is_held_is_missed_later_still() {
        let held = patience(of((0..2000).map(|i| i / 4 % 3 == 0)));
        let drawn = patience(of((0..2000).map(|i| i % 3 == 0)));
        assert!(held > 2 * drawn, "{held} {drawn}");
    }

    #[test]
    fn an_operation_of_hours_leaves_no_doubt() {
        let mut presence = of(vec![true; 500]);
        (0..300).for_each(|_| presence.push(false));
        (0..100).for_each(|_| presence.push(true));
        assert_eq!(patience(presence), 2);
    }

    #[test]
    fn late_members_are_new_only_where_they_would_have_been_seen() {
        assert!(is_new(&of(vec![true; 4]), 20));
        assert!(!is_new(&of(vec![true; 1]), 20));
        assert!(!is_new(&of((0..200).map(|i| i % 100 == 0)), 100));
    }
}
