//! The servers that are measured: each starts as a child process on a free loopback port, with its files in a
//! directory of its own, and ends with its guard.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A server in service.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) addr: SocketAddr,
    child: Child,
    _files: TempDir,
}

/// The fixed set: four addresses.
const STATIC: &str =
    "fixed 60 IN A 192.0.2.1\nfixed 60 IN A 192.0.2.2\nfixed 60 IN A 192.0.2.3\nfixed 60 IN A 192.0.2.4\n";
const HEAD: &str =
    "@ 3600 IN SOA ns1 admin 1 7200 1800 259200 900\n@ 3600 IN NS ns1\nns1 3600 IN A 127.0.0.1\n";
/// Eight of four hundred.
const LUA: &str = r#"pool 20 IN LUA A "; local t={} for i=1,8 do local n=math.random(0,399) t[i]='10.0.'..math.floor(n/200)..'.'..(n%200+1) end return t"
few 20 IN LUA A "pickrandom({'10.0.0.1','10.0.0.2','10.0.0.3','10.0.0.4'})"
"#;
/// The same for the lab.
pub(crate) const SCENARIO: &str = "
names:
  fixed.example: {a: {pool: [192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4], ttl: 60}}
  pool.example: {a: {pool: {from: 10.0.0.1, count: 400}, answer: {random: {take: 8}}, ttl: 20}}
  few.example: {a: {pool: {from: 10.0.0.1, count: 4}, answer: {random: {}}, ttl: 20}}
";

impl Peer {
    pub(crate) fn labdns() -> Self {
        let files = TempDir::new().expect("a temporary directory");
        let exe = std::env::current_exe().expect("this program");
        let mut child =
            Command::new(exe).arg("serve").stdout(Stdio::piped()).spawn().expect("this program again");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("the address");
        Self { name: "labdns", addr: line.trim().parse().expect("an address"), child, _files: files }
    }

    pub(crate) fn gdnsd() -> Self {
        Self::start("gdnsd", |dir, port| {
            fs::create_dir(dir.join("zones"))?;
            fs::write(dir.join("zones/example"), format!("{HEAD}{STATIC}"))?;
            let at = dir.display();
            let config = format!(
                "options => {{ listen => 127.0.0.1:{port}, run_dir => {at}/run, state_dir => {at}/state }}\n"
            );
            fs::write(dir.join("config"), config)?;
            let mut command = Command::new("gdnsd");
            command.arg("-c").arg(dir).arg("start");
            Ok(command)
        })
    }

    pub(crate) fn nsd() -> Self {
        Self::start("nsd", |dir, port| {
            fs::write(dir.join("example.zone"), format!("$ORIGIN example.\n{HEAD}{STATIC}"))?;
            let at = dir.display();
            let config = format!(
                "server:\n ip-address: 127.0.0.1@{port}\n username: \"\"\n zonesdir: {at}\n pidfile: {at}/pid\n \
                 xfrdfile: {at}/xfrd\n zonelistfile: {at}/list\n database: \"\"\n rrl-ratelimit: 0\nremote-control:\n \
                 control-enable: no\nzone:\n name: example\n zonefile: example.zone\n"
            );
            fs::write(dir.join("nsd.conf"), config)?;
            let mut command = Command::new("nsd");
            command.arg("-d").arg("-c").arg(dir.join("nsd.conf"));
            Ok(command)
        })
    }

    pub(crate) fn pdns() -> Self {
        Self::start("pdns_server", |dir, port| {
            fs::write(dir.join("example.zone"), format!("$ORIGIN example.\n{HEAD}{STATIC}{LUA}"))?;
            let zone = dir.join("example.zone");
            let named = format!("zone \"example\" {{ type master; file \"{}\"; }};\n", zone.display());
            fs::write(dir.join("named.conf"), named)?;
            let at = dir.display();
            let config = format!(
                "launch=bind\nbind-config={at}/named.conf\nlocal-address=127.0.0.1\nlocal-port={port}\nsocket-dir={at}\n\
                 daemon=no\nguardian=no\ndisable-syslog=yes\nenable-lua-records=shared\nconsistent-backends=no\n"
            );
            fs::write(dir.join("pdns.conf"), config)?;
            let mut command = Command::new("pdns_server");
            command.arg(format!("--config-dir={at}"));
            Ok(command)
        })
    }

    /// Another process may take the port between the probe and the peer's own bind: then with another port.
    fn start(program: &'static str, prepare: impl Fn(&Path, u16) -> std::io::Result<Command>) -> Self {
        for _ in 0..3 {
            let files = TempDir::new().expect("a temporary directory");
            let port = free_port();
            let mut command = prepare(files.path(), port).expect("files for a peer");
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let child = child.unwrap_or_else(|error| {
                panic!("{program} does not start ({error}); apt install gdnsd nsd pdns-server pdns-backend-bind dnsperf")
            });
            let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let peer = Self { name: program, addr, child, _files: files };
            let deadline = Instant::now() + Duration::from_secs(10);
            while Instant::now() < deadline {
                if answers(addr) {
                    return peer;
                }
            }
        }
        panic!("{program} answers on none of three ports");
    }

    /// CPU seconds of the process and its children so far.
    pub(crate) fn cpu(&self) -> f64 {
        // Fields 4 (parent), 14 and 15 (user and system time, in ticks of 10 ms) of proc_pid_stat(5).
        let mut family = vec![self.child.id()];
        let mut ticks = 0;
        let mut stats: Vec<(u32, u32, u64)> = fs::read_dir("/proc")
            .expect("/proc")
            .filter_map(|entry| {
                let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
                let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
                let time = fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?;
                Some((pid, fields[1].parse().ok()?, time))
            })
            .collect();
        stats.sort_unstable();
        for (pid, parent, time) in stats {
            if family.contains(&pid) || family.contains(&parent) {
                family.push(pid);
                ticks += time;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "hundredths of seconds of a short run")]
        let seconds = ticks as f64 / 100.0;
        seconds
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SIGTERM, so that a server with children ends them too.
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").arg(&pid).status();
        if asked.is_err() {
            let _gone = self.child.kill();
        }
        let _reaped = self.child.wait();
    }
}

fn free_port() -> u16 {
    let probe = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    probe.local_addr().expect("its number").port()
}

/// Whether a query for `fixed.example` is answered.
pub(crate) fn answers(addr: SocketAddr) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let query = b"\x12\x34\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05fixed\x07example\x00\x00\x01\x00\x01";
    let sent = socket.connect(addr).and_then(|()| socket.send(query));
    let mut answer = [0; 512];
    let received = sent.and_then(|_| socket.recv(&mut answer));
    if received.is_err() {
        // A port that is closed refuses at once; do not ask it in a tight loop.
        std::thread::sleep(Duration::from_millis(50));
    }
    received.is_ok_and(|length| length > 12 && answer[3].trailing_zeros() >= 4 && answer[7] > 0)
}
