//! What a node does to a sidecar: crowds on the open port, a log that nobody reads, disks that fill, sockets and files
//! that are not what they should be. The sidecar is real, Envoy is a stand-in that has nothing to do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::binaries::workspace_binary;
use harness::{eventually, find};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(5);

/// A sidecar that listens, and dies with the test.
struct Sidecar {
    process: Child,
    /// Its log from the line on that says where it listens.
    log: Option<BufReader<std::process::ChildStderr>>,
    listening: Value,
}

impl Sidecar {
    fn start(args: &[&str]) -> Self {
        Self::run(workspace_binary("drain-sidecar"), args)
    }

    fn run(mut command: Command, args: &[&str]) -> Self {
        let admin = format!("--admin=http://{}", idle_envoy());
        let fixed =
            ["serve", "--public=127.0.0.1:0", "--control=127.0.0.1:0", "--metrics=127.0.0.1:0", &admin];
        let given = |fixed: &&&str| !args.iter().any(|arg| arg.split('=').next() == fixed.split('=').next());
        command.args(fixed.iter().filter(given)).args(args).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let listening = loop {
            let mut line = String::new();
            log.read_line(&mut line).unwrap();
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not listening: {line}"));
            if line["event"] == "listening" {
                break line;
            }
        };
        Self { process, log: Some(log), listening }
    }

    /// Reads its log from here on, as a node does.
    fn read_log(mut self) -> Self {
        let mut log = self.log.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        self
    }

    fn at(&self, listener: &str) -> SocketAddr {
        self.listening[listener].as_str().unwrap().parse().unwrap()
    }

    fn status(&self) -> Value {
        let answer = said(self.at("control"), "GET /drain/status HTTP/1.1").unwrap();
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Kibibytes of one line of `/proc/<pid>/status`.
    fn memory(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().unwrap()
    }

    fn command(&self, args: &[&str]) -> (Option<i32>, String) {
        let url = format!("http://{}", self.at("control"));
        let output = workspace_binary("drain-sidecar").args(args).args(["--url", &url]).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), text.concat())
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Says `request` (its first line), with further `bytes` in front, and reads the whole answer.
fn with(at: SocketAddr, bytes: &[u8], request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&at, SHORT)?;
    stream.set_read_timeout(Some(SHORT))?;
    stream.write_all(bytes)?;
    write!(stream, "{request}\r\nhost: x\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn said(at: SocketAddr, request: &str) -> std::io::Result<String> {
    with(at, b"", request)
}

fn idle_envoy() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let body = "http.ingress.downstream_rq_active: 0\nlistener.0.0.0.0_8080.downstream_cx_active: 0\n";
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    addr
}

/// Idle ones, heads that never end, and pipelines of requests whose answers nobody reads: 10,000 in all, and whoever
/// probes is answered in the middle of it. A hook that waits is not pushed out by them.
#[test]
fn ten_thousand_connections_keep_no_probe_out() {
    const CROWD: usize = 10_000;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(
        limit.current.is_none_or(|most| most > CROWD as u64 + 500),
        "{limit:?}: raise the hard limit of open files"
    );
    let sidecar = Sidecar::start(&["--control-on-public", "--lb-buffer=1h", "--drain-timeout=1h"]).read_log();
    let health = sidecar.at("public");
    let mut hook = TcpStream::connect(health).unwrap();
    hook.write_all(b"GET /prestop HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let draining = || {
        let answer = said(health, "GET /drain/status HTTP/1.1").unwrap();
        if answer.contains("\"DRAINING\"") { Ok(()) } else { Err(answer) }
    };
    eventually(LONG, "the drain", draining).unwrap();
    let pipeline = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n".repeat(200);
    let mut crowd = Vec::new();
    for number in 0..CROWD {
        let mut stream = TcpStream::connect_timeout(&health, SHORT).unwrap();
        stream.set_nonblocking(true).unwrap();
        match number % 3 {
            0 => {}
            1 => drop(stream.write(b"GET /health_check.html HTTP/1.1\r\nx-slow: ")),
            _ => drop(stream.write(pipeline.as_bytes())),
        }
        crowd.push(stream);
        if number % 250 == 0 {
            for path in ["/health_check.html", "/health", "/live"] {
                let answer = said(health, &format!("GET {path} HTTP/1.1")).unwrap();
                assert!(answer.starts_with("HTTP/1.1 "), "{number} {path}: {answer}");
            }
        }
    }
    for _ in 0..20 {
        assert!(said(health, "GET /live HTTP/1.1").unwrap().starts_with("HTTP/1.1 200"));
    }
    let peak = sidecar.memory("VmHWM");
    assert!(peak < 24 * 1024, "{peak} KiB");
    hook.set_nonblocking(true).unwrap();
    let error = hook.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "the hook still waits");
}

