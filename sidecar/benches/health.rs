//! The sidecar beside a minimal Go peer (`tests/peers/hc`) in one run: health requests per second of CPU time, memory
//! at rest, size, and how long after an admin says zero the health answer flips (`lag` in `tests/` measures that with a
//! real Envoy). Prints figures and ratios, no verdict.
//!
//! `cargo bench -p drain-sidecar --bench health` (needs Go and `/proc`). `DRAIN_SIDECAR_BIN` measures another build, as
//! `make bench-sidecar` does with the static one of the image; the C library's pages are half of what rests otherwise.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Length of one measurement.
const SPAN: Duration = Duration::from_secs(2);
/// Measurements of each kind; the median is shown.
const ROUNDS: usize = 5;
/// Drains of each kind for the flip lag.
const FLIPS: u64 = 15;
/// Clock ticks of `/proc/<pid>/stat` per second (`USER_HZ`, fixed at 100 in the kernel's interface).
const TICKS: f64 = 100.0;

fn main() -> anyhow::Result<()> {
    let admin = FakeEnvoy::start()?;
    let ordinary = Path::new(env!("CARGO_BIN_EXE_drain-sidecar"));
    let given = std::env::var_os("DRAIN_SIDECAR_BIN").map(PathBuf::from);
    let binary = given.as_deref().unwrap_or(ordinary);
    let ours = Server::sidecar(binary, &admin, &[])?;
    let dynamic = Server::sidecar(ordinary, &admin, &[])?;
    let peer = Server::go()?;
    std::thread::sleep(Duration::from_secs(3));
    say(&format!("binary: ours {} KiB, peer {} KiB", ours.size()? / 1024, peer.size()? / 1024));
    let (a, b) = (ours.rss_kib()?, peer.rss_kib()?);
    say(&format!("RSS at rest: ours {a} KiB, peer {b} KiB, ratio {:.2}", ratio(a, b)));
    let c = dynamic.rss_kib()?;
    say(&format!("RSS at rest of the ordinary build, with its C library: {c} KiB, ratio {:.2}", ratio(c, b)));
    drop(dynamic);
    for (name, keep_alive) in [("one connection per check", false), ("kept connections", true)] {
        // Taken in turn, so that what else the machine does hits both alike.
        let mut rounds: Vec<(f64, f64)> = Vec::new();
        for _ in 0..ROUNDS {
            rounds
                .push((ours.requests_per_cpu_second(keep_alive)?, peer.requests_per_cpu_second(keep_alive)?));
        }
        let (a, b) = (median(rounds.iter().map(|r| r.0)), median(rounds.iter().map(|r| r.1)));
        say(&format!("health requests per CPU second, {name}: ours {a:.0}, peer {b:.0}, ratio {:.2}", a / b));
    }
    let (a, b) = (ours.rss_kib()?, peer.rss_kib()?);
    say(&format!("RSS after load: ours {a} KiB, peer {b} KiB, ratio {:.2}", ratio(a, b)));
    for (name, args) in [
        ("ours", &["--order=wait-then-fail"][..]),
        (
            "ours with a poll every 2 s",
            &["--order=wait-then-fail", "--poll-interval=2s", "--fast-poll=2s", "--zero-samples=1"],
        ),
    ] {
        let lags = flip_lags(binary, &admin, args)?;
        let worst = lags.iter().copied().fold(0.0, f64::max);
        let middle = median(lags.into_iter());
        say(&format!("last request -> health flips, {name}: median {middle:.0} ms, worst {worst:.0} ms"));
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the bench's result")]
fn say(line: &str) {
    println!("{line}");
}

/// An admin that counts as many requests as it is told.
struct FakeEnvoy {
    addr: SocketAddr,
    active: Arc<AtomicU64>,
}

impl FakeEnvoy {
    fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let active = Arc::new(AtomicU64::new(0));
        let shown = Arc::clone(&active);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]);
                let active = shown.load(Ordering::SeqCst);
                let body = format!(
                    "http.ingress.downstream_rq_active: {active}\nhttp.ingress.downstream_cx_active: {active}\n\
                     listener.0.0.0.0_8080.downstream_cx_active: {active}\n"
                );
                let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            }
        });
        Ok(Self { addr, active })
    }
}

/// A process that answers `/health_check.html`.
struct Server {
    process: Child,
    binary: PathBuf,
    health: SocketAddr,
    control: SocketAddr,
}

