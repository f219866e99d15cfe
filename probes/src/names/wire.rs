//! The wire format of the few questions that are asked: addresses of a host, and where its zone begins (SOA, NS). A
//! name, record type and client subnet come in and query bytes go out; response bytes come in and addresses, alias
//! chain and flags go out. A response is walked once, in time linear in its bytes, whatever they are. Own code because
//! parsing every record into owned structures costs more than sending the query does. Called by `exchange`.

use std::net::IpAddr;

use ipnet::IpNet;
use policies::{Answer, Cname, Malformed, RecordType};

use self::answers::Answers;
pub(crate) use self::answers::MOST_LINKS;
pub(crate) use self::name::WireName;

mod answers;
mod name;

/// UDP payload size that is offered: one IPv6 datagram that no path fragments (DNS flag day 2020).
const PAYLOAD: u16 = 1232;
/// Room for the query, and for most responses, which come into the same buffer.
const ROOM: usize = 160;
const HEADER: usize = 12;
/// The root as owner, type, class, TTL and an empty RDATA.
const SMALLEST_RECORD: usize = 11;

const TYPE_A: u16 = 1;
pub(crate) const TYPE_NS: u16 = 2;
const TYPE_CNAME: u16 = 5;
pub(crate) const TYPE_SOA: u16 = 6;
const TYPE_AAAA: u16 = 28;
const TYPE_OPT: u16 = 41;
const CLASS_IN: u16 = 1;
const OPTION_CLIENT_SUBNET: u16 = 8;
/// Name servers of a zone that are read: the root has 13.
const MOST_SERVERS: usize = 16;

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

/// A query with id 0 (the exchange draws one when it sends).
pub(crate) fn query(qname: &WireName, qtype: u16, recursion: bool, edns: Edns) -> Vec<u8> {
    let records = u8::from(!matches!(edns, Edns::Absent));
    let mut out = Vec::with_capacity(ROOM);
    out.extend_from_slice(&[0, 0, u8::from(recursion), 0, 0, 1, 0, 0, 0, 0, 0, records]);
    out.extend_from_slice(qname.as_bytes());
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

/// What a response says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of a message are independent")]
pub(crate) struct Reply {
    /// Bytes of the message.
    pub(crate) size: usize,
    /// With the upper bits of EDNS.
    pub(crate) rcode: u16,
    pub(crate) authoritative: bool,
    pub(crate) truncated: bool,
    /// A SOA record in the authority section: there is no more than the answer section says.
    pub(crate) denied: bool,
    /// The chain has more than [`MOST_LINKS`] links.
    pub(crate) endless: bool,
    pub(crate) ecs_scope: Option<u8>,
    pub(crate) edns: Option<u16>,
    /// Wire order, duplicates kept.
    pub(crate) answers: Vec<Answer>,
    pub(crate) chain: Vec<Cname>,
    /// Where the chain ends; nothing where there is no chain.
    pub(crate) end: Option<WireName>,
    /// No answer but NS records: the name at which they say that another zone begins.
    pub(crate) referral: Option<WireName>,
    /// The answer to a question about a zone (SOA, NS).
    pub(crate) zone: Option<Box<ZoneRecords>>,
}

/// What a response says of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ZoneRecords {
    /// Owner of the first SOA record.
    pub(crate) apex: Option<WireName>,
    /// Targets of NS records in the answer section.
    pub(crate) servers: Vec<WireName>,
    /// Targets of NS records in the authority section.
    pub(crate) referred: Vec<WireName>,
}

/// Reads the response to `request`, or says why it is none. The id comes first: with another id, nothing else is
/// looked at.
pub(crate) fn read(request: &[u8], response: &[u8]) -> Result<Reply, Malformed> {
    let header = Header::read(response).ok_or(Malformed::Garbage)?;
    if response.get(..2) != request.get(..2) {
        return Err(Malformed::WrongId);
    }
    let end = match header.questions {
        0 => HEADER,
        _ => question_end(response).ok_or(Malformed::Garbage)?,
    };
    let asked = question_end(request).map(|end| &request[HEADER..end]).unwrap_or_default();
    let same = header.questions == 1 && response[HEADER..end].eq_ignore_ascii_case(asked);
    let mut walk = Walk { message: response, at: end };
    let reply = sections(&mut walk, &header, asked).ok_or(Malformed::Garbage)?;
    // Servers that cannot even read a query answer FORMERR or REFUSED without repeating the question.
    let omitted = header.questions == 0 && header.rcode != 0;
    if same || omitted { Ok(reply) } else { Err(Malformed::WrongQuestion) }
}

/// Whether a message has the question of `request`, for matching one that carries a foreign id.
pub(crate) fn same_question(request: &[u8], response: &[u8]) -> bool {
    let end = question_end(request).unwrap_or(HEADER);
    let asked = request.get(HEADER..end).unwrap_or_default();
    response.get(HEADER..end).is_some_and(|seen| seen.eq_ignore_ascii_case(asked))
}

