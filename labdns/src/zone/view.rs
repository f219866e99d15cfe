//! A zone as the control API lists it.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Zone;
use crate::behaviour::Behaviour;
use crate::command::Fault;
use crate::name::Name;
use crate::rrset::Rrset;
use crate::schema::scalar::Ttl;

/// Members that a listing names; the count is always of all.
const SHOWN: usize = 64;

/// One name and what it answers at the moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NameView {
    /// The name.
    pub name: Name,
    /// IPv4.
    pub a: Option<RecordsView>,
    /// IPv6.
    pub aaaa: Option<RecordsView>,
    /// The alias's targets, the current one first.
    pub cname: Vec<Name>,
    /// Faults in force.
    pub faults: Vec<Fault>,
}

/// The addresses of one family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecordsView {
    /// Members in service.
    pub members: usize,
    /// The first of them, 64 at most.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<IpAddr>,
    /// How an answer is drawn.
    pub answer: Behaviour,
    /// Time to live, seconds.
    pub ttl: Ttl,
}

impl Zone {
    /// The names in service `now` (since the start).
    pub fn names(&mut self, now: Duration) -> impl Iterator<Item = NameView> {
        self.advance(now);
        self.nodes.iter().map(|node| NameView {
            name: node.name.clone(),
            a: node.a.as_ref().map(RecordsView::of),
            aaaa: node.aaaa.as_ref().map(RecordsView::of),
            cname: node.alias.iter().flat_map(crate::alias::AliasState::targets).cloned().collect(),
            faults: node.faults.clone(),
        })
    }
}

impl RecordsView {
    fn of(records: &Rrset) -> Self {
        let (members, addresses) = records.members(SHOWN);
        let spec = records.spec();
        Self { members, addresses, answer: spec.answer.clone(), ttl: spec.ttl.clone() }
    }
}
