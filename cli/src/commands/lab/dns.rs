//! `lab dns flip|set|fault|clear|log`: steers a lab DNS that is being served, through its control API. `serve` itself
//! is in `dns/serve.rs`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use labdns::Name;
use labdns::command::{Clear, Command, Fault, FaultKind, FaultOn, Flip, Set, Target, TcpPort};
use labdns::log::{Entry, Filter, Role, Transport};
use labdns::scenario::{Interval, RecordSet, Ttl};

use crate::args::{ControlArgs, DnsCommand, FaultWord};
use crate::console::{Console, escape};
use crate::exit::Exit;
use crate::format::Format;
use crate::report::Problem;

use super::scenarios;

mod serve;

/// Serves or steers.
pub(super) async fn run(command: DnsCommand, console: &mut Console) -> anyhow::Result<Exit> {
    match command {
        DnsCommand::Serve(args) => serve::run(&args, console).await,
        DnsCommand::Flip { name, addresses, control } => {
            let to = addresses.into_iter().map(Target::Addr).collect();
            steer(&control, &Command::Flip(Flip { name, to }), console).await
        }
        DnsCommand::Set { name, addresses, ttl, control } => {
            steer(&control, &Command::Set(Box::new(set(name, &addresses, ttl))), console).await
        }
        DnsCommand::Fault { name, fault, delay, control } => {
            let fault = FaultOn { name: Some(name), fault: Fault::from(kind(fault, delay)) };
            steer(&control, &Command::Fault(fault), console).await
        }
        DnsCommand::Clear { name, control } => {
            steer(&control, &Command::Clear(Clear { name }), console).await
        }
        DnsCommand::Log { name, record_type, last, output, control } => {
            let filter = Filter { name, record_type, limit: Some(last), ..Filter::default() };
            log(&control, &filter, output, console).await
        }
    }
}

/// Both families at once: a family without an address keeps its own.
fn set(name: Name, addresses: &[IpAddr], ttl: u32) -> Set {
    let family = |v4: bool| {
        let own: Vec<_> = addresses.iter().copied().filter(|addr| addr.is_ipv4() == v4).collect();
        (!own.is_empty()).then(|| RecordSet::all(own, Ttl::seconds(ttl)))
    };
    Set { a: family(true), aaaa: family(false), ..Set::of(name) }
}

fn kind(fault: FaultWord, delay: Duration) -> FaultKind {
    match fault {
        FaultWord::Nxdomain => FaultKind::Nxdomain,
        FaultWord::Nodata => FaultKind::Nodata,
        FaultWord::Servfail => FaultKind::Servfail,
        FaultWord::Refused => FaultKind::Refused,
        FaultWord::Drop => FaultKind::Drop,
        FaultWord::Delay => FaultKind::Delay(Interval::new(delay)),
        FaultWord::Truncate => FaultKind::Truncate(TcpPort::Open),
        FaultWord::TruncateOnly => FaultKind::Truncate(TcpPort::Closed),
        FaultWord::Garbage => FaultKind::Garbage,
        FaultWord::WrongId => FaultKind::WrongId,
        FaultWord::WrongQuestion => FaultKind::WrongQuestion,
    }
}

async fn steer(control: &ControlArgs, command: &Command, console: &Console) -> anyhow::Result<Exit> {
    let url = format!("http://{}/commands", control.control);
    let answer = reqwest::Client::new().post(url).json(command).send().await;
    checked(control.control, answer).await?;
    console.note("done: the next query sees it");
    Ok(Exit::Clean)
}

async fn log(
    control: &ControlArgs,
    filter: &Filter,
    output: Format,
    console: &Console,
) -> anyhow::Result<Exit> {
    let url = format!("http://{}/log", control.control);
    let answer = reqwest::Client::new().get(url).query(filter).send().await;
    let entries: Vec<Entry> = checked(control.control, answer).await?.json().await?;
    match output {
        Format::Json => console.json(&entries)?,
        _ => console.data(&entries.iter().map(line).collect::<String>())?,
    }
    Ok(Exit::Clean)
}

/// `12:00:00.123 authority A api.partner.example from 127.0.0.1:4711 udp -> 192.0.2.10 (TTL 30)`.
fn line(entry: &Entry) -> String {
    let outcome = match (&entry.rcode, entry.addresses.is_empty()) {
        (None, _) => "no answer".to_owned(),
        (Some(rcode), true) => format!("{rcode:?}"),
        (Some(_), false) => entry.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" "),
    };
    let ttl = entry.ttl.map_or_else(String::new, |ttl| format!(" (TTL {ttl})"));
    let server = match entry.server {
        Role::Authority => "authority".to_owned(),
        Role::Resolver(number) => format!("resolver {number}"),
    };
    let transport = match entry.transport {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
    };
    let at = entry.at.strftime("%H:%M:%S.%3f");
    let subnet = entry.ecs.map_or_else(String::new, |ecs| format!(" for {ecs}"));
    let record_type = entry.record_type;
    escape(&format!(
        "{at} {server} {record_type} {} from {}{subnet} {transport} -> {outcome}{ttl}",
        entry.name, entry.client
    )) + "\n"
}

/// The answer of the control API, or what it says is wrong.
async fn checked(
    control: SocketAddr,
    answer: reqwest::Result<reqwest::Response>,
) -> Result<reqwest::Response, Problem> {
    let unreachable = |error: reqwest::Error| {
        Problem::new(
            control,
            format!("no lab DNS answers there: {}", error.without_url()),
            "start one with `egress-audit lab dns serve`, or name its control address with `--control`",
        )
    };
    let response = answer.map_err(unreachable)?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let refused: Option<labdns::control::Problem> = response.json().await.ok();
    Err(refused.map_or_else(
        || Problem::new(control, format!("answers {status}"), "check that a lab DNS listens there"),
        |refused| Problem::new("the lab DNS", refused.error, refused.hint),
    ))
}