/// Far more lines than a pipe holds, one for each prober that is made up.
#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let sidecar = Sidecar::start(&[]);
    for prober in 0..3_000 {
        let request = format!(
            "GET /health_check.html HTTP/1.1\r\nx-haproxy-server-state: UP; name=igw/a; node={prober}"
        );
        let answer = said(sidecar.at("public"), &request).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{prober}: {answer}");
    }
    let metrics = said(sidecar.at("metrics"), "GET /metrics HTTP/1.1").unwrap();
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("drain_log_dropped_total "));
    assert!(dropped.unwrap().parse::<u64>().unwrap() > 0, "{metrics}");
    // Its control: somebody reads, and what was dropped is told.
    let sidecar = sidecar.read_log();
    assert_eq!(sidecar.command(&["drain"]).0, Some(0));
    let text = said(sidecar.at("public"), "GET /health_check.html HTTP/1.1").unwrap();
    assert!(text.starts_with("HTTP/1.1 "), "{text}");
}

/// A small disk of its own for the sidecar. Everything of it is reached through the process.
fn on_a_small_disk(folder: &Path, then: &str, args: &[&str]) -> Sidecar {
    let mut command = Command::new(find("unshare", "util-linux").unwrap());
    let script = format!("mount -t tmpfs -o size=64k tmpfs \"$1\" && {then} shift && exec \"$@\"");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(folder);
    command.arg(workspace_binary("drain-sidecar").get_program());
    Sidecar::run(command, args).read_log()
}

#[test]
fn a_full_disk_is_found_by_preflight_and_forgets_no_drain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let state = format!("--state-file={}", path.display());
    let full = on_a_small_disk(
        folder.path(),
        "{ head -c 1m /dev/zero > \"$1/fill\" 2>/dev/null || true; } &&",
        &[&state],
    );
    let (code, said) = full.command(&["preflight"]);
    assert!(code == Some(1) && said.contains("FAIL  state_file"), "{said}");
    drop(full);

    // Filled later: the blocks that the file has are used.
    let sidecar = on_a_small_disk(folder.path(), "", &[&state, "--zero-samples=100000"]);
    let there = PathBuf::from(format!("/proc/{}/root{}", sidecar.process.id(), folder.path().display()));
    eventually(LONG, "the state file", || std::fs::metadata(there.join("state.json"))).unwrap();
    let filled = std::fs::write(there.join("fill"), vec![0; 1 << 20]);
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(sidecar.command(&["drain"]).0, Some(0));
    let kept = || -> anyhow::Result<()> {
        let kept: Value = serde_json::from_slice(&std::fs::read(there.join("state.json"))?)?;
        anyhow::ensure!(kept["state"] == "DRAINING", "{kept}");
        Ok(())
    };
    eventually(LONG, "the drain on the disk", kept).unwrap();
    let (_, said) = sidecar.command(&["preflight"]);
    assert!(said.contains("ok    state_file"), "{said}");
}

/// A pipe would hold up the start for ever, and a device be replaced by the first write.
#[test]
fn only_a_regular_file_may_hold_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for bad in [pipe.as_path(), Path::new("/dev/null"), folder.path()] {
        let state = format!("--state-file={}", bad.display());
        let output = workspace_binary("drain-sidecar")
            .args(["serve", "--public=127.0.0.1:0", "--control=127.0.0.1:0", "--metrics=off", &state])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("not a regular file"), "{said}");
    }
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

/// NetScaler asks with HEAD, older balancers with HTTP/1.0, and an NLB may put a PROXY header before its check.
#[test]
fn every_way_to_ask_for_health_is_answered() {
    let sidecar = Sidecar::start(&[]).read_log();
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    for header in [&b""[..], b"PROXY TCP4 10.0.0.1 10.0.0.2 5000 18180\r\n", b"PROXY UNKNOWN\r\n", v2] {
        for path in ["/health_check.html", "/health", "/live"] {
            for version in ["1.0", "1.1"] {
                let head =
                    with(sidecar.at("public"), header, &format!("HEAD {path} HTTP/{version}")).unwrap();
                assert!(
                    head.contains(" 200 OK\r\n") && head.ends_with("\r\n\r\n"),
                    "{path} {version}: {head}"
                );
                let get = with(sidecar.at("public"), header, &format!("GET {path} HTTP/{version}")).unwrap();
                assert!(
                    get.contains(" 200 OK\r\n") && get.ends_with("\r\n\r\nOK"),
                    "{path} {version}: {get}"
                );
            }
        }
    }
    assert!(said(sidecar.at("public"), "POST /health HTTP/1.1").unwrap().contains(" 405 "));
    // A header alone is no request.
    let lost = with(sidecar.at("public"), b"PROXY TCP4 ", "GET /health HTTP/1.1");
    assert!(!lost.unwrap_or_default().contains(" 200 "));
}

