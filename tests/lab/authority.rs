//! The search for authoritative servers and draws from them, in a small internet of NSD servers with Unbound as its
//! resolver: delegations, aliases between zones, lame and dead servers.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use harness::{Child, eventually, find, ports};
use policies::{Cname, DnsSample, Host, Outcome, RecordType, Source, Transport, Vantage};
use probes::names::authority::{Authorities, Found};
use probes::names::budget::Budget;
use probes::names::diagnosis::Note;
use probes::names::sample::{Sampler, Sending};
use tempfile::TempDir;

/// Each server's own loopback address, and its zones: apex and records.
const SERVERS: [(&str, &[(&str, &str)]); 4] = [
    ("127.0.0.11", &[("corp.test", CORP)]),
    ("127.0.0.12", &[("dead.test", "@ NS ns\nns A 127.0.0.13\nx A 192.0.2.99")]),
    ("127.0.0.14", &[("lb.corp.test", BALANCER), ("lb2.corp.test", BALANCER)]),
    ("127.0.0.15", &[("cdn.test", "@ NS ns\nns A 127.0.0.15\nedge 40 CNAME pop\npop 20 A 192.0.2.30")]),
];

/// The second server is lame, the third one dead.
const CORP: &str = r"
@ NS ns1
@ NS ns2
@ NS ns3
ns1 A 127.0.0.11
ns2 A 127.0.0.12
ns3 A 127.0.0.13
www A 192.0.2.1
www A 192.0.2.2
shop 60 CNAME edge.cdn.test.
lost CNAME x.dead.test.
odd CNAME we\.ird\027[31m
we\.ird\027[31m A 192.0.2.77
lb NS ns.lb
ns.lb A 127.0.0.14
lb2 NS balancer
balancer A 127.0.0.14
$INCLUDE big.zone
";

const BALANCER: &str = "@ NS ns\nns A 127.0.0.14\n@ A 192.0.2.50\napi A 192.0.2.51";

struct Net {
    port: u16,
    resolver: SocketAddr,
    _children: Vec<Child>,
    _dir: TempDir,
}

impl Net {
    /// Starts all servers on one port and the resolver on another.
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (port, resolver) = (ports::free_port().unwrap().port(), ports::free_port().unwrap());
        let big: Vec<_> = (0..100).map(|last| format!("big A 198.51.100.{last}")).collect();
        fs::write(dir.path().join("big.zone"), big.join("\n")).unwrap();
        let mut children: Vec<_> =
            SERVERS.iter().map(|(ip, zones)| nsd(dir.path(), ip, port, zones)).collect();
        children.push(unbound(dir.path(), resolver, port));
        for (server, name) in [(resolver, "www.corp.test"), (resolver, "shop.corp.test")] {
            eventually(Duration::from_secs(20), name, || {
                let reply = harness::dns_server::ask(server, name)?;
                anyhow::ensure!(!reply.answers.is_empty(), "no answers");
                Ok::<_, anyhow::Error>(())
            })
            .unwrap();
        }
        Self { port, resolver, _children: children, _dir: dir }
    }

    fn sampler() -> Sampler {
        Sampler::new(Sending { rate: None, ..Sending::default() })
    }

    fn authorities(&self) -> Authorities {
        Authorities::new(Self::sampler(), vec![self.resolver], self.port)
    }

    fn at(&self, ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), self.port)
    }

    async fn find(&self, name: &str) -> Found {
        self.authorities().find(&host(name), &Budget::unlimited()).await
    }

    async fn sample(&self, name: &str, ip: &str) -> DnsSample {
        let source = Source { server: self.at(ip), vantage: Vantage::Authority, ecs: None, name: None };
        self.authorities().sample(&host(name), RecordType::A, 0, &source, &Budget::unlimited()).await
    }
}

fn nsd(dir: &Path, ip: &str, port: u16, zones: &[(&str, &str)]) -> Child {
    let place = dir.display();
    let mut config = format!(
        "server:\n ip-address: {ip}@{port}\n server-count: 1\n username: \"\"\n chroot: \"\"\n zonesdir: \"{place}\"\n \
         database: \"\"\n pidfile: \"\"\n xfrdfile: \"\"\n zonelistfile: \"{place}/{ip}.list\"\n rrl-ratelimit: 0\n\
         remote-control:\n control-enable: no\n"
    );
    for (apex, records) in zones {
        let text = format!("$ORIGIN {apex}.\n$TTL 30\n@ SOA ns. hostmaster. 1 60 60 60 30\n{records}\n");
        fs::write(dir.join(apex), text).unwrap();
        writeln!(config, "zone:\n name: {apex}\n zonefile: {apex}").unwrap();
    }
    let file = dir.join(format!("{ip}.conf"));
    fs::write(&file, config).unwrap();
    let args = ["-d", "-c", file.to_str().unwrap()];
    Child::spawn(&find("nsd", "nsd").unwrap(), args, dir.join(format!("{ip}.log"))).unwrap()
}

