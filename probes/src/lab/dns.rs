//! The lab's name server for one cell: a labdns zone on a loopback port, and a log of the answers that Envoy got.
//! Driven by the bench.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use labdns::{Command, CommandError, Query, Rcode, Reply, Scenario, Zone};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::recorder::ms;
use crate::evidence::Answered;

/// A name server with one scenario.
#[derive(Debug)]
pub(super) struct NameServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    host: &'static str,
    zone: Mutex<Zone>,
    log: Mutex<Vec<Answered>>,
}

impl NameServer {
    pub(super) async fn start(
        scenario: &Scenario,
        host: &'static str,
        seed: u64,
        start: Instant,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = socket.local_addr()?;
        let zone = Mutex::new(Zone::new(scenario, seed));
        let shared = Arc::new(Shared { start, host, zone, log: Mutex::default() });
        let task = tokio::spawn(serve(socket, Arc::clone(&shared)));
        Ok(Self { addr, shared, task })
    }

    pub(super) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn apply(&self, command: Command) -> Result<(), CommandError> {
        lock(&self.shared.zone).apply(command, self.shared.start.elapsed())
    }

    /// What a client would be told now.
    pub(super) fn answer(&self) -> Vec<IpAddr> {
        addrs(&self.shared.reply(self.shared.host, labdns::RecordType::A, Ipv4Addr::LOCALHOST.into()))
    }

    /// Every answer so far, in order.
    pub(super) fn log(&self) -> Vec<Answered> {
        lock(&self.shared.log).clone()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn reply(&self, name: &str, record_type: labdns::RecordType, client: IpAddr) -> Reply {
        let query = Query { name, record_type, client, ecs: None };
        lock(&self.zone).answer(&query, self.start.elapsed())
    }
}

async fn serve(socket: UdpSocket, shared: Arc<Shared>) {
    let mut buffer = [0; 1500];
    // An error here is an ICMP message about an answer nobody waited for.
    loop {
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
        let Ok(query) = Message::from_vec(&buffer[..length]) else { continue };
        let Some(question) = query.queries.first() else { continue };
        let record_type = match question.query_type() {
            RecordType::A => labdns::RecordType::A,
            RecordType::AAAA => labdns::RecordType::Aaaa,
            other => labdns::RecordType::Other(other.into()),
        };
        let name = question.name().to_ascii();
        let reply = shared.reply(name.trim_end_matches('.'), record_type, peer.ip());
        if record_type == labdns::RecordType::A {
            lock(&shared.log).push(Answered { at_ms: ms(shared.start.elapsed()), addrs: addrs(&reply) });
        }
        if reply.effects.drop {
            continue;
        }
        let message = message(&query, &reply);
        let _ = socket.send_to(&message.to_vec().unwrap_or_default(), peer).await;
    }
}

fn addrs(reply: &Reply) -> Vec<IpAddr> {
    if reply.effects.drop || reply.effects.truncate.is_some() {
        return Vec::new();
    }
    reply.addresses.iter().map(|answer| answer.addr).collect()
}

fn message(query: &Message, reply: &Reply) -> Message {
    let mut message = Message::response(query.metadata.id, query.metadata.op_code);
    message.metadata.authoritative = true;
    message.metadata.response_code = match reply.rcode {
        Rcode::NoError => ResponseCode::NoError,
        Rcode::FormErr => ResponseCode::FormErr,
        Rcode::ServFail => ResponseCode::ServFail,
        Rcode::NxDomain => ResponseCode::NXDomain,
        Rcode::NotImp => ResponseCode::NotImp,
        Rcode::Refused => ResponseCode::Refused,
    };
    message.metadata.truncation = reply.effects.truncate.is_some();
    let Some(question) = query.queries.first() else { return message };
    message.add_query(question.clone());
    if message.metadata.truncation {
        return message;
    }
    let mut owner = question.name().clone();
    for alias in &reply.chain {
        let Ok(target) = Name::from_ascii(alias.target.spelled()) else { continue };
        message.add_answer(Record::from_rdata(owner, alias.ttl, RData::CNAME(CNAME(target.clone()))));
        owner = target;
    }
    for answer in &reply.addresses {
        let data = match answer.addr {
            IpAddr::V4(addr) => RData::A(addr.into()),
            IpAddr::V6(addr) => RData::AAAA(addr.into()),
        };
        message.add_answer(Record::from_rdata(owner.clone(), answer.ttl, data));
    }
    message
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
