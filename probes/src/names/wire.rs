//! The wire format of the one question that is asked a million times: addresses of a host. A host, record type and
//! client subnet come in and query bytes go out; response bytes come in and addresses, alias chain and flags go out.
//! Own code because parsing every record into owned structures costs more than sending the query does; rare
//! messages (NS, SOA) are read with `hickory-proto`. Called by `exchange` and `sample`; total on any bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use policies::{Answer, Cname, Malformed, RecordType};

use self::name::NameBuf;

pub(crate) mod name;

/// UDP payload size that is offered: one IPv6 datagram that no path fragments (DNS flag day 2020).
const PAYLOAD: u16 = 1232;
/// Room for the query, and for most responses, which come into the same buffer.
const ROOM: usize = 160;
const HEADER: usize = 12;
/// The root as owner, type, class, TTL and an empty RDATA.
const SMALLEST_RECORD: usize = 11;

pub(crate) const TYPE_A: u16 = 1;
pub(crate) const TYPE_NS: u16 = 2;
pub(crate) const TYPE_CNAME: u16 = 5;
pub(crate) const TYPE_SOA: u16 = 6;
pub(crate) const TYPE_AAAA: u16 = 28;
const TYPE_OPT: u16 = 41;
const OPTION_CLIENT_SUBNET: u16 = 8;

/// The type code of an address record.
pub(crate) fn type_code(record_type: RecordType) -> u16 {
    match record_type {
        RecordType::A => TYPE_A,
        RecordType::Aaaa => TYPE_AAAA,
    }
}

/// What a query says by EDNS (RFC 6891).
#[derive(Clone, Copy)]
pub(crate) enum Edns {
    /// Nothing: for servers that refuse the OPT record.
    Absent,
    Plain,
    /// The client's subnet (RFC 7871).
    Subnet(IpNet),
}

/// A query with id 0 (the exchange draws one when it sends). `qname` is in wire format, uncompressed.
pub(crate) fn query(qname: &[u8], qtype: u16, recursion: bool, edns: Edns) -> Vec<u8> {
    let records = u8::from(!matches!(edns, Edns::Absent));
    let mut out = Vec::with_capacity(ROOM);
    out.extend_from_slice(&[0, 0, u8::from(recursion), 0, 0, 1, 0, 0, 0, 0, 0, records]);
    out.extend_from_slice(qname);
    out.extend_from_slice(&qtype.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    if records > 0 {
        let [high, low] = PAYLOAD.to_be_bytes();
        out.extend_from_slice(&[0, 0, 41, high, low, 0, 0, 0, 0]);
    }
    match edns {
        Edns::Absent => {}
        Edns::Plain => out.extend_from_slice(&[0, 0]),
        Edns::Subnet(subnet) => client_subnet(&mut out, subnet),
    }
    out
}

/// RFC 7871, section 6: family, source prefix, scope 0, and only the bytes that the prefix covers.
fn client_subnet(out: &mut Vec<u8>, subnet: IpNet) {
    let (family, octets) = match subnet.network() {
        IpAddr::V4(addr) => (1, addr.octets().to_vec()),
        IpAddr::V6(addr) => (2, addr.octets().to_vec()),
    };
    let covered = &octets[..usize::from(subnet.prefix_len()).div_ceil(8)];
    let option = 4 + u8::try_from(covered.len()).unwrap_or(16);
    out.extend_from_slice(&[0, option + 4, 0, 8, 0, option, 0, family, subnet.prefix_len(), 0]);
    out.extend_from_slice(covered);
}

/// Whether `response` is a message that answers `request`; else why not. The id comes first: with another id,
/// nothing else is looked at.
pub(crate) fn check(request: &[u8], response: &[u8]) -> Result<(), Malformed> {
    let Some(header) = Header::read(response) else { return Err(Malformed::Garbage) };
    if response[..2] != request[..2] {
        return Err(Malformed::WrongId);
    }
    let Some(end) = sections(response, &header) else { return Err(Malformed::Garbage) };
    let asked = request.get(HEADER..question_end(request)).unwrap_or_default();
    let same = response.get(HEADER..end.question).is_some_and(|seen| seen.eq_ignore_ascii_case(asked));
    // Servers that cannot even read a query answer FORMERR or REFUSED without repeating the question.
    let omitted = header.questions == 0 && header.rcode != 0;
    if same || omitted { Ok(()) } else { Err(Malformed::WrongQuestion) }
}

/// The question section of a message, for matching a response that carries a foreign id.
pub(crate) fn same_question(request: &[u8], response: &[u8]) -> bool {
    let end = question_end(request);
    let asked = request.get(HEADER..end).unwrap_or_default();
    response.get(HEADER..end).is_some_and(|seen| seen.eq_ignore_ascii_case(asked))
}

fn question_end(request: &[u8]) -> usize {
    name::skip(request, HEADER).map_or(HEADER, |end| (end + 4).min(request.len()))
}

/// What a response says about the addresses of the name that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// With the upper bits of EDNS.
    pub(crate) rcode: u16,
    pub(crate) authoritative: bool,
    pub(crate) truncated: bool,
    /// No answer but NS records: the name at which they say that another zone begins, in wire format.
    pub(crate) referral: Option<Vec<u8>>,
    /// A SOA record in the authority section: there is no more than the answer section says.
    pub(crate) denied: bool,
    /// Wire order, duplicates kept.
    pub(crate) answers: Vec<Answer>,
    pub(crate) chain: Vec<Cname>,
    /// Where the chain ends, in wire format and lower case; empty where there is no chain.
    pub(crate) end: Vec<u8>,
    pub(crate) edns: Option<u16>,
    pub(crate) ecs_scope: Option<u8>,
}

