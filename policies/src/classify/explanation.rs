//! What may stand behind the draws, and how it is said. Weighed by `explain`, named by the verdict.

use crate::Observation;

/// What may stand behind the draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explanation {
    /// A fixed set, or one that operators changed.
    Fixed,
    /// A few that are drawn at random.
    Few,
    /// A few in turn.
    FewInTurn,
    /// A few, some more often than others.
    FewWeighted,
    /// A few, each for a while.
    FewHeld,
    /// A window that slides over a few.
    FewSliding,
    /// Many at random.
    Many,
    /// Many, and favourites more often.
    ManyAndFavourite,
    /// Many, each answer for a while.
    ManyHeld,
    /// A window that slides over many.
    ManySliding,
}

impl Explanation {
    /// As part of a sentence.
    pub(super) fn words(self, o: &Observation) -> &'static str {
        match self {
            Self::Fixed if o.distinct_sets < 2 => "a fixed set",
            Self::Fixed => "a fixed set that was changed, as in a fail-over or a roll-out",
            Self::Few => "a few addresses at random",
            Self::FewInTurn => "a few addresses in strict turn",
            Self::FewWeighted => "a few addresses with unequal shares",
            Self::FewHeld => "a few addresses, each answered for a while",
            Self::FewSliding => "a window that slides over a few addresses",
            Self::Many => "a large pool",
            Self::ManyAndFavourite => "a large pool behind an address that most answers hold",
            Self::ManyHeld => "a large pool whose answers are held for a while",
            Self::ManySliding => "a window that slides over a large pool",
        }
    }
}
