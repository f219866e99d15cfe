//! The search for a zone and its servers, through the caches. A name comes in; its zone's apex, or the
//! zone's servers that speak for it, go out. Used by `authority`, which remembers what is found.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use policies::{DnsSample, Outcome, RecordType, Source, Vantage};

use super::authority;
use crate::names::budget::{Budget, Spent};
use crate::names::diagnosis::Note;
use crate::names::sample::{Looked, Sampler};
use crate::names::wire::{self, Edns, Reply, WireName};

/// Servers of a zone that are tried, and how many of those that speak for it are kept: one to ask and one to spare.
const TRIED: usize = 4;
const KEPT: usize = 2;
/// Servers whose addresses are looked up: a zone may list any number.
const RESOLVED: usize = 6;
/// Zones above a name that are asked for at once.
const MOST_ABOVE: usize = 10;
const NOERROR: u16 = 0;
const NXDOMAIN: u16 = 3;

pub(super) struct Search {
    pub(super) sampler: Sampler,
    resolvers: Vec<SocketAddr>,
    port: u16,
    /// Index of the resolver that answered last: a dead one is waited for once, not for every query.
    best: AtomicUsize,
}

/// A zone's servers that speak for it.
pub(super) struct Zone {
    pub(super) servers: Vec<(SocketAddr, String)>,
    pub(super) notes: Vec<Note>,
}

impl Search {
    pub(super) fn new(sampler: Sampler, resolvers: Vec<SocketAddr>, port: u16) -> Self {
        Self { sampler, resolvers, port, best: AtomicUsize::new(0) }
    }

    /// The apex of the zone that `qname` is in: the owner of the SOA record that comes with an answer or a denial.
    /// Behind an alias there is the SOA of its target, and some balancers have none or let the caches wait for it:
    /// then the zones above are asked for, all at once.
    pub(super) async fn cut(&self, qname: &WireName, budget: &Budget) -> Result<Option<WireName>, Spent> {
        let own = self.apex(qname, budget).await?;
        if own.is_some() {
            return Ok(own);
        }
        let names: Vec<_> = qname.up_to_root().skip(1).collect();
        let nearest = &names[..names.len().min(MOST_ABOVE)];
        for found in join_all(nearest.iter().map(|name| self.apex(name, budget))).await {
            if let Some(apex) = found? {
                return Ok(Some(apex));
            }
        }
        Ok(None)
    }

    async fn apex(&self, name: &WireName, budget: &Budget) -> Result<Option<WireName>, Spent> {
        let reply =
            self.ask_caches(name, wire::TYPE_SOA, budget).await?.filter(|reply| reply.chain.is_empty());
        let apex = reply.and_then(|reply| reply.zone).and_then(|zone| zone.apex);
        Ok(apex.filter(|apex| !apex.is_root() && name.is_within(apex)))
    }

    /// The servers of the zone at `apex`, verified with a question about `qname`. `parent` refers to the zone where
    /// the caches cannot name its servers.
    pub(super) async fn zone(
        &self,
        apex: &WireName,
        qname: &WireName,
        parent: Option<SocketAddr>,
        budget: &Budget,
    ) -> Result<Zone, Spent> {
        let listed = self.addresses(self.servers(apex, parent, budget).await?, budget).await?;
        let looked = join_all(listed.iter().map(async |(server, _)| {
            if budget.is_spent() {
                return Err(Spent);
            }
            Ok(self.sampler.look(qname, RecordType::A, 0, &authority(*server, None), budget).await)
        }));
        let zone = apex.to_string();
        let (mut servers, mut notes, mut tried) = (Vec::new(), Vec::new(), Vec::new());
        for ((server, name), looked) in listed.iter().cloned().zip(looked.await) {
            let looked = looked?;
            if speaks_for(&looked, apex) {
                servers.push((server, name));
                continue;
            }
            let outcome = looked.sample.outcome;
            tried.push((name.clone(), outcome.clone()));
            match outcome {
                // A host without IPv6 reaches no server over it; that is no news.
                Outcome::Unreachable if server.is_ipv6() => {}
                Outcome::Timeout | Outcome::Unreachable | Outcome::Malformed(_) => {
                    notes.push(Note::Silent { server, name: Some(name), outcome });
                }
                _ => notes.push(Note::Lame { zone: zone.clone(), name, server, outcome }),
            }
        }
        if servers.is_empty() {
            notes = vec![Note::NoAuthority { zone, tried }];
        }
        servers.truncate(KEPT);
        Ok(Zone { servers, notes })
    }

