//! The servers that speak for a name. A host comes in; the authoritative servers to ask go out, with what is wrong
//! about the others. They are found through the caches: the zone by SOA, its servers by NS, their addresses in both
//! families, each verified by asking it; delegations on the way are followed. A draw at an authority follows aliases
//! from zone to zone, as a cache would that remembers no answer. Called by `sweep` before a plan and by `watch` for
//! each lookup.

use std::net::SocketAddr;

use ipnet::IpNet;
use policies::{Cname, DnsSample, Host, Outcome, RecordType, Source, Vantage};

use self::memory::Memory;
use self::search::{Search, Zone};
use crate::names::budget::{Budget, Spent};
use crate::names::diagnosis::Note;
use crate::names::sample::{Looked, Sampler};
use crate::names::wire::{MOST_LINKS, WireName};

mod memory;
mod search;

/// Aliases and delegations that are followed: what resolvers allow before they suspect a loop.
const MAX_STEPS: usize = 8;

/// Finds authoritative servers and draws from them. Remembers zones, so that a thousand names of one cost one search.
pub struct Authorities {
    search: Search,
    /// The zone above each name, as the name of its apex.
    cuts: Memory<Option<WireName>>,
    /// By apex.
    zones: Memory<Zone>,
}

/// What was found for a host.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Addresses and names of servers that speak for the host. Empty where none can be asked.
    pub servers: Vec<(SocketAddr, String)>,
    /// What else there is to say.
    pub notes: Vec<Note>,
}

impl Authorities {
    /// `resolvers` are the caches that are asked about zones. `port` is where authoritative servers listen, which DNS
    /// itself cannot express: 53, except in a lab.
    #[must_use]
    pub fn new(sampler: Sampler, resolvers: Vec<SocketAddr>, port: u16) -> Self {
        Self {
            search: Search::new(sampler, resolvers, port),
            cuts: Memory::default(),
            zones: Memory::default(),
        }
    }

    /// The servers to ask for `host`. The search takes less than half of the budget.
    pub async fn find(&self, host: &Host, budget: &Budget) -> Found {
        let aside = budget.set_aside();
        let found = self.search_for(host, &aside).await;
        budget.put_back(&aside);
        found
    }

    async fn search_for(&self, host: &Host, budget: &Budget) -> Found {
        let (zone, first) = match self.ask_zone(&WireName::of_host(host), RecordType::A, None, budget).await {
            Ok(found) => found,
            Err(notes) => return Found { servers: Vec::new(), notes },
        };
        let mut found = Found { servers: zone.servers.clone(), notes: zone.notes.clone() };
        if leads_elsewhere(&first) {
            let last = self.follow(first, RecordType::A, None, budget).await;
            found.notes.push(Note::Alias { chain: last.chain.into_iter().map(|link| link.target).collect() });
            if let Some(trouble) = last.trouble {
                found.notes.extend(trouble);
                found.servers.clear();
            }
        }
        found
    }

    /// One draw: as [`Sampler::sample`] at a server that was [found](Self::find), except that an alias which leads
    /// out of what the server knows is followed to the servers of its target. The time is that of all lookups.
    pub async fn sample(
        &self,
        host: &Host,
        record_type: RecordType,
        index: usize,
        source: &Source,
        budget: &Budget,
    ) -> DnsSample {
        let qname = WireName::of_host(host);
        let first = self.search.sampler.look(&qname, record_type, index, source, budget).await;
        if !leads_elsewhere(&first) {
            return first.sample;
        }
        // Boxed, as it is rare: a name that waits would have to keep room for it.
        Box::pin(self.follow(first, record_type, source.ecs, budget)).await.sample
    }

    /// Follows an alias through the zones of its targets.
    async fn follow(
        &self,
        first: Looked,
        record_type: RecordType,
        ecs: Option<IpNet>,
        budget: &Budget,
    ) -> Followed {
        let mut sample = first.sample;
        let (mut chain, mut end) = first.reply.map(|reply| (reply.chain, reply.end)).unwrap_or_default();
        for _ in 0..MAX_STEPS {
            let Some(last) = end.filter(|_| chain.len() <= MOST_LINKS && !turns_back(&chain)) else { break };
            let (_, next) = match self.ask_zone(&last, record_type, ecs, budget).await {
                Ok(found) => found,
                Err(notes) => {
                    sample.outcome = Outcome::Timeout;
                    return Followed { sample, chain, trouble: Some(notes) };
                }
            };
            let on = leads_elsewhere(&next);
            sample.rtt += next.sample.rtt;
            sample.response = next.sample.response;
            sample.outcome = next.sample.outcome;
            if let Outcome::Answered { cname_chain, .. } = &mut sample.outcome {
                chain.append(cname_chain);
                cname_chain.clone_from(&chain);
            }
            let Some(reply) = next.reply.filter(|_| on) else {
                return Followed { sample, chain, trouble: None };
            };
            chain.extend(reply.chain);
            end = reply.end;
        }
        // What a resolver answers to a chain without end.
        sample.outcome = Outcome::ServFail;
        Followed { sample, chain, trouble: None }
    }

    /// Asks a server of the zone that `qname` is in, wherever delegation leads.
    async fn ask_zone(
        &self,
        qname: &WireName,
        record_type: RecordType,
        ecs: Option<IpNet>,
        budget: &Budget,
    ) -> Result<(std::sync::Arc<Zone>, Looked), Vec<Note>> {
        let no_zone = || vec![Note::NoZone { name: qname.to_string() }];
        let spent = |_: Spent| vec![Note::Budget];
        let cut = self.cuts.recall(qname, self.search.cut(qname, budget)).await.map_err(spent)?;
        let mut apex = (*cut).clone().ok_or_else(no_zone)?;
        let mut parent = None;
        for _ in 0..MAX_STEPS {
            let search = self.search.zone(&apex, qname, parent, budget);
            let zone = self.zones.recall(&apex, search).await.map_err(spent)?;
            let Some((server, _)) = zone.servers.first() else { return Err(zone.notes.clone()) };
            if budget.is_spent() {
                return Err(spent(Spent));
            }
            let source = authority(*server, ecs);
            let looked = self.search.sampler.look(qname, record_type, 0, &source, budget).await;
            match looked.reply.as_ref().and_then(|reply| reply.referral.clone()) {
                Some(below) if below != apex && below.is_within(&apex) && qname.is_within(&below) => {
                    self.cuts.correct(qname, Some(below.clone()));
                    (apex, parent) = (below, Some(*server));
                }
                _ => return Ok((zone, looked)),
            }
        }
        Err(no_zone())
    }
}

struct Followed {
    sample: DnsSample,
    chain: Vec<Cname>,
    /// Why the chain could not be followed to its end.
    trouble: Option<Vec<Note>>,
}

/// The answer ends in an alias of whose target the server says nothing, not even that it has no such address.
fn leads_elsewhere(looked: &Looked) -> bool {
    looked.sample.outcome == Outcome::NoData
        && looked.reply.as_ref().is_some_and(|reply| !reply.chain.is_empty() && !reply.denied)
}

/// The last link leads to a name that the chain has passed.
fn turns_back(chain: &[Cname]) -> bool {
    chain.split_last().is_some_and(|(last, before)| before.iter().any(|link| link.target == last.target))
}

fn authority(server: SocketAddr, ecs: Option<IpNet>) -> Source {
    Source { server, vantage: Vantage::Authority, ecs, name: None }
}
