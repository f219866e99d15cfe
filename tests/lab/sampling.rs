//! One lookup against a server that errs in every way that the sampler tells apart.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::Name;
use policies::{DnsSample, Host, Malformed, Outcome, RecordType, Source, Vantage};
use probes::names::sample::{Sampler, Sending};

use crate::responder::{Responder, address_of, answer};

const NAME: &str = "api.partner.example";

fn source(server: SocketAddr) -> Source {
    Source { server, vantage: Vantage::Cache, ecs: None, name: None }
}

fn sampler(timeout_ms: u64) -> Sampler {
    Sampler::new(Sending { timeout: Duration::from_millis(timeout_ms), rate: None, ..Sending::default() })
}

async fn sample(sampler: &Sampler, server: SocketAddr) -> DnsSample {
    sampler.sample(&Host::parse(NAME).unwrap(), RecordType::A, 3, &source(server)).await
}

fn bytes(message: &Message) -> Vec<u8> {
    message.to_vec().unwrap()
}

fn wrong_id(query: &Message) -> Vec<u8> {
    let mut message = answer(query);
    message.metadata.id = message.metadata.id.wrapping_add(1);
    bytes(&message)
}

fn wrong_question(query: &Message) -> Vec<u8> {
    let mut message = answer(query);
    message.queries[0].set_name(Name::from_ascii("other.example.").unwrap());
    bytes(&message)
}

fn garbage(query: &Message) -> Vec<u8> {
    let mut cut = bytes(&answer(query));
    cut.truncate(cut.len() - 3);
    cut
}

fn noise(_: &Message) -> Vec<u8> {
    b"SSH-2.0-OpenSSH_9.2".to_vec()
}

fn empty(_: &Message) -> Vec<u8> {
    Vec::new()
}

#[tokio::test]
async fn what_is_no_answer_is_named_unless_the_answer_still_comes() {
    type Wrong = fn(&Message) -> Vec<u8>;
    let cases: [(Wrong, Malformed); 5] = [
        (wrong_id, Malformed::WrongId),
        (wrong_question, Malformed::WrongQuestion),
        (garbage, Malformed::Garbage),
        (noise, Malformed::Garbage),
        (empty, Malformed::Garbage),
    ];
    for (wrong, name) in cases {
        let only = Responder::start(move |query| vec![wrong(query)]).await;
        assert_eq!(sample(&sampler(60), only.addr).await.outcome, Outcome::Malformed(name));
        let then = Responder::start(move |query| vec![wrong(query), bytes(&answer(query))]).await;
        let sample = sample(&sampler(5000), then.addr).await;
        assert!(matches!(sample.outcome, Outcome::Answered { .. }), "{name:?}, then the answer: {sample:?}");
    }
}

#[tokio::test]
async fn silence_and_a_closed_port_differ() {
    let silent = Responder::start(|_| Vec::new()).await;
    let lost = sample(&sampler(60), silent.addr).await;
    assert_eq!((lost.outcome, lost.response, lost.source), (Outcome::Timeout, None, 3));
    assert!(lost.rtt >= Duration::from_millis(60), "the time waited is the time taken: {:?}", lost.rtt);

    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Longer than the test may take: only the ICMP message ends it.
    assert_eq!(sample(&sampler(600_000), closed).await.outcome, Outcome::Unreachable);
    let nowhere = SocketAddr::new(IpAddr::from(Ipv6Addr::UNSPECIFIED), 0);
    assert_eq!(sample(&sampler(600_000), nowhere).await.outcome, Outcome::Unreachable);
}

#[tokio::test]
async fn response_codes_keep_their_names() {
    for (code, outcome) in [
        (ResponseCode::NoError, Outcome::NoData),
        (ResponseCode::NXDomain, Outcome::NxDomain),
        (ResponseCode::ServFail, Outcome::ServFail),
        (ResponseCode::Refused, Outcome::Refused),
        (ResponseCode::NotAuth, Outcome::OtherRcode(9)),
    ] {
        let server = Responder::start(move |query| {
            let mut message = answer(query);
            message.metadata.response_code = code;
            message.answers.clear();
            vec![bytes(&message)]
        });
        assert_eq!(sample(&sampler(5000), server.await.addr).await.outcome, outcome);
    }
}

