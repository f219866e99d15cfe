//! One server of the lab, the zone itself or a caching resolver in front: the message of a query comes in, the
//! message of its answer goes out together with the effects that the transport has to carry out. Shared by UDP and
//! TCP; holds the locks.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hickory_proto::ProtoError;
use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::DNSClass;
use ipnet::IpNet;
use jiff::Timestamp;

use super::plain::Plain;
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
    /// The name that is asked for, in lower case without the trailing dot.
    pub(crate) name: String,
    reply: Reply,
}

/// What is asked for, apart from the name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) record_type: RecordType,
    pub(crate) client: SocketAddr,
    pub(crate) ecs: Option<IpNet>,
    pub(crate) transport: Transport,
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
        request: Message,
        client: SocketAddr,
        transport: Transport,
        work: &mut Work,
    ) -> Option<Response> {
        if request.metadata.message_type == MessageType::Response {
            return None;
        }
        if let Some(refusal) = refusal(&request) {
            let (mut message, limit, edns) = self.blank(request);
            message.metadata.response_code = refusal;
            message.edns = edns.map(|_| wire::edns(self.shared.max_udp, None, None));
            return Some(Response { message, effects: Effects::default(), limit });
        }
        let asked_for = request.queries.first()?;
        wire::dotted(&asked_for.name, &mut work.name);
        let record_type = u16::from(asked_for.query_type).into();
        let ecs = wire::client_subnet(request.edns.as_ref());
        let question = Question { record_type, client, ecs, transport };
        self.ask(&question, work).then(|| self.respond(request, &question, work))
    }

    /// Asks for `work.name` and leaves the reply in `work`. `false`: nothing is sent.
    pub(crate) fn ask(&self, question: &Question, work: &mut Work) -> bool {
        let Work { name, reply } = work;
        let Question { record_type, client, ecs, transport } = *question;
        // A socket on [::] shows IPv4 clients as mapped addresses.
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let now = self.shared.now();
        let found = self.look_up(&Query { name, record_type, client: client.ip(), ecs }, now, reply);
        let left_waiting = transport == Transport::Tcp && reply.effects.truncate == Some(TcpPort::Closed);
        let answered = found && !reply.effects.drop && !left_waiting;
        let asked = Asked { now, server: self.role, name, record_type, client, ecs, transport };
        lock(&self.shared.log).record(&asked, reply, answered);
        answered
    }

    /// The message that carries the reply in `work`.
    pub(crate) fn respond(&self, request: Message, question: &Question, work: &Work) -> Response {
        let Work { name, reply } = work;
        let (mut message, limit, edns) = self.blank(request);
        if self.shared.fixed.fill(&mut message, name, question.record_type, reply).is_err() {
            message.metadata.response_code = ResponseCode::ServFail;
        }
        message.metadata.authoritative = self.is_authority() && reply.rcode != Rcode::Refused;
        message.edns = edns.map(|_| wire::edns(self.shared.max_udp, question.ecs, reply.ecs_scope));
        if reply.effects.truncate.is_some() && question.transport == Transport::Udp {
            wire::cut(&mut message);
        }
        Response { message, effects: reply.effects, limit }
    }

    /// Writes the answer to a plain query that is in `work`. `false`: it takes [`Service::respond`].
    pub(crate) fn write(&self, plain: &Plain<'_>, work: &Work, out: &mut Vec<u8>) -> bool {
        plain.write(&work.reply, self.is_authority(), self.shared.max_udp, out)
    }

    /// A response without an answer yet, the greatest datagram that the client takes, and the client's OPT record.
    fn blank(&self, request: Message) -> (Message, u16, Option<Edns>) {
        let mut message = Message::response(request.metadata.id, request.metadata.op_code);
        message.metadata = Metadata::response_from_request(&request.metadata);
        message.metadata.recursion_available = !self.is_authority();
        message.queries = request.queries;
        let limit = request.edns.as_ref().map_or(512, |edns| edns.max_payload().max(512));
        (message, limit.min(self.shared.max_udp), request.edns)
    }

    fn is_authority(&self) -> bool {
        self.farm.is_none()
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
fn refusal(request: &Message) -> Option<ResponseCode> {
    match request.queries.as_slice() {
        _ if request.metadata.op_code != OpCode::Query => Some(ResponseCode::NotImp),
        _ if request.edns.as_ref().is_some_and(|edns| edns.version() > 0) => Some(ResponseCode::BADVERS),
        [query] if matches!(query.query_class, DNSClass::IN | DNSClass::ANY) => None,
        [_] => Some(ResponseCode::Refused),
        _ => Some(ResponseCode::FormErr),
    }
}

/// A lock whose data stays usable after a panic elsewhere: every change of it is complete in itself.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::{Name, RecordType as WireType};

    use super::*;
    use crate::Scenario;

    /// Every built-in scenario, as the zone answers it and as a resolver does, with and without EDNS.
    #[test]
    fn the_short_way_and_the_long_way_say_the_same() {
        let mut compared = 0;
        for (_, yaml) in crate::scenarios::builtin() {
            let scenario = Scenario::from_yaml(yaml).unwrap();
            let shared = Arc::new(Shared::new(Zone::new(&scenario, 1), 4096, 0).unwrap());
            let farm = Farm::new(&crate::ResolverSpec::default(), 1);
            let services = [Service::authority(shared.clone()), Service::resolver(shared.clone(), 0, farm)];
            for (service, edns) in services.iter().flat_map(|service| [(service, false), (service, true)]) {
                for name in scenario.names.keys() {
                    compared += usize::from(both_ways(service, name.spelled(), edns));
                }
            }
        }
        assert!(compared > 150, "{compared}");
    }

    /// Whether the answer was plain, and then the same both ways.
    fn both_ways(service: &Service, name: &str, edns: bool) -> bool {
        let mut request = Message::new(4711, MessageType::Query, OpCode::Query);
        request.metadata.recursion_desired = edns;
        request.add_query(hickory_proto::op::Query::query(
            Name::from_ascii(format!("{}.", name.to_uppercase())).unwrap(),
            WireType::A,
        ));
        if edns {
            request.set_edns(wire::edns(1232, None, None));
        }
        let bytes = request.to_vec().unwrap();
        let mut work = Work::default();
        let plain = Plain::read(&bytes, &mut work.name).unwrap();
        let client = "127.0.0.1:5353".parse().unwrap();
        let question =
            Question { record_type: plain.record_type, client, ecs: None, transport: Transport::Udp };
        assert!(service.ask(&question, &mut work));
        let (mut short, mut long) = (Vec::new(), Vec::new());
        if !service.write(&plain, &work, &mut short) {
            return false;
        }
        let mut response = service.respond(request, &question, &work);
        wire::encode(&mut response.message, response.limit, &mut long).unwrap();
        assert_eq!(Message::from_vec(&short).unwrap(), Message::from_vec(&long).unwrap(), "{name}");
        true
    }
}
