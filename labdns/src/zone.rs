//! The zone: names in service, their faults and the clock's steps. Pure: a scenario and a seed make it, commands
//! change it, a query and the time since the start give a reply. The server holds one behind a lock; `lab score`
//! runs thousands of them in simulated time. Same seed and same queries, same answers.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use ipnet::IpNet;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::alias::AliasState;
use crate::answer::{Query, Rcode, RecordType, Reply};
use crate::command::{Command, CommandError, Fault};
use crate::name::{self, Name};
use crate::rrset::{Client, Rrset};
use crate::schema::records::RecordSet;
use crate::schema::{NameServer, NameSpec, Scenario};
use crate::seed::seed_of;

mod apply;
mod faults;
mod schedule;
mod view;

pub use view::{NameView, RecordsView};

/// Links that are followed within one answer, as resolvers do; a longer chain or a loop ends there.
const MAX_CHAIN: usize = 8;

/// A zone in service.
#[derive(Debug)]
pub struct Zone {
    apex: Name,
    ns: Vec<NameServer>,
    negative_ttl: u32,
    ecs: bool,
    seed: u64,
    /// `set` commands so far: what they make gets a seed of its own.
    sets: u64,
    nodes: Vec<Node>,
    index: HashMap<Name, usize>,
    /// Wildcards by what follows `*.`.
    wildcards: HashMap<Box<str>, usize>,
    /// Names that exist because others lie below them.
    enclosers: HashSet<Box<str>>,
    faults: Vec<Fault>,
    fault_rng: Xoshiro256PlusPlus,
    schedule: schedule::Schedule,
}

#[derive(Debug)]
struct Node {
    name: Name,
    a: Option<Rrset>,
    aaaa: Option<Rrset>,
    alias: Option<AliasState>,
    faults: Vec<Fault>,
}

/// What a name leads to.
enum Found {
    Node(usize),
    /// The name exists only because others lie below it.
    Empty,
    Nothing,
}

