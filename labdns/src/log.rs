//! What was asked and answered: every query leaves an [`Entry`], the last so many are kept, a [`Filter`] picks some
//! of them. Written by the server before an answer is sent, so whoever has an answer finds it here; read by the
//! control API and by tests.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::answer::{Rcode, RecordType, Reply};
use crate::name::Name;

/// One query and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Entry {
    /// Number of the query, counted from 1 over all servers of the lab.
    pub seq: u64,
    /// When it arrived.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Who was asked.
    pub server: Role,
    /// The name, in lower case; bytes outside of letters, digits, `-` and `_` are shown as `?`.
    pub name: String,
    /// The type.
    #[schema(value_type = String)]
    pub record_type: RecordType,
    /// Who asked.
    #[schema(value_type = String)]
    pub client: SocketAddr,
    /// The client subnet that was sent along.
    #[schema(value_type = Option<String>)]
    pub ecs: Option<IpNet>,
    /// What carried the query.
    pub transport: Transport,
    /// Response code; absent where no answer was sent (drop, or loss in front of a resolver).
    pub rcode: Option<Rcode>,
    /// Targets of the CNAME chain.
    pub chain: Vec<Name>,
    /// Addresses in wire order.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<IpAddr>,
    /// Least TTL of the answer, seconds.
    pub ttl: Option<u32>,
}

/// Which server of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The zone itself.
    Authority,
    /// A caching resolver, by its number in the scenario, counted from 0.
    Resolver(usize),
}

/// What carried a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A datagram.
    Udp,
    /// A connection.
    Tcp,
}

/// Which entries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Only this name.
    #[param(value_type = Option<String>)]
    pub name: Option<Name>,
    /// Only this type, such as `AAAA` or `TYPE65`.
    #[serde(rename = "type")]
    #[param(value_type = Option<String>)]
    pub record_type: Option<RecordType>,
    /// Only from this source address.
    #[param(value_type = Option<String>)]
    pub client: Option<IpAddr>,
    /// Only with greater numbers: give the last `seq` that was seen.
    pub since: Option<u64>,
    /// The latest so many (default: all).
    pub limit: Option<usize>,
}

/// The last queries.
#[derive(Debug)]
pub(crate) struct Log {
    /// A ring once it is full: the oldest is at `seen % capacity`.
    entries: Vec<Entry>,
    capacity: usize,
    seen: u64,
    started: Timestamp,
}

/// What the server knows of a query.
pub(crate) struct Asked<'a> {
    pub(crate) now: Duration,
    pub(crate) server: Role,
    pub(crate) name: &'a str,
    pub(crate) record_type: RecordType,
    pub(crate) client: SocketAddr,
    pub(crate) ecs: Option<IpNet>,
    pub(crate) transport: Transport,
}

impl Log {
    /// Keeps `capacity` entries; 0 counts only.
    pub(crate) fn new(capacity: usize, started: Timestamp) -> Self {
        Self { entries: Vec::new(), capacity, seen: 0, started }
    }

    /// Adds a query. Once the ring is full, an entry's memory is used again.
    pub(crate) fn record(&mut self, asked: &Asked<'_>, reply: &Reply, answered: bool) {
        self.seen += 1;
        if self.capacity == 0 {
            return;
        }
        let at = self.started.saturating_add(asked.now).unwrap_or(Timestamp::MAX);
        let place = usize::try_from((self.seen - 1) % self.capacity as u64).unwrap_or(0);
        if self.entries.len() == place {
            self.entries.push(Entry::blank(asked.client));
        }
        let entry = &mut self.entries[place];
        (entry.seq, entry.at, entry.server, entry.transport) = (self.seen, at, asked.server, asked.transport);
        (entry.client, entry.ecs, entry.record_type) = (asked.client, asked.ecs, asked.record_type);
        entry.name.clear();
        entry.name.push_str(asked.name);
        entry.rcode = answered.then_some(reply.rcode);
        entry.chain.clear();
        entry.addresses.clear();
        if answered {
            entry.chain.extend(reply.chain.iter().map(|link| link.target.clone()));
            entry.addresses.extend(reply.addresses.iter().map(|answer| answer.addr));
        }
        let ttls =
            reply.chain.iter().map(|link| link.ttl).chain(reply.addresses.iter().map(|answer| answer.ttl));
        entry.ttl = ttls.min();
    }

    /// The entries that pass, oldest first.
    pub(crate) fn select(&self, filter: &Filter) -> Vec<Entry> {
        let passes = |entry: &&Entry| {
            filter.name.as_ref().is_none_or(|name| name.as_str() == entry.name)
                && filter.record_type.is_none_or(|record_type| record_type == entry.record_type)
                && filter.client.is_none_or(|client| client == entry.client.ip())
                && filter.since.is_none_or(|since| entry.seq > since)
        };
        let oldest =
            if self.entries.len() < self.capacity { 0 } else { self.seen % self.capacity.max(1) as u64 };
        let (newer, older) = self.entries.split_at(usize::try_from(oldest).unwrap_or(0));
        let limit = filter.limit.unwrap_or(usize::MAX);
        let mut chosen: Vec<Entry> =
            newer.iter().rev().chain(older.iter().rev()).filter(passes).take(limit).cloned().collect();
        chosen.reverse();
        chosen
    }

    /// Queries since the start.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }
}

impl Entry {
    fn blank(client: SocketAddr) -> Self {
        Self {
            seq: 0,
            at: Timestamp::UNIX_EPOCH,
            server: Role::Authority,
            name: String::new(),
            record_type: RecordType::A,
            client,
            ecs: None,
            transport: Transport::Udp,
            rcode: None,
            chain: Vec::new(),
            addresses: Vec::new(),
            ttl: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log_of(capacity: usize, queries: usize) -> Log {
        let mut log = Log::new(capacity, Timestamp::UNIX_EPOCH);
        for number in 1..=queries {
            let asked = Asked {
                now: Duration::from_secs(number as u64),
                server: Role::Authority,
                name: if number % 2 == 0 { "even.example" } else { "odd.example" },
                record_type: RecordType::A,
                client: "192.0.2.1:53".parse().unwrap(),
                ecs: None,
                transport: Transport::Udp,
            };
            log.record(&asked, &Reply::default(), number % 5 != 0);
        }
        log
    }

    proptest! {
        #[test]
        fn the_last_queries_are_kept_in_order_and_no_more(capacity in 0usize..20, queries in 0usize..70) {
            let log = log_of(capacity, queries);
            let kept: Vec<u64> = log.select(&Filter::default()).iter().map(|entry| entry.seq).collect();
            let expected: Vec<u64> = (queries.saturating_sub(capacity) + 1..=queries).map(|n| n as u64).collect();
            prop_assert_eq!(kept, expected);
            prop_assert!(log.entries.len() <= capacity);
            prop_assert_eq!(log.seen(), queries as u64);
        }
    }

    #[test]
    fn a_filter_takes_the_latest_of_what_passes() {
        let log = log_of(10, 25);
        let even =
            Filter { name: Some("Even.example".parse().unwrap()), limit: Some(2), ..Filter::default() };
        let chosen = log.select(&even);
        assert_eq!(chosen.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [22, 24]);
        assert_eq!(chosen[1].at, "1970-01-01T00:00:24Z".parse().unwrap());
        let unanswered: Vec<_> =
            log.select(&Filter::default()).into_iter().filter(|e| e.rcode.is_none()).collect();
        assert_eq!(unanswered.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [20, 25]);
    }
}
