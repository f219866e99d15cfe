//! One cache: record sets by owner name, each with the time to live of its own, as caching resolvers keep them. A
//! CNAME link and the addresses behind it expire apart.

use std::collections::HashMap;
use std::time::Duration;

use ipnet::IpNet;

use super::ResolverSpec;
use crate::answer::{Alias, Answer, Rcode, RecordType};
use crate::name::Name;

#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: HashMap<Name, Vec<Entry>>,
    /// Answers given, which turns a cyclic order.
    pub(super) count: u64,
}

/// What an entry under a name is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct About {
    pub(super) record_type: RecordType,
    /// The client network that it is for; `None`: any.
    pub(super) net: Option<IpNet>,
}

#[derive(Debug)]
struct Entry {
    about: About,
    /// As it was kept, seconds.
    ttl: u32,
    stored: Duration,
    expires: Duration,
    data: Data,
}

#[derive(Debug, Clone)]
pub(super) enum Data {
    Addresses(Vec<Answer>),
    Link(Alias),
    Negative(Rcode),
}

/// What a cache says about an entry.
pub(super) struct Hit<'a> {
    pub(super) data: &'a Data,
    /// TTL to show in place of the original one.
    pub(super) ttl: Option<u32>,
}

impl Cache {
    /// An entry for `name`, where there is one that may be used `now`: fresh, or with `stale` an expired one.
    pub(super) fn get(
        &self,
        name: &str,
        about: About,
        now: Duration,
        spec: &ResolverSpec,
        stale: bool,
    ) -> Option<Hit<'_>> {
        let usable = |entry: &&Entry| {
            let fits = entry.about.net.is_none_or(|of| about.net.is_some_and(|net| of.contains(&net)));
            let grace = spec.serve_stale.filter(|_| stale).map_or(Duration::ZERO, |s| s.r#for.get());
            entry.about.record_type == about.record_type && fits && now < entry.expires + grace
        };
        let entry = self.entries.get(name)?.iter().find(usable)?;
        let ttl = match spec.serve_stale {
            Some(serve) if entry.expires <= now => Some(serve.ttl),
            // Whole seconds are counted: 1 is shown until the last moment.
            _ if spec.countdown => Some(entry.ttl.saturating_sub(seconds(now.saturating_sub(entry.stored)))),
            _ => None,
        };
        Some(Hit { data: &entry.data, ttl })
    }

    /// Keeps `data` for its TTL within the resolver's bounds; a TTL of 0 is not kept.
    pub(super) fn put(
        &mut self,
        name: &Name,
        about: About,
        data: Data,
        ttl: u32,
        now: Duration,
        spec: &ResolverSpec,
    ) {
        let ttl = spec.bounded(ttl);
        let grace = spec.serve_stale.map_or(Duration::ZERO, |serve| serve.r#for.get());
        let entries = self.entries.entry(name.clone()).or_default();
        entries.retain(|e| e.about != about && now < e.expires + grace);
        if ttl > 0 {
            let expires = now + Duration::from_secs(u64::from(ttl));
            entries.push(Entry { about, ttl, stored: now, expires, data });
        }
    }
}

/// Whole seconds.
fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}
