//! Many names at once against the lab DNS: the right classes, stopping, the budget, client subnets, and a bad server
//! that disturbs no other.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use labdns::log::Filter;
use labdns::{LabDns, Options, Scenario};
use policies::{
    Host, Limits, Outcome, Policy, RecordType, ResolutionClass, Vantage, Window, classify, observe,
};
use probes::names::diagnosis::Note;
use probes::names::sample::{Rate, Sending};
use probes::names::sweep::{Authoritative, Event, Settings, Sweep, Watched};

use crate::responder::Responder;

const SCENARIO: &str = "
zone: lab.example
names:
  vip.lab.example: {a: {pool: [192.0.2.1], ttl: 30}}
  pool.lab.example: {a: {pool: {from: 10.0.0.1, count: 400}, answer: {random: {take: 4}}, ttl: 30}}
  alias.lab.example: {cname: {to: [pool.lab.example], ttl: 60}}
  big.lab.example: {a: {pool: {from: 10.1.0.1, count: 120}}}
  denied.lab.example: {faults: [{kind: nxdomain}]}
  slow.lab.example: {a: {pool: [192.0.2.1]}, faults: [{kind: {delay: 100ms}}]}
  regional.lab.example:
    a:
      groups:
        - {pool: [192.0.2.10], clients: [198.51.100.0/24]}
        - {pool: [192.0.2.20], clients: [203.0.113.0/24]}
resolvers:
  - {}
";

async fn lab() -> LabDns {
    LabDns::start(&Scenario::from_yaml(SCENARIO).unwrap(), &Options::default()).await.unwrap()
}

/// Through the lab's resolver, as fast as it goes.
fn settings(lab: &LabDns) -> Settings {
    Settings {
        resolvers: lab.resolver_addrs(),
        authoritative: Authoritative::Auto,
        authority_port: lab.authority_addr().port(),
        ecs: Vec::new(),
        limits: Limits { window: Window::Quick, max_queries: 200 },
        policy: Arc::default(),
        sending: Sending { rate: None, ..Sending::default() },
    }
}

/// From the zone's own server, as fast as it goes.
fn direct(lab: &LabDns) -> Settings {
    let servers = vec![lab.authority_addr()];
    Settings { resolvers: Vec::new(), authoritative: Authoritative::Servers(servers), ..settings(lab) }
}

fn hosts(names: &[&str]) -> Vec<Host> {
    names.iter().map(|name| Host::parse(&format!("{name}.lab.example")).unwrap()).collect()
}

/// All names, in the order given.
async fn finish(mut sweep: Sweep) -> Vec<Watched> {
    let mut all = Vec::new();
    while let Some(event) = sweep.next().await {
        if let Event::Done(watched) = event {
            assert_eq!(watched.windows.each_ref().map(observe), watched.observations);
            all.push(*watched);
        }
    }
    all.sort_by_key(|watched| watched.index);
    all
}

fn class(watched: &Watched) -> ResolutionClass {
    classify(&watched.observations[0], &Policy::default()).class
}

fn closed_port() -> SocketAddr {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn names_are_classified_through_cache_and_authority() {
    let lab = lab().await;
    let hosts = hosts(&["vip", "pool", "alias", "big", "denied"]);
    let all = finish(Sweep::start(hosts.clone(), settings(&lab)).unwrap()).await;
    assert_eq!(all.iter().map(|watched| &watched.host).collect::<Vec<_>>(), hosts.iter().collect::<Vec<_>>());
    let classes: Vec<_> = all.iter().map(class).collect();
    let [vip, pool, alias, big, denied] = classes[..] else { panic!("{classes:?}") };
    assert_eq!([pool, alias], [ResolutionClass::RotatingPool; 2]);
    assert_eq!([vip, big], [ResolutionClass::SingleVip, ResolutionClass::FixedMultiIp]);
    assert_eq!(denied, ResolutionClass::Unresolvable);
    for watched in &all {
        let [a, aaaa] = &watched.windows;
        assert_eq!([a.record_type, aaaa.record_type], RecordType::BOTH);
        let vantages: Vec<_> = a.sources.iter().map(|source| source.vantage).collect();
        assert_eq!(vantages, [Vantage::Cache, Vantage::Authority], "{:?}", watched.notes);
        assert_eq!(a.sources[1].name.as_deref(), Some("ns1.lab.example"));
        assert!(a.samples.iter().chain(&aaaa.samples).all(|sample| sample.response.is_some()), "{watched:?}");
        assert!(watched.notes.is_empty(), "{:?}", watched.notes);
    }
}

#[tokio::test]
async fn bad_servers_are_told_and_disturb_no_other() {
    let lab = lab().await;
    let garbage = Responder::start(|_| vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()]).await;
    let mut settings = settings(&lab);
    settings.resolvers = vec![closed_port(), garbage.addr, settings.resolvers[0]];
    settings.sending.timeout = Duration::from_millis(200);
    let all = finish(Sweep::start(hosts(&["pool", "vip"]), settings.clone()).unwrap()).await;
    assert_eq!(
        all.iter().map(class).collect::<Vec<_>>(),
        [ResolutionClass::RotatingPool, ResolutionClass::SingleVip]
    );
    for watched in &all {
        let texts: Vec<_> = watched.notes.iter().map(ToString::to_string).collect();
        let expected = [
            format!("{} cannot be reached", settings.resolvers[0]),
            format!("{} answers what is no DNS message", garbage.addr),
        ];
        assert_eq!(texts, expected);
        assert!(watched.notes.iter().all(|note| note.hint().is_some()));
    }
}

