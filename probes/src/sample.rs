//! One lookup: a host, a record type and a [`Source`] come in, a [`DnsSample`] goes out, whatever happens. No hosts
//! file, no search list, no cache, and no retry: a lost query is data. `watch` and `authority` call it.

use std::net::SocketAddr;
use std::sync::Arc;

use policies::{DnsSample, Host, Outcome, RecordType, Response, Source, Transport, Vantage};

use crate::exchange::{Exchange, Exchanged, Failure};
pub use crate::exchange::{Rate, Sending};
use crate::wire::{self, Edns, Reply};

const FORMERR: u16 = 1;
const NOTIMP: u16 = 4;

/// Asks servers. Cheap to clone; clones share sockets and the pace per server. Needs a tokio runtime.
#[derive(Clone)]
pub struct Sampler(Arc<Exchange>);

/// A sample, and what more the message said.
pub(crate) struct Looked {
    pub(crate) sample: DnsSample,
    /// The message, read; absent where none came back, or it gave the addresses and there is nothing to follow.
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

    /// Looks `host` up at `source`, which has this `index` in its window. RD is set for a cache and not for an
    /// authority; a truncated answer is asked for again over TCP.
    pub async fn sample(
        &self,
        host: &Host,
        record_type: RecordType,
        index: usize,
        source: &Source,
    ) -> DnsSample {
        self.look(&wire::name::of_host(host), record_type, index, source).await.sample
    }

    pub(crate) async fn look(
        &self,
        qname: &[u8],
        record_type: RecordType,
        index: usize,
        source: &Source,
    ) -> Looked {
        let recursion = source.vantage == Vantage::Cache;
        let qtype = wire::type_code(record_type);
        let edns = wire::query(qname, qtype, recursion, source.ecs.map_or(Edns::Plain, Edns::Subnet));
        let mut looked = self.attempt(source.server, edns, record_type).await;
        // Servers older than EDNS refuse the OPT record (RFC 6891, section 7).
        if looked.reply.as_ref().is_some_and(|reply| matches!(reply.rcode, FORMERR | NOTIMP)) {
            let plain = wire::query(qname, qtype, recursion, Edns::Absent);
            let first = looked.sample;
            looked = self.attempt(source.server, plain, record_type).await;
            looked.sample.rtt += first.rtt;
            looked.sample.at = first.at;
        }
        looked.sample.source = index;
        looked
    }

    async fn attempt(&self, server: SocketAddr, request: Vec<u8>, record_type: RecordType) -> Looked {
        let Exchanged { request, at, mut rtt, result } = self.0.udp(server, request).await;
        let read = |bytes: Vec<u8>| wire::read(&bytes, record_type).map(|reply| (reply, bytes.len()));
        let sample = |rtt, outcome, response| DnsSample { at, source: 0, rtt, outcome, response };
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(failure) => return Looked { sample: sample(rtt, failure.into(), None), reply: None },
        };
        let Some((mut reply, mut size)) = read(bytes) else {
            let outcome = Outcome::Malformed(policies::Malformed::Garbage);
            return Looked { sample: sample(rtt, outcome, None), reply: None };
        };
        let truncated = reply.truncated;
        let mut transport = Transport::Udp;
        if truncated {
            let started = tokio::time::Instant::now();
            // Boxed, as it is rare: a name that waits would have to keep room for it.
            let whole = Box::pin(self.0.tcp(server, &request)).await.ok().and_then(read);
            rtt += started.elapsed();
            if let Some(whole) = whole {
                transport = Transport::Tcp;
                (reply, size) = whole;
            }
        }
        let outcome =
            if truncated && transport == Transport::Udp { Outcome::Truncated } else { outcome(&mut reply) };
        let response = Response {
            size,
            authoritative: reply.authoritative,
            truncated,
            transport,
            edns: reply.edns,
            ecs_scope: reply.ecs_scope,
        };
        let reply = (!matches!(outcome, Outcome::Answered { .. })).then(|| Box::new(reply));
        Looked { sample: sample(rtt, outcome, Some(response)), reply }
    }

    /// The raw exchange, for messages that hold more than addresses.
    pub(crate) async fn ask(&self, server: SocketAddr, request: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let Exchanged { request, result, .. } = self.0.udp(server, request).await;
        let bytes = result?;
        let truncated = bytes.get(2).is_some_and(|flags| flags & 0x02 != 0);
        if truncated { self.0.tcp(server, &request).await } else { Ok(bytes) }
    }
}

/// The outcome of a whole message. Takes the addresses and, where there are any, the chain.
fn outcome(reply: &mut Reply) -> Outcome {
    match reply.rcode {
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