/// Reads a response to an A or AAAA query; nothing where the bytes are no DNS message.
pub(crate) fn read(message: &[u8], record_type: RecordType) -> Option<Reply> {
    let header = Header::read(message)?;
    let sections = sections(message, &header)?;
    let mut end = NameBuf::default();
    if header.questions > 0 {
        end.read(message, HEADER)?;
    }
    let answer = || Records { message, at: sections.question, left: header.answers };
    let chain = chain(&answer, &mut end)?;
    let mut answers = Vec::with_capacity(usize::from(header.answers).min(message.len() / SMALLEST_RECORD));
    for record in answer() {
        if record.rtype == type_code(record_type) && end.is_at(message, record.owner)? {
            answers.push(Answer { addr: address(record.data)?, ttl: record.ttl });
        }
    }
    let authority = || Records { message, at: sections.answer, left: header.authority };
    let denied = authority().any(|record| record.rtype == TYPE_SOA);
    let refers = header.answers == 0 && !header.authoritative && !denied;
    let mut referral = None;
    if let Some(ns) = authority().find(|record| refers && record.rtype == TYPE_NS) {
        let mut owner = NameBuf::default();
        owner.read(message, ns.owner)?;
        referral = Some(owner.as_bytes().to_vec());
    }
    let additional = Records { message, at: sections.authority, left: header.additional };
    let opt = { additional }.find(|record| record.rtype == TYPE_OPT);
    Some(Reply {
        rcode: header.rcode | opt.as_ref().map_or(0, |opt| u16::from(opt.ttl.to_be_bytes()[0]) << 4),
        authoritative: header.authoritative,
        truncated: header.truncated,
        referral,
        denied,
        answers,
        end: if chain.is_empty() { Vec::new() } else { end.as_bytes().to_vec() },
        chain,
        edns: opt.as_ref().map(|opt| opt.class),
        ecs_scope: opt.and_then(|opt| subnet_scope(opt.data)),
    })
}

