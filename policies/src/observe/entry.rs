//! Tells a new draw from the repeat of one. The replies of one source come in, in order; for each, whether it is a
//! draw of its own goes out. Used by the [`Observer`](super::Observer).
//!
//! A cache repeats an entry until it expires, so an entry is the pair of its set and its expiry instant; several
//! caches behind one address hold several entries at a time; some caches never count the TTL down. An authority
//! draws for every query.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::Vantage;

/// How far two expiry instants of one entry may lie apart: TTLs are whole seconds, rounded either way, and the reply
/// takes its time. Milliseconds.
const SAME_EXPIRY_MS: i64 = 1500;
/// Entries of one source that are remembered: more caches than this behind one address are not told apart.
const REMEMBERED: usize = 16;
/// TTL of an answer that a resolver serves after its expiry because the authority is gone (RFC 8767, section 5).
const STALE_TTL: u32 = 30;

/// A reply with addresses, as much of it as tells draws apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply<'a> {
    /// When the query was sent, milliseconds.
    pub at: i64,
    /// Smallest TTL of the addresses, seconds.
    pub ttl: u32,
    /// AA was set.
    pub authoritative: bool,
    /// Distinct addresses, sorted.
    pub set: &'a [IpAddr],
}

/// What a reply is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// A draw of its own, out of a cache or not.
    Draw { cached: bool },
    /// The repeat of an entry that was seen before.
    Repeat,
    /// An expired entry: neither a draw nor news.
    Stale,
}

/// What is known of one source's caching.
#[derive(Debug, Clone)]
pub(super) struct Entries {
    vantage: Vantage,
    /// Cache entries, the latest last.
    known: VecDeque<Entry>,
    last: Option<Last>,
    highest_ttl: u32,
    /// The TTL was seen to run: a cache, whatever it claims.
    counts_down: bool,
    /// AA answers whose TTL stands still: a server that draws for itself.
    steady: bool,
}

#[derive(Debug, Clone)]
struct Entry {
    set: Box<[IpAddr]>,
    expires: i64,
    ttl: u32,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    at: i64,
    ttl: u32,
    direct: bool,
}

impl Entries {
    pub(super) fn new(vantage: Vantage) -> Self {
        Self {
            vantage,
            known: VecDeque::new(),
            last: None,
            highest_ttl: 0,
            counts_down: false,
            steady: false,
        }
    }

    /// Whether the next query draws anew without a wait.
    pub(super) fn direct(&self) -> bool {
        self.last.is_some_and(|last| last.direct)
    }

    /// When a new draw can be had, milliseconds: at once, or when the entry that was seen last is surely gone (a
    /// second is added for the rounding of TTLs).
    pub(super) fn next_fresh(&self) -> Option<i64> {
        let last = self.last?;
        Some(if last.direct { last.at } else { self.known.back()?.expires + 1000 })
    }

    pub(super) fn push(&mut self, reply: Reply<'_>) -> Seen {
        let direct = self.learn(reply);
        if direct {
            return Seen::Draw { cached: false };
        }
        if self.repeats(reply) {
            return Seen::Repeat;
        }
        if self.is_stale(reply) {
            return Seen::Stale;
        }
        if self.known.len() == REMEMBERED {
            self.known.pop_front();
        }
        self.known.push_back(Entry { set: reply.set.into(), expires: expiry(reply), ttl: reply.ttl });
        Seen::Draw { cached: true }
    }

    /// Whether this very entry was seen here: two resolvers may sit in front of one cache.
    pub(super) fn holds(&self, reply: Reply<'_>) -> bool {
        let expires = expiry(reply);
        self.known.iter().any(|e| *e.set == *reply.set && (e.expires - expires).abs() <= SAME_EXPIRY_MS)
    }

    /// Updates what is known of the source; true if this reply was drawn for this very query: it says so (AA) and is
    /// asked as an authority, or its TTL stands still for two seconds (`CoreDNS` sets AA on what it has cached, but
    /// its TTL runs), or nothing may be cached.
    fn learn(&mut self, reply: Reply<'_>) -> bool {
        let claims = reply.authoritative && self.vantage == Vantage::Authority;
        if let Some(last) = self.last {
            self.counts_down |= !claims && last.ttl != reply.ttl;
            self.steady |= reply.authoritative && last.ttl == reply.ttl && reply.at - last.at >= 2000;
        }
        self.highest_ttl = self.highest_ttl.max(reply.ttl);
        let direct = claims || reply.ttl == 0 || self.steady && !self.counts_down;
        self.last = Some(Last { at: reply.at, ttl: reply.ttl, direct });
        direct
    }

    fn repeats(&self, reply: Reply<'_>) -> bool {
        let expires = expiry(reply);
        self.known.iter().filter(|entry| *entry.set == *reply.set).any(|entry| {
            let same_expiry =
                (entry.expires - expires).abs() <= SAME_EXPIRY_MS && reply.at <= entry.expires + 1000;
            // A cache that never counts down shows the full TTL for as long as the entry lives.
            let frozen = !self.counts_down && reply.ttl == entry.ttl && reply.at < entry.expires;
            same_expiry || frozen
        })
    }

    /// The same set as before, past its expiry, under the TTL of stale answers where the entry had another.
    fn is_stale(&self, reply: Reply<'_>) -> bool {
        reply.ttl == STALE_TTL
            && self.highest_ttl != STALE_TTL
            && self.known.back().is_some_and(|entry| *entry.set == *reply.set && reply.at > entry.expires)
    }
}

fn expiry(reply: Reply<'_>) -> i64 {
    reply.at.saturating_add(1000 * i64::from(reply.ttl))
}
