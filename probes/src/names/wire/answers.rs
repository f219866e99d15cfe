//! The answer section: records come in, in the order of the message, and the alias chain with the addresses at its end
//! goes out. Records that stand in the order of the chain, as nearly all do, are taken as they come; others are kept
//! and looked up by a key at the end, so that the work is linear in the records. Called by `wire::read`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use policies::{Answer, Cname};

use super::name::{self, NameBuf, WireName};
use super::{Record, TYPE_A, TYPE_AAAA, TYPE_CNAME};

/// Links of an alias chain that are followed; resolvers stop at 8 to 16.
pub(crate) const MOST_LINKS: usize = 16;

pub(super) struct Answers<'m> {
    message: &'m [u8],
    rtype: u16,
    /// Where the name stands to which the chain leads so far.
    end: usize,
    addresses: Vec<Answer>,
    chain: Vec<Cname>,
    endless: bool,
    /// Records of other names, so far.
    early: Vec<Record<'m>>,
}

/// What became of them.
pub(super) struct Found {
    pub(super) answers: Vec<Answer>,
    pub(super) chain: Vec<Cname>,
    /// Where the chain ends, if there is one.
    pub(super) end: Option<WireName>,
    /// The chain has more links than are followed.
    pub(super) endless: bool,
}

impl<'m> Answers<'m> {
    /// For records of type `rtype` of the name at `end`. `room` is how many are expected.
    pub(super) fn new(message: &'m [u8], rtype: u16, end: usize, room: usize) -> Self {
        let addresses = Vec::with_capacity(room);
        Self { message, rtype, end, addresses, chain: Vec::new(), endless: false, early: Vec::new() }
    }

    /// Takes the next record; nothing where its data are not what its type says.
    pub(super) fn add(&mut self, record: Record<'m>) -> Option<()> {
        let address_asked = record.rtype == self.rtype && matches!(record.rtype, TYPE_A | TYPE_AAAA);
        if record.rtype != TYPE_CNAME && !address_asked {
            return Some(());
        }
        let owner = name::start(self.message, record.owner);
        if owner == self.end || name::same(self.message, record.owner, self.end) {
            return self.take(&record);
        }
        if record.rtype != TYPE_CNAME {
            address(record.rtype, record.data)?;
        }
        self.early.push(record);
        Some(())
    }

    fn take(&mut self, record: &Record<'m>) -> Option<()> {
        if record.rtype == TYPE_CNAME {
            self.follow(record)
        } else {
            let addr = address(record.rtype, record.data)?;
            self.addresses.push(Answer { addr, ttl: record.ttl });
            Some(())
        }
    }

    fn follow(&mut self, alias: &Record<'m>) -> Option<()> {
        if self.chain.len() == MOST_LINKS {
            self.endless = true;
            return Some(());
        }
        let mut target = NameBuf::default();
        let behind = target.read(self.message, alias.data_at)?;
        (behind == alias.data_at + alias.data.len()).then_some(())?;
        self.chain.push(Cname { target: target.to_string(), ttl: alias.ttl });
        self.end = name::start(self.message, alias.data_at);
        self.addresses.clear();
        Some(())
    }

    pub(super) fn finish(mut self) -> Option<Found> {
        if !self.early.is_empty() {
            self.look_back()?;
        }
        let end = if self.chain.is_empty() { None } else { Some(WireName::at(self.message, self.end)?) };
        let Self { addresses: mut answers, chain, endless, .. } = self;
        if endless {
            answers.clear();
        }
        Some(Found { answers, chain, end, endless })
    }

    /// Follows the chain through the records that came before their turn, and takes the addresses among them.
    fn look_back(&mut self) -> Option<()> {
        let early = std::mem::take(&mut self.early);
        let keys: Vec<_> = early.iter().map(|record| name::key(self.message, record.owner)).collect();
        let of_end = |end: usize, alias: bool| {
            let sought = name::key(self.message, end);
            early.iter().zip(&keys).filter(move |(record, key)| {
                (record.rtype == TYPE_CNAME) == alias && sought.is_some() && **key == sought
            })
        };
        while let Some((alias, _)) = of_end(self.end, true).next() {
            self.follow(alias)?;
            if self.endless {
                return Some(());
            }
        }
        let later = std::mem::take(&mut self.addresses);
        for (record, _) in of_end(self.end, false) {
            self.take(record)?;
        }
        self.addresses.extend(later);
        Some(())
    }
}

/// The address in a record's data; nothing where they have another length.
fn address(rtype: u16, data: &[u8]) -> Option<IpAddr> {
    if rtype == TYPE_A {
        Some(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into())
    } else {
        Some(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into())
    }
}
