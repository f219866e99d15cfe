//! One lookup: a host, a record type and a [`Source`] come in, a [`DnsSample`] goes out, whatever happens. No hosts
//! file, no search list, no cache, and no retry: a lost query is data. `watch` and `authority` call it.

use std::net::SocketAddr;
use std::sync::Arc;

use policies::{DnsSample, Host, Outcome, RecordType, Response, Source, Transport, Vantage};

use crate::names::budget::{Budget, Spent};
use crate::names::exchange::{Exchange, Exchanged, Failure};
pub use crate::names::exchange::{Rate, Sending};
use crate::names::wire::{self, Edns, Reply, WireName};

const FORMERR: u16 = 1;
const NOTIMP: u16 = 4;

/// Asks servers. Cheap to clone; clones share sockets and the pace per server. Needs a tokio runtime.
#[derive(Clone)]
pub struct Sampler(Arc<Exchange>);

/// A sample, and what more the message said.
pub(crate) struct Looked {
    pub(crate) sample: DnsSample,
    /// The message, read; absent where none came back, or it says it all: addresses, or that there are none.
    pub(crate) reply: Option<Box<Reply>>,
}

impl Sampler {
    /// A sampler that has sent nothing yet.
    #[must_use]
    pub fn new(sending: Sending) -> Self {
        Self(Arc::new(Exchange::new(sending)))
    }

    /// As many queries were sent as [`Sending::max_queries`] allows.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.0.is_spent()
    }

    /// Waits until `server` has fewer unanswered queries than [`Sending::in_flight`] allows, in the order of the calls.
    pub(crate) async fn turn(&self, server: SocketAddr) {
        self.0.turn(server).await;
    }

    /// Looks `host` up at `source`, which has this `index` in its window. RD is set for a cache and not for an
    /// authority; a truncated answer is asked for again over TCP.
    pub async fn sample(
        &self,
        host: &Host,
        record_type: RecordType,
        index: usize,
        source: &Source,
    ) -> DnsSample {
        let qname = WireName::of_host(host);
        self.look(&qname, record_type, index, source, &Budget::unlimited()).await.sample
    }

    /// As [`Sampler::sample`], within what the budget allows. One that is spent sends nothing: callers look first.
    pub(crate) async fn look(
        &self,
        qname: &WireName,
        record_type: RecordType,
        index: usize,
        source: &Source,
        budget: &Budget,
    ) -> Looked {
        let question = Question { qname, record_type, recursion: source.vantage == Vantage::Cache };
        let edns = source.ecs.map_or(Edns::Plain, Edns::Subnet);
        let exchanged = match budget.take() {
            Ok(()) => self.0.udp(source.server, question.query(edns)).await,
            Err(Spent) => Exchanged::unsent(),
        };
        let mut looked = Looked::read(exchanged, Transport::Udp);
        if looked.refuses_edns() || looked.is_truncated() {
            // Boxed, as it is rare: a name that waits would have to keep room for it.
            looked = Box::pin(self.look_again(looked, question, source.server, edns, budget)).await;
        }
        looked.sample.source = index;
        looked
    }

    /// Servers older than EDNS refuse the OPT record (RFC 6891, section 7); a truncated answer is whole over TCP.
    async fn look_again(
        &self,
        mut looked: Looked,
        question: Question<'_>,
        server: SocketAddr,
        mut edns: Edns,
        budget: &Budget,
    ) -> Looked {
        let at = looked.sample.at;
        if looked.refuses_edns() && budget.take().is_ok() {
            edns = Edns::Absent;
            let mut plain = self.0.udp(server, question.query(edns)).await;
            plain.rtt += looked.sample.rtt;
            looked = Looked::read(plain, Transport::Udp);
        }
        if looked.is_truncated() && budget.take().is_ok() {
            let started = tokio::time::Instant::now();
            let result = self.0.tcp(server, question.query(edns)).await;
            let rtt = looked.sample.rtt + started.elapsed();
            let whole = Exchanged { at, rtt, result };
            let whole = Looked::read(whole, Transport::Tcp);
            if whole.sample.response.is_some() {
                looked = whole;
            }
            looked.sample.rtt = rtt;
        }
        looked.sample.at = at;
        looked
    }

    /// The bare exchange, for questions about a zone.
    pub(crate) async fn ask(
        &self,
        server: SocketAddr,
        request: Vec<u8>,
        budget: &Budget,
    ) -> Result<Result<Reply, Failure>, Spent> {
        budget.take()?;
        let read = self.0.udp(server, request.clone()).await.result;
        if !read.as_ref().is_ok_and(|reply| reply.truncated) {
            return Ok(read);
        }
        budget.take()?;
        Ok(self.0.tcp(server, request).await)
    }
}

/// What is asked, with or without EDNS.
#[derive(Clone, Copy)]
struct Question<'a> {
    qname: &'a WireName,
    record_type: RecordType,
    recursion: bool,
}

impl Question<'_> {
    fn query(self, edns: Edns) -> Vec<u8> {
        wire::query(self.qname, wire::type_code(self.record_type), self.recursion, edns)
    }
}

impl Looked {
    fn read(Exchanged { at, rtt, result }: Exchanged, transport: Transport) -> Self {
        let mut reply = match result {
            Ok(reply) => reply,
            Err(failure) => {
                let sample = DnsSample { at, source: 0, rtt, outcome: failure.into(), response: None };
                return Self { sample, reply: None };
            }
        };
        // Over TCP nothing is too long: what is cut off there is whole enough only where it says something.
        let says = !reply.answers.is_empty() || !reply.chain.is_empty() || reply.rcode != 0;
        let cut = reply.truncated && (transport == Transport::Udp || !says);
        let outcome = if cut { Outcome::Truncated } else { outcome(&mut reply) };
        let response = Response {
            size: reply.size,
            authoritative: reply.authoritative,
            truncated: reply.truncated || transport == Transport::Tcp,
            transport,
            edns: reply.edns,
            ecs_scope: reply.ecs_scope,
        };
        let sample = DnsSample { at, source: 0, rtt, outcome, response: Some(response) };
        let followed = reply.rcode != 0 || !reply.chain.is_empty() || reply.referral.is_some();
        Self { sample, reply: followed.then(|| Box::new(reply)) }
    }

    fn refuses_edns(&self) -> bool {
        matches!(self.sample.outcome, Outcome::OtherRcode(FORMERR | NOTIMP))
    }

    fn is_truncated(&self) -> bool {
        self.sample.response.is_some_and(|response| response.truncated)
    }
}

/// The outcome of a whole message. Takes the addresses and, where there are any, the chain.
fn outcome(reply: &mut Reply) -> Outcome {
    match reply.rcode {
        // What a resolver answers to a chain without end.
        _ if reply.endless => Outcome::ServFail,
        0 if !reply.answers.is_empty() => Outcome::Answered {
            answers: std::mem::take(&mut reply.answers),
            cname_chain: std::mem::take(&mut reply.chain),
        },
        0 if reply.referral.is_some() => Outcome::Lame,
        0 => Outcome::NoData,
        2 => Outcome::ServFail,
        3 => Outcome::NxDomain,
        5 => Outcome::Refused,
        other => Outcome::OtherRcode(other),
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Timeout => Self::Timeout,
            Failure::Unreachable => Self::Unreachable,
            Failure::Malformed(malformed) => Self::Malformed(malformed),
        }
    }
}
