//! The parser against `hickory-proto`, which writes the messages, and against arbitrary bytes.

use std::str::FromStr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsOption};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS};
use hickory_proto::rr::{Name, RData, Record, RecordType as Qtype};
use proptest::prelude::*;

use super::*;

fn host() -> Vec<u8> {
    name::of_host(&"api.partner.example".parse().unwrap())
}

fn message(records: Vec<(&str, u32, RData)>) -> Message {
    let mut message = Message::new(7, MessageType::Response, OpCode::Query);
    message.add_query(Query::query(Name::from_str("api.partner.example.").unwrap(), Qtype::A));
    for (owner, ttl, data) in records {
        message.add_answer(Record::from_rdata(Name::from_str(owner).unwrap(), ttl, data));
    }
    message
}

fn cname(target: &str) -> RData {
    RData::CNAME(CNAME(Name::from_str(target).unwrap()))
}

fn a(last: u8) -> RData {
    RData::A(A::new(192, 0, 2, last))
}

fn parsed(message: &Message) -> Reply {
    read(&message.to_vec().unwrap(), RecordType::A).unwrap()
}

fn request(id: u8) -> Vec<u8> {
    let mut request = query(&host(), TYPE_A, true, super::Edns::Plain);
    request[1] = id;
    request
}

#[test]
fn a_query_reads_back_as_what_was_meant() {
    let subnet = "198.51.100.128/25".parse().unwrap();
    let bytes = query(&host(), TYPE_AAAA, false, super::Edns::Subnet(subnet));
    let query = Message::from_vec(&bytes).unwrap();
    assert!(!query.metadata.recursion_desired);
    assert_eq!(query.queries[0].name().to_ascii(), "api.partner.example.");
    assert_eq!(query.queries[0].query_type(), Qtype::AAAA);
    let edns = query.edns.unwrap();
    assert_eq!(edns.max_payload(), 1232);
    let option = EdnsOption::Subnet(ClientSubnet::new("198.51.100.128".parse().unwrap(), 25, 0));
    assert!(edns.options().as_ref().iter().any(|(_, seen)| *seen == option), "{edns:?}");

    let odd = "2001:db8:abcd:1234::/61".parse().unwrap();
    let bytes = super::query(&host(), TYPE_A, true, super::Edns::Subnet(odd));
    assert!(Message::from_vec(&bytes).is_ok());
    assert_eq!(*bytes.last_chunk::<8>().unwrap(), [0x20, 0x01, 0x0d, 0xb8, 0xab, 0xcd, 0x12, 0x30]);
    let plain = super::query(&host(), TYPE_A, true, super::Edns::Absent);
    assert!(Message::from_vec(&plain).unwrap().edns.is_none());
}

#[test]
fn answers_keep_their_order_ttl_and_duplicates() {
    let mut message = message(vec![
        ("api.partner.example.", 30, a(9)),
        ("API.partner.example.", 0, a(1)),
        ("other.example.", 30, a(2)),
        ("api.partner.example.", 30, a(9)),
        ("api.partner.example.", 30, RData::AAAA(AAAA::new(1, 2, 3, 4, 5, 6, 7, 8))),
        ("api.partner.example.", u32::MAX, a(3)),
    ]);
    message.metadata.authoritative = true;
    let reply = parsed(&message);
    let seen: Vec<_> = reply.answers.iter().map(|answer| (answer.addr.to_string(), answer.ttl)).collect();
    let text = |last, ttl| (format!("192.0.2.{last}"), ttl);
    assert_eq!(seen, [text(9, 30), text(1, 0), text(9, 30), text(3, 0)]);
    assert!(reply.authoritative && reply.chain.is_empty() && reply.edns.is_none());
    assert_eq!(read(&message.to_vec().unwrap(), RecordType::Aaaa).unwrap().answers.len(), 1);
}

#[test]
fn an_alias_is_followed_in_any_order() {
    let links = [
        ("api.partner.example.", 60, cname("A.cdn.example.")),
        ("a.cdn.example.", 20, cname("b.cdn.example.")),
        ("b.cdn.example.", 5, a(1)),
        ("b.cdn.example.", 5, a(2)),
    ];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let reply = parsed(&message(order.map(|link| links[link].clone()).to_vec()));
        let chain: Vec<_> = reply.chain.iter().map(|link| (link.target.as_str(), link.ttl)).collect();
        assert_eq!(chain, [("a.cdn.example", 60), ("b.cdn.example", 20)]);
        assert_eq!(reply.answers.len(), 2);
        assert_eq!(name::display(&reply.end), "b.cdn.example");
    }
}

#[test]
fn an_alias_without_end_ends() {
    let looped = message(vec![
        ("api.partner.example.", 60, cname("a.cdn.example.")),
        ("a.cdn.example.", 20, cname("api.partner.example.")),
    ]);
    let reply = parsed(&looped);
    assert!(reply.answers.is_empty() && reply.chain.len() <= 4, "{reply:?}");
}