#[tokio::test]
async fn a_server_without_edns_is_asked_in_its_own_way() {
    let old = Responder::start(|query| {
        let mut message = answer(query);
        if query.edns.is_some() {
            // As such servers do: nothing but the header.
            message = Message::new(query.metadata.id, MessageType::Response, OpCode::Query);
            message.metadata.response_code = ResponseCode::FormErr;
        }
        vec![bytes(&message)]
    });
    let old = old.await;
    let sample = sample(&sampler(5000), old.addr).await;
    assert!(matches!(sample.outcome, Outcome::Answered { .. }), "{sample:?}");
    assert_eq!((sample.response.unwrap().edns, old.asked()), (None, 2));
}

#[tokio::test]
async fn a_truncated_answer_without_tcp_says_so() {
    let server = Responder::start(|query| {
        let mut message = answer(query);
        message.metadata.truncation = true;
        vec![bytes(&message)]
    });
    let sample = sample(&sampler(5000), server.await.addr).await;
    assert_eq!(sample.outcome, Outcome::Truncated);
    assert!(sample.response.unwrap().truncated);
}

#[tokio::test]
async fn recursion_is_asked_of_caches_only() {
    let server = Responder::start(|query| vec![bytes(&answer(query))]).await;
    let sampler = sampler(5000);
    let host = Host::parse(NAME).unwrap();
    for vantage in [Vantage::Cache, Vantage::Authority] {
        let source = Source { vantage, ..source(server.addr) };
        sampler.sample(&host, RecordType::A, 0, &source).await;
    }
    let queries = server.queries.lock().unwrap();
    let desired: Vec<_> = queries.iter().map(|(query, _)| query.metadata.recursion_desired).collect();
    assert_eq!(desired, [true, false]);
}

/// A load balancer in front of many resolvers chooses by port, and some servers rotate by id.
#[tokio::test]
async fn ids_and_ports_vary() {
    let server = Responder::start(|query| vec![bytes(&answer(query))]).await;
    let sampler = sampler(5000);
    for _ in 0..40 {
        sample(&sampler, server.addr).await;
    }
    let queries = server.queries.lock().unwrap();
    let distinct = |values: Vec<u16>| values.iter().collect::<std::collections::HashSet<_>>().len();
    let ids = distinct(queries.iter().map(|(query, _)| query.metadata.id).collect());
    let ports = distinct(queries.iter().map(|(_, from)| from.port()).collect());
    assert!(ids > 30 && ports > 30, "{ids} ids and {ports} ports in 40 queries");
}

#[tokio::test]
async fn ten_thousand_lookups_at_once_get_their_own_answers() {
    let server = Responder::start(|query| vec![wrong_question(query), bytes(&answer(query))]).await;
    let sampler = sampler(600_000);
    let mut lookups = tokio::task::JoinSet::new();
    for index in 0..10_000 {
        let (sampler, source) = (sampler.clone(), source(server.addr));
        lookups.spawn(async move {
            let name = format!("n{index}.partner.example");
            let sample = sampler.sample(&Host::parse(&name).unwrap(), RecordType::A, 0, &source).await;
            let Outcome::Answered { answers, .. } = sample.outcome else { panic!("{name}: {sample:?}") };
            assert_eq!(answers[0].addr, address_of(&name), "{name}");
        });
    }
    lookups.join_all().await;
    assert_eq!(server.asked(), 10_000, "no query is lost and sent again");
}

#[tokio::test]
async fn ipv6_works_the_same() {
    let server = Responder::start_on(Ipv6Addr::LOCALHOST.into(), |query| vec![bytes(&answer(query))]).await;
    assert!(matches!(sample(&sampler(5000), server.addr).await.outcome, Outcome::Answered { .. }));
}
