//! How much may be asked on behalf of one name, whatever its zone answers: the zone chooses its aliases, its servers and
//! their addresses, so each query counts, wherever it goes. Made by `sweep` for each name, taken from by `sample`.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Queries that are left. One task takes at a time.
#[derive(Debug)]
pub struct Budget(AtomicUsize);

/// No query is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spent;

impl Budget {
    /// For so many queries.
    #[must_use]
    pub fn new(queries: usize) -> Self {
        Self(AtomicUsize::new(queries))
    }

    /// For tests and names without a bound.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// No query is left.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left() == 0
    }

    pub(crate) fn take(&self) -> Result<(), Spent> {
        let left = self.left().checked_sub(1).ok_or(Spent)?;
        self.0.store(left, Ordering::Relaxed);
        Ok(())
    }

    /// Sets less than half aside for a search, so that the name itself is still asked for.
    pub(crate) fn set_aside(&self) -> Self {
        let aside = (self.left() / 2).saturating_sub(1);
        self.0.store(self.left() - aside, Ordering::Relaxed);
        Self::new(aside)
    }

    /// Takes back what a search has left.
    pub(crate) fn put_back(&self, rest: &Self) {
        self.0.store(self.left().saturating_add(rest.left()), Ordering::Relaxed);
    }

    fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_leaves_enough_to_ask_for_the_name() {
        for (queries, aside) in [(2, 0), (40, 19), (400, 199)] {
            let budget = Budget::new(queries);
            let search = budget.set_aside();
            assert_eq!(std::iter::repeat_with(|| search.take()).take_while(Result::is_ok).count(), aside);
            assert_eq!(search.take(), Err(Spent));
            assert!(!budget.is_spent());
            budget.put_back(&search);
            assert_eq!(budget.left(), queries - aside);
        }
    }
}
