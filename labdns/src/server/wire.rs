//! Between bytes and the lab's own nouns: a query's message comes in, a response's message goes out. Knows the zone's
//! fixed records (SOA, NS); called by `service` for every query.

use std::net::IpAddr;

use hickory_proto::ProtoError;
use hickory_proto::op::{Edns, Message, ResponseCode};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsCode, EdnsOption};
use hickory_proto::rr::rdata::{CNAME, NS, SOA};
use hickory_proto::rr::{Name as WireName, RData, Record};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};
use ipnet::IpNet;

use crate::answer::{Rcode, RecordType, Reply};
use crate::name::Name;
use crate::zone::Zone;

/// The records of the zone that never change.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) apex: Name,
    soa: Record,
    ns: Vec<Record>,
    glue: Vec<Record>,
}

impl Fixed {
    pub(crate) fn new(zone: &Zone) -> Result<Self, ProtoError> {
        let apex = wire_name(zone.apex())?;
        let contact = WireName::from_ascii("hostmaster")?.append_domain(&apex)?;
        let primary =
            zone.name_servers().first().map_or(Ok(apex.clone()), |server| wire_name(&server.name))?;
        let ttl = zone.negative_ttl();
        let soa = SOA::new(primary, contact, 1, 3600, 600, 86_400, ttl);
        let mut fixed = Self {
            apex: zone.apex().clone(),
            soa: Record::from_rdata(apex.clone(), ttl, RData::SOA(soa)),
            ns: Vec::new(),
            glue: Vec::new(),
        };
        for server in zone.name_servers() {
            let name = wire_name(&server.name)?;
            fixed.ns.push(Record::from_rdata(apex.clone(), 3600, RData::NS(NS(name.clone()))));
            let glue =
                server.addresses.iter().map(|addr| Record::from_rdata(name.clone(), 3600, rdata(*addr)));
            fixed.glue.extend(glue);
        }
        Ok(fixed)
    }

    /// Turns a reply into the sections of `response`, whose question stays as it was asked.
    pub(crate) fn fill(
        &self,
        response: &mut Message,
        asked: &str,
        record_type: RecordType,
        reply: &Reply,
    ) -> Result<(), ProtoError> {
        response.metadata.response_code = code(reply.rcode);
        let Some(query) = response.queries.first() else { return Ok(()) };
        let mut owner = query.name.clone();
        response.answers.reserve_exact(reply.chain.len() + reply.addresses.len());
        for link in &reply.chain {
            let target = wire_name(&link.target)?;
            response.answers.push(Record::from_rdata(owner, link.ttl, RData::CNAME(CNAME(target.clone()))));
            owner = target;
        }
        for answer in &reply.addresses {
            response.answers.push(Record::from_rdata(owner.clone(), answer.ttl, rdata(answer.addr)));
        }
        let at_apex = asked == self.apex.as_str() && reply.rcode == Rcode::NoError;
        match record_type {
            RecordType::Ns if at_apex => {
                response.answers.extend_from_slice(&self.ns);
                response.additionals.extend_from_slice(&self.glue);
            }
            RecordType::Soa if at_apex => response.answers.push(self.soa.clone()),
            _ => {}
        }
        let last = reply.chain.last().map_or(asked, |link| link.target.as_str());
        let negative = match reply.rcode {
            Rcode::NxDomain => true,
            Rcode::NoError => {
                response.answers.len() == reply.chain.len()
                    && (reply.chain.is_empty() || record_type != RecordType::Cname)
            }
            _ => false,
        };
        if negative && crate::name::is_within(last, self.apex.as_str()) {
            response.authorities.push(self.soa.clone());
        }
        Ok(())
    }
}

/// The client subnet of a query; one with a host part, as a careless client sends it, is cut to its network.
pub(crate) fn client_subnet(edns: Option<&Edns>) -> Option<IpNet> {
    match edns?.option(EdnsCode::Subnet)? {
        EdnsOption::Subnet(subnet) => {
            IpNet::new(subnet.addr(), subnet.source_prefix()).ok().map(|net| net.trunc())
        }
        _ => None,
    }
}

/// The OPT record that answers the client's.
pub(crate) fn edns(max_udp: u16, ecs: Option<IpNet>, scope: Option<u8>) -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(max_udp);
    if let (Some(net), Some(scope)) = (ecs, scope) {
        let subnet = ClientSubnet::new(net.addr(), net.prefix_len(), scope);
        edns.options_mut().insert(EdnsOption::Subnet(subnet));
    }
    edns
}

/// Writes a name in lower case with dots between its labels; bytes that no name of the lab has become `?`, so they
/// can neither match nor reach a terminal.
pub(crate) fn dotted(name: &WireName, text: &mut String) {
    text.clear();
    for label in name {
        if !text.is_empty() {
            text.push('.');
        }
        let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        text.extend(label.iter().map(|b| if plain(b) { char::from(b.to_ascii_lowercase()) } else { '?' }));
    }
}

/// Encodes `message`; what does not fit into `limit` bytes becomes an empty answer with TC set.
pub(crate) fn encode(message: &mut Message, limit: u16, out: &mut Vec<u8>) -> Result<(), ProtoError> {
    emit(message, out)?;
    if out.len() > usize::from(limit) {
        cut(message);
        emit(message, out)?;
    }
    Ok(())
}

/// Leaves nothing but the question and TC.
pub(crate) fn cut(message: &mut Message) {
    message.metadata.truncation = true;
    message.answers.clear();
    message.authorities.clear();
    message.additionals.clear();
}

fn emit(message: &Message, out: &mut Vec<u8>) -> Result<(), ProtoError> {
    out.clear();
    message.emit(&mut BinEncoder::new(out))
}

fn wire_name(name: &Name) -> Result<WireName, ProtoError> {
    let mut wire = WireName::from_ascii(name.spelled())?;
    wire.set_fqdn(true);
    Ok(wire)
}

fn rdata(addr: IpAddr) -> RData {
    match addr {
        IpAddr::V4(v4) => RData::A(v4.into()),
        IpAddr::V6(v6) => RData::AAAA(v6.into()),
    }
}

fn code(rcode: Rcode) -> ResponseCode {
    match rcode {
        Rcode::NoError => ResponseCode::NoError,
        Rcode::FormErr => ResponseCode::FormErr,
        Rcode::ServFail => ResponseCode::ServFail,
        Rcode::NxDomain => ResponseCode::NXDomain,
        Rcode::NotImp => ResponseCode::NotImp,
        Rcode::Refused => ResponseCode::Refused,
    }
}
