//! A `watch` under test: a lab DNS, the running program, its store, its HTTP API.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::{Child, egress_audit, eventually};
use labdns::command::{Command as Order, Flip, Target};
use labdns::{LabDns, Name, Options, Scenario};
use serde_json::Value;

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(150);
/// Learns within seconds what takes minutes elsewhere.
const HASTY: &str = "test: {quiet_s: 1}\n";

/// A lab DNS on threads of its own.
pub(crate) struct Lab {
    dns: LabDns,
    _runtime: tokio::runtime::Runtime,
}

/// A zone with a cache in front of it. TTL 1 s.
pub(crate) fn lab() -> Lab {
    let scenario = Scenario::from_yaml(
        "zone: lab.example
names:
  vip.lab.example: {a: {pool: [192.0.2.1], ttl: 1}}
  other.lab.example: {a: {pool: [192.0.2.51, 192.0.2.52], ttl: 1}}
  pool.lab.example: {a: {pool: {from: 10.0.0.1, count: 400}, answer: {random: {take: 4}}, ttl: 1}}
resolvers:
  - {}
",
    )
    .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dns = runtime.block_on(LabDns::start(&scenario, &Options::default())).unwrap();
    Lab { dns, _runtime: runtime }
}

impl Lab {
    pub(crate) fn flip(&self, host: &str, to: &[[u8; 4]]) {
        let to = to.iter().map(|addr| Target::Addr((*addr).into())).collect();
        self.dns.apply(Order::Flip(Flip { name: Name::parse(host).unwrap(), to })).unwrap();
    }
}

/// A running `watch`.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) log: PathBuf,
    pub(crate) store: PathBuf,
}

impl Running {
    /// Watches with the store of a folder, in which its log lies too, until dropped.
    pub(crate) fn start(lab: &Lab, dir: &Path, args: &[&str]) -> Self {
        Self::start_with(lab, dir, args, &[])
    }

    /// The same through another program, such as `unshare`.
    pub(crate) fn start_with(lab: &Lab, dir: &Path, args: &[&str], through: &[&str]) -> Self {
        let policy = dir.join("policy.yaml");
        std::fs::write(&policy, HASTY).unwrap();
        let store = dir.join("store");
        let log = dir.join(format!("log.{}", std::fs::read_dir(dir).unwrap().count()));
        let resolver = lab.dns.resolver_addrs()[0].to_string();
        let port = lab.dns.authority_addr().port().to_string();
        let program = egress_audit().get_program().to_owned();
        let mut all: Vec<std::ffi::OsString> = through.iter().map(Into::into).collect();
        all.push(program);
        all.extend(["watch", "--resolver", &resolver, "--authority-port", &port].map(Into::into));
        all.extend(["--every", "200ms", "--rate", "1000", "--listen", "127.0.0.1:0"].map(Into::into));
        all.extend(["--policy".into(), policy.into(), "--store".into(), store.clone().into()]);
        all.extend(args.iter().map(Into::into));
        let _ = std::fs::remove_file(store.join("watch.address"));
        let child = Child::spawn(Path::new(&all[0]), &all[1..], log.clone()).unwrap();
        let address = eventually(PATIENCE, "the address", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let line = text.lines().find_map(|line| line.split("http://").nth(1)?.strip_suffix('/'));
            line.and_then(|line| line.parse().ok()).ok_or(text)
        });
        Self { child, address: address.unwrap(), log, store }
    }

    /// A request by hand, so that every header is the test's own: status and body.
    pub(crate) fn get_as(&self, path: &str, host: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        (status, if chunked { unchunked(body) } else { body.to_owned() })
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let (status, body) = self.get_as(path, &self.address.to_string());
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// The events of a name, by kind.
    pub(crate) fn events(&self, host: &str, kind: &str) -> Vec<Value> {
        let found = self.json(&format!("/api/v1/events?host={host}&kind={kind}&limit=10000"));
        found.as_array().unwrap().clone()
    }

    /// Waits until a name has had so many events of a kind.
    pub(crate) fn wait_for(&self, host: &str, kind: &str, count: usize) -> Vec<Value> {
        eventually(PATIENCE, kind, || {
            let found = self.events(host, kind);
            if found.len() >= count {
                Ok(found)
            } else {
                Err(format!("{} {kind} of {host}\n{}", found.len(), self.get("/api/v1/names")))
            }
        })
        .unwrap()
    }

    /// Waits until the class of the names is known.
    pub(crate) fn settled(&self, hosts: &[&str]) {
        for host in hosts {
            eventually(PATIENCE, "the class", || {
                let found = self.events(host, "class_changed");
                if found.iter().any(|stored| stored["event"]["record_type"] == "A") {
                    Ok(())
                } else {
                    Err(host)
                }
            })
            .unwrap();
        }
    }

    /// The events that it printed.
    pub(crate) fn printed(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Ends it as a user would.
    pub(crate) fn stop(mut self) {
        self.child.signal(rustix::process::Signal::TERM).unwrap();
        let status = eventually(PATIENCE, "the end", || match self.child.exited() {
            Ok(Some(status)) => Ok(status),
            other => Err(format!("{other:?}")),
        })
        .unwrap();
        assert!(status.success(), "{status}: {}", self.child.log());
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size, 16) else { break };
        let Some(piece) = rest.get(..size) else { break };
        whole.push_str(piece);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

/// `egress-audit` with these arguments: its standard output; it must succeed.
pub(crate) fn run(args: &[&str]) -> String {
    let output = egress_audit().args(args).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}\n{out}\n{err}");
    out.into_owned()
}
