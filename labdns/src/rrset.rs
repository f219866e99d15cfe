//! The addresses of one family of one name, and the state that its answers are drawn with: who asks and when come
//! in, addresses in wire order go out. Called by `zone`; the drawing itself is `behaviour`'s.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::answer::Answer;
use crate::behaviour::{Behaviour, Sampler, Turn, uniform};
use crate::schema::pool::Pool;
use crate::schema::records::{Flap, Group, Hold, Order, RecordSet};
use crate::schema::scalar::Ttl;
use crate::seed::seed_of;

/// Who asks, as far as answers may depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    /// The client subnet, else the source address as a network of one.
    pub(crate) net: IpNet,
}

/// A record set in service.
#[derive(Debug)]
pub(crate) struct Rrset {
    spec: RecordSet,
    groups: Vec<Ready>,
    /// Oldest member in service, as a position in the pool.
    offset: usize,
    /// Members in service; `None` is the whole pool.
    members: Option<usize>,
    seed: u64,
    rng: Xoshiro256PlusPlus,
    /// Answers so far.
    count: u64,
    /// Where the first slot starts, before the start of the run.
    phase: Duration,
    flap_phases: Vec<Duration>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    down: Vec<usize>,
    subset: Vec<usize>,
    picked: Vec<usize>,
}

#[derive(Debug)]
struct Ready {
    pool: Pool,
    sampler: Sampler,
    weight: f64,
    clients: Vec<IpNet>,
}

impl Rrset {
    pub(crate) fn new(spec: RecordSet, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut phase = |cycle: Duration| cycle.mul_f64(rng.random_range(0.0..1.0));
        let hold_phase = spec.hold.as_ref().map_or(Duration::ZERO, |hold| phase(hold.every.get()));
        let flap_phases = spec.flaps.iter().map(|flap| phase(flap.up.get() + flap.down.get())).collect();
        let pool =
            spec.pool.clone().map(|pool| Group { pool, answer: None, weight: 1.0, clients: Vec::new() });
        let members = spec.members;
        let groups = pool
            .into_iter()
            .chain(spec.groups.iter().cloned())
            .map(|group| {
                let behaviour = group.answer.unwrap_or_else(|| spec.answer.clone());
                let sampler = Sampler::new(behaviour, group.pool.len());
                Ready { sampler, pool: group.pool, weight: group.weight, clients: group.clients }
            })
            .collect();
        Self {
            spec,
            groups,
            offset: 0,
            members,
            seed,
            rng,
            count: 0,
            phase: hold_phase,
            flap_phases,
            scratch: Scratch::default(),
        }
    }

    /// Puts one answer into `out`, in wire order. Returns how much of the client's network the answer depends on,
    /// where it does at all.
    pub(crate) fn draw(&mut self, client: Client, now: Duration, out: &mut Vec<Answer>) -> Option<u8> {
        let count = self.count;
        self.count += 1;
        let client_seed = seed_of(self.seed, &bits(client.net.addr()).to_be_bytes());
        let mut held =
            self.spec.hold.as_ref().map(|hold| Held::new(hold, now + self.phase, self.seed, client_seed));
        let rng = held.as_mut().map_or(&mut self.rng, |held| &mut held.rng);
        let Some((group, scope)) = choose(&self.groups, client, rng) else {
            return Some(client.net.prefix_len());
        };
        let members = self.members.unwrap_or(group.pool.len()).min(group.pool.len());
        let Scratch { down, subset, picked } = &mut self.scratch;
        flapped(
            &self.spec.flaps,
            &self.flap_phases,
            now,
            |address| {
                let index = group.pool.position(address)?;
                Some((index + group.pool.len() - self.offset) % group.pool.len())
                    .filter(|position| *position < members)
            },
            down,
        );
        let mut turn = Turn { rng: &mut self.rng, count, now_ns: now.as_nanos(), client_seed };
        match &mut held {
            Some(Held { rng, draw: Some(size), .. }) => {
                subset.clear();
                uniform(rng, members, *size, subset);
                subset.retain(|position| !down.contains(position));
                group.sampler.draw(subset.len(), &[], &mut turn, picked);
                for position in picked.iter_mut() {
                    *position = subset[*position];
                }
            }
            Some(Held { rng, slot, .. }) => {
                turn = Turn { rng, count: *slot, ..turn };
                group.sampler.draw(members, down, &mut turn, picked);
            }
            None => group.sampler.draw(members, down, &mut turn, picked),
        }
        out.extend(picked.iter().map(|position| {
            let index = (position + self.offset) % group.pool.len();
            Answer { addr: group.pool.get(index), ttl: self.spec.ttl.of(index) }
        }));
        self.spec.order.arrange(out, count, &mut self.rng);
        let by_client = matches!(group.sampler.behaviour(), Behaviour::Sticky { .. })
            || self.spec.hold.as_ref().is_some_and(|hold| hold.per_client);
        if by_client { Some(client.net.prefix_len()) } else { scope }
    }