impl Zone {
    /// Puts a scenario into service at time zero.
    #[must_use]
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut zone = Self {
            apex: scenario.zone.clone(),
            ns: scenario.ns.clone(),
            negative_ttl: scenario.negative_ttl,
            ecs: scenario.ecs,
            seed,
            sets: 0,
            nodes: Vec::with_capacity(scenario.names.len()),
            index: HashMap::new(),
            wildcards: HashMap::new(),
            enclosers: HashSet::from([Box::from(scenario.zone.as_str())]),
            faults: Vec::new(),
            fault_rng: Xoshiro256PlusPlus::seed_from_u64(seed_of(seed, b"faults")),
            schedule: schedule::Schedule::new(&scenario.steps, seed),
        };
        for (name, spec) in &scenario.names {
            zone.insert(name, spec);
        }
        for server in &scenario.ns {
            if !zone.index.contains_key(&server.name) {
                zone.insert(&server.name, &name_server_records(server));
            }
        }
        zone
    }

    /// Carries out a command; the next query sees it. Steps that are due by `now` come first.
    ///
    /// # Errors
    /// [`CommandError`] where the command does not fit the zone, which is then as it was.
    pub fn apply(&mut self, command: Command, now: Duration) -> Result<(), CommandError> {
        self.advance(now);
        self.carry_out(command)
    }

    /// Answers a query `now` (since the start).
    pub fn answer(&mut self, query: &Query<'_>, now: Duration) -> Reply {
        let mut reply = Reply::default();
        self.answer_into(query, now, &mut reply);
        reply
    }

    /// As [`Zone::answer`], into a reply whose memory is used again.
    pub fn answer_into(&mut self, query: &Query<'_>, now: Duration, reply: &mut Reply) {
        self.advance(now);
        reply.reset();
        let name = name::normal(query.name);
        if !name::is_within(&name, self.apex.as_str()) {
            return reply.fail(Rcode::Refused);
        }
        let found = self.find(&name);
        let faults = match found {
            Found::Node(node) => self.nodes[node].faults.as_slice(),
            _ => &[],
        };
        let faults = self.faults.iter().chain(faults);
        if faults::roll(faults, query.record_type, &mut self.fault_rng, reply) {
            return;
        }
        let client = Client::of(query, self.ecs);
        let scope = self.follow(found, query.record_type, client, now, reply);
        reply.ecs_scope = query.ecs.filter(|_| self.ecs).map(|_| scope.unwrap_or(0));
    }

    /// Apex of the zone.
    #[must_use]
    pub fn apex(&self) -> &Name {
        &self.apex
    }

    /// Name servers of the zone.
    #[must_use]
    pub fn name_servers(&self) -> &[NameServer] {
        &self.ns
    }

    /// TTL of negative answers and of the SOA record, seconds.
    #[must_use]
    pub fn negative_ttl(&self) -> u32 {
        self.negative_ttl
    }

    /// Applies the steps that are due.
    fn advance(&mut self, now: Duration) {
        while let Some(command) = self.schedule.due(now) {
            if let Err(error) = self.carry_out(command) {
                tracing::warn!(%error, "a timed step was not carried out");
            }
        }
    }

    /// Follows aliases from `found` to addresses. Returns the client prefix length that the answer depends on.
    fn follow(
        &mut self,
        mut found: Found,
        record_type: RecordType,
        client: Client,
        now: Duration,
        reply: &mut Reply,
    ) -> Option<u8> {
        loop {
            let node = match found {
                Found::Node(node) => &mut self.nodes[node],
                Found::Empty => return None,
                Found::Nothing => {
                    reply.rcode = Rcode::NxDomain;
                    return None;
                }
            };
            if let Some(alias) = &mut node.alias {
                let link = alias.draw(now);
                let target = link.target.clone();
                reply.chain.push(link);
                let inside = target.is_within(&self.apex);
                if record_type == RecordType::Cname || !inside || reply.chain.len() == MAX_CHAIN {
                    return None;
                }
                found = self.find(target.as_str());
                continue;
            }
            let records = match record_type {
                RecordType::A => &mut node.a,
                RecordType::Aaaa => &mut node.aaaa,
                _ => return None,
            };
            return records.as_mut().and_then(|set| set.draw(client, now, &mut reply.addresses));
        }
    }

    /// RFC 4592: the name itself, else the wildcard below its closest encloser.
    fn find(&self, name: &str) -> Found {
        if let Some(node) = self.index.get(name) {
            return Found::Node(*node);
        }
        if self.enclosers.contains(name) {
            return Found::Empty;
        }
        let mut rest = name;
        while let Some(above) = name::parent(rest) {
            if self.index.contains_key(above) || self.enclosers.contains(above) {
                return self.wildcards.get(above).map_or(Found::Nothing, |node| Found::Node(*node));
            }
            rest = above;
        }
        Found::Nothing
    }

    /// Adds a name, or replaces it.
    fn insert(&mut self, name: &Name, spec: &NameSpec) {
        let node = Node {
            name: name.clone(),
            a: spec.a.clone().map(|set| Rrset::new(set, self.seed_for(name, "a"))),
            aaaa: spec.aaaa.clone().map(|set| Rrset::new(set, self.seed_for(name, "aaaa"))),
            alias: spec.cname.clone().map(|cname| AliasState::new(cname, self.seed_for(name, "cname"))),
            faults: spec.faults.clone(),
        };
        if let Some(place) = self.index.get(name) {
            self.nodes[*place] = node;
            return;
        }
        self.index.insert(name.clone(), self.nodes.len());
        if let Some(base) = name.as_str().strip_prefix("*.") {
            self.wildcards.insert(base.into(), self.nodes.len());
        }
        self.nodes.push(node);
        let mut rest = name.as_str();
        while let Some(above) = name::parent(rest).filter(|above| name::is_within(above, self.apex.as_str()))
        {
            self.enclosers.insert(above.into());
            rest = above;
        }
    }

    /// The same for a name whatever other names there are, so that adding one changes no other's answers.
    fn seed_for(&self, name: &Name, what: &str) -> u64 {
        seed_of(seed_of(self.seed.wrapping_add(self.sets), what.as_bytes()), name.as_str().as_bytes())
    }
}

impl Client {
    fn of(query: &Query<'_>, ecs: bool) -> Self {
        match query.ecs.filter(|_| ecs) {
            Some(net) => Self { net: net.trunc() },
            None => Self { net: IpNet::from(query.client) },
        }
    }
}

fn name_server_records(server: &NameServer) -> NameSpec {
    let of = |v4: bool| {
        let family: Vec<_> = server.addresses.iter().copied().filter(|a| a.is_ipv4() == v4).collect();
        (!family.is_empty()).then(|| RecordSet::all(family, crate::schema::scalar::Ttl::seconds(3600)))
    };
    NameSpec { a: of(true), aaaa: of(false), ..NameSpec::default() }
}

#[cfg(test)]
mod tests;
