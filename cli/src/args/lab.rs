//! Arguments of the lab's commands.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use labdns::Name;

use super::LOOPBACK;
use super::experiments::{EnvoyArgs, RunArgs, UpArgs};
use crate::format::{Format, FormatOf, Kind};

use super::values::{duration, lab_name, lab_type, resource_name, server};

/// The lab's commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Classify the demo names against the built-in lab DNS and print their YAML.
    Demo,
    /// List the experiments: what each asks, and the control that must come out the other way.
    List,
    /// Run experiments on a real Envoy and print the evidence.
    Run(RunArgs),
    /// Measure what each Envoy does, by version, against what this tool says it does.
    Matrix(EnvoyArgs),
    /// Keep lab DNS, backends and Envoys up, with the addresses to curl, until Ctrl-C.
    Up(UpArgs),
    /// One backend alone, which names itself in every answer, until Ctrl-C: for a lab whose parts are pods.
    Backend {
        /// Its name.
        #[arg(long, value_parser = resource_name)]
        name: String,
        /// Where it listens for TLS.
        #[arg(long, value_name = "ADDR:PORT")]
        listen: SocketAddr,
        /// Where its control API listens, by which a lab kills it and reads its connections; none without it.
        #[arg(long, value_name = "ADDR:PORT")]
        control_listen: Option<SocketAddr>,
    },
    /// The client's side of a lab whose parts are pods, until Ctrl-C: waits for `lab run --in-cluster`.
    Client {
        /// Where it waits, for a port-forward.
        #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5390")]
        listen: SocketAddr,
        /// Admin port of the pod's proxy.
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:15000")]
        admin: SocketAddr,
        /// Where the proxy takes TLS, in a pod whose connections are not captured.
        #[arg(long, value_name = "ADDR:PORT")]
        front_tls: Option<SocketAddr>,
        /// Where it takes plain HTTP there.
        #[arg(long, value_name = "ADDR:PORT")]
        front_http: Option<SocketAddr>,
    },
    /// The lab DNS alone, and the commands that steer it while it runs.
    #[command(subcommand)]
    Dns(DnsCommand),
    /// How right the classifier is on scenarios, in simulated time.
    Score(ScoreArgs),
    /// How often `watch` is wrong on scenarios, over days of simulated time: false flips, wrong classes, missed fail-overs.
    WatchScore(WatchScoreArgs),
    /// List the built-in scenarios, or print one as a file to start from.
    Scenarios {
        /// The scenario to print, such as `demo` or `zoo/one-vip`; all are listed without it.
        name: Option<String>,
    },
}

