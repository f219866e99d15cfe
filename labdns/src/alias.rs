//! A CNAME in service: the time comes in, one link goes out. Called by `zone`.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::answer::Alias;
use crate::name::Name;
use crate::schema::records::{Cname, Pick};

#[derive(Debug)]
pub(crate) struct AliasState {
    spec: Cname,
    seed: u64,
    rng: Xoshiro256PlusPlus,
    /// Answers so far.
    count: u64,
    /// The target that `first` names.
    current: usize,
    phase: Duration,
}

impl AliasState {
    pub(crate) fn new(spec: Cname, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let phase = spec.hold.map_or(Duration::ZERO, |hold| hold.get().mul_f64(rng.random_range(0.0..1.0)));
        Self { spec, seed, rng, count: 0, current: 0, phase }
    }

    pub(crate) fn draw(&mut self, now: Duration) -> Alias {
        let slot = self.spec.hold.map(|hold| (now + self.phase).as_nanos() / hold.get().as_nanos().max(1));
        let slot = slot.map(|slot| u64::try_from(slot).unwrap_or(u64::MAX));
        let turn = slot.unwrap_or(self.count);
        self.count += 1;
        let targets = self.spec.to.len();
        let index = match (self.spec.pick, slot) {
            (Pick::First, _) => self.current,
            (Pick::Cyclic, _) => usize::try_from(turn % targets as u64).unwrap_or(0),
            (Pick::Random, None) => self.rng.random_range(0..targets),
            (Pick::Random, Some(slot)) => {
                Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(slot)).random_range(0..targets)
            }
        };
        Alias { target: self.spec.to[index].clone(), ttl: self.spec.ttl }
    }

    pub(crate) fn spec(&self) -> &Cname {
        &self.spec
    }

    /// The targets, the current one first.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Name> {
        self.spec.to[self.current..].iter().chain(&self.spec.to[..self.current])
    }

    pub(crate) fn set_ttl(&mut self, ttl: u32) {
        self.spec.ttl = ttl;
    }

    pub(crate) fn rotate(&mut self, by: usize) {
        self.current = (self.current + by % self.spec.to.len()) % self.spec.to.len();
    }
}
