//! Which members of a pool go into one answer. A [`Behaviour`] from the scenario and the state of one draw come in;
//! positions into the pool go out, in wire order. Called by `rrset` for every answer, so nothing here builds a list
//! of the whole pool when a few members are asked for.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::schema::scalar::{Interval, Take};

/// How an answer is drawn from a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Behaviour {
    /// Every member, in the pool's order.
    #[default]
    All,
    /// Some members at random, all equally likely, drawn anew for each answer.
    Random {
        /// Addresses per answer (default 1).
        #[serde(default)]
        take: Take,
    },
    /// Consecutive members; each answer starts a step further on. A step of `take` (the default) is a round robin,
    /// a smaller one a sliding window.
    Cyclic {
        /// Addresses per answer (default 1).
        #[serde(default)]
        take: Take,
        /// Members to move on by (default: `take`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<usize>,
        /// Move on once per this time instead of with every answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<Interval>,
    },
    /// Members at random with unequal shares.
    Weighted {
        /// One weight per member, in the pool's order; any scale, 0 is never drawn.
        weights: Vec<f64>,
        /// Addresses per answer (default 1).
        #[serde(default)]
        take: Take,
    },
    /// Members at random, the share of member number i being proportional to 1 / i^exponent.
    Zipf {
        /// Steepness (default 1).
        #[serde(default = "one")]
        exponent: f64,
        /// Addresses per answer (default 1).
        #[serde(default)]
        take: Take,
    },
    /// Members by a hash of who asks (the client subnet, else the source address): always the same for one client.
    Sticky {
        /// Addresses per answer (default 1).
        #[serde(default)]
        take: Take,
    },
}

fn one() -> f64 {
    1.0
}

/// What one answer is drawn with.
pub(crate) struct Turn<'a> {
    pub(crate) rng: &'a mut Xoshiro256PlusPlus,
    /// Counts the answers (or the slots, where a draw is held).
    pub(crate) count: u64,
    /// Time since the start, nanoseconds.
    pub(crate) now_ns: u128,
    /// Seed of a sticky draw: the record set's and the client's.
    pub(crate) client_seed: u64,
}

/// A behaviour made ready for drawing: the running totals of its weights are computed once.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    behaviour: Behaviour,
    /// Running totals of the weights; empty for behaviours without.
    totals: Vec<f64>,
}

impl Sampler {
    /// For a pool of `members`.
    pub(crate) fn new(behaviour: Behaviour, members: usize) -> Self {
        let running = |weights: &mut dyn Iterator<Item = f64>| {
            weights
                .scan(0.0, |total, weight| {
                    *total += weight;
                    Some(*total)
                })
                .collect()
        };
        let totals = match &behaviour {
            Behaviour::Weighted { weights, .. } => running(&mut weights.iter().copied()),
            #[expect(clippy::cast_precision_loss, reason = "a pool is far smaller than 2^52")]
            Behaviour::Zipf { exponent, .. } => {
                running(&mut (1..=members).map(|i| (i as f64).powf(-exponent)))
            }
            _ => Vec::new(),
        };
        Self { behaviour, totals }
    }

    pub(crate) fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// Draws positions out of `0..members`, leaving out those in `down` (sorted), into `picked`.
    pub(crate) fn draw(&self, members: usize, down: &[usize], turn: &mut Turn<'_>, picked: &mut Vec<usize>) {
        picked.clear();
        let up = members - down.len();
        let taken = |take: Take, rng: &mut Xoshiro256PlusPlus| {
            let n = if take.min == take.max { take.min } else { rng.random_range(take.min..=take.max) };
            n.min(up)
        };
        match &self.behaviour {
            Behaviour::All => picked.extend(0..up),
            Behaviour::Random { take } => {
                let take = taken(*take, turn.rng);
                uniform(turn.rng, up, take, picked);
            }
            Behaviour::Sticky { take } => {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(turn.client_seed);
                let take = taken(*take, &mut rng);
                uniform(&mut rng, up, take, picked);
            }
            Behaviour::Cyclic { take, step, every } => {
                let take = taken(*take, turn.rng);
                let count = every.map_or(u128::from(turn.count), |e| turn.now_ns / e.get().as_nanos().max(1));
                let start = (count % up.max(1) as u128) * (step.unwrap_or(take) as u128);
                let start = usize::try_from(start % up.max(1) as u128).unwrap_or(0);
                picked.extend((0..take).map(|i| (start + i) % up));
            }
            Behaviour::Weighted { take, .. } | Behaviour::Zipf { take, .. } => {
                let take = taken(*take, turn.rng);
                return self.by_weight(members, down, take, turn.rng, picked);
            }
        }
        for position in picked {
            *position = skip(down, *position);
        }
    }