impl Server {
    fn sidecar(binary: &Path, admin: &FakeEnvoy, args: &[&str]) -> anyhow::Result<Self> {
        let mut process = Command::new(binary)
            .args(["serve", "--public=127.0.0.1:0", "--control=127.0.0.1:0"])
            .arg(format!("--admin=http://{}", admin.addr))
            .args(args)
            .stderr(Stdio::piped())
            .spawn()?;
        let mut log = BufReader::new(process.stderr.take().context("stderr is piped")?);
        loop {
            let mut line = String::new();
            if log.read_line(&mut line)? == 0 {
                bail!("drain-sidecar ended");
            }
            let line: serde_json::Value = serde_json::from_str(&line)?;
            if line["event"] == "listening" {
                std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                let at = |key: &str| line[key].as_str().context("an address")?.parse().context("an address");
                let binary = binary.to_owned();
                return Ok(Self { process, binary, health: at("public")?, control: at("control")? });
            }
        }
    }

    fn go() -> anyhow::Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/peers/hc");
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hc");
        let built = Command::new("go")
            .args(["build", "-trimpath", "-ldflags=-s -w", "-o"])
            .arg(&binary)
            .arg(".")
            .env("CGO_ENABLED", "0")
            .current_dir(source)
            .status()
            .context("the peer is written in Go: install it (Debian: apt-get install golang-go)")?;
        if !built.success() {
            bail!("the peer does not build");
        }
        let mut process =
            Command::new(&binary).env("HC_ADDR", "127.0.0.1:0").stderr(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stderr.take().context("stderr is piped")?).read_line(&mut line)?;
        let health = line.trim().parse()?;
        Ok(Self { process, binary, health, control: health })
    }

    fn size(&self) -> anyhow::Result<u64> {
        Ok(std::fs::metadata(&self.binary)?.len())
    }

    fn rss_kib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// User and system time so far, in seconds.
    fn cpu(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // The name in parentheses may hold blanks; utime and stime are the 12th and 13th after it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(ticks / TICKS)
    }

    /// Two clients as fast as they can.
    fn requests_per_cpu_second(&self, keep_alive: bool) -> anyhow::Result<f64> {
        let before = self.cpu()?;
        let health = self.health;
        let clients: Vec<_> =
            (0..2).map(|_| std::thread::spawn(move || hammer(health, keep_alive))).collect();
        let mut requests = 0;
        for client in clients {
            requests += client.join().ok().context("a client panicked")??;
        }
        Ok(f64::from(requests) / (self.cpu()? - before))
    }

    fn post(&self, path: &str) -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(self.control)?;
        write!(stream, "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { bail!("{path}: {answer}") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn hammer(at: SocketAddr, keep_alive: bool) -> anyhow::Result<u32> {
    let until = Instant::now() + SPAN;
    let mut requests = 0;
    let mut kept: Option<TcpStream> = None;
    while Instant::now() < until {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => TcpStream::connect(at)?,
        };
        if probe(&mut stream, keep_alive)? != 200 {
            bail!("a health answer was not 200");
        }
        requests += 1;
        if keep_alive {
            kept = Some(stream);
        }
    }
    Ok(requests)
}

/// One health check as HAProxy makes it, with its state header; the status.
fn probe(stream: &mut TcpStream, keep_alive: bool) -> anyhow::Result<u16> {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    let request = format!(
        "GET /health_check.html HTTP/1.1\r\nhost: igw\r\nconnection: {connection}\r\nX-Haproxy-Server-State: UP; \
         address=10.0.0.1; port=30080; name=igw/a; node=lb1; weight=1/2; scur=3/9; qcur=0\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = [0; 1024];
    let mut length = 0;
    // The answers of both end with their body, `OK` or `DRAIN`.
    while !(answer[..length].ends_with(b"\nOK") || answer[..length].ends_with(b"\nDRAIN")) {
        let read = stream.read(&mut answer[length..])?;
        if read == 0 {
            break;
        }
        length += read;
    }
    let head = std::str::from_utf8(&answer[..length])?;
    Ok(head.get(9..12).context("a status line")?.parse()?)
}

/// Milliseconds from the moment that Envoy has nothing left to the first 503, over many drains of one process.
fn flip_lags(binary: &Path, admin: &FakeEnvoy, args: &[&str]) -> anyhow::Result<Vec<f64>> {
    let args = [args, &["--lb-buffer=60s"]].concat();
    admin.active.store(1, Ordering::SeqCst);
    let server = Server::sidecar(binary, admin, &args)?;
    let mut lags = Vec::new();
    for flip in 0..FLIPS {
        admin.active.store(1, Ordering::SeqCst);
        server.post("/drain")?;
        // Spread over the phases of a 2 s poll.
        std::thread::sleep(Duration::from_millis(500 + 2000 * flip / FLIPS));
        let ended = Instant::now();
        admin.active.store(0, Ordering::SeqCst);
        loop {
            if probe(&mut TcpStream::connect(server.health)?, false)? == 503 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        lags.push(ended.elapsed().as_secs_f64() * 1000.0);
        server.post("/reopen")?;
    }
    Ok(lags)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "kibibytes")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}