    /// The names in the zone's NS records.
    async fn servers(
        &self,
        apex: &WireName,
        parent: Option<SocketAddr>,
        budget: &Budget,
    ) -> Result<Vec<WireName>, Spent> {
        let cached = self.ask_caches(apex, wire::TYPE_NS, budget).await?.and_then(|reply| reply.zone);
        let names = cached.map(|zone| zone.servers).unwrap_or_default();
        if let (Some(parent), true) = (parent, names.is_empty()) {
            let query = wire::query(apex, wire::TYPE_NS, false, Edns::Plain);
            let zone = self.sampler.ask(parent, query, budget).await?.ok().and_then(|reply| reply.zone);
            return Ok(zone.map(|zone| zone.referred).unwrap_or_default());
        }
        Ok(names)
    }

    /// Addresses of servers in both families: the first of each server before the second of any, IPv4 first.
    async fn addresses(
        &self,
        mut names: Vec<WireName>,
        budget: &Budget,
    ) -> Result<Vec<(SocketAddr, String)>, Spent> {
        names.truncate(RESOLVED);
        let resolved = join_all(names.iter().map(async |qname| {
            let [v4, v6] = RecordType::BOTH.map(|record_type| self.resolve(qname, record_type, budget));
            Ok((qname.to_string(), v4.await?, v6.await?))
        }));
        let resolved = resolved.await.into_iter().collect::<Result<Vec<_>, Spent>>()?;
        let mut listed = Vec::new();
        for rank in 0..TRIED {
            for family in 0..2 {
                for (name, v4, v6) in &resolved {
                    if let Some(ip) = [v4, v6][family].get(rank) {
                        listed.push((SocketAddr::new(*ip, self.port), name.clone()));
                    }
                }
            }
        }
        listed.truncate(TRIED);
        Ok(listed)
    }

    async fn resolve(
        &self,
        qname: &WireName,
        record_type: RecordType,
        budget: &Budget,
    ) -> Result<Vec<IpAddr>, Spent> {
        for (index, server) in self.in_order() {
            if budget.is_spent() {
                return Err(Spent);
            }
            let source = Source { server, vantage: Vantage::Cache, ecs: None, name: None };
            let looked = self.sampler.look(qname, record_type, 0, &source, budget).await;
            let DnsSample { outcome, .. } = looked.sample;
            match outcome {
                Outcome::Answered { answers, .. } => {
                    return Ok(answers.iter().map(|answer| answer.addr).collect());
                }
                Outcome::NoData | Outcome::NxDomain => return Ok(Vec::new()),
                _ => self.prefer_next(index),
            }
        }
        Ok(Vec::new())
    }

    /// The answer or denial of the first cache that gives one.
    async fn ask_caches(
        &self,
        qname: &WireName,
        qtype: u16,
        budget: &Budget,
    ) -> Result<Option<Reply>, Spent> {
        for (index, server) in self.in_order() {
            let query = wire::query(qname, qtype, true, Edns::Plain);
            match self.sampler.ask(server, query, budget).await? {
                Ok(reply) if matches!(reply.rcode, NOERROR | NXDOMAIN) => return Ok(Some(reply)),
                Ok(_) => {}
                Err(_) => self.prefer_next(index),
            }
        }
        Ok(None)
    }

    fn in_order(&self) -> impl Iterator<Item = (usize, SocketAddr)> {
        let best = self.best.load(Ordering::Relaxed);
        let count = self.resolvers.len();
        let left = if self.sampler.is_spent() { 0 } else { count };
        (0..left).map(move |turn| (best + turn) % count).map(|index| (index, self.resolvers[index]))
    }

    fn prefer_next(&self, failed: usize) {
        let next = (failed + 1) % self.resolvers.len().max(1);
        // Another query may have moved on already.
        let _ = self.best.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The server answers or denies with authority, or knows who does.
fn speaks_for(looked: &Looked, apex: &WireName) -> bool {
    let authoritative = looked.sample.response.is_some_and(|response| response.authoritative);
    let below = looked.reply.as_ref().and_then(|reply| reply.referral.as_ref());
    match looked.sample.outcome {
        Outcome::Answered { .. } | Outcome::NoData | Outcome::NxDomain => authoritative,
        Outcome::Lame => below.is_some_and(|below| below != apex && below.is_within(apex)),
        _ => false,
    }
}