    /// Draws without replacement by rejection, which is quick as long as the weight left over is not tiny; the
    /// members in order fill up what chance did not find in time.
    fn by_weight(
        &self,
        members: usize,
        down: &[usize],
        take: usize,
        rng: &mut Xoshiro256PlusPlus,
        picked: &mut Vec<usize>,
    ) {
        let total = self.totals[members - 1];
        let mut tries = 64 + 8 * take;
        while picked.len() < take && tries > 0 && total > 0.0 {
            tries -= 1;
            let mark = rng.random_range(0.0..total);
            let position = self.totals[..members].partition_point(|t| *t <= mark);
            if !down.contains(&position) && !picked.contains(&position) {
                picked.push(position);
            }
        }
        for position in 0..members {
            if picked.len() == take {
                break;
            }
            if !down.contains(&position) && !picked.contains(&position) {
                picked.push(position);
            }
        }
    }
}

/// `take` distinct positions out of `0..n` in random order.
pub(crate) fn uniform(rng: &mut Xoshiro256PlusPlus, n: usize, take: usize, picked: &mut Vec<usize>) {
    if take == 1 && n > 0 {
        picked.push(rng.random_range(0..n));
    } else {
        picked.extend(rand::seq::index::sample(rng, n, take.min(n)));
    }
}

/// The `position`th member that is not in `down` (sorted).
fn skip(down: &[usize], mut position: usize) -> usize {
    for d in down {
        position += usize::from(*d <= position);
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn behaviours() -> impl Strategy<Value = Behaviour> {
        let take = (1usize..6, 0usize..6).prop_map(|(min, more)| Take { min, max: min + more });
        prop_oneof![
            Just(Behaviour::All),
            take.clone().prop_map(|take| Behaviour::Random { take }),
            (take.clone(), proptest::option::of(1usize..9)).prop_map(|(take, step)| Behaviour::Cyclic {
                take,
                step,
                every: None
            }),
            take.clone().prop_map(|take| Behaviour::Zipf { exponent: 1.1, take }),
            take.prop_map(|take| Behaviour::Sticky { take }),
        ]
    }

    proptest! {
        #[test]
        fn a_draw_is_distinct_in_range_and_never_down(
            behaviour in behaviours(),
            members in 1usize..40,
            mut down in proptest::collection::btree_set(0usize..40, 0..5),
            seed: u64,
        ) {
            down.retain(|d| *d < members);
            let down: Vec<usize> = down.into_iter().collect();
            let sampler = Sampler::new(behaviour.clone(), members);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut picked = Vec::new();
            for count in 0..20 {
                let mut turn = Turn { rng: &mut rng, count, now_ns: 0, client_seed: seed };
                sampler.draw(members, &down, &mut turn, &mut picked);
                let mut sorted = picked.clone();
                sorted.sort_unstable();
                sorted.dedup();
                prop_assert_eq!(sorted.len(), picked.len(), "{:?} repeats {:?}", behaviour, picked);
                prop_assert!(picked.iter().all(|p| *p < members && !down.contains(p)));
                prop_assert_eq!(picked.is_empty(), down.len() == members);
            }
        }
    }

    #[test]
    fn weights_are_honoured_even_when_one_is_zero() {
        let sampler =
            Sampler::new(Behaviour::Weighted { weights: vec![9.0, 0.0, 1.0], take: Take::default() }, 3);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut counts = [0; 3];
        let mut picked = Vec::new();
        for count in 0..10_000 {
            sampler.draw(3, &[], &mut Turn { rng: &mut rng, count, now_ns: 0, client_seed: 0 }, &mut picked);
            counts[picked[0]] += 1;
        }
        assert!((8_800..9_200).contains(&counts[0]) && counts[1] == 0, "{counts:?}");
    }
}
