//! Commands carried out on the zone. All checks come before the first change.

use std::net::IpAddr;

use super::{Node, Zone};
use crate::alias::AliasState;
use crate::command::{Command, CommandError, Fault, Flip, Rotate, Set, Target, Weight};
use crate::name::Name;
use crate::rrset::Rrset;
use crate::schema::pool::Pool;
use crate::schema::records::{Cname, Pick, RecordSet};
use crate::schema::scalar::Ttl;
use crate::schema::{NameSpec, parts as check};

impl Zone {
    pub(super) fn carry_out(&mut self, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Set(set) => self.set(*set),
            Command::Flip(flip) => self.flip(flip),
            Command::Rotate(rotate) => self.rotate(&rotate),
            Command::Weight(weight) => self.weigh(&weight),
            Command::Fault(on) => {
                check::fault(&on.fault)?;
                let faults = match &on.name {
                    Some(name) => &mut self.node(name)?.faults,
                    None => &mut self.faults,
                };
                add(faults, on.fault);
                Ok(())
            }
            Command::Clear(clear) => {
                if let Some(name) = &clear.name {
                    self.node(name)?.faults.clear();
                } else {
                    self.faults.clear();
                    self.nodes.iter_mut().for_each(|node| node.faults.clear());
                }
                Ok(())
            }
        }
    }

    fn set(&mut self, set: Set) -> Result<(), CommandError> {
        if !set.name.is_within(&self.apex) {
            return Err(CommandError::OutsideZone { name: set.name, zone: self.apex.clone() });
        }
        let spec = NameSpec { a: set.a, aaaa: set.aaaa, cname: set.cname, ..NameSpec::default() };
        check::name_spec(&spec)?;
        if let Some(members) = set.members {
            self.check_members(&set.name, &spec, members)?;
        }
        if !self.index.contains_key(&set.name) {
            self.insert(&set.name, &NameSpec::default());
        }
        let NameSpec { a, aaaa, cname, .. } = spec;
        self.sets += 1;
        let a = a.map(|records| Rrset::new(records, self.seed_for(&set.name, "a")));
        let aaaa = aaaa.map(|records| Rrset::new(records, self.seed_for(&set.name, "aaaa")));
        let alias = cname.map(|cname| AliasState::new(cname, self.seed_for(&set.name, "cname")));
        let node = self.node(&set.name)?;
        if a.is_some() || aaaa.is_some() {
            node.alias = None;
        }
        node.a = a.or(node.a.take());
        node.aaaa = aaaa.or(node.aaaa.take());
        if alias.is_some() {
            (node.a, node.aaaa, node.alias) = (None, None, alias);
        }
        if let Some(members) = set.members {
            node.records().for_each(|records| records.set_members(members));
        }
        if let Some(ttl) = set.ttl {
            node.records().for_each(|records| records.set_ttl(ttl.clone()));
            node.alias.iter_mut().for_each(|alias| alias.set_ttl(ttl.of(0)));
        }
        Ok(())
    }

    /// Whether what the name will have after a `set` can have so many members in service.
    fn check_members(&self, name: &Name, new: &NameSpec, members: usize) -> Result<(), CommandError> {
        let old = self.index.get(name).map(|place| &self.nodes[*place]);
        let a = new.a.as_ref().or(old.and_then(|node| node.a.as_ref()).map(Rrset::spec));
        let aaaa = new.aaaa.as_ref().or(old.and_then(|node| node.aaaa.as_ref()).map(Rrset::spec));
        // A family with a smaller pool has all of it in service.
        let largest = a.into_iter().chain(aaaa).max_by_key(|set| set.pool.as_ref().map_or(0, Pool::len));
        Ok(largest.map_or(Ok(()), |records| check::in_service(members, records))?)
    }

    fn flip(&mut self, flip: Flip) -> Result<(), CommandError> {
        let node = self.node(&flip.name)?;
        let mut addresses: Vec<IpAddr> = Vec::new();
        let mut targets: Vec<Name> = Vec::new();
        for target in flip.to {
            match target {
                Target::Addr(addr) => addresses.push(addr),
                Target::Name(name) => targets.push(name),
            }
        }
        let spec = match (addresses.is_empty(), targets.is_empty()) {
            (true, true) => return Err(CommandError::FlipToNothing { name: flip.name }),
            (false, false) => return Err(CommandError::FlipToBoth { name: flip.name }),
            (true, false) => {
                let old = node.alias.as_ref().map(AliasState::spec);
                let ttl = old.map_or_else(|| node.ttl().of(0), |old| old.ttl);
                Set {
                    cname: Some(Cname { to: targets, pick: Pick::First, hold: None, ttl }),
                    ..Set::of(flip.name)
                }
            }
            (false, true) => {
                let (v4, v6): (Vec<_>, Vec<_>) = addresses.into_iter().partition(IpAddr::is_ipv4);
                Set { a: node.flipped(v4), aaaa: node.flipped(v6), ..Set::of(flip.name) }
            }
        };
        self.set(spec)
    }

    fn rotate(&mut self, rotate: &Rotate) -> Result<(), CommandError> {
        let node = self.node(&rotate.name)?;
        let mut hit = false;
        for records in node.records() {
            hit |= records.rotate(rotate.by).is_some();
        }
        if let Some(alias) = &mut node.alias {
            alias.rotate(rotate.by);
            hit = true;
        }
        if hit { Ok(()) } else { Err(CommandError::NoPool { name: rotate.name.clone() }) }
    }

    fn weigh(&mut self, weight: &Weight) -> Result<(), CommandError> {
        check::weights(&weight.weights)?;
        let unfit = || CommandError::NoWeights { name: weight.name.clone(), given: weight.weights.len() };
        let mut hit = false;
        for records in self.node(&weight.name)?.records() {
            hit |= records.weigh(&weight.weights).is_some();
        }
        if hit { Ok(()) } else { Err(unfit()) }
    }

    fn node(&mut self, name: &Name) -> Result<&mut Node, CommandError> {
        match self.index.get(name) {
            Some(place) => Ok(&mut self.nodes[*place]),
            None => Err(CommandError::UnknownName { name: name.clone() }),
        }
    }
}

impl Node {
    fn records(&mut self) -> impl Iterator<Item = &mut Rrset> {
        self.a.iter_mut().chain(self.aaaa.iter_mut())
    }

    /// The TTL of what the name has.
    fn ttl(&self) -> Ttl {
        let records = self.a.as_ref().or(self.aaaa.as_ref()).map(|records| records.spec().ttl.clone());
        let alias = self.alias.as_ref().map(|alias| Ttl::seconds(alias.spec().ttl));
        records.or(alias).unwrap_or_default()
    }

    /// A record set of exactly these addresses, with the TTL and order of the one that it replaces.
    fn flipped(&self, addresses: Vec<IpAddr>) -> Option<RecordSet> {
        let first = addresses.first()?;
        let old = if first.is_ipv4() { &self.a } else { &self.aaaa };
        let mut flipped = RecordSet::all(addresses, self.ttl());
        if let Some(old) = old {
            flipped.order = old.spec().order;
            flipped.ttl = old.spec().ttl.clone();
        }
        Some(flipped)
    }
}

/// A fault of the same kind for the same family is replaced.
fn add(faults: &mut Vec<Fault>, fault: Fault) {
    let kind = std::mem::discriminant(&fault.kind);
    faults.retain(|old| std::mem::discriminant(&old.kind) != kind || old.only != fault.only);
    faults.push(fault);
}
