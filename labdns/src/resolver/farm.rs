//! Caches behind one resolver address: picks one, lets it resolve, and asks the zone for what it lacks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::{IpNet, Ipv6Net};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::cache::{About, Cache, Data};
use super::{CachePick, ResolverSpec};
use crate::answer::{Alias, Answer, Query, Rcode, RecordType, Reply};
use crate::command::TcpPort;
use crate::name::{self, Name};
use crate::seed::seed_of;
use crate::zone::Zone;

/// Links that a resolver follows in all.
const MAX_LINKS: usize = 12;

/// A resolver in service.
#[derive(Debug)]
pub struct Farm {
    spec: ResolverSpec,
    caches: Vec<Cache>,
    rng: Xoshiro256PlusPlus,
    seed: u64,
    turn: usize,
}

impl Farm {
    /// Empty caches.
    #[must_use]
    pub fn new(spec: &ResolverSpec, seed: u64) -> Self {
        let seed = seed_of(seed, b"farm");
        Self {
            spec: spec.clone(),
            caches: (0..spec.caches.max(1)).map(|_| Cache::default()).collect(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            seed,
            turn: 0,
        }
    }

    /// Answers a query `now` (since the start), asking `zone` where the cache that was picked holds nothing. `None`:
    /// the query or its answer was lost.
    pub fn answer(&mut self, zone: &mut Zone, query: &Query<'_>, now: Duration) -> Option<Reply> {
        if self.spec.loss > 0.0 && self.rng.random_range(0.0..1.0) < self.spec.loss {
            return None;
        }
        let name = name::normal(query.name);
        if let Some(own) = self.spec.overrides.iter().find(|own| own.name.as_str() == name) {
            return Some(overridden(own, query.record_type));
        }
        let place = self.pick(query.client);
        let source = self.source(place);
        let net = self.spec.ecs.then(|| query.ecs.unwrap_or_else(|| network_of(query.client)));
        let cache = &mut self.caches[place];
        let mut walk = Walk { spec: &self.spec, cache, zone, source, net, now, reply: Reply::default() };
        walk.resolve(&name, query.record_type);
        if let Some(prefix) = self.spec.dns64
            && query.record_type == RecordType::Aaaa
            && walk.reply.rcode == Rcode::NoError
            && walk.reply.addresses.is_empty()
        {
            walk.reply.reset();
            walk.resolve(&name, RecordType::A);
            walk.reply.addresses.iter_mut().for_each(|answer| answer.addr = mapped(prefix, answer.addr));
        }
        let mut reply = walk.reply;
        reply.ecs_scope = reply.ecs_scope.filter(|_| query.ecs.is_some());
        let count = &mut self.caches[place].count;
        *count += 1;
        self.spec.order.arrange(&mut reply.addresses, *count, &mut self.rng);
        Some(reply)
    }

    fn pick(&mut self, client: IpAddr) -> usize {
        let caches = self.caches.len();
        match self.spec.pick {
            CachePick::Random => self.rng.random_range(0..caches),
            CachePick::Cyclic => {
                self.turn = (self.turn + 1) % caches;
                self.turn
            }
            CachePick::Sticky => {
                let seed = seed_of(self.seed, client.to_canonical().to_string().as_bytes());
                Xoshiro256PlusPlus::seed_from_u64(seed).random_range(0..caches)
            }
        }
    }

    /// The address from which a cache asks.
    fn source(&self, cache: usize) -> IpAddr {
        match self.spec.sources.as_slice() {
            [] => {
                let host = u32::try_from(cache % 254).unwrap_or(0) + 1;
                IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::new(198, 51, 100, 0).to_bits() + host))
            }
            sources => sources[cache % sources.len()],
        }
    }
}

/// One resolution by one cache.
struct Walk<'a> {
    spec: &'a ResolverSpec,
    cache: &'a mut Cache,
    zone: &'a mut Zone,
    source: IpAddr,
    net: Option<IpNet>,
    now: Duration,
    reply: Reply,
}

