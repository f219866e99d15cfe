//! A UDP socket that answers as a test tells it to: for the answers that no real server gives. A closure from query to
//! datagrams comes in; an address to ask goes out.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, MessageType};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};
use tokio::net::UdpSocket;

/// A socket under a closure's command, until it is dropped.
pub(crate) struct Responder {
    pub(crate) addr: SocketAddr,
    /// Every query that came, and from where.
    pub(crate) queries: Arc<Mutex<Vec<(Message, SocketAddr)>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Responder {
    /// Answers each query with the datagrams that `respond` returns for it.
    pub(crate) async fn start(respond: impl Fn(&Message) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), respond).await
    }

    pub(crate) async fn start_on(
        ip: IpAddr,
        respond: impl Fn(&Message) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind((ip, 0)).await.unwrap();
        let addr = socket.local_addr().unwrap();
        let queries = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&queries);
        let task = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let query = Message::from_vec(&buffer[..length]).unwrap();
                for datagram in respond(&query) {
                    socket.send_to(&datagram, from).await.unwrap();
                }
                log.lock().unwrap().push((query, from));
            }
        });
        Self { addr, queries, task }
    }

    pub(crate) fn asked(&self) -> usize {
        self.queries.lock().unwrap().len()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The right answer: one address that depends on the name, so that a mix-up shows.
pub(crate) fn answer(query: &Message) -> Message {
    let mut message = query.clone();
    message.metadata.message_type = MessageType::Response;
    message.edns = None;
    let question = &query.queries[0];
    if question.query_type() == hickory_proto::rr::RecordType::A {
        let data = RData::A(A(address_of(&question.name().to_ascii())));
        message.add_answer(Record::from_rdata(question.name().clone(), 30, data));
    }
    message
}

/// The address that [`answer`] gives for a name.
pub(crate) fn address_of(name: &str) -> Ipv4Addr {
    let sum =
        name.trim_end_matches('.').bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
    Ipv4Addr::from(sum)
}
