//! The short way for the common case over UDP: a query with one question and at most a bare OPT record, answered by
//! addresses that fit. Bytes come in, bytes go out, without hickory-proto's messages in between, which take half of
//! the CPU of such an answer. Whatever is not plain is declined here and goes the long way through `service`.

use std::net::IpAddr;

use crate::answer::{Effects, Rcode, RecordType, Reply};

/// Bytes of a DNS header.
const HEADER: usize = 12;
/// The name of the question, as a compression pointer (RFC 1035, section 4.1.4).
const TO_QUESTION: u16 = 0xc00c;

/// A plain query.
#[derive(Debug)]
pub(crate) struct Plain<'a> {
    id: [u8; 2],
    recursion_desired: bool,
    /// Name, type and class as they came, the case of the name included.
    question: &'a [u8],
    pub(crate) record_type: RecordType,
    /// The client's payload size, where it sent an OPT record.
    edns: Option<u16>,
}

impl<'a> Plain<'a> {
    /// Reads a query and puts its name, in lower case, into `name`. `None`: not plain.
    pub(crate) fn read(query: &'a [u8], name: &mut String) -> Option<Self> {
        let (header, rest) = query.split_first_chunk::<HEADER>()?;
        let [id0, id1, flags, more_flags, 0, 1, 0, 0, 0, 0, 0, additional @ 0..=1] = *header else {
            return None;
        };
        // Nothing but RD, and AD, which asks for nothing that the lab has.
        if flags & !0x01 != 0 || more_flags & !0x20 != 0 {
            return None;
        }
        let length = read_name(rest, name)?;
        let (question, rest) = rest.split_at_checked(length + 4)?;
        let &[type0, type1, 0, 1] = &question[length..] else { return None };
        let edns = match (additional, rest) {
            (0, []) => None,
            // Root, type 41, the size, extended RCODE and version 0, the DO bit at most, no options.
            (1, &[0, 0, 41, size0, size1, 0, 0, _, 0, 0, 0]) => Some(u16::from_be_bytes([size0, size1])),
            _ => return None,
        };
        let record_type = u16::from_be_bytes([type0, type1]).into();
        Some(Self { id: [id0, id1], recursion_desired: flags != 0, question, record_type, edns })
    }

    /// Writes the answer. `false`: it is not plain, and `out` holds nothing of use.
    pub(crate) fn write(&self, reply: &Reply, authoritative: bool, max_udp: u16, out: &mut Vec<u8>) -> bool {
        let plain = reply.rcode == Rcode::NoError
            && !reply.addresses.is_empty()
            && reply.effects == Effects::default();
        let records = u16::try_from(reply.chain.len() + reply.addresses.len());
        let (true, Ok(records)) = (plain, records) else { return false };
        out.clear();
        out.extend_from_slice(&self.id);
        // QR and AA, RD as it was asked; RA where this is a resolver.
        out.push(0x80 | (u8::from(authoritative) << 2) | u8::from(self.recursion_desired));
        out.push(u8::from(!authoritative) << 7);
        for count in [1, records, 0, u16::from(self.edns.is_some())] {
            out.extend_from_slice(&count.to_be_bytes());
        }
        out.extend_from_slice(self.question);
        let mut owner = TO_QUESTION;
        for link in &reply.chain {
            let target = link.target.spelled();
            // A length byte for each label and the root's: two more than the text with its dots has.
            let Ok(length) = u16::try_from(target.len() + 2) else { return false };
            put_head(out, owner, RecordType::Cname, link.ttl, length);
            // The question and a chain of eight names are far below the 16 KiB that a pointer reaches.
            owner = 0xc000 | u16::try_from(out.len()).unwrap_or(0);
            for label in target.split('.') {
                out.push(u8::try_from(label.len()).unwrap_or(63));
                out.extend_from_slice(label.as_bytes());
            }
            out.push(0);
        }
        for answer in &reply.addresses {
            match answer.addr {
                IpAddr::V4(v4) => {
                    put_head(out, owner, RecordType::A, answer.ttl, 4);
                    out.extend_from_slice(&v4.octets());
                }
                IpAddr::V6(v6) => {
                    put_head(out, owner, RecordType::Aaaa, answer.ttl, 16);
                    out.extend_from_slice(&v6.octets());
                }
            }
        }
        if self.edns.is_some() {
            let [size0, size1] = max_udp.to_be_bytes();
            out.extend_from_slice(&[0, 0, 41, size0, size1, 0, 0, 0, 0, 0, 0]);
        }
        let limit = self.edns.map_or(512, |size| size.max(512)).min(max_udp);
        out.len() <= usize::from(limit)
    }
}

/// Everything of a record before its data.
fn put_head(out: &mut Vec<u8>, owner: u16, record_type: RecordType, ttl: u32, length: u16) {
    out.extend_from_slice(&owner.to_be_bytes());
    out.extend_from_slice(&u16::from(record_type).to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
}

/// Reads an uncompressed name of the characters that the lab's names have, and returns its length in bytes.
fn read_name(bytes: &[u8], name: &mut String) -> Option<usize> {
    name.clear();
    let mut place = 0;
    loop {
        let length = usize::from(*bytes.get(place)?);
        place += 1;
        if length == 0 {
            return (place <= 255).then_some(place);
        }
        // Above 63 it is a compression pointer.
        let label = bytes.get(place..place + length).filter(|_| length <= 63)?;
        if !label.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|b| char::from(b.to_ascii_lowercase())));
        place += length;
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
    use hickory_proto::rr::{Name, RecordType as WireType};
    use proptest::prelude::*;

    use super::*;

    fn query(name: &str, edns: Option<u16>) -> Message {
        let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(Name::from_ascii(name).unwrap(), WireType::A));
        if let Some(size) = edns {
            let mut edns = Edns::new();
            edns.set_max_payload(size);
            message.set_edns(edns);
        }
        message
    }

    #[test]
    fn what_is_not_plain_is_declined() {
        let mut name = String::new();
        let mut plain = |message: &Message| {
            let bytes = message.to_vec().unwrap();
            Plain::read(&bytes, &mut name).map(|plain| (plain.record_type, plain.edns, name.clone()))
        };
        let lower = "api.partner.example".to_owned();
        assert_eq!(plain(&query("API.Partner.example.", None)), Some((RecordType::A, None, lower.clone())));
        assert_eq!(
            plain(&query("api.partner.example.", Some(1232))),
            Some((RecordType::A, Some(1232), lower))
        );
        let mut status = query("a.example.", None);
        status.metadata.op_code = OpCode::Status;
        assert_eq!(plain(&status), None);
        let mut two = query("a.example.", None);
        two.add_query(two.queries[0].clone());
        assert_eq!(plain(&two), None);
        let mut response = query("a.example.", None);
        response.metadata.message_type = MessageType::Response;
        assert_eq!(plain(&response), None);
        let mut version = query("a.example.", Some(512));
        version.edns.as_mut().unwrap().set_version(1);
        assert_eq!(plain(&version), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_hickory_agrees_on_what_it_reads(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
            header: bool,
        ) {
            if header && bytes.len() > 12 {
                bytes[2..12].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
            }
            let mut name = String::new();
            if let Some(plain) = Plain::read(&bytes, &mut name) {
                let message = Message::from_vec(&bytes).unwrap();
                prop_assert_eq!(message.queries.len(), 1);
                prop_assert_eq!(u16::from(message.queries[0].query_type), u16::from(plain.record_type));
            }
        }
    }
}
