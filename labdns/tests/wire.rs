//! A lab on real sockets, asked by a real client: messages built and read by hickory-proto, sent by std sockets.
#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsCode, EdnsOption};
use hickory_proto::rr::{Name, RData, RecordType};
use labdns::log::{Filter, Role, Transport};
use labdns::{Command, LabDns, Options, Rcode, Scenario};

const ZONE: &str = r"
names:
  api.partner.example: {a: {pool: [192.0.2.1, 192.0.2.2], ttl: 5}, aaaa: {pool: ['2001:db8::1'], ttl: 7}}
  www.example: {cname: {to: [Edge.CDN.example], ttl: 300}}
  edge.cdn.example: {a: {pool: [192.0.2.9], ttl: 20}}
  big.example: {a: {pool: {from: 10.0.0.1, count: 60}}}
  huge.example: {a: {pool: {from: 10.0.0.1, count: 150}}}
  geo.example: {a: {groups: [{pool: [192.0.2.1], clients: [10.1.0.0/16]}, {pool: [192.0.2.2]}]}}
  draws.example: {a: {pool: {from: 10.0.0.1, count: 250}, answer: {random: {}}, ttl: 60}}
resolvers:
  - {}
";

async fn start(yaml: &str) -> LabDns {
    LabDns::start(&Scenario::from_yaml(yaml).unwrap(), &Options::default()).await.unwrap()
}

fn query(name: &str, record_type: RecordType) -> Message {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), record_type));
    message
}

fn with_edns(mut message: Message, size: u16, subnet: Option<ClientSubnet>) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(size);
    if let Some(subnet) = subnet {
        edns.options_mut().insert(EdnsOption::Subnet(subnet));
    }
    message.set_edns(edns);
    message
}

/// The bytes that come back over UDP, or none within the time.
fn exchange(server: SocketAddr, bytes: &[u8], wait: Duration) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(wait)).unwrap();
    socket.send(bytes).unwrap();
    let mut buffer = vec![0; 65_535];
    let length = socket.recv(&mut buffer).ok()?;
    buffer.truncate(length);
    Some(buffer)
}

const PATIENCE: Duration = Duration::from_secs(5);
/// For answers that must not come.
const BRIEFLY: Duration = Duration::from_millis(150);

fn udp(server: SocketAddr, message: &Message) -> Message {
    Message::from_vec(&exchange(server, &message.to_vec().unwrap(), PATIENCE).unwrap()).unwrap()
}

fn tcp(server: SocketAddr, message: &Message, wait: Duration) -> Option<Message> {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(wait)).unwrap();
    let bytes = message.to_vec().unwrap();
    stream.write_all(&u16::try_from(bytes.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer).unwrap();
    Some(Message::from_vec(&answer).unwrap())
}

fn ask(server: SocketAddr, name: &str) -> Message {
    udp(server, &query(name, RecordType::A))
}

fn addresses(message: &Message) -> Vec<IpAddr> {
    message.answers.iter().filter_map(|record| record.data.ip_addr()).collect()
}

