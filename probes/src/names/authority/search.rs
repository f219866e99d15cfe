//! The search for a zone and its servers, through the caches. A name in wire format comes in; its zone's apex, or the
//! zone's servers that speak for it, go out. Used by `authority`, which remembers what is found.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RData, Record};
use hickory_proto::serialize::binary::BinEncodable;
use policies::{DnsSample, Outcome, RecordType, Source, Vantage};

use super::authority;
use crate::names::diagnosis::Note;
use crate::names::sample::{Looked, Sampler};
use crate::names::wire::{self, Edns, name};

/// Servers of a zone that are tried, and how many of those that speak for it are kept: one to ask and one to spare.
const TRIED: usize = 4;
const KEPT: usize = 2;

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
    pub(super) async fn cut(&self, qname: &[u8]) -> Option<Vec<u8>> {
        let mut names = name::up_to_root(qname);
        let own = self.apex(names.next()?).await;
        if own.is_some() {
            return own;
        }
        join_all(names.map(|name| self.apex(name))).await.into_iter().flatten().next()
    }

    async fn apex(&self, name: &[u8]) -> Option<Vec<u8>> {
        let message = self.ask_caches(name, wire::TYPE_SOA).await?;
        if message.answers.iter().any(|record| matches!(record.data, RData::CNAME(_))) {
            return None;
        }
        let soa = |record: &&Record| matches!(record.data, RData::SOA(_));
        let owner =
            message.answers.iter().chain(&message.authorities).find(soa).and_then(|soa| wire_name(&soa.name));
        owner.filter(|apex| apex.len() > 1 && name::is_within(name, apex))
    }

    /// The servers of the zone at `apex`, verified with a question about `qname`. `parent` refers to the zone where
    /// the caches cannot name its servers.
    pub(super) async fn zone(&self, apex: &[u8], qname: &[u8], parent: Option<SocketAddr>) -> Zone {
        let listed = self.addresses(self.servers(apex, parent).await).await;
        let looked = join_all(listed.iter().map(async |(server, _)| {
            self.sampler.look(qname, RecordType::A, 0, &authority(*server, None)).await
        }));
        let zone = name::display(apex);
        let (mut servers, mut notes, mut tried) = (Vec::new(), Vec::new(), Vec::new());
        for ((server, name), looked) in listed.iter().cloned().zip(looked.await) {
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
        Zone { servers, notes }
    }

    /// The names in the zone's NS records.
    async fn servers(&self, apex: &[u8], parent: Option<SocketAddr>) -> Vec<Vec<u8>> {
        let name_servers = |records: &[Record]| -> Vec<Vec<u8>> {
            let ns = records.iter().filter_map(|record| match &record.data {
                RData::NS(ns) => wire_name(&ns.0),
                _ => None,
            });
            ns.collect()
        };
        let cached = self.ask_caches(apex, wire::TYPE_NS).await;
        let names = cached.map(|message| name_servers(&message.answers)).unwrap_or_default();
        if let (Some(parent), true) = (parent, names.is_empty()) {
            let query = wire::query(apex, wire::TYPE_NS, false, Edns::Plain);
            let bytes = self.sampler.ask(parent, query).await.unwrap_or_default();
            return Message::from_vec(&bytes)
                .map(|message| name_servers(&message.authorities))
                .unwrap_or_default();
        }
        names
    }

    /// Addresses of servers in both families: the first of each server before the second of any, IPv4 first.
    async fn addresses(&self, names: Vec<Vec<u8>>) -> Vec<(SocketAddr, String)> {
        let resolved = join_all(names.iter().map(async |qname| {
            let [v4, v6] = RecordType::BOTH.map(|record_type| self.resolve(qname, record_type));
            (name::display(qname), v4.await, v6.await)
        }));
        let resolved = resolved.await;
        let longest = resolved.iter().map(|(_, v4, v6)| v4.len().max(v6.len())).max().unwrap_or_default();
        let mut listed = Vec::new();
        for rank in 0..longest {
            for family in 0..2 {
                for (name, v4, v6) in &resolved {
                    if let Some(ip) = [v4, v6][family].get(rank) {
                        listed.push((SocketAddr::new(*ip, self.port), name.clone()));
                    }
                }
            }
        }
        listed.truncate(TRIED);
        listed
    }

    async fn resolve(&self, qname: &[u8], record_type: RecordType) -> Vec<IpAddr> {
        for (index, server) in self.in_order() {
            let source = Source { server, vantage: Vantage::Cache, ecs: None, name: None };
            let DnsSample { outcome, .. } = self.sampler.look(qname, record_type, 0, &source).await.sample;
            match outcome {
                Outcome::Answered { answers, .. } => {
                    return answers.iter().map(|answer| answer.addr).collect();
                }
                Outcome::NoData | Outcome::NxDomain => return Vec::new(),
                _ => self.prefer_next(index),
            }
        }
        Vec::new()
    }

    /// The answer or denial of the first cache that gives one.
    async fn ask_caches(&self, qname: &[u8], qtype: u16) -> Option<Message> {
        for (index, server) in self.in_order() {
            let query = wire::query(qname, qtype, true, Edns::Plain);
            let Ok(bytes) = self.sampler.ask(server, query).await else {
                self.prefer_next(index);
                continue;
            };
            let message = Message::from_vec(&bytes).ok();
            let usable = |message: &Message| {
                matches!(message.metadata.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
            };
            if let Some(message) = message.filter(usable) {
                return Some(message);
            }
        }
        None
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
fn speaks_for(looked: &Looked, apex: &[u8]) -> bool {
    let authoritative = looked.sample.response.is_some_and(|response| response.authoritative);
    let below = looked.reply.as_ref().and_then(|reply| reply.referral.as_deref());
    match looked.sample.outcome {
        Outcome::Answered { .. } | Outcome::NoData | Outcome::NxDomain => authoritative,
        Outcome::Lame => below.is_some_and(|below| below != apex && name::is_within(below, apex)),
        _ => false,
    }
}

fn wire_name(name: &Name) -> Option<Vec<u8>> {
    name.to_lowercase().to_bytes().ok()
}
