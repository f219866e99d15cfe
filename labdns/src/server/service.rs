//! One server of the lab, the zone itself or a caching resolver in front: the message of a query comes in, the
//! message of its answer goes out together with the effects that the transport has to carry out. Shared by UDP and
//! TCP; holds the locks.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hickory_proto::ProtoError;
use hickory_proto::op::{Message, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::DNSClass;
use jiff::Timestamp;

use super::wire::{self, Fixed};
use crate::answer::{Effects, Query, Rcode, RecordType, Reply};
use crate::command::TcpPort;
use crate::log::{Asked, Log, Role, Transport};
use crate::resolver::Farm;
use crate::zone::Zone;

/// What all servers of one lab share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) zone: Mutex<Zone>,
    pub(crate) log: Mutex<Log>,
    pub(crate) started: Instant,
    fixed: Fixed,
    max_udp: u16,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    role: Role,
    /// The caches, where this is a resolver.
    farm: Option<Mutex<Farm>>,
}

/// Memory that one worker uses again for every query.
#[derive(Debug, Default)]
pub(crate) struct Work {
    name: String,
    reply: Reply,
}

/// An answer to be sent.
pub(crate) struct Response {
    pub(crate) message: Message,
    pub(crate) effects: Effects,
    /// Greatest datagram that the client takes, bytes.
    pub(crate) limit: u16,
}

impl Shared {
    pub(crate) fn new(zone: Zone, max_udp: u16, log_capacity: usize) -> Result<Self, ProtoError> {
        Ok(Self {
            fixed: Fixed::new(&zone)?,
            zone: Mutex::new(zone),
            log: Mutex::new(Log::new(log_capacity, Timestamp::now())),
            started: Instant::now(),
            max_udp,
        })
    }

    /// Time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Service {
    pub(crate) fn authority(shared: Arc<Shared>) -> Self {
        Self { shared, role: Role::Authority, farm: None }
    }

    pub(crate) fn resolver(shared: Arc<Shared>, number: usize, farm: Farm) -> Self {
        Self { shared, role: Role::Resolver(number), farm: Some(Mutex::new(farm)) }
    }

    /// Answers a query; `None`: nothing is sent.
    pub(crate) fn answer(
        &self,
        mut request: Message,
        client: SocketAddr,
        transport: Transport,
        work: &mut Work,
    ) -> Option<Response> {
        if request.metadata.message_type == MessageType::Response {
            return None;
        }
        let request_edns = request.edns.take();
        let mut message = Message::response(request.metadata.id, request.metadata.op_code);
        message.metadata = Metadata::response_from_request(&request.metadata);
        message.metadata.recursion_available = self.farm.is_some();
        message.queries = request.queries;
        let limit = request_edns.as_ref().map_or(512, |edns| edns.max_payload().max(512));
        let limit = limit.min(self.shared.max_udp);
        let refusal = refusal(&message, request_edns.as_ref().map_or(0, hickory_proto::op::Edns::version));
        if let Some(refusal) = refusal {
            message.metadata.response_code = refusal;
            message.edns = request_edns.map(|_| wire::edns(self.shared.max_udp, None, None));
            return Some(Response { message, effects: Effects::default(), limit });
        }

        let question = message.queries.first()?;
        wire::dotted(&question.name, &mut work.name);
        let ecs = wire::client_subnet(request_edns.as_ref());
        let record_type = RecordType::from(u16::from(question.query_type));
        let now = self.shared.now();
        // A socket on [::] shows IPv4 clients as mapped addresses.
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let query = Query { name: &work.name, record_type, client: client.ip(), ecs };
        let reply = &mut work.reply;
        let answered = self.look_up(&query, now, reply) && !reply.effects.drop;
        let left_waiting = transport == Transport::Tcp && reply.effects.truncate == Some(TcpPort::Closed);
        let answered = answered && !left_waiting;
        let asked = Asked { now, server: self.role, name: &work.name, record_type, client, ecs, transport };
        lock(&self.shared.log).record(&asked, reply, answered);
        if !answered {
            return None;
        }

        if self.shared.fixed.fill(&mut message, &work.name, record_type, reply).is_err() {
            message.metadata.response_code = ResponseCode::ServFail;
        }
        message.metadata.authoritative = self.farm.is_none() && reply.rcode != Rcode::Refused;
        message.edns = request_edns.map(|_| wire::edns(self.shared.max_udp, ecs, reply.ecs_scope));
        if reply.effects.truncate.is_some() && transport == Transport::Udp {
            wire::cut(&mut message);
        }
        Some(Response { message, effects: reply.effects, limit })
    }

    /// Asks the zone or the caches. `false`: lost.
    fn look_up(&self, query: &Query<'_>, now: Duration, reply: &mut Reply) -> bool {
        let Some(farm) = &self.farm else {
            lock(&self.shared.zone).answer_into(query, now, reply);
            return true;
        };
        // Always the caches before the zone, so two threads cannot wait for each other.
        let mut farm = lock(farm);
        let Some(answer) = farm.answer(&mut lock(&self.shared.zone), query, now) else {
            reply.reset();
            return false;
        };
        *reply = answer;
        true
    }
}

/// Why a query is not looked up at all.
fn refusal(message: &Message, edns_version: u8) -> Option<ResponseCode> {
    match message.queries.as_slice() {
        _ if message.metadata.op_code != OpCode::Query => Some(ResponseCode::NotImp),
        _ if edns_version > 0 => Some(ResponseCode::BADVERS),
        [query] if matches!(query.query_class, DNSClass::IN | DNSClass::ANY) => None,
        [_] => Some(ResponseCode::Refused),
        _ => Some(ResponseCode::FormErr),
    }
}

/// A lock whose data stays usable after a panic elsewhere: every change of it is complete in itself.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
