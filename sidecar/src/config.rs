//! The command line and the environment, as the settings the other modules take. The names of the environment
//! variables are those that existing manifests already set (`HC_ADDR`, `ENVOY_ADMIN`, ...); a flag wins over them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::address::{Bind, Target};
use crate::count::Counting;
use crate::drain::{DrainMode, Order, Rules, Third, WebSockets};
use crate::duration::{duration, millis};
use crate::plan::PlanArgs;

/// Takes a pod out from behind an external load balancer without cutting a request.
#[derive(Debug, Parser)]
#[command(version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Cmd,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cmd {
    /// Run the sidecar.
    Serve(Box<ServeArgs>),
    /// Show where a running sidecar stands, what it waits for and what the load balancers have said.
    Status(VerbArgs),
    /// Start a drain and return at once; `prestop` waits for its end.
    Drain(VerbArgs),
    /// Undo a drain: from DRAINING or CLOSING back to OPEN.
    Reopen(VerbArgs),
    /// End the wait: from DRAINING to CLOSING (503), or from CLOSING to CLOSED.
    Close(VerbArgs),
    /// Start or join the drain of a running sidecar and wait until the pod is out: the preStop hook.
    Prestop(ClientArgs),
    /// Say whether a drain would work: gauges, Envoy's drain settings, load balancer, state file.
    Preflight(ClientArgs),
    /// Compute grace period and timeouts from the longest requests and the load balancer's check.
    Plan(PlanArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the man pages into a folder.
    Man {
        /// The folder; it is made if it is not there.
        dir: PathBuf,
    },
    /// Copy this binary, so that a container without curl can run it as its hook.
    Install {
        /// Where to, usually on a volume that both containers mount.
        to: PathBuf,
    },
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ServeArgs {
    /// What the load balancer and the kubelet see.
    #[arg(long, env = "HC_ADDR", default_value = ":18180")]
    pub(crate) public: Bind,

    /// What only the pod may ask: an address or `unix:/path`.
    #[arg(long, env = "HC_CONTROL_ADDR", default_value = "127.0.0.1:18181")]
    pub(crate) control: Bind,

    /// Serve the control paths on the public port too: anyone who reaches it can then drain the pod.
    #[arg(long, env = "HC_CONTROL_ON_PUBLIC")]
    pub(crate) control_on_public: bool,

    /// What scrapers may ask: `/metrics` and `/drain/status`, nothing that changes anything; `off` for none.
    #[arg(long, env = "HC_METRICS_ADDR", default_value = ":18182")]
    pub(crate) metrics: MetricsAt,

    /// HAProxy agent-check port.
    #[arg(long, env = "HC_AGENT_ADDR", value_parser = tcp)]
    pub(crate) agent: Option<Bind>,

    /// Envoy's admin: `http://host:port` or `unix:/path`.
    #[arg(long, env = "ENVOY_ADMIN", default_value = "http://127.0.0.1:15000")]
    pub(crate) admin: Target,

    /// A port Envoy serves clients on. "Envoy is gone" is then believed only if this refuses too.
    #[arg(long, env = "ENVOY_DATA")]
    pub(crate) data: Option<SocketAddr>,

    /// Which signals go off in which order.
    #[arg(long, env = "DRAIN_ORDER", value_enum, default_value_t = Order::NoNewWork)]
    pub(crate) order: Order,

    /// Status of the "no new work" answer: `404` for HAProxy's disable-on-404, `NetScaler`'s trofsCode and F5's disable
    /// string; `503` for balancers that keep what runs on an unhealthy target; `auto` gives 404 where the load balancer
    /// shows that it understands; `off` never.
    #[arg(long, env = "LB_DRAIN_STATUS", default_value = "auto", value_parser = drain_status)]
    pub(crate) lb_drain_status: DrainStatus,

    /// Body of the "no new work" answer.
    #[arg(long, env = "LB_DRAIN_BODY", default_value = "NO NEW WORK")]
    pub(crate) lb_drain_body: String,

    /// Whether the drain goes on to Envoy's listeners, which Envoy cannot undo.
    #[arg(long, env = "DRAIN_MODE", value_enum, default_value_t = DrainMode::Listeners)]
    pub(crate) drain_mode: DrainMode,

    /// Drain only Envoy's inbound listeners.
    #[arg(long, env = "DRAIN_INBOUND_ONLY")]
    pub(crate) inbound_only: bool,

    /// Longest wait for zero requests.
    #[arg(long, env = "DRAIN_TIMEOUT", default_value = "120s", value_parser = duration)]
    pub(crate) drain_timeout: Duration,

    /// Shortest drain.
    #[arg(long, env = "MIN_DRAIN", default_value = "0s", value_parser = duration)]
    pub(crate) min_drain: Duration,

    /// Longest wait for the load balancer to say that it has understood.
    #[arg(long, env = "LB_BUFFER", default_value = "10s", value_parser = duration)]
    pub(crate) lb_buffer: Duration,

    /// Slowest poll of Envoy; near zero it is asked more often.
    #[arg(long, env = "POLL_INTERVAL", default_value = "2s", value_parser = duration)]
    pub(crate) poll_interval: Duration,

    /// Fastest poll.
    #[arg(long, env = "FAST_POLL", default_value = "40ms", value_parser = duration)]
    pub(crate) fast_poll: Duration,

    /// Time limit of one poll.
    #[arg(long, env = "STATS_TIMEOUT", default_value = "1s", value_parser = duration)]
    pub(crate) stats_timeout: Duration,

    /// Readings of zero in a row that are believed.
    #[arg(long, env = "ZERO_SAMPLES", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) zero_samples: u32,

    /// So many requests count as zero.
    #[arg(long, env = "MIN_ACTIVE", default_value_t = 0)]
    pub(crate) min_active: u64,

    /// HTTP stat prefixes that do not count.
    #[arg(long, env = "EXCLUDE_HTTP", value_delimiter = ',', default_value = "stats,agent")]
    pub(crate) exclude_http: Vec<String>,

    /// Listeners (`0.0.0.0_9000`) whose TCP sessions do not count.
    #[arg(long, env = "EXCLUDE_LISTENERS", value_delimiter = ',')]
    pub(crate) exclude_listeners: Vec<String>,

    /// WebSockets: `wait`, `ignore`, or a time after which they are let go.
    #[arg(long, env = "WS_POLICY", default_value = "wait", value_parser = websockets)]
    pub(crate) ws_policy: WebSockets,

    /// Do not wait for raw TCP sessions.
    #[arg(long, env = "IGNORE_TCP")]
    pub(crate) ignore_tcp: bool,

    /// Where the drain's state is kept across a restart of this container.
    #[arg(long, env = "STATE_FILE")]
    pub(crate) state_file: Option<PathBuf>,

    /// Start a drain on SIGTERM: for pods whose proxy container has no preStop hook.
    #[arg(long, env = "DRAIN_ON_SIGTERM")]
    pub(crate) drain_on_sigterm: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The sidecar's control listener: `http://host:port` or `unix:/path`.
    #[arg(long, env = "HC_URL", default_value = "http://127.0.0.1:18181")]
    pub(crate) url: Target,
}

#[derive(Debug, Args)]
pub(crate) struct VerbArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,

    /// Text for people, or the sidecar's own JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// `--output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

/// `--metrics`.
#[derive(Debug, Clone)]
pub(crate) struct MetricsAt(pub(crate) Option<Bind>);

impl FromStr for MetricsAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" { Ok(Self(None)) } else { text.parse().map(|at| Self(Some(at))) }
    }
}