/// A resolver that knows where every zone but `lb2.corp.test` is.
fn unbound(dir: &Path, addr: SocketAddr, port: u16) -> Child {
    let place = dir.display();
    let mut config = format!(
        "server:\n interface: {}@{}\n directory: \"{place}\"\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n \
         use-syslog: no\n do-not-query-localhost: no\n module-config: \"iterator\"\n do-ip6: no\n \
         local-zone: \"test.\" nodefault\n\
         remote-control:\n control-enable: no\n",
        addr.ip(),
        addr.port()
    );
    for (ip, zones) in SERVERS {
        for (apex, _) in zones.iter().filter(|(apex, _)| *apex != "lb2.corp.test") {
            writeln!(config, "stub-zone:\n name: \"{apex}\"\n stub-addr: {ip}@{port}").unwrap();
        }
    }
    let file = dir.join("unbound.conf");
    fs::write(&file, config).unwrap();
    let args = ["-d", "-c", file.to_str().unwrap()];
    Child::spawn(&find("unbound", "unbound").unwrap(), args, dir.join("unbound.log")).unwrap()
}

fn host(name: &str) -> Host {
    Host::parse(name).unwrap()
}

fn addresses(sample: &DnsSample) -> Vec<String> {
    match &sample.outcome {
        Outcome::Answered { answers, .. } => answers.iter().map(|answer| answer.addr.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_servers_of_a_zone_are_found_and_the_bad_ones_named() {
    let net = Net::start();
    for name in ["www.corp.test", "no-such-name.corp.test"] {
        let found = net.find(name).await;
        assert_eq!(found.servers, [(net.at("127.0.0.11"), "ns1.corp.test".to_owned())], "{:?}", found.notes);
        let lame = Note::Lame {
            zone: "corp.test".into(),
            name: "ns2.corp.test".into(),
            server: net.at("127.0.0.12"),
            outcome: Outcome::Refused,
        };
        let dead = Note::Silent {
            server: net.at("127.0.0.13"),
            name: Some("ns3.corp.test".into()),
            outcome: Outcome::Unreachable,
        };
        assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
        assert!(found.notes.contains(&lame) && found.notes.contains(&dead), "{:?}", found.notes);
    }
}

#[tokio::test]
async fn delegation_is_followed_by_soa_and_by_referral() {
    let net = Net::start();
    let by_soa = net.find("api.lb.corp.test").await;
    assert_eq!(by_soa.servers, [(net.at("127.0.0.14"), "ns.lb.corp.test".to_owned())]);
    let by_referral = net.find("api.lb2.corp.test").await;
    assert_eq!(by_referral.servers, [(net.at("127.0.0.14"), "balancer.corp.test".to_owned())]);
    assert_eq!(net.find("lb2.corp.test").await.servers.len(), 1);
    assert_eq!(net.sample("api.lb.corp.test", "127.0.0.11").await.outcome, Outcome::Lame);
}

#[tokio::test]
async fn an_alias_into_another_zone_is_drawn_from_that_zone() {
    let net = Net::start();
    let found = net.find("shop.corp.test").await;
    assert_eq!(found.servers[0].1, "ns1.corp.test");
    let alias = Note::Alias { chain: vec!["edge.cdn.test".into(), "pop.cdn.test".into()] };
    assert!(found.notes.contains(&alias), "{:?}", found.notes);

    let sample = net.sample("shop.corp.test", "127.0.0.11").await;
    let Outcome::Answered { answers, cname_chain } = &sample.outcome else { panic!("{sample:?}") };
    let link = |target: &str, ttl| Cname { target: target.into(), ttl };
    assert_eq!(*cname_chain, [link("edge.cdn.test", 60), link("pop.cdn.test", 40)]);
    assert_eq!((answers[0].addr.to_string(), answers[0].ttl), ("192.0.2.30".into(), 20));
    assert!(sample.response.unwrap().authoritative);
}

#[tokio::test]
async fn an_alias_into_a_dead_zone_leaves_the_caches() {
    let net = Net::start();
    let found = net.find("lost.corp.test").await;
    assert!(found.servers.is_empty());
    let tried = vec![("ns.dead.test".to_owned(), Outcome::Unreachable)];
    let note = Note::NoAuthority { zone: "dead.test".into(), tried };
    assert!(found.notes.contains(&note), "{:?}", found.notes);
    assert!(note.to_string().contains("ns.dead.test cannot be reached"), "{note}");
}

#[tokio::test]
async fn a_dead_resolver_beside_a_good_one_does_no_harm_and_alone_is_told() {
    let net = Net::start();
    let dead = net.at("127.0.0.13");
    let both = Authorities::new(Net::sampler(), vec![dead, net.resolver], net.port);
    assert_eq!(both.find(&host("www.corp.test"), &Budget::unlimited()).await.servers.len(), 1);
    let none = Authorities::new(Net::sampler(), vec![dead], net.port)
        .find(&host("www.corp.test"), &Budget::unlimited())
        .await;
    assert_eq!(none.notes, [Note::NoZone { name: "www.corp.test".into() }]);
}

#[tokio::test]
async fn what_does_not_fit_a_datagram_comes_over_tcp() {
    let net = Net::start();
    let sample = net.sample("big.corp.test", "127.0.0.11").await;
    assert_eq!(addresses(&sample).len(), 100);
    let response = sample.response.unwrap();
    assert!(
        response.truncated && response.transport == Transport::Tcp && response.size > 1600,
        "{response:?}"
    );
}

#[tokio::test]
async fn odd_targets_are_escaped() {
    let net = Net::start();
    let sample = net.sample("odd.corp.test", "127.0.0.11").await;
    assert_eq!(addresses(&sample), ["192.0.2.77"]);
    let Outcome::Answered { cname_chain, .. } = sample.outcome else { unreachable!() };
    assert_eq!(cname_chain[0].target, r"we\.ird\027[31m.corp.test");
}
