//! One run of one case: a zone and its caches answer a sampling plan in simulated time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use labdns::command::TcpPort;
use labdns::{Farm, Query, Rcode, Reply, ResolverSpec, Zone};
use policies::{
    Answer, Classification, Cname, DnsSample, Host, Limits, Malformed, Outcome, Plan, RecordType, Response,
    Source, Step, Transport, Vantage,
};

use super::{Access, Case, Settings};

/// Where simulated time starts; any instant does.
pub(super) const START: i64 = 1_700_000_000;
/// Round trips to the authority and to a resolver.
const RTT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(5));
/// How long a lookup waits for its answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Who asks.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));

pub(super) struct RunOutcome {
    pub(super) verdict: Classification,
    pub(super) queries: usize,
    pub(super) span: Duration,
}

/// A server in simulated time.
pub(super) enum Server {
    Authority,
    Resolver(Farm),
}

pub(super) fn run(case: &Case, seed: u64, settings: &Settings) -> RunOutcome {
    let mut zone = Zone::new(&case.scenario, seed);
    let mut servers = servers(case, seed, settings.access);
    let sources = servers.iter().enumerate().map(|(i, server)| source(i, server)).collect();
    let start = Timestamp::from_second(START).unwrap_or_default();
    let limits = Limits { window: settings.window, max_queries: settings.max_queries };
    let record_type = record_type(case);
    let Ok(host) = Host::parse(&case.host) else { unreachable!("names of a scenario are host names") };
    let mut plan = Plan::new(host, record_type, sources, Arc::clone(&settings.policy), limits, start);
    let mut now = start;
    while let Step::Ask { source, at } = plan.next(now) {
        let sample = ask(case, &mut zone, &mut servers[source], source, record_type, at, start);
        now = at + sample.rtt;
        plan.record(sample);
    }
    RunOutcome {
        verdict: plan.classification(now),
        queries: plan.queries(),
        span: now.duration_since(start).unsigned_abs(),
    }
}

pub(super) fn servers(case: &Case, seed: u64, access: Access) -> Vec<Server> {
    let specs = &case.scenario.resolvers;
    let mut servers: Vec<Server> =
        (0..).zip(specs).map(|(i, spec)| Server::Resolver(Farm::new(spec, seed.wrapping_add(i)))).collect();
    if servers.is_empty() && access != Access::Authority {
        servers.push(Server::Resolver(Farm::new(&ResolverSpec::default(), seed)));
    }
    if servers.is_empty() || access == Access::Both {
        servers.push(Server::Authority);
    }
    servers
}

pub(super) fn source(index: usize, server: &Server) -> Source {
    let last = u8::try_from(index + 1).unwrap_or(u8::MAX);
    let (network, vantage) = match server {
        Server::Authority => (2, Vantage::Authority),
        Server::Resolver(_) => (3, Vantage::Cache),
    };
    Source { server: SocketAddr::from(([192, 0, network, last], 53)), vantage, ecs: None, name: None }
}

pub(super) fn record_type(case: &Case) -> RecordType {
    let spec = case.scenario.names.iter().find(|(name, _)| name.as_str() == case.host);
    match spec {
        Some((_, spec)) if spec.a.is_none() && spec.aaaa.is_some() => RecordType::Aaaa,
        _ => RecordType::A,
    }
}

pub(super) fn ask(
    case: &Case,
    zone: &mut Zone,
    server: &mut Server,
    source: usize,
    record_type: RecordType,
    at: Timestamp,
    start: Timestamp,
) -> DnsSample {
    let now = at.duration_since(start).unsigned_abs();
    let asked = match record_type {
        RecordType::A => labdns::RecordType::A,
        RecordType::Aaaa => labdns::RecordType::Aaaa,
    };
    let query = Query { name: &case.host, record_type: asked, client: CLIENT, ecs: None };
    let (reply, rtt) = match server {
        Server::Authority => (Some(zone.answer(&query, now)), RTT.0),
        Server::Resolver(farm) => (farm.answer(zone, &query, now), RTT.1),
    };
    let reply = reply.filter(|r| !r.effects.drop && r.effects.delay < TIMEOUT);
    let Some(reply) = reply else {
        return DnsSample { at, source, rtt: TIMEOUT, outcome: Outcome::Timeout, response: None };
    };
    let response = Response {
        size: 64 + 16 * reply.addresses.len(),
        authoritative: matches!(server, Server::Authority),
        truncated: reply.effects.truncate.is_some(),
        transport: if reply.effects.truncate.is_some() { Transport::Tcp } else { Transport::Udp },
        edns: Some(1232),
        ecs_scope: reply.ecs_scope,
    };
    let rtt = rtt + reply.effects.delay;
    DnsSample { at, source, rtt, outcome: outcome(&reply), response: Some(response) }
}

fn outcome(reply: &Reply) -> Outcome {
    use labdns::answer::Mangle;
    match (reply.effects.mangle, reply.effects.truncate) {
        (Some(Mangle::Garbage), _) => return Outcome::Malformed(Malformed::Garbage),
        (Some(Mangle::WrongId), _) => return Outcome::Malformed(Malformed::WrongId),
        (Some(Mangle::WrongQuestion), _) => return Outcome::Malformed(Malformed::WrongQuestion),
        (None, Some(TcpPort::Closed)) => return Outcome::Truncated,
        _ => {}
    }
    match reply.rcode {
        Rcode::NoError if reply.addresses.is_empty() => Outcome::NoData,
        Rcode::NoError => Outcome::Answered {
            answers: reply.addresses.iter().map(|a| Answer { addr: a.addr, ttl: a.ttl }).collect(),
            cname_chain: reply
                .chain
                .iter()
                .map(|l| Cname { target: l.target.to_string(), ttl: l.ttl })
                .collect(),
        },
        Rcode::NxDomain => Outcome::NxDomain,
        Rcode::ServFail => Outcome::ServFail,
        Rcode::Refused => Outcome::Refused,
        other => Outcome::OtherRcode(other as u16),
    }
}