/// `--lb-drain-status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DrainStatus {
    pub(crate) third: Third,
    pub(crate) code: u16,
}

impl ServeArgs {
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            order: self.order,
            third: self.lb_drain_status.third,
            mode: self.drain_mode,
            drain_timeout: millis(self.drain_timeout),
            lb_buffer: millis(self.lb_buffer),
            min_drain: millis(self.min_drain),
            zero_samples: self.zero_samples,
            min_active: self.min_active,
            websockets: self.ws_policy,
            drain_on_sigterm: self.drain_on_sigterm,
        }
    }

    /// Settings that undo the drain, each with what to do instead.
    pub(crate) fn doubts(&self) -> Vec<(&'static str, &'static str)> {
        let waits = self.order != Order::FailFirst;
        let ok_means_drain = self.lb_drain_status.third == Third::Always && self.lb_drain_status.code == 200;
        let all = [
            (
                waits && self.drain_timeout.is_zero(),
                "DRAIN_TIMEOUT is 0: requests are not waited for",
                "give it what `drain-sidecar plan` prints",
            ),
            (
                self.min_drain > self.drain_timeout,
                "MIN_DRAIN is longer than DRAIN_TIMEOUT, which ends the drain",
                "lower it, or raise DRAIN_TIMEOUT",
            ),
            (
                ok_means_drain && self.lb_drain_body.contains("OK"),
                "LB_DRAIN_BODY contains OK, which is also the body of a pod in service",
                "choose another body",
            ),
        ];
        all.into_iter().filter(|(holds, ..)| *holds).map(|(_, found, hint)| (found, hint)).collect()
    }

    pub(crate) fn counting(&self) -> Counting {
        Counting {
            exclude_http: self.exclude_http.clone(),
            exclude_listeners: self.exclude_listeners.clone(),
            tcp: !self.ignore_tcp,
        }
    }
}

/// HAProxy's agent-check knows no unix sockets.
fn tcp(text: &str) -> Result<Bind, String> {
    match text.parse()? {
        Bind::Unix(_) => Err("an agent-check port is `:port` or `ip:port`".to_owned()),
        tcp @ Bind::Tcp(_) => Ok(tcp),
    }
}

fn websockets(text: &str) -> Result<WebSockets, String> {
    match text {
        "wait" => Ok(WebSockets::Wait),
        "ignore" => Ok(WebSockets::Ignore),
        time => duration(time).map(|limit| WebSockets::Until(millis(limit))),
    }
}

fn drain_status(text: &str) -> Result<DrainStatus, String> {
    match text {
        "auto" => Ok(DrainStatus { third: Third::SelfChecked, code: 404 }),
        "off" => Ok(DrainStatus { third: Third::Off, code: 404 }),
        code => match code.parse() {
            Ok(code @ 200..=599) if code != 304 => Ok(DrainStatus { third: Third::Always, code }),
            _ => Err("expected `auto`, `off` or a status from 200 to 599".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_do_not_fit_are_refused() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["drain-sidecar", "serve"], args].concat());
        assert!(parse(&[]).is_ok());
        for bad in [
            "--lb-drain-status=304",
            "--lb-drain-status=99",
            "--agent=unix:/x",
            "--zero-samples=0",
            "--ws-policy=perhaps",
            "--admin=http://envoy:15000",
            "--order=best",
            "--no-such-flag",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