impl Walk<'_> {
    fn resolve(&mut self, name: &str, record_type: RecordType) {
        let mut next: Option<Name> = None;
        for _ in 0..MAX_LINKS {
            let name = next.as_ref().map_or(name, Name::as_str);
            let step = self.cached(name, record_type, false).or_else(|| self.ask(name, record_type));
            match step {
                Some(Step::Done) => return,
                Some(Step::Go(target)) => next = Some(target),
                None => break,
            }
        }
        self.reply.fail(Rcode::ServFail);
    }

    /// One step out of the cache.
    fn cached(&mut self, name: &str, record_type: RecordType, stale: bool) -> Option<Step> {
        let get = |record_type| {
            self.cache.get(name, About { record_type, net: self.net }, self.now, self.spec, stale)
        };
        let hit = get(record_type).or_else(|| get(RecordType::Cname))?;
        Some(match hit.data {
            Data::Addresses(addresses) => {
                let shown = |a: &Answer| Answer { addr: a.addr, ttl: hit.ttl.unwrap_or(a.ttl) };
                self.reply.addresses.extend(addresses.iter().map(shown));
                Step::Done
            }
            Data::Link(link) => {
                let target = link.target.clone();
                self.reply.chain.push(Alias { target: target.clone(), ttl: hit.ttl.unwrap_or(link.ttl) });
                if record_type == RecordType::Cname { Step::Done } else { Step::Go(target) }
            }
            Data::Negative(rcode) => {
                self.reply.rcode = *rcode;
                Step::Done
            }
        })
    }

    /// Asks the zone, keeps what it says and answers with it; with an expired entry where the zone fails.
    fn ask(&mut self, name: &str, record_type: RecordType) -> Option<Step> {
        let query = Query { name, record_type, client: self.source, ecs: self.net };
        let mut fresh = self.zone.answer(&query, self.now);
        self.reply.effects.delay += fresh.effects.delay;
        let lost = fresh.effects.drop
            || fresh.effects.mangle.is_some()
            || fresh.effects.truncate == Some(TcpPort::Closed)
            || matches!(fresh.rcode, Rcode::ServFail | Rcode::Refused | Rcode::FormErr | Rcode::NotImp);
        if lost {
            return self.cached(name, record_type, true);
        }
        if let Some(scope) = fresh.ecs_scope {
            let scope = scope.max(self.reply.ecs_scope.unwrap_or(0));
            self.reply.ecs_scope = Some(scope);
        }
        let ttls = fresh.chain.iter_mut().map(|link| &mut link.ttl);
        for ttl in ttls.chain(fresh.addresses.iter_mut().map(|answer| &mut answer.ttl)) {
            *ttl = self.spec.bounded(*ttl);
        }
        self.keep(name, record_type, &fresh);
        self.reply.rcode = fresh.rcode;
        self.reply.chain.extend(fresh.chain);
        self.reply.addresses.extend(fresh.addresses);
        Some(Step::Done)
    }

    fn keep(&mut self, name: &str, record_type: RecordType, fresh: &Reply) {
        let Ok(mut owner) = Name::parse(name) else { return };
        let net = fresh.ecs_scope.filter(|scope| *scope > 0).zip(self.net).and_then(|(scope, net)| {
            IpNet::new(net.addr(), scope.min(net.max_prefix_len())).ok().map(|net| net.trunc())
        });
        let mut put = |owner: &Name, record_type, data, ttl| {
            self.cache.put(owner, About { record_type, net }, data, ttl, self.now, self.spec);
        };
        for link in &fresh.chain {
            put(&owner, RecordType::Cname, Data::Link(link.clone()), link.ttl);
            owner = link.target.clone();
        }
        let address = matches!(record_type, RecordType::A | RecordType::Aaaa);
        match fresh.addresses.iter().map(|a| a.ttl).min() {
            // One TTL for the whole set (RFC 2181, section 5.2).
            Some(ttl) => {
                let set = fresh.addresses.iter().map(|a| Answer { ttl, ..*a }).collect();
                put(&owner, record_type, Data::Addresses(set), ttl);
            }
            None if address && owner.is_within(self.zone.apex()) => {
                put(&owner, record_type, Data::Negative(fresh.rcode), self.zone.negative_ttl());
            }
            None => {}
        }
    }
}

enum Step {
    Done,
    Go(Name),
}

fn overridden(own: &super::Override, record_type: RecordType) -> Reply {
    let fits = |addr: &&IpAddr| match record_type {
        RecordType::A => addr.is_ipv4(),
        RecordType::Aaaa => addr.is_ipv6(),
        _ => false,
    };
    let addresses =
        own.addresses.iter().filter(fits).map(|addr| Answer { addr: *addr, ttl: own.ttl }).collect();
    let rcode = if own.addresses.is_empty() { Rcode::NxDomain } else { Rcode::NoError };
    Reply { rcode, addresses, ..Reply::default() }
}

/// The part of a client's address that resolvers pass on (RFC 7871, section 11.1).
fn network_of(client: IpAddr) -> IpNet {
    let length = if client.is_ipv4() { 24 } else { 56 };
    IpNet::new(client, length).map_or(IpNet::from(client), |net| net.trunc())
}

/// An IPv4 address under a DNS64 prefix, in its last 32 bits.
fn mapped(prefix: Ipv6Net, addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(v4) => {
            IpAddr::V6(Ipv6Addr::from_bits(prefix.network().to_bits() | u128::from(v4.to_bits())))
        }
        v6 @ IpAddr::V6(_) => v6,
    }
}
