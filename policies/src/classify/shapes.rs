//! Shapes in the order of the draws: a turn, a window that slides, one address apart from the rest, parts that share
//! nothing. The state of the sequential test comes in; what stands behind the draws is weighed with it by `explain`.

use super::sequential::{Kind, Test};
use crate::observe::pool::{Series, common, real};

/// One address apart from the rest.
pub(super) struct Mixture {
    /// How likely it is that this one came as often as it did, over all shares.
    pub(super) share: f64,
    pub(super) rest: Series,
}

/// The integral of p^a (1-p)^b: shares of a favourite, none more likely than another.
pub(super) fn any_share(a: u32, b: u32) -> f64 {
    (1..=b).fold(1.0 / f64::from(a + 1), |beta, i| beta * f64::from(i) / f64::from(a + 1 + i))
}

impl Test {
    /// The most frequent address apart from the rest, where answers have one address each and it came back.
    pub(super) fn mixture(&self) -> Option<Mixture> {
        let (top, count) = (0..).zip(&self.counts).max_by_key(|(_, count)| **count)?;
        if self.largest > 1 || self.counts.len() < 2 || *count < 2 {
            return None;
        }
        let (mut rest, mut seen) = (Series::default(), vec![false; self.counts.len()]);
        let (mut tops, mut others) = (0, 0);
        let counting = self.steps.iter().filter(|step| step.kind != Kind::Repeats);
        for id in counting.flat_map(|step| &self.sets[step.set]) {
            let new = usize::from(!std::mem::replace(&mut seen[*id as usize], true));
            if *id == top {
                tops += 1;
            } else {
                others += 1;
                rest.draw(1, new);
            }
        }
        Some(Mixture { share: any_share(tops, others), rest })
    }

    /// Whether an address of answers with one came back, and all others came once.
    pub(super) fn rest_came_once(&self) -> bool {
        self.mixture().is_some_and(|mixture| mixture.rest.seen == mixture.rest.draws() as usize)
            && self.counts.iter().filter(|count| **count > 1).count() == 1
    }

    /// Longest time between two draws of one address, seconds.
    pub(super) fn stayed(&self) -> f64 {
        real(usize::try_from(self.stayed_ms.max(0)).unwrap_or_default()) / 1000.0
    }

    /// The draws in parts that share no address with each other, each as a series.
    pub(super) fn parts(&self) -> Vec<Series> {
        let mut last = vec![0; self.counts.len()];
        for (i, step) in self.steps.iter().enumerate() {
            for id in &self.sets[step.set] {
                last[*id as usize] = i;
            }
        }
        let (mut parts, mut part, mut until) = (Vec::new(), Series::default(), 0);
        let mut seen = vec![false; self.counts.len()];
        for (i, step) in self.steps.iter().enumerate() {
            let set = &self.sets[step.set];
            until = set.iter().map(|id| last[*id as usize]).fold(until, usize::max);
            let new = set.iter().filter(|id| !std::mem::replace(&mut seen[**id as usize], true)).count();
            if step.kind != Kind::Repeats {
                part.draw(set.len(), new);
            }
            if until == i && part.draws() > 1 {
                parts.push(std::mem::take(&mut part));
            }
        }
        if part.draws() > 0 {
            parts.push(part);
        }
        parts
    }

    /// What came beside the favourites: how often, and how many addresses came in one draw alone.
    pub(super) fn rest(&self) -> (usize, usize) {
        let rest = (0..).zip(&self.counts).filter(|(id, _)| self.favourites.binary_search(id).is_err());
        rest.fold((0, 0), |(all, once), (_, count)| (all + *count as usize, once + usize::from(*count == 1)))
    }

    /// Whether each draw that was not the repeat of the one before brought nothing but new addresses.
    pub(super) fn only_new(&self) -> bool {
        let addresses: usize = self.sets.iter().map(|set| set.len()).sum();
        let mut next = 0;
        let in_order = self.steps.iter().filter(|step| step.kind != Kind::Repeats).all(|step| {
            next += 1;
            step.set + 1 == next
        });
        addresses == self.counts.len() && in_order
    }

    /// Whether the sets, as they came first, go through the addresses in order, around the end once at most.
    pub(super) fn walks(&self) -> bool {
        let mut place = vec![0; self.counts.len()];
        for (i, (_, id)) in self.ids.iter().enumerate() {
            place[*id as usize] = i;
        }
        let ends = self.sets.iter().map(|set| {
            let places = || set.iter().map(|id| place[*id as usize]);
            (places().min().unwrap_or_default(), places().max().unwrap_or_default())
        });
        let ends: Vec<_> = ends.collect();
        let falls = ends.windows(2).filter(|pair| pair[1].0 < pair[0].1).count();
        let closes = ends.last().zip(ends.first()).is_some_and(|(last, first)| last.1 < first.0);
        falls == 0 || falls == 1 && closes
    }

    /// Whether sets that share a part with the one before came again and again, and no address came back after it
    /// was gone.
    pub(super) fn slides(&self) -> bool {
        self.partial
            && self.sets.len() > 2
            && self.sets.windows(2).all(|pair| {
                let shared = common(&pair[0], &pair[1]);
                shared > 0 && shared < pair[0].len()
            })
            && {
                let mut gone_before = vec![false; self.counts.len()];
                self.sets.windows(2).all(|pair| {
                    let back = pair[1].iter().any(|id| gone_before[*id as usize]);
                    for id in pair[0].iter().filter(|id| pair[1].binary_search(id).is_err()) {
                        gone_before[*id as usize] = true;
                    }
                    !back
                })
            }
    }
}