/// What scrapers reach says everything and does nothing.
#[test]
fn the_listener_for_scrapers_only_reads() {
    let sidecar = Sidecar::start(&[]).read_log();
    let metrics = sidecar.at("metrics");
    for (request, status) in [
        ("GET /metrics HTTP/1.1", 200),
        ("GET /drain/status HTTP/1.1", 200),
        ("POST /drain/status HTTP/1.1", 405),
        ("POST /drain HTTP/1.1", 404),
        ("GET /prestop HTTP/1.1", 404),
        ("POST /fault HTTP/1.1", 404),
        ("GET /health_check.html HTTP/1.1", 404),
    ] {
        let answer = said(metrics, request).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
    }
    assert_eq!(sidecar.status()["state"], "OPEN");
    // A port that is taken costs the metrics, not the drain.
    let without = Sidecar::start(&[&format!("--metrics={metrics}")]).read_log();
    assert_eq!(without.listening["metrics"], Value::Null);
    assert_eq!(without.command(&["prestop"]).0, Some(0));
}

/// The runbook's steps are commands; what does not fit the state is refused with its reason.
#[test]
fn the_verbs_move_the_drain_and_say_what_they_found() {
    let sidecar = Sidecar::start(&["--zero-samples=100000", "--lb-buffer=60s"]).read_log();
    for (args, code, text) in [
        (&["status"][..], 0, "state      OPEN, ready, order no-new-work\n"),
        (&["reopen"], 1, "does not fit the state OPEN"),
        (&["drain"], 0, "OPEN -> DRAINING\n"),
        (&["drain"], 1, "does not fit the state DRAINING"),
        (&["reopen"], 0, "DRAINING -> OPEN\n"),
        (&["drain", "-o", "json"], 0, "\"state\":\"DRAINING\""),
        (&["close"], 0, "DRAINING -> CLOSING\n"),
        (&["close"], 0, "CLOSING -> CLOSED\n"),
        (&["close"], 1, "does not fit the state CLOSED"),
        (&["status", "-o", "json"], 0, "\"state\":\"CLOSED\""),
    ] {
        let (found, said) = sidecar.command(args);
        assert!(found == Some(code) && said.contains(text), "{args:?}: {found:?} {said}");
    }
    let public = format!("http://{}", sidecar.at("public"));
    let output = workspace_binary("drain-sidecar").args(["drain", "--url", &public]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "the health port drains nothing");
}

/// Not answered, or accepted and closed: the hook ends by itself, and says so.
#[test]
fn the_hook_has_an_end_whatever_listens_there() {
    let closes = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [closes.local_addr().unwrap(), silent.local_addr().unwrap()];
    std::thread::spawn(move || closes.incoming().for_each(drop));
    let hooks = addresses.map(|at| {
        let mut command = workspace_binary("drain-sidecar");
        command.args(["prestop", "--url", &format!("http://{at}")]).stderr(Stdio::null());
        command.spawn().unwrap()
    });
    for mut hook in hooks {
        let ended = eventually(LONG, "the hook's end", || hook.try_wait().unwrap().ok_or("it still runs"));
        let _ = hook.kill();
        assert_eq!(ended.unwrap().code(), Some(2));
    }
    drop(silent);
}

/// Told to end in service with nothing to wait for: soon, however seldom anything else happens.
#[test]
fn a_sidecar_in_service_ends_soon_after_it_is_told_to() {
    let mut sidecar = Sidecar::start(&["--poll-interval=60s"]).read_log();
    sidecar.signal(Signal::TERM);
    let ended = || sidecar.process.try_wait().unwrap().ok_or("it still runs");
    assert!(eventually(Duration::from_secs(20), "its end", ended).unwrap().success());
}

/// Settings that undo the drain are named by preflight.
#[test]
fn settings_that_undo_the_drain_fail_the_preflight() {
    for (args, found) in [
        (&["--drain-timeout=0"][..], "DRAIN_TIMEOUT is 0"),
        (&["--min-drain=3m"], "MIN_DRAIN is longer"),
        (&["--lb-drain-status=200", "--lb-drain-body=OK, BUT NO MORE"], "contains OK"),
    ] {
        let (code, said) = Sidecar::start(args).read_log().command(&["preflight"]);
        assert!(code == Some(1) && said.contains("FAIL  settings") && said.contains(found), "{said}");
    }
    let (_, said) = Sidecar::start(&[]).read_log().command(&["preflight"]);
    assert!(said.contains("ok    settings"), "{said}");
}

/// `:port` means both families, also where the node's default for IPv6 sockets is another.
#[test]
fn ipv4_is_served_where_ipv6_sockets_are_alone_by_default() {
    let script = "ip link set lo up && echo 1 > /proc/sys/net/ipv6/bindv6only && \
                  { \"$1\" serve --public=:18980 --admin=http://127.0.0.1:9 2>&1 & } && \
                  for _ in $(seq 100); do \"$1\" status >/dev/null 2>&1 && break; sleep 0.1; done; \
                  exec 3<>/dev/tcp/127.0.0.1/18980 && printf 'GET /live HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3; kill %1";
    let mut command = Command::new(find("unshare", "util-linux").unwrap());
    command.args(["--user", "--map-root-user", "--net", "bash", "-c", script, "bash"]);
    let output = command.arg(workspace_binary("drain-sidecar").get_program()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(" 200 OK\r\n"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