/// The lab DNS.
#[derive(Debug, Subcommand)]
pub enum DnsCommand {
    /// Serve a scenario until Ctrl-C.
    Serve(ServeArgs),
    /// Switch a name to other addresses, visible to the next query.
    Flip {
        /// The name to switch.
        #[arg(value_parser = lab_name)]
        name: Name,
        /// Its new addresses.
        #[arg(required = true)]
        addresses: Vec<IpAddr>,
        /// Where the lab DNS is steered.
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Replace the records of a name: addresses, TTL.
    Set {
        /// The name to set; it is added where the zone lacks it.
        #[arg(value_parser = lab_name)]
        name: Name,
        /// Its addresses.
        #[arg(required = true)]
        addresses: Vec<IpAddr>,
        /// Time to live, seconds.
        #[arg(long, default_value_t = 5)]
        ttl: u32,
        /// Where the lab DNS is steered.
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Make a name fail in a given way.
    Fault {
        /// The name at fault.
        #[arg(value_parser = lab_name)]
        name: Name,
        /// How it fails.
        #[arg(value_enum)]
        fault: FaultWord,
        /// How long an answer waits under `delay`.
        #[arg(long, value_parser = duration, default_value = "2s")]
        delay: Duration,
        /// Where the lab DNS is steered.
        #[command(flatten)]
        control: ControlArgs,
    },
    /// End the faults of a name.
    Clear {
        /// The name to mend; every name without it.
        #[arg(value_parser = lab_name)]
        name: Option<Name>,
        /// Where the lab DNS is steered.
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Print the query log.
    Log {
        /// Only this name.
        #[arg(long, value_parser = lab_name)]
        name: Option<Name>,
        /// Only this record type, such as A.
        #[arg(long = "type", value_name = "TYPE", value_parser = lab_type)]
        record_type: Option<labdns::RecordType>,
        /// At most this many entries, the newest.
        #[arg(long, default_value_t = 100)]
        last: usize,
        /// Form of the output.
        #[arg(short, long, default_value = "text", value_parser = FormatOf(Kind::QueryLog))]
        output: Format,
        /// Where the lab DNS is steered.
        #[command(flatten)]
        control: ControlArgs,
    },
}

/// How a name of the lab fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FaultWord {
    /// The name does not exist.
    Nxdomain,
    /// An answer without an address.
    Nodata,
    /// The server fails.
    Servfail,
    /// The server refuses.
    Refused,
    /// No answer at all.
    Drop,
    /// A late answer.
    Delay,
    /// A truncated answer, and the whole of it over TCP.
    Truncate,
    /// A truncated answer, and TCP hangs up.
    TruncateOnly,
    /// Bytes that are no DNS message.
    Garbage,
    /// The answer to another query's id.
    WrongId,
    /// The answer to another question.
    WrongQuestion,
}

/// Where the running lab DNS is steered.
#[derive(Debug, Args)]
pub struct ControlArgs {
    /// Control API of the running lab DNS (`lab dns serve` prints it).
    #[arg(long, env = "EGRESS_AUDIT_LAB", value_name = "ADDR", default_value = "127.0.0.1:5380", value_parser = server)]
    pub control: SocketAddr,
}

/// Arguments of `lab dns serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Scenario file, or the name of a built-in one (`egress-audit lab scenarios`).
    #[arg(long, default_value = "demo")]
    pub scenario: String,
    /// Address to listen on.
    #[arg(long, default_value_t = LOOPBACK)]
    pub listen: IpAddr,
    /// Port of the authoritative server, UDP and TCP; 0 takes a free one.
    #[arg(long, default_value_t = 5353)]
    pub port: u16,
    /// Port of the caching resolver in front of it, where the scenario has one; 0 takes a free one.
    #[arg(long, default_value_t = 5354)]
    pub resolver_port: u16,
    /// Address of the control API: loopback, since whoever reaches it can change the zone.
    #[arg(long, default_value_t = LOOPBACK)]
    pub control_listen: IpAddr,
    /// Port of the control API; 0 takes a free one.
    #[arg(long, default_value_t = 5380)]
    pub control_port: u16,
    /// Seed of every random choice: the same seed gives the same answers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Arguments of `lab score`.
#[derive(Debug, Args)]
pub struct ScoreArgs {
    /// Scenario files or folders of them; the built-in zoo without any.
    pub scenarios: Vec<PathBuf>,
    /// Runs of each scenario, each with its own seed.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Seed of the first run.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Score several windows in one run, each with the zone's own server within reach and through caches alone.
    #[arg(long, value_enum, conflicts_with_all = ["caches_only", "window", "quick", "bounded"])]
    pub windows: Option<Windows>,
    /// Judge through caches alone, as where the zone's own servers cannot be reached.
    #[arg(long)]
    pub caches_only: bool,
    /// Observe for this long instead of until the test decides.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["quick", "bounded"])]
    pub window: Option<Duration>,
    /// Judge with `--quick` windows.
    #[arg(long, conflicts_with = "bounded")]
    pub quick: bool,
    /// Stop where `classify` stops by default: when the test decides, at most after 3 min.
    #[arg(long)]
    pub bounded: bool,
    /// Thresholds of the classifier, from a file.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Plot the share of verdicts that were right over the confidence stated, as SVG.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Form of the output.
    #[arg(short, long, default_value = "text", value_parser = FormatOf(Kind::Score))]
    pub output: Format,
}

/// Arguments of `lab watch-score`.
#[derive(Debug, Args)]
pub struct WatchScoreArgs {
    /// Scenario files or folders of them; the built-in zoo without any.
    pub scenarios: Vec<PathBuf>,
    /// Days of simulated time for each name.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
    /// Seed of the first name.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Watch through caches alone, as where the zone's own servers cannot be reached.
    #[arg(long, conflicts_with = "both")]
    pub caches_only: bool,
    /// Watch through caches, and the zone's own servers once in ten rounds.
    #[arg(long)]
    pub both: bool,
    /// The shortest pause between two lookups of a name.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub every: Duration,
    /// Thresholds of the classifier, from a file.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Form of the output.
    #[arg(short, long, default_value = "text", value_parser = FormatOf(Kind::Score))]
    pub output: Format,
}

/// Windows that are scored in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Windows {
    /// Until the test decides, as `classify` looks by default, and as `--quick` looks.
    All,
    /// Until the test decides.
    Decided,
    /// As `classify` looks by default.
    Default,
    /// As `classify --quick` looks.
    Quick,
}
