//! The parser against `hickory-proto`, which writes the messages, and against arbitrary bytes.

use std::net::Ipv4Addr;
use std::str::FromStr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsOption};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType as Qtype};
use proptest::prelude::*;

use super::*;

fn host() -> WireName {
    WireName::of_host(&"api.partner.example".parse().unwrap())
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
    read(&request(7), &message.to_vec().unwrap()).unwrap()
}

fn check(request: &[u8], response: &[u8]) -> Result<(), Malformed> {
    read(request, response).map(drop)
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
    message.queries[0].set_query_type(Qtype::AAAA);
    let mut request = query(&host(), TYPE_AAAA, true, super::Edns::Plain);
    request[1] = 7;
    assert_eq!(read(&request, &message.to_vec().unwrap()).unwrap().answers.len(), 1);
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
        assert_eq!(reply.end.unwrap().to_string(), "b.cdn.example");
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
fn a_chain_of_many_links_is_endless_in_any_order() {
    let mut links: Vec<_> = (0..=MOST_LINKS)
        .map(|link| (format!("l{link}.example."), format!("l{}.example.", link + 1)))
        .collect();
    links[0].0 = "api.partner.example.".into();
    for _ in 0..2 {
        let records = links.iter().map(|(owner, target)| (owner.as_str(), 60, cname(target))).collect();
        let mut message = message(records);
        let last = Name::from_str(&format!("l{}.example.", MOST_LINKS + 1)).unwrap();
        message.add_answer(Record::from_rdata(last, 60, a(1)));
        let reply = parsed(&message);
        assert!(reply.endless && reply.answers.is_empty() && reply.chain.len() == MOST_LINKS, "{reply:?}");
        message.answers.retain(|record| record.name.to_ascii() != "l9.example.");
        assert!(!parsed(&message).endless);
        links.reverse();
    }
}

/// 8,000 pointers in a row, to which thousands of aliases lead: each name would cost a walk over all of them.
#[test]
fn pointers_are_not_followed_without_end() {
    let mut bytes = message(Vec::new()).to_vec().unwrap();
    let text = bytes.len();
    bytes[6..8].copy_from_slice(&2_001_u16.to_be_bytes());
    bytes.extend([0, 0, 16, 0, 1, 0, 0, 0, 60]);
    bytes.extend(16_000_u16.to_be_bytes());
    for pointer in 0..8_000 {
        let target = if pointer == 0 { 12 } else { text + 11 + 2 * (pointer - 1) };
        bytes.extend((0xc000 | u16::try_from(target).unwrap()).to_be_bytes());
    }
    let last = u16::try_from(text + 11 + 2 * 7_999).unwrap() | 0xc000;
    for _ in 0..2_000 {
        bytes.extend(
            [&last.to_be_bytes()[..], &[0, 5, 0, 1, 0, 0, 0, 60, 0, 2], &last.to_be_bytes()].concat(),
        );
    }
    let reply = read(&request(7), &bytes).unwrap();
    assert!(reply.chain.is_empty() && reply.answers.is_empty(), "{reply:?}");
}

#[test]
fn another_class_is_no_answer_and_a_wrong_length_no_message() {
    let good = message(vec![("api.partner.example.", 30, a(1))]).to_vec().unwrap();
    let (class, length) = (good.len() - 11, good.len() - 6);
    let mut chaos = good.clone();
    chaos[class] = 3;
    assert!(read(&request(7), &chaos).unwrap().answers.is_empty());
    for size in [0, 3, 5, 16] {
        let mut wrong = good.clone();
        wrong[length + 1] = size;
        wrong.resize(length + 2 + usize::from(size), 1);
        assert_eq!(read(&request(7), &wrong), Err(Malformed::Garbage), "{size}");
    }
    assert_eq!(read(&request(7), &good).unwrap().answers.len(), 1);
}

#[test]
fn a_zone_is_read_from_its_soa_and_ns_records() {
    let ns = |name: &str| RData::NS(NS(Name::from_str(name).unwrap()));
    let mut message = message(vec![
        ("partner.example.", 60, ns("A.ns.example.")),
        ("partner.example.", 60, ns("a.ns.example.")),
        ("partner.example.", 60, ns("b.ns.example.")),
    ]);
    message.queries[0].set_query_type(Qtype::NS);
    let soa = SOA::new(Name::root(), Name::root(), 1, 2, 3, 4, 5);
    message.add_authority(Record::from_rdata(Name::from_str("example.").unwrap(), 60, RData::SOA(soa)));
    let mut request = query(&host(), TYPE_NS, true, super::Edns::Plain);
    request[1] = 7;
    let zone = *read(&request, &message.to_vec().unwrap()).unwrap().zone.unwrap();
    let servers: Vec<_> = zone.servers.iter().map(WireName::to_string).collect();
    assert_eq!(servers, ["a.ns.example", "b.ns.example"]);
    assert_eq!(zone.apex.unwrap().to_string(), "example");
    assert!(zone.referred.is_empty());
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
    assert_eq!(parsed(&message).referral.unwrap().to_string(), "partner.example");
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
        for at in 0..bytes.len() {
            if let Some(name) = WireName::at(&bytes, at) {
                prop_assert!(name.as_bytes().len() <= 255 && name.up_to_root().count() < 128);
                prop_assert!(name.is_within(&name) != name.is_root());
            }
        }
    }

    /// Names that are compared in place, or by their keys, are those that are equal once both are expanded. Few
    /// different bytes, so that labels and pointers meet.
    #[test]
    fn a_name_in_place_is_the_expanded_one(
        bytes in proptest::collection::vec(proptest::sample::select(&[0, 1, 2, 3, 4, b'a', b'A', 0xc0][..]), 1..24),
        at in 0_usize..24,
        other in 0_usize..24,
    ) {
        let expanded = [at, other].map(|at| WireName::at(&bytes, at));
        let equal = expanded[0].is_some() && expanded[0] == expanded[1];
        prop_assert_eq!(name::same(&bytes, at, other), equal);
        let keys = [at, other].map(|at| name::key(&bytes, at));
        prop_assert_eq!(keys[0].is_some() && keys[0] == keys[1], equal);
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
        let _ = check(&request(7), &bytes);
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
        let reply = read(&request(7), &bytes).unwrap();
        let seen: Vec<_> = reply.answers.iter().map(|answer| (answer.addr, answer.ttl)).collect();
        let expected: Vec<_> = addresses.iter().map(|(o, ttl)| (IpAddr::from(*o), *ttl)).collect();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(reply.chain.into_iter().map(|link| link.target).collect::<Vec<_>>(), targets);
    }
}