#[tokio::test]
async fn never_and_given_authorities_are_obeyed() {
    let lab = lab().await;
    let never = Settings { authoritative: Authoritative::Never, ..settings(&lab) };
    let all = finish(Sweep::start(hosts(&["vip"]), never).unwrap()).await;
    assert_eq!(all[0].windows[0].sources.len(), 1);
    let zone_queries = lab.log(&Filter::default()).len();

    let all = finish(Sweep::start(hosts(&["pool"]), direct(&lab)).unwrap()).await;
    assert_eq!(class(&all[0]), ResolutionClass::RotatingPool);
    let samples = all[0].windows.iter().map(|window| window.samples.len()).sum::<usize>();
    assert_eq!(lab.log(&Filter::default()).len() - zone_queries, samples, "no query but those of the plans");
}

#[tokio::test]
async fn each_subnet_is_a_source_of_its_own() {
    let lab = lab().await;
    let ecs = vec!["198.51.100.0/24".parse().unwrap(), "203.0.113.0/24".parse().unwrap()];
    let settings = Settings { ecs: ecs.clone(), ..direct(&lab) };
    let all = finish(Sweep::start(hosts(&["regional"]), settings).unwrap()).await;
    let window = &all[0].windows[0];
    assert_eq!(window.sources.iter().filter_map(|source| source.ecs).collect::<Vec<_>>(), ecs);
    for sample in &window.samples {
        let Outcome::Answered { answers, .. } = &sample.outcome else { panic!("{sample:?}") };
        let right = ["192.0.2.10", "192.0.2.20"][sample.source];
        assert_eq!(answers.iter().map(|answer| answer.addr.to_string()).collect::<Vec<_>>(), [right]);
        assert_eq!(sample.response.unwrap().ecs_scope, Some(24));
    }
}

#[tokio::test]
async fn a_stopped_sweep_delivers_what_it_saw() {
    let lab = lab().await;
    let hour = Window::Fixed(Duration::from_secs(3600));
    let limits = Limits { window: hour, max_queries: 1_000_000 };
    let mut sweep = Sweep::start(hosts(&["vip", "pool"]), Settings { limits, ..settings(&lab) }).unwrap();
    loop {
        match sweep.next().await {
            Some(Event::Provisional { queries, .. }) if queries > 2 => break,
            Some(Event::Provisional { .. }) => {}
            ended => panic!("not within the hour: {ended:?}"),
        }
    }
    sweep.stop();
    let all = finish(sweep).await;
    assert_eq!(all.len(), 2);
    let samples: usize =
        all.iter().flat_map(|watched| &watched.windows).map(|window| window.samples.len()).sum();
    assert!(samples > 2, "{all:?}");
}

#[tokio::test]
async fn the_budget_bounds_all_names_together() {
    let lab = lab().await;
    let names = hosts(&["vip", "pool", "alias", "big"]);
    let mut settings = direct(&lab);
    settings.sending.max_queries = Some(12);
    let all = finish(Sweep::start(names, settings).unwrap()).await;
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|watched| watched.notes.contains(&Note::Budget)), "{all:?}");
    // A lookup under way may end with a query over TCP; `big` is truncated once in each of two families.
    let sent = lab.log(&Filter::default()).len();
    assert!((12..=14).contains(&sent), "{sent}");
}

/// Of the names in a list of sixty, the fewest lookups that one got within its window.
async fn fewest_lookups(name: &str, window_ms: u32, sending: Sending) -> Option<usize> {
    let lab = lab().await;
    let mut policy = Policy::default();
    policy.sampling.quick_window_ms = window_ms;
    let settings = Settings { policy: Arc::new(policy), sending, ..direct(&lab) };
    let all = finish(Sweep::start(hosts(&[name; 60]), settings).unwrap()).await;
    assert_eq!(all.len(), 60);
    all.iter().map(|watched| watched.windows[0].samples.len()).min()
}

/// More names than a server's pace serves within one window take turns: each still gets a window of its own.
#[tokio::test]
async fn a_long_list_gives_every_name_its_window() {
    let rate = Some(Rate { per_second: 100, burst: 14 });
    let fewest = fewest_lookups("vip", 600, Sending { rate, ..Sending::default() }).await;
    assert!(fewest >= Some(2), "{fewest:?}");
}

/// A server that is asked no faster than it answers: a name waits before its window begins, not within it.
#[tokio::test]
async fn a_window_begins_when_the_server_has_room() {
    let sending = Sending { rate: None, in_flight: 8, ..Sending::default() };
    let fewest = fewest_lookups("slow", 1200, sending).await;
    assert!(fewest >= Some(2), "{fewest:?}");
}