#[test]
fn targets_come_escaped() {
    let labels = [b"a.b\\\x1b[31m\"" as &[u8], b"\xff \n", b"example"];
    let target = RData::CNAME(CNAME(Name::from_labels(labels).unwrap()));
    let reply = parsed(&message(vec![("api.partner.example.", 60, target)]));
    assert_eq!(reply.chain[0].target, r#"a\.b\\\027[31m\".\255\032\010.example"#);
    let root = parsed(&message(vec![("api.partner.example.", 60, cname("."))]));
    assert_eq!(root.chain[0].target, ".");
}

#[test]
fn edns_and_subnet_scope_are_read() {
    let mut message = message(vec![("api.partner.example.", 30, a(1))]);
    message.metadata.response_code = ResponseCode::BADVERS;
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    edns.set_rcode_high(1);
    edns.options_mut().insert(EdnsOption::Unknown(10, vec![1, 2, 3]));
    edns.options_mut().insert(EdnsOption::Subnet(ClientSubnet::new("192.0.2.0".parse().unwrap(), 24, 20)));
    message.set_edns(edns);
    let reply = parsed(&message);
    assert_eq!((reply.edns, reply.ecs_scope, reply.rcode), (Some(4096), Some(20), 16));
}

#[test]
fn a_referral_is_told_from_a_denial() {
    let mut message = message(Vec::new());
    let ns = RData::NS(NS(Name::from_str("ns.partner.example.").unwrap()));
    message.add_authority(Record::from_rdata(Name::from_str("Partner.example.").unwrap(), 60, ns));
    assert_eq!(name::display(&parsed(&message).referral.unwrap()), "partner.example");
    message.metadata.authoritative = true;
    assert_eq!(parsed(&message).referral, None);
}

#[test]
fn only_the_answer_to_the_query_is_accepted() {
    let response = message(vec![("api.partner.example.", 30, a(1))]).to_vec().unwrap();
    assert_eq!(check(&request(7), &response), Ok(()));
    assert_eq!(check(&request(8), &response), Err(Malformed::WrongId));
    let mut other = response.clone();
    other[13] ^= 1;
    assert_eq!(check(&request(7), &other), Err(Malformed::WrongQuestion));
    let mut shouted = response.clone();
    shouted[13..30].make_ascii_uppercase();
    assert_eq!(check(&request(7), &shouted), Ok(()));
    assert_eq!(check(&request(7), &request(7)), Err(Malformed::Garbage), "a query is no response");
    for length in 0..response.len() {
        assert_eq!(check(&request(7), &response[..length]), Err(Malformed::Garbage), "{length}");
    }
    let refused = [0, 7, 0x80, 5, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(check(&request(7), &refused), Ok(()), "no question repeated");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = check(&request(7), &bytes);
        let _ = check(&bytes, &bytes);
        let _ = read(&bytes, RecordType::A);
        let _ = name::display(&bytes);
        let _ = name::up_to_root(&bytes).count();
    }

    /// Names that are compared in place are those that are equal once both are expanded. Few different bytes, so that
    /// labels and pointers meet.
    #[test]
    fn a_name_in_place_is_the_expanded_one(
        bytes in proptest::collection::vec(proptest::sample::select(&[0, 1, 2, 3, 4, b'a', b'A', 0xc0][..]), 1..24),
        at in 0_usize..24,
        other in 0_usize..24,
    ) {
        let (mut expanded, mut sought) = (name::NameBuf::default(), name::NameBuf::default());
        if sought.read(&bytes, other).is_none() {
            sought = name::NameBuf::default();
        }
        let equal = expanded.read(&bytes, at).map(|_| expanded.as_bytes() == sought.as_bytes());
        prop_assert_eq!(sought.is_at(&bytes, at), equal);
    }

    /// Bytes that look like a message reach further than arbitrary ones.
    #[test]
    fn damaged_messages_never_panic(
        records in 0_u8..20,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = message((0..records).map(|i| ("api.partner.example.", 30, a(i))).collect()).to_vec().unwrap();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if check(&request(7), &bytes).is_ok() {
            let _ = read(&bytes, RecordType::A);
            let _ = read(&bytes, RecordType::Aaaa);
        }
    }

    /// Whatever hickory writes is read as hickory reads it.
    #[test]
    fn agrees_with_hickory(
        links in 0_usize..4,
        addresses in proptest::collection::vec((any::<[u8; 4]>(), 0_u32..100_000), 0..60),
        label in "[a-z0-9_*-]{1,63}",
    ) {
        let mut owner = Name::from_str("api.partner.example.").unwrap();
        let mut written = message(Vec::new());
        let mut targets = Vec::new();
        for link in 0..links {
            let text = format!("{label}.{link}.cdn.example.");
            let target = Name::from_labels(text.trim_end_matches('.').split('.').map(str::as_bytes)).unwrap();
            written.add_answer(Record::from_rdata(owner, 60, RData::CNAME(CNAME(target.clone()))));
            targets.push(text.trim_end_matches('.').to_owned());
            owner = target;
        }
        for (octets, ttl) in &addresses {
            written.add_answer(Record::from_rdata(owner.clone(), *ttl, RData::A(A(Ipv4Addr::from(*octets)))));
        }
        let bytes = written.to_vec().unwrap();
        prop_assert_eq!(check(&request(7), &bytes), Ok(()));
        let reply = read(&bytes, RecordType::A).unwrap();
        let seen: Vec<_> = reply.answers.iter().map(|answer| (answer.addr, answer.ttl)).collect();
        let expected: Vec<_> = addresses.iter().map(|(o, ttl)| (IpAddr::from(*o), *ttl)).collect();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(reply.chain.into_iter().map(|link| link.target).collect::<Vec<_>>(), targets);
    }
}
