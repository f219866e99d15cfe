//! A DNS server in process whose answers a test writes itself, down to the bytes: for what no real server sends.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hickory_proto::op::{Message, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{Name, RData, Record, RecordType};

/// Answers every datagram with what a function makes of it, until it is dropped.
pub(crate) struct Responder {
    pub(crate) addr: SocketAddr,
    queries: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    /// Starts on a free port. `answer` gets a query and returns the bytes of the reply.
    pub(crate) fn start(answer: impl Fn(&Message) -> Vec<u8> + Send + 'static) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let addr = socket.local_addr().unwrap();
        let (queries, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, stopped) = (Arc::clone(&queries), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
                let Ok(query) = Message::from_vec(&buffer[..length]) else { continue };
                counter.fetch_add(1, Ordering::Relaxed);
                socket.send_to(&answer(&query), client).unwrap();
            }
        });
        Self { addr, queries, stop, thread: Some(thread) }
    }

    /// Queries so far.
    pub(crate) fn queries(&self) -> usize {
        self.queries.load(Ordering::Relaxed)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers A queries for names beneath `fixed.example` with one address, all others with NXDOMAIN.
pub(crate) fn zone(query: &Message) -> Vec<u8> {
    let mut reply = reply_to(query);
    let question = &query.queries[0];
    if !Name::from_ascii("fixed.example.").unwrap().zone_of(question.name()) {
        reply.metadata.response_code = ResponseCode::NXDomain;
    } else if question.query_type() == RecordType::A {
        reply.add_answer(address(question.name().clone()));
    }
    reply.to_vec().unwrap()
}

/// Answers A queries through a CNAME whose target holds escape sequences and a line break.
pub(crate) fn hostile_alias(query: &Message) -> Vec<u8> {
    let labels: [&[u8]; 4] = [b"\x1b[31mred\x07", b"two\nlines: {}", "\u{202e}evil".as_bytes(), b"example"];
    let target = Name::from_labels(labels).unwrap();
    let mut reply = reply_to(query);
    if query.queries[0].query_type() == RecordType::A {
        let alias = query.queries[0].name().clone();
        reply.add_answer(Record::from_rdata(alias, 30, RData::CNAME(CNAME(target.clone()))));
        reply.add_answer(address(target));
    }
    reply.to_vec().unwrap()
}

/// Bytes that are no DNS message.
pub(crate) fn garbage(_: &Message) -> Vec<u8> {
    b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()
}

/// A good answer to a query with another id.
pub(crate) fn wrong_id(query: &Message) -> Vec<u8> {
    let mut bytes = zone(query);
    bytes[0] ^= 0xff;
    bytes
}

/// A good answer to another question.
pub(crate) fn wrong_question(query: &Message) -> Vec<u8> {
    let mut other = query.clone();
    let mut question = query.queries[0].clone();
    question.set_name(Name::from_ascii("other.fixed.example.").unwrap());
    other.queries = vec![question];
    zone(&other)
}

fn reply_to(query: &Message) -> Message {
    let mut reply = Message::response(query.metadata.id, OpCode::Query);
    reply.metadata.recursion_desired = query.metadata.recursion_desired;
    reply.metadata.authoritative = true;
    reply.queries.clone_from(&query.queries);
    reply
}

fn address(name: Name) -> Record {
    Record::from_rdata(name, 30, RData::A(A(Ipv4Addr::new(192, 0, 2, 7))))
}