fn command(yaml: &str) -> Command {
    serde_json::from_str(yaml).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_carry_what_the_scenario_says() {
    let lab = start(ZONE).await;
    let at = lab.authority_addr();
    let reply = ask(at, "API.partner.EXAMPLE.");
    let flags = &reply.metadata;
    assert!(flags.authoritative && flags.recursion_desired && !flags.recursion_available && flags.id == 4711);
    assert_eq!(addresses(&reply), ["192.0.2.1".parse::<IpAddr>().unwrap(), "192.0.2.2".parse().unwrap()]);
    assert_eq!(reply.answers[0].ttl, 5);
    assert_eq!(reply.queries[0].name.to_string(), "API.partner.EXAMPLE.", "the case of the question is kept");
    assert_eq!(udp(at, &query("api.partner.example.", RecordType::AAAA)).answers[0].ttl, 7);

    let www = ask(at, "www.example.");
    let RData::CNAME(target) = &www.answers[0].data else { panic!("{www}") };
    assert_eq!((target.0.to_string().as_str(), www.answers[0].ttl), ("Edge.CDN.example.", 300));
    assert_eq!((www.answers[1].name.to_string().as_str(), www.answers[1].ttl), ("Edge.CDN.example.", 20));

    for (name, rcode, soa) in [
        ("nope.example.", ResponseCode::NXDomain, true),
        ("partner.example.", ResponseCode::NoError, true),
        ("elsewhere.test.", ResponseCode::Refused, false),
    ] {
        let reply = ask(at, name);
        assert_eq!((reply.metadata.response_code, reply.authorities.len() == 1), (rcode, soa), "{name}");
        assert_eq!(reply.metadata.authoritative, soa);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_is_found_by_ns_through_the_resolver() {
    let lab = start(ZONE).await;
    let [resolver] = lab.resolver_addrs()[..] else { panic!() };
    let ns = udp(resolver, &query("example.", RecordType::NS));
    let RData::NS(server) = &ns.answers[0].data else { panic!("{ns}") };
    assert!(ns.metadata.recursion_available && !ns.metadata.authoritative);
    let found = ask(resolver, &server.0.to_string());
    assert_eq!(addresses(&found), [lab.authority_addr().ip()]);
    let soa = udp(lab.authority_addr(), &query("example.", RecordType::SOA));
    assert!(matches!(soa.answers[0].data, RData::SOA(_)));

    let cached: Vec<_> = (0..3).map(|_| addresses(&ask(resolver, "draws.example."))).collect();
    assert!(cached.iter().all(|answer| *answer == cached[0]), "one draw until it expires: {cached:?}");
    let fresh: Vec<_> = (0..8).map(|_| addresses(&ask(lab.authority_addr(), "draws.example."))).collect();
    assert!(fresh.iter().any(|answer| *answer != fresh[0]), "a draw per query");
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_follow_the_client_and_tcp_has_the_rest() {
    let lab = start(ZONE).await;
    let at = lab.authority_addr();
    let small = ask(at, "big.example.");
    assert!(small.metadata.truncation && small.answers.is_empty(), "977 bytes do not fit into 512");
    let fits = udp(at, &with_edns(query("big.example.", RecordType::A), 1232, None));
    assert!(!fits.metadata.truncation && fits.answers.len() == 60 && fits.edns.is_some());
    let huge = with_edns(query("huge.example.", RecordType::A), 1232, None);
    assert!(udp(at, &huge).metadata.truncation);
    let bytes = exchange(at, &with_edns(huge.clone(), 4096, None).to_vec().unwrap(), PATIENCE).unwrap();
    assert!((2400..=4096).contains(&bytes.len()), "{}", bytes.len());
    assert_eq!(tcp(at, &huge, PATIENCE).unwrap().answers.len(), 150);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_subnet_chooses_and_is_echoed_with_its_scope() {
    let lab = start(ZONE).await;
    let ask = |net: &str, length| {
        let subnet = ClientSubnet::new(net.parse().unwrap(), length, 0);
        let reply =
            udp(lab.authority_addr(), &with_edns(query("geo.example.", RecordType::A), 1232, Some(subnet)));
        let edns = reply.edns.clone().unwrap();
        let Some(EdnsOption::Subnet(echo)) = edns.option(EdnsCode::Subnet) else { panic!("{reply}") };
        (addresses(&reply)[0].to_string(), echo.addr().to_string(), echo.scope_prefix())
    };
    assert_eq!(ask("10.1.2.0", 24), ("192.0.2.1".into(), "10.1.2.0".into(), 16));
    assert_eq!(ask("10.2.2.0", 24), ("192.0.2.2".into(), "10.2.2.0".into(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_seen_on_the_wire_until_it_is_cleared() {
    let lab = start(ZONE).await;
    let at = lab.authority_addr();
    let name = "api.partner.example.";
    let bytes = query(name, RecordType::A).to_vec().unwrap();
    let inflict = |kind: &str| {
        lab.apply(command(r#"{"clear": {}}"#)).unwrap();
        lab.apply(command(&format!(r#"{{"fault": {{"name": "{name}", "fault": {{"kind": {kind}}}}}}}"#)))
            .unwrap();
    };
    for (kind, rcode) in [
        (r#""nxdomain""#, ResponseCode::NXDomain),
        (r#""nodata""#, ResponseCode::NoError),
        (r#""servfail""#, ResponseCode::ServFail),
        (r#""refused""#, ResponseCode::Refused),
    ] {
        inflict(kind);
        let reply = ask(at, name);
        assert_eq!((reply.metadata.response_code, reply.answers.len()), (rcode, 0), "{kind}");
        assert_eq!(tcp(at, &query(name, RecordType::A), PATIENCE).unwrap().metadata.response_code, rcode);
    }
    inflict(r#""drop""#);
    assert_eq!(exchange(at, &bytes, BRIEFLY), None);
    inflict(r#"{"delay": "200ms"}"#);
    let asked = Instant::now();
    assert_eq!(ask(at, name).answers.len(), 2);
    assert!(asked.elapsed() >= Duration::from_millis(200));
    inflict(r#"{"truncate": "open"}"#);
    assert!(ask(at, name).metadata.truncation);
    assert_eq!(tcp(at, &query(name, RecordType::A), PATIENCE).unwrap().answers.len(), 2);
    inflict(r#"{"truncate": "closed"}"#);
    assert!(ask(at, name).metadata.truncation);
    assert!(tcp(at, &query(name, RecordType::A), BRIEFLY).is_none());
    inflict(r#""garbage""#);
    assert!(Message::from_vec(&exchange(at, &bytes, PATIENCE).unwrap()).is_err());
    inflict(r#""wrong_id""#);
    assert_ne!(ask(at, name).metadata.id, 4711);
    inflict(r#""wrong_question""#);
    let wrong = ask(at, name);
    assert_eq!((wrong.metadata.id, wrong.queries[0].name.to_string()), (4711, format!("wrong.{name}")));
    lab.apply(command(r#"{"clear": {}}"#)).unwrap();
    assert_eq!(ask(at, name).answers.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_queries_get_the_rcode_that_the_rfcs_say() {
    let lab = start(ZONE).await;
    let at = lab.authority_addr();
    let mut status = query("api.partner.example.", RecordType::A);
    status.metadata.op_code = OpCode::Status;
    assert_eq!(udp(at, &status).metadata.response_code, ResponseCode::NotImp);
    let mut two = query("api.partner.example.", RecordType::A);
    two.add_query(two.queries[0].clone());
    assert_eq!(udp(at, &two).metadata.response_code, ResponseCode::FormErr);
    let mut future = with_edns(query("api.partner.example.", RecordType::A), 1232, None);
    future.edns.as_mut().unwrap().set_version(1);
    assert_eq!(u16::from(udp(at, &future).metadata.response_code), u16::from(ResponseCode::BADVERS));
    let cut_off = exchange(at, &[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 9], PATIENCE).unwrap();
    assert_eq!(Message::from_vec(&cut_off).unwrap().metadata.response_code, ResponseCode::FormErr);
    assert_eq!(exchange(at, &[0x12, 0x34], BRIEFLY), None);
    let mut response = query("api.partner.example.", RecordType::A);
    response.metadata.message_type = MessageType::Response;
    assert_eq!(exchange(at, &response.to_vec().unwrap(), BRIEFLY), None, "answers to answers would loop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flip_is_seen_by_the_next_query_and_the_log_tells() {
    let lab = start(ZONE).await;
    let at = lab.authority_addr();
    for i in 1..=20 {
        let flip = format!(r#"{{"flip": {{"name": "api.partner.example", "to": ["127.0.0.{i}"]}}}}"#);
        lab.apply(command(&flip)).unwrap();
        assert_eq!(addresses(&ask(at, "api.partner.example."))[0].to_string(), format!("127.0.0.{i}"));
    }
    tcp(at, &query("nope.example.", RecordType::A), PATIENCE).unwrap();
    ask(lab.resolver_addrs()[0], "www.example.");
    let log = lab.log(&Filter::default());
    let flips: Vec<_> = log.iter().filter(|entry| entry.name == "api.partner.example").collect();
    assert_eq!((flips.len(), flips[19].addresses[0].to_string()), (20, "127.0.0.20".into()));
    assert!(log.windows(2).all(|pair| pair[0].at <= pair[1].at && pair[0].seq + 1 == pair[1].seq));
    let by_tcp = log.iter().find(|entry| entry.transport == Transport::Tcp).unwrap();
    assert_eq!((by_tcp.name.as_str(), by_tcp.rcode), ("nope.example", Some(Rcode::NxDomain)));
    let cached = log.last().unwrap();
    assert_eq!((cached.server, cached.chain.len(), cached.ttl), (Role::Resolver(0), 1, Some(20)));
    let latest = lab.log(&Filter { since: Some(20), ..Filter::default() });
    assert_eq!(latest.len(), log.len() - 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_port_serves_several_addresses_and_is_free_again_afterwards() {
    let scenario = Scenario::from_yaml(ZONE).unwrap();
    let authority = ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"].map(|addr| addr.parse().unwrap()).to_vec();
    let options = Options { authority, ..Options::default() };
    let lab = LabDns::start(&scenario, &options).await.unwrap();
    let addrs = lab.authority_addrs().to_vec();
    assert!(addrs.iter().all(|addr| addr.port() == addrs[0].port()) && addrs.len() == 3);
    for addr in &addrs {
        assert_eq!(ask(*addr, "edge.cdn.example.").answers.len(), 1);
    }
    let taken = Options { authority: addrs.clone(), ..Options::default() };
    let error = LabDns::start(&scenario, &taken).await.err().unwrap();
    assert!(error.to_string().contains(&addrs[0].to_string()) && !error.hint().is_empty());
    lab.shutdown().await;
    LabDns::start(&scenario, &taken).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_can_be_closed_altogether() {
    let lab = start(&format!("tcp: false\n{ZONE}")).await;
    let refused = TcpStream::connect(lab.authority_addr()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(ask(lab.authority_addr(), "edge.cdn.example.").answers.len(), 1);
}

/// The wire and the simulation are one: every built-in scenario, asked over UDP, answers as its pure zone does.
#[tokio::test(flavor = "multi_thread")]
async fn every_behaviour_answers_on_the_wire_as_it_does_in_simulated_time() {
    for (_, yaml) in labdns::scenarios::builtin() {
        let scenario = Scenario::from_yaml(yaml).unwrap();
        let lab = LabDns::start(&scenario, &Options { control: None, ..Options::default() }).await.unwrap();
        let mut zone = labdns::Zone::new(&scenario, Options::default().seed);
        for name in scenario.names.keys() {
            for record_type in [labdns::RecordType::A, labdns::RecordType::Aaaa].repeat(6) {
                let client = "127.0.0.1".parse().unwrap();
                let query_as_data = labdns::Query { name: name.as_str(), record_type, client, ecs: None };
                let simulated = zone.answer(&query_as_data, lab.now());
                let question = query(&format!("{name}."), RecordType::from(u16::from(record_type)));
                let real = udp(lab.authority_addr(), &with_edns(question, 4096, None));
                let expected: Vec<_> =
                    simulated.addresses.iter().map(|answer| (answer.addr, answer.ttl)).collect();
                let got: Vec<_> =
                    real.answers.iter().filter_map(|r| Some((r.data.ip_addr()?, r.ttl))).collect();
                assert_eq!(got, expected, "{name} {record_type} of {:?}", scenario.description);
                assert_eq!(u16::from(real.metadata.response_code), simulated.rcode as u16);
                assert_eq!(real.answers.len() - got.len(), simulated.chain.len());
            }
        }
    }
}
