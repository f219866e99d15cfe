//! The image without an engine: its one file in a root that holds nothing else and cannot be written, as the user that
//! the Dockerfile names and without capabilities, in a user and a mount namespace of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use harness::binaries::workspace_binary;
use harness::{eventually, find};
use serde_json::Value;
use tempfile::TempDir;

use crate::workspace;

/// As an engine does it: a volume and `/proc` in a root that is then made read-only. `chroot` needs its capability for a
/// moment; with it alone nothing can be written that the user may not write.
const ENGINE: &str = r#"
set -eu
root=$1 volume=$2; shift 2
mount --bind "$root" "$root"
mount --rbind /proc "$root/proc"
mount --bind "$volume" "$root/drain"
mount -o remount,bind,ro "$root"
caps=-all,+sys_chroot
exec setpriv --no-new-privs --bounding-set=$caps --inh-caps=$caps --ambient-caps=$caps chroot "$root" "$@"
"#;

/// A root and a volume.
struct Container {
    root: TempDir,
    volume: TempDir,
    user: String,
}

impl Container {
    /// With `binary` as the image's only file.
    fn of(binary: &Path) -> Self {
        let (root, volume) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in ["proc", "drain"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        std::fs::copy(binary, root.path().join("drain-sidecar")).unwrap();
        Self { root, volume, user: user() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(find("unshare", "util-linux").unwrap());
        command.args([
            "--user",
            "--map-user",
            &self.user,
            "--map-group",
            &self.user,
            "--keep-caps",
            "--mount",
        ]);
        command.args(["sh", "-c", ENGINE, "engine"]).arg(self.root.path()).arg(self.volume.path());
        command.args(args).env_clear().stdin(Stdio::null());
        // For the engine; the image has nothing to find.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

/// The user of the sidecar's Dockerfile.
fn user() -> String {
    let text = std::fs::read_to_string(workspace().join("sidecar/Dockerfile")).unwrap();
    let stage = text.split("FROM scratch\n").nth(1).unwrap();
    let line = stage.lines().find_map(|line| line.strip_prefix("USER ")).unwrap();
    let (user, group) = line.split_once(':').unwrap();
    assert!(user == group && user.parse::<u32>().unwrap() > 0, "{line}");
    user.to_owned()
}

/// What the Dockerfile builds and copies.
fn static_binary() -> PathBuf {
    let made = Command::new("make").arg("sidecar").current_dir(workspace()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let target = format!("target/{}-unknown-linux-gnu/sidecar/drain-sidecar", std::env::consts::ARCH);
    workspace().join(target)
}

/// Copies itself onto the volume as the pod's first container does, serves, keeps its state, and is asked by its copy.
#[test]
fn the_binary_needs_nothing_but_its_volume() {
    let container = Container::of(&static_binary());
    let installed = container.run(&["/drain-sidecar", "install", "/drain/drain-sidecar"]);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let refused = container.run(&["/drain-sidecar", "install", "/elsewhere"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("Read-only file system"), "{said}");

    let admin = idle_envoy();
    let mut serving = Serving::start(&container, &format!("http://{admin}"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.process.id())).unwrap();
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    assert_eq!(get(serving.health, "/health_check.html"), 200);
    let asked =
        container.run(&["/drain/drain-sidecar", "prestop", "--url", &format!("http://{}", serving.control)]);
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    assert_eq!(get(serving.health, "/health_check.html"), 503);
    assert!(serving.process.try_wait().unwrap().is_none(), "it serves on until it is told to end");
    // The hook is answered when the pod is out; the disk may be a moment behind.
    let saved = || -> anyhow::Result<()> {
        let state: Value =
            serde_json::from_slice(&std::fs::read(container.volume.path().join("state.json"))?)?;
        anyhow::ensure!(state["state"] == "CLOSED", "{state}");
        Ok(())
    };
    eventually(Duration::from_secs(30), "the state on the volume", saved).unwrap();
}

/// The control: a binary that needs its loader does not start in there.
#[test]
fn a_dynamic_binary_does_not_start_there() {
    let container = Container::of(Path::new(workspace_binary("drain-sidecar").get_program()));
    let output = container.run(&["/drain-sidecar", "--version"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(127) && said.contains("/drain-sidecar"), "{said}");
}

/// `serve` in the container.
struct Serving {
    process: Child,
    health: SocketAddr,
    control: SocketAddr,
}

impl Serving {
    fn start(container: &Container, admin: &str) -> Self {
        let args =
            ["/drain-sidecar", "serve", "--public=127.0.0.1:0", "--control=127.0.0.1:0", "--admin", admin];
        let args =
            [&args[..], &["--state-file=/drain/state.json", "--lb-buffer=0s", "--fast-poll=10ms"]].concat();
        let mut process = container.command(&args).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let line = loop {
            let mut said = String::new();
            log.read_line(&mut said).unwrap();
            let line: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("not listening: {said}"));
            if line["event"] == "listening" {
                break line;
            }
        };
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let at = |key: &str| line[key].as_str().unwrap().parse().unwrap();
        Self { process, health: at("public"), control: at("control") }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An Envoy's admin with nothing to do.
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

fn get(at: SocketAddr, path: &str) -> u16 {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer[9..12].parse().unwrap()
}