    pub(crate) fn spec(&self) -> &RecordSet {
        &self.spec
    }

    /// The members in service, at most `limit` of them, for a listing.
    pub(crate) fn members(&self, limit: usize) -> (usize, Vec<IpAddr>) {
        let total = |group: &Ready| self.members.unwrap_or(group.pool.len()).min(group.pool.len());
        let shown = self.groups.iter().flat_map(|group| {
            (0..total(group)).map(|i| group.pool.get((i + self.offset) % group.pool.len()))
        });
        (self.groups.iter().map(total).sum(), shown.take(limit).collect())
    }

    pub(crate) fn set_members(&mut self, members: usize) {
        self.members = Some(members);
    }

    pub(crate) fn set_ttl(&mut self, ttl: Ttl) {
        self.spec.ttl = ttl;
    }

    /// Moves on by so many members; `None` where there are several pools.
    pub(crate) fn rotate(&mut self, by: usize) -> Option<()> {
        let [group] = self.groups.as_slice() else { return None };
        self.offset = (self.offset + by % group.pool.len()) % group.pool.len();
        Some(())
    }

    /// New weights; `None` where the record set has no weights or their number differs.
    pub(crate) fn weigh(&mut self, weights: &[f64]) -> Option<()> {
        match self.groups.as_mut_slice() {
            [group] => {
                let Behaviour::Weighted { weights: old, take } = group.sampler.behaviour() else {
                    return None;
                };
                if old.len() != weights.len() {
                    return None;
                }
                let behaviour = Behaviour::Weighted { weights: weights.to_vec(), take: *take };
                group.sampler = Sampler::new(behaviour, group.pool.len());
            }
            groups if groups.len() == weights.len() => {
                for (group, weight) in groups.iter_mut().zip(weights) {
                    group.weight = *weight;
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// The group that answers this client, and the prefix length that decided it.
fn choose<'a>(
    groups: &'a [Ready],
    client: Client,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<(&'a Ready, Option<u8>)> {
    if let [group] = groups
        && group.clients.is_empty()
    {
        return Some((group, None));
    }
    let matching = |net: &&IpNet| net.contains(&client.net);
    let by_client = groups
        .iter()
        .filter_map(|group| {
            Some((group, group.clients.iter().filter(matching).map(IpNet::prefix_len).max()?))
        })
        .max_by_key(|(_, length)| *length);
    if let Some((group, length)) = by_client {
        return Some((group, Some(length)));
    }
    let open = || groups.iter().filter(|group| group.clients.is_empty());
    let total: f64 = open().map(|group| group.weight).sum();
    if total <= 0.0 {
        return None;
    }
    let mut mark = rng.random_range(0.0..total);
    let chosen = open().find(|group| {
        mark -= group.weight;
        mark < 0.0
    });
    chosen.or_else(|| open().next_back()).map(|group| (group, None))
}

/// The slot that a held draw belongs to.
struct Held {
    slot: u64,
    /// Says the same throughout the slot.
    rng: Xoshiro256PlusPlus,
    draw: Option<usize>,
}

impl Held {
    fn new(hold: &Hold, since: Duration, seed: u64, client_seed: u64) -> Self {
        let slot = since.as_nanos() / hold.every.get().as_nanos().max(1);
        let slot = u64::try_from(slot).unwrap_or(u64::MAX);
        let seed = if hold.per_client { client_seed } else { seed };
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed_of(seed, &slot.to_be_bytes()));
        Self { slot, rng, draw: hold.draw }
    }
}

/// Positions of the members that are away `now`, sorted.
fn flapped(
    flaps: &[Flap],
    phases: &[Duration],
    now: Duration,
    position: impl Fn(IpAddr) -> Option<usize>,
    down: &mut Vec<usize>,
) {
    down.clear();
    for (flap, phase) in flaps.iter().zip(phases) {
        let (up, away) = (flap.up.get().as_nanos(), flap.down.get().as_nanos());
        if (now + *phase).as_nanos() % (up + away).max(1) >= up {
            down.extend(position(flap.address));
        }
    }
    down.sort_unstable();
    down.dedup();
}

impl Order {
    /// Puts addresses in wire order for answer number `count`.
    pub(crate) fn arrange(self, addresses: &mut [Answer], count: u64, rng: &mut Xoshiro256PlusPlus) {
        match self {
            Self::Fixed => {}
            Self::Cyclic => {
                let by = count % addresses.len().max(1) as u64;
                addresses.rotate_left(usize::try_from(by).unwrap_or(0));
            }
            Self::Shuffled => addresses.shuffle(rng),
        }
    }
}

fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(addr) => u128::from(addr.to_bits()),
        IpAddr::V6(addr) => addr.to_bits(),
    }
}