/// The offset behind the first question, within the message.
fn question_end(message: &[u8]) -> Option<usize> {
    name::skip(message, HEADER).map(|end| end + 4).filter(|end| *end <= message.len())
}

/// The walk over the records; nothing where the message is cut off or holds what is not a record. A truncated message
/// may end anywhere after its question.
fn sections(walk: &mut Walk<'_>, header: &Header, asked: &[u8]) -> Option<Reply> {
    let message = walk.message;
    let qtype = asked.len().checked_sub(4).and_then(|at| u16_at(asked, at)).unwrap_or_default();
    let room = usize::from(header.answers).min(message.len() / SMALLEST_RECORD);
    // Without a question there is no name whose records could be meant: the root has none.
    let mut answers = Answers::new(message, qtype, HEADER, room);
    let mut zone = matches!(qtype, TYPE_NS | TYPE_SOA).then(Box::<ZoneRecords>::default);
    let (mut denied, mut first_ns, mut opt) = (false, None, None);
    let counts = [header.answers, header.authority, header.additional];
    'message: for (section, count) in counts.into_iter().enumerate() {
        for _ in 0..count {
            let Some(record) = walk.next() else {
                if header.truncated {
                    break 'message;
                }
                return None;
            };
            match (section, record.rtype, record.class) {
                (2, TYPE_OPT, _) => opt = opt.or(Some(record)),
                (0 | 1, TYPE_NS | TYPE_SOA, CLASS_IN) => {
                    if section == 1 {
                        denied |= record.rtype == TYPE_SOA;
                        first_ns = first_ns.or((record.rtype == TYPE_NS).then_some(record.owner));
                    }
                    if let Some(zone) = &mut zone {
                        zone.add(message, &record, section == 0)?;
                    }
                }
                (0, _, CLASS_IN) if header.questions > 0 => answers.add(record)?,
                _ => {}
            }
        }
    }
    let found = answers.finish()?;
    let refers = header.answers == 0 && !header.authoritative && !denied;
    let referral = first_ns.filter(|_| refers);
    Some(Reply {
        size: message.len(),
        rcode: header.rcode | opt.as_ref().map_or(0, |opt| u16::from(opt.ttl.to_be_bytes()[0]) << 4),
        authoritative: header.authoritative,
        truncated: header.truncated,
        denied,
        endless: found.endless,
        ecs_scope: opt.as_ref().and_then(|opt| subnet_scope(opt.data)),
        edns: opt.as_ref().map(|opt| opt.class),
        answers: found.answers,
        chain: found.chain,
        end: found.end,
        referral: referral.map(|owner| WireName::at(message, owner).ok_or(())).transpose().ok()?,
        zone,
    })
}

impl ZoneRecords {
    /// Takes a SOA or NS record; nothing where a name in it is malformed.
    fn add(&mut self, message: &[u8], record: &Record<'_>, answer: bool) -> Option<()> {
        if record.rtype == TYPE_SOA {
            if self.apex.is_none() {
                self.apex = Some(WireName::at(message, record.owner)?);
            }
            return Some(());
        }
        let servers = if answer { &mut self.servers } else { &mut self.referred };
        if servers.len() < MOST_SERVERS {
            (name::skip(message, record.data_at)? == record.data_at + record.data.len()).then_some(())?;
            let server = WireName::at(message, record.data_at)?;
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        Some(())
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

/// The way through the records of a message.
struct Walk<'m> {
    message: &'m [u8],
    at: usize,
}

#[derive(Clone, Copy)]
struct Record<'m> {
    owner: usize,
    rtype: u16,
    class: u16,
    ttl: u32,
    data: &'m [u8],
    data_at: usize,
}

impl<'m> Walk<'m> {
    /// The next record; nothing where the bytes end before it does.
    fn next(&mut self) -> Option<Record<'m>> {
        let fixed = name::skip(self.message, self.at)?;
        let head = self.message.get(fixed..)?.first_chunk::<10>()?;
        let [t0, t1, c0, c1, ttl @ .., l0, l1] = *head;
        let (rtype, ttl) = (u16::from_be_bytes([t0, t1]), u32::from_be_bytes(ttl));
        let data_at = fixed + 10;
        let data = self.message.get(data_at..data_at + usize::from(u16::from_be_bytes([l0, l1])))?;
        let record = Record {
            owner: self.at,
            rtype,
            class: u16::from_be_bytes([c0, c1]),
            // RFC 2181, section 8: a value with the top bit set counts as 0. OPT keeps its flags there.
            ttl: if rtype != TYPE_OPT && ttl > i32::MAX.unsigned_abs() { 0 } else { ttl },
            data,
            data_at,
        };
        self.at = data_at + data.len();
        Some(record)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests;
