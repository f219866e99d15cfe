//! Pure: which pods, how often they are checked and what a dead one's sessions come to -> HAProxy's configuration.
//! `haproxy` writes it; the switches are those that the drain scenarios vary.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One pod as HAProxy reaches it.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name in `show stat`.
    pub name: String,
    /// HTTP data port.
    pub data: SocketAddr,
    /// Raw TCP data port.
    pub tcp: SocketAddr,
    /// Health port.
    pub health: SocketAddr,
    /// Agent-check port.
    pub agent: Option<SocketAddr>,
}

/// The load balancer of one run.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is one line of HAProxy's own configuration")]
pub struct Config {
    /// Name of this node in the state header.
    pub node: String,
    /// The pods.
    pub servers: Vec<Server>,
    /// Time between two checks.
    pub inter: Duration,
    /// Failed checks until DOWN.
    pub fall: u32,
    /// Good checks until UP.
    pub rise: u32,
    /// `on-marked-down shutdown-sessions`: sessions on a server that goes DOWN are cut.
    pub flush: bool,
    /// `http-check disable-on-404`.
    pub disable_on_404: bool,
    /// `http-check send-state`.
    pub send_state: bool,
    /// `retry-on all-retryable-errors`, which also repeats POSTs.
    pub retry_all: bool,
}

impl Config {
    /// As the reference has it: `inter 2s fall 2 rise 2`, flush, `retries 3` with redispatch.
    #[must_use]
    pub fn reference(servers: Vec<Server>) -> Self {
        Self {
            node: "lb1".to_owned(),
            servers,
            inter: Duration::from_secs(2),
            fall: 2,
            rise: 2,
            flush: true,
            disable_on_404: false,
            send_state: false,
            retry_all: false,
        }
    }

    /// The reference, made to understand the third answer and to say so.
    #[must_use]
    pub fn understanding(servers: Vec<Server>) -> Self {
        Self { disable_on_404: true, send_state: true, ..Self::reference(servers) }
    }

    /// The file; sockets lie in `folder`.
    #[must_use]
    pub fn render(&self, folder: &Path) -> String {
        let mut text = format!(
            "global\n  node {}\n  stats socket {} level admin\n  log stdout format raw local0 info\n  maxconn 4000\n\n",
            self.node,
            stats_socket(folder).display(),
        );
        // Writing to a String does not fail, here and below.
        let _ = write!(
            text,
            "defaults\n  log global\n  mode http\n  retries 3\n  option redispatch\n  timeout connect 2s\n  \
             timeout client 120s\n  timeout server 120s\n  timeout check 2s\n  \
             log-format \"session %Ts.%ms %Ta %ts %ST %B %s\"\n\n"
        );
        for (name, socket, proto) in [("h1", front_h1(folder), ""), ("h2", front_h2(folder), " proto h2")] {
            let bind = socket.display();
            let _ = write!(text, "frontend {name}\n  bind unix@{bind}{proto}\n  default_backend igw\n\n");
        }
        let _ = write!(
            text,
            "frontend raw\n  mode tcp\n  log-format \"session %Ts.%ms %Tt %ts 0 %B %s\"\n  bind unix@{}\n  \
             default_backend igw-tcp\n\n",
            front_tcp(folder).display()
        );
        self.backend(&mut text, "igw", "http", |server| server.data);
        self.backend(&mut text, "igw-tcp", "tcp", |server| server.tcp);
        text
    }

    fn backend(&self, text: &mut String, name: &str, mode: &str, data: fn(&Server) -> SocketAddr) {
        let _ = write!(text, "backend {name}\n  mode {mode}\n  balance roundrobin\n  option httpchk\n");
        let _ = writeln!(text, "  http-check send meth GET uri /health_check.html");
        let switches = [
            (self.disable_on_404, "http-check disable-on-404"),
            (self.send_state, "http-check send-state"),
            (self.retry_all && mode == "http", "retry-on all-retryable-errors"),
        ];
        for (_, line) in switches.iter().filter(|(on, _)| *on) {
            let _ = writeln!(text, "  {line}");
        }
        let inter = self.inter.as_millis();
        let flush = if self.flush { " on-marked-down shutdown-sessions" } else { "" };
        for server in &self.servers {
            let agent = server.agent.map_or_else(String::new, |agent| {
                format!(" agent-check agent-port {} agent-inter {inter}ms", agent.port())
            });
            let _ = writeln!(
                text,
                "  server {} {} check port {} inter {inter}ms fall {} rise {}{flush}{agent}",
                server.name,
                data(server),
                server.health.port(),
                self.fall,
                self.rise,
            );
        }
        text.push('\n');
    }
}

/// The stats socket.
#[must_use]
pub fn stats_socket(folder: &Path) -> PathBuf {
    folder.join("stats.sock")
}

/// The HTTP/1 frontend.
#[must_use]
pub fn front_h1(folder: &Path) -> PathBuf {
    folder.join("h1.sock")
}

/// The HTTP/2 frontend.
#[must_use]
pub fn front_h2(folder: &Path) -> PathBuf {
    folder.join("h2.sock")
}

/// The raw TCP frontend.
#[must_use]
pub fn front_tcp(folder: &Path) -> PathBuf {
    folder.join("tcp.sock")
}