/// Follows the aliases from `end` and leaves the last target there. Records may come in any order.
fn chain<'a>(answer: &dyn Fn() -> Records<'a>, end: &mut NameBuf) -> Option<Vec<Cname>> {
    let mut links = Vec::new();
    loop {
        let before = links.len();
        for record in answer().filter(|record| record.rtype == TYPE_CNAME) {
            if end.is_at(record.message, record.owner)? {
                let target = end.read(record.message, record.data_at)?;
                (target <= record.data_at + record.data.len()).then_some(())?;
                links.push(Cname { target: end.to_string(), ttl: record.ttl });
            }
        }
        // More links than records: a loop.
        if links.len() == before || links.len() > usize::from(answer().left) {
            return Some(links);
        }
    }
}

fn address(data: &[u8]) -> Option<IpAddr> {
    match data.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into()),
        _ => None,
    }
}

/// The scope prefix length of a client subnet option among the options of an OPT record.
fn subnet_scope(mut options: &[u8]) -> Option<u8> {
    while let Some((head, rest)) = options.split_at_checked(4) {
        let value = rest.get(..usize::from(u16_at(head, 2)?))?;
        if u16_at(head, 0)? == OPTION_CLIENT_SUBNET {
            return value.get(3).copied();
        }
        options = &rest[value.len()..];
    }
    None
}

struct Header {
    rcode: u16,
    authoritative: bool,
    truncated: bool,
    questions: u16,
    answers: u16,
    authority: u16,
    additional: u16,
}

impl Header {
    /// The header of a response to a standard query.
    fn read(message: &[u8]) -> Option<Self> {
        let flags = u16_at(message, 2)?;
        let response_to_query = flags & 0xf800 == 0x8000;
        response_to_query.then_some(())?;
        Some(Self {
            rcode: flags & 0xf,
            authoritative: flags & 0x0400 != 0,
            truncated: flags & 0x0200 != 0,
            questions: u16_at(message, 4)?,
            answers: u16_at(message, 6)?,
            authority: u16_at(message, 8)?,
            additional: u16_at(message, 10)?,
        })
    }
}

/// Where each section ends.
struct Sections {
    question: usize,
    answer: usize,
    authority: usize,
}

/// Walks the whole message: nothing where it is cut off or holds what is no record. A truncated message may end
/// anywhere after its question.
fn sections(message: &[u8], header: &Header) -> Option<Sections> {
    let mut at = HEADER;
    for _ in 0..header.questions {
        at = name::skip(message, at)? + 4;
        (at <= message.len()).then_some(())?;
    }
    let question = at;
    if header.truncated {
        return Some(Sections { question, answer: message.len(), authority: message.len() });
    }
    let mut end_of = |count: u16| {
        let mut records = Records { message, at, left: count };
        let whole = records.by_ref().count() == usize::from(count);
        at = records.at;
        whole.then_some(at)
    };
    let (answer, authority) = (end_of(header.answers)?, end_of(header.authority)?);
    end_of(header.additional)?;
    Some(Sections { question, answer, authority })
}

/// The records of a section; ends early where the bytes do.
struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: u16,
}

struct Record<'a> {
    message: &'a [u8],
    owner: usize,
    rtype: u16,
    class: u16,
    ttl: u32,
    data: &'a [u8],
    data_at: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        self.left = self.left.checked_sub(1)?;
        let fixed = name::skip(self.message, self.at)?;
        let data_at = fixed + 10;
        let length = usize::from(u16_at(self.message, fixed + 8)?);
        let data = self.message.get(data_at..data_at + length)?;
        let ttl =
            u32::from(u16_at(self.message, fixed + 4)?) << 16 | u32::from(u16_at(self.message, fixed + 6)?);
        let rtype = u16_at(self.message, fixed)?;
        let record = Record {
            message: self.message,
            owner: self.at,
            rtype,
            class: u16_at(self.message, fixed + 2)?,
            // RFC 2181, section 8: a value with the top bit set counts as 0. OPT keeps its flags there.
            ttl: if rtype != TYPE_OPT && ttl > i32::MAX.unsigned_abs() { 0 } else { ttl },
            data,
            data_at,
        };
        self.at = data_at + length;
        Some(record)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests;
