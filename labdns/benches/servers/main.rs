//! The lab against gdnsd, NSD and `PowerDNS` over loopback: CPU seconds per million queries by dnsperf (medians of
//! three rounds, the servers in turn), and the time from a flip's return to the first new answer.
//! Run by `cargo bench -p egress-audit-labdns --bench servers`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod peers;

use std::io::Write;
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use labdns::{LabDns, Options, Scenario};
use peers::{Peer, SCENARIO};
use serde_json::json;

const ROUNDS: usize = 3;
const SECONDS: &str = "3";
const FLIPS: u32 = 1000;

/// A question put to some of the servers.
struct Workload {
    title: &'static str,
    name: &'static str,
    peers: Vec<Peer>,
    /// What the lab may cost at most, as a multiple of this peer.
    bound: (f64, &'static str),
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        serve();
    }
    let workloads = [
        Workload {
            title: "fixed set of 4",
            name: "fixed.example",
            peers: vec![Peer::labdns(), Peer::gdnsd(), Peer::nsd(), Peer::pdns()],
            bound: (2.0, "gdnsd"),
        },
        Workload {
            title: "8 of 400",
            name: "pool.example",
            peers: vec![Peer::labdns(), Peer::pdns()],
            bound: (0.25, "pdns_server"),
        },
        Workload {
            title: "1 of 4",
            name: "few.example",
            peers: vec![Peer::labdns(), Peer::pdns()],
            bound: (0.25, "pdns_server"),
        },
    ];
    for workload in workloads {
        measure(&workload);
    }
    flips();
}

/// The child process: a lab until it is killed.
fn serve() -> ! {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let scenario = Scenario::from_yaml(SCENARIO).expect("the scenario");
    let lab = runtime.block_on(LabDns::start(&scenario, &Options::default())).expect("the lab");
    println!("{}", lab.authority_addr());
    std::io::stdout().flush().expect("stdout");
    loop {
        std::thread::park();
    }
}

fn measure(workload: &Workload) {
    println!("\n{}: CPU seconds per million queries (queries per second)", workload.title);
    let mut costs = vec![Vec::new(); workload.peers.len()];
    let mut rates = vec![Vec::new(); workload.peers.len()];
    for _ in 0..ROUNDS {
        for (place, peer) in workload.peers.iter().enumerate() {
            let (cost, rate) = dnsperf(peer, workload.name);
            costs[place].push(cost);
            rates[place].push(rate);
        }
    }
    let costs: Vec<f64> = costs.into_iter().map(median).collect();
    let rates: Vec<f64> = rates.into_iter().map(median).collect();
    for (place, peer) in workload.peers.iter().enumerate() {
        let ratio = costs[0] / costs[place];
        println!(
            "  {:<12} {:>7.2}  ({:>7.0}/s)   lab / it = {ratio:.2}",
            peer.name, costs[place], rates[place]
        );
    }
    let (bound, against) = workload.bound;
    let other = workload.peers.iter().position(|peer| peer.name == against).expect("the peer");
    let verdict = if costs[0] <= bound * costs[other] { "met" } else { "NOT MET" };
    println!("  at most {bound} x {against}: {verdict}");
}

/// CPU seconds per million queries, and queries per second.
fn dnsperf(peer: &Peer, name: &str) -> (f64, f64) {
    let queries = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(queries.path(), format!("{name} A\n")).expect("the queries");
    let before = peer.cpu();
    let run = Command::new("dnsperf")
        .args([
            "-s",
            &peer.addr.ip().to_string(),
            "-p",
            &peer.addr.port().to_string(),
            "-l",
            SECONDS,
            "-c",
            "4",
        ])
        .arg("-d")
        .arg(queries.path())
        .output()
        .expect("dnsperf (apt install dnsperf)");
    let spent = peer.cpu() - before;
    let text = String::from_utf8_lossy(&run.stdout);
    let figure = |label: &str| -> f64 {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(label)).expect("dnsperf's figures");
        line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
    };
    let noerror = text.lines().any(|line| line.contains("NOERROR") && line.contains("(100.00%)"));
    assert!(noerror, "{} did not answer everything:\n{text}", peer.name);
    (spent * 1e6 / figure("Queries completed:"), figure("Queries per second:"))
}

/// From the return of the control call to the first new answer.
fn flips() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let scenario = Scenario::from_yaml(SCENARIO).expect("the scenario");
    let lab = runtime.block_on(LabDns::start(&scenario, &Options::default())).expect("the lab");
    let url = format!("http://{}/commands", lab.control_addr().expect("the control API"));
    let client = reqwest::Client::new();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(lab.authority_addr()).expect("the lab");
    let mut query =
        b"\x12\x34\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05fixed\x07example\x00\x00\x01\x00\x01".to_vec();
    let mut answer = [0; 512];
    let mut took: Vec<Duration> = (0..FLIPS)
        .map(|i| {
            let to = std::net::Ipv4Addr::from(0x0a00_0000 + i);
            let body = json!({"flip": {"name": "fixed.example", "to": [IpAddr::V4(to)]}});
            let response = runtime.block_on(client.post(&url).json(&body).send()).expect("the control call");
            assert!(response.status().is_success());
            query[..2].copy_from_slice(&u16::try_from(i).expect("few flips").to_be_bytes());
            let returned = Instant::now();
            loop {
                socket.send(&query).expect("a query");
                let length = socket.recv(&mut answer).expect("an answer");
                if answer[length - 4..length] == to.octets() {
                    return returned.elapsed();
                }
            }
        })
        .collect();
    took.sort_unstable();
    let at = |share: usize| took[took.len() * share / 100];
    println!(
        "\nflip, control call returned to first new answer, {FLIPS} times: p50 {:?}, p99 {:?}",
        at(50),
        at(99)
    );
    let verdict = if at(99) < Duration::from_millis(1) { "met" } else { "NOT MET" };
    println!("  p99 under 1 ms: {verdict}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
