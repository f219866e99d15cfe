//! What may be typed. Each command's arguments are one struct; `--help`, completions, man pages and the book's
//! reference are generated from here. Values are read into the types that the commands work with, so that a wrong one
//! is refused before any work begins.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use policies::Version;

mod audit;
mod cluster;
mod experiments;
mod lab;
mod values;
mod watch;

pub use audit::AuditArgs;
pub use cluster::{ApplyArgs, ClusterArgs, ProxyCommand, ReachWord, StatusArgs};
pub use experiments::{EnvoyArgs, EnvoyCommand, HttpWord, PathWord, RunArgs, TopologyWord, UpArgs};
pub use lab::{
    ControlArgs, DnsCommand, FaultWord, LabCommand, ScoreArgs, ServeArgs, WatchScoreArgs, Windows,
};
use values::{duration, export_to, gateway, known_envoy, known_istio, port, resource_name, server, subnet};
pub use watch::{EventsArgs, EventsFormat, WatchArgs, WatchAskArgs, WebhookForm};

use crate::format::{Format, FormatOf, Kind};

/// Decides how external names belong into Istio: classifies their DNS answers, writes the ServiceEntry, proves it
/// on a real Envoy.
#[derive(Debug, Parser)]
#[command(name = "egress-audit", version, about, max_term_width = 100, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 clean, 1 findings or a refuted experiment, 2 could not do (all of) the work."
)]
pub struct Cli {
    /// Say less: no progress, no notes; errors stay.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Show log events: `-v` what is done, `-vv` each step; `EGRESS_AUDIT_LOG=labdns=debug` sets levels by module.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Write the result to this file, whole or not at all, instead of standard output.
    #[arg(long, global = true, value_name = "FILE")]
    pub output_file: Option<std::path::PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tell how names answer: single VIP, fixed set or rotating pool, and what that means for Istio.
    Classify(ClassifyArgs),
    /// Write the ServiceEntry and, where it helps, the DestinationRule.
    Generate(GenerateArgs),
    /// Read manifests that exist, hold them against DNS and against each other, and say what to change.
    Audit(AuditArgs),
    /// Watch names until stopped: store, print and serve what happens to their answers.
    Watch(WatchArgs),
    /// Tell what happened to the names of a store, also while its `watch` runs.
    Events(EventsArgs),
    /// Running proxies: what they do with external names.
    #[command(subcommand)]
    Proxy(ProxyCommand),
    /// The lab: a scripted DNS, and how right the classifier is on it.
    #[command(subcommand)]
    Lab(LabCommand),
    /// The releases of Envoy that the lab runs.
    #[command(subcommand)]
    Envoy(EnvoyCommand),
    /// Render a saved JSON report again, without a network.
    Report(ReportArgs),
    /// Print the policy: every threshold with its default and its meaning.
    Policy,
    /// Print the JSON schema of the report.
    Schema,
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the man pages into a folder.
    Man {
        /// The folder; made if it is missing.
        #[arg(default_value = "man")]
        dir: PathBuf,
    },
}

/// Arguments of `classify`.
#[derive(Debug, Args)]
#[command(override_usage = "egress-audit classify [OPTIONS] <NAMES>...
       egress-audit classify [OPTIONS] --file <FILE>
       egress-audit classify [OPTIONS] --cluster
       egress-audit classify [OPTIONS] --from <DIR>
       egress-audit classify [OPTIONS] --from-store <DIR>")]
#[command(after_help = "Examples:
  egress-audit classify api.partner.example
  egress-audit classify -f names.txt --resolver 10.0.0.53 --window 5m --save windows/
  egress-audit classify --from windows/ -o json | jq '.hosts[].recommendation.resolution'")]
pub struct ClassifyArgs {
    /// What to measure.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// What the advice is for.
    #[command(flatten)]
    pub advice: AdviceArgs,
    /// Form of the output: `text` explains up to five names and lists more as a table.
    #[arg(short, long, default_value = "text", value_parser = FormatOf(Kind::Hosts))]
    pub output: Format,
}

/// Arguments of `generate`.
#[derive(Debug, Args)]
#[command(override_usage = "egress-audit generate [OPTIONS] <NAMES>...
       egress-audit generate [OPTIONS] --file <FILE>
       egress-audit generate [OPTIONS] --from <DIR>")]
#[command(after_help = "Examples:
  egress-audit generate api.partner.example --namespace egress > se.yaml
  egress-audit generate --from windows/ --group --export-to . | kubectl diff -f -
  egress-audit generate api.partner.example --namespace egress --apply --dry-run")]
pub struct GenerateArgs {
    /// What to measure.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// What the advice is for.
    #[command(flatten)]
    pub advice: AdviceArgs,
    /// What the manifests look like.
    #[command(flatten)]
    pub manifest: ManifestArgs,
    /// Whether they are applied.
    #[command(flatten)]
    pub apply: ApplyArgs,
}

/// What to measure, how, and for how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub struct MeasureArgs {
    /// External names, such as api.partner.example.
    #[arg(required_unless_present_any = ["file", "from", "from_store", "cluster"])]
    pub names: Vec<String>,
    /// Read names from a file, one a line, `#` for comments (`-`: standard input); may be repeated.
    #[arg(short, long)]
    pub file: Vec<PathBuf>,
    /// Take the names from the mesh: the hosts of its entries that ask DNS.
    #[arg(long)]
    pub cluster: bool,
    /// Ask every proxy of the mesh which of those names it has used, so that unused entries are told apart.
    #[arg(long, requires = "cluster")]
    pub usage: bool,
    /// Context of the kubeconfig; the current one without it.
    #[arg(long)]
    pub context: Option<String>,
    /// Replay windows that `--save` wrote, without a network.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "file", "cluster", "resolver", "authority", "ecs", "save"])]
    pub from: Option<PathBuf>,
    /// Judge the answers that `watch` has stored in this folder, without a network.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "file", "cluster", "resolver", "authority", "ecs", "save", "from"])]
    pub from_store: Option<PathBuf>,
    /// How to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// How to ask DNS, and for how long.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measuring")]
pub struct AskArgs {
    /// Save what was measured, one file a name and record type.
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Ask this resolver (ADDR or ADDR:PORT) instead of the system's; may be repeated, each is asked by itself.
    #[arg(long, value_name = "ADDR", value_parser = server)]
    pub resolver: Vec<SocketAddr>,
    /// Whether to find the zone's own servers and ask them directly.
    #[arg(long, value_enum, default_value_t = Authoritative::Auto)]
    pub authoritative: Authoritative,
    /// Ask this authoritative server (ADDR or ADDR:PORT) instead of searching by NS; may be repeated.
    #[arg(long, value_name = "ADDR", value_parser = server)]
    pub authority: Vec<SocketAddr>,
    /// Where the zones' own servers listen, other than in a lab.
    #[arg(long, hide = true, default_value_t = 53)]
    pub authority_port: u16,
    /// Ask on behalf of this client subnet (EDNS Client Subnet), such as 203.0.113.0/24; may be repeated.
    #[arg(long, value_name = "SUBNET", value_parser = subnet)]
    pub ecs: Vec<ipnet::IpNet>,
    /// Observe for this long, such as 90s or 10m, instead of until the test decides (at most 3 min).
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "quick")]
    pub window: Option<Duration>,
    /// Answer within 3 seconds, with the confidence that this allows.
    #[arg(long)]
    pub quick: bool,
    /// Ask without a limit of time until every name is decided; Ctrl-C ends it with what is known by then.
    #[arg(long, value_enum, value_name = "STATE", conflicts_with_all = ["quick", "window"])]
    pub until: Option<Until>,
    /// Ask at most this many queries for a name and record type.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_queries: u32,
    /// Ask one server at most this many queries a second.
    #[arg(long, value_name = "QPS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
    /// Thresholds of the classifier, from a file (`egress-audit policy` prints the defaults).
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
}

/// What a measurement waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// The test has decided.
    Decided,
}

/// What the advice is for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Advice")]
pub struct AdviceArgs {
    /// The proxies and what is expected of them.
    #[command(flatten)]
    pub platform: PlatformArgs,
    /// Protocol of the port, in any case.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Protocol::Tls)]
    pub protocol: Protocol,
    /// Port that the application connects to, with its protocol where it has one of its own: 443, 8443/HTTPS, 27017/mongo;
    /// may be repeated. By default 443 for TLS and 80 for HTTP.
    #[arg(long, value_name = "PORT[/PROTOCOL]", value_parser = port)]
    pub port: Vec<(u16, Option<Protocol>)>,
}

/// The proxies and what is expected of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Advice")]
pub struct PlatformArgs {
    /// Istio version in use, such as 1.31; it implies Envoy's.
    #[arg(long, value_name = "VERSION", value_parser = known_istio)]
    pub istio_version: Option<Version>,
    /// Envoy version in use, such as 1.39.3.
    #[arg(long, value_name = "VERSION", value_parser = known_envoy)]
    pub envoy_version: Option<Version>,
    /// Which proxy carries the traffic; the advice is for a gateway without it, and `generate` writes the way through one
    /// with it.
    #[arg(long, value_enum)]
    pub proxy: Option<Proxy>,
    /// Which addresses the proxy asks for: `v4` unless the pods are IPv6 only or dual stack is enabled.
    #[arg(long, value_enum, default_value_t = Family::V4)]
    pub lookup_family: Family,
    /// The mesh's dnsRefreshRate, used where a TTL is 0; without it that of the mesh, else Istio's default of 60s.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub dns_refresh_rate: Option<Duration>,
    /// How soon after a fail-over all traffic must have moved; sets the connection lifetime.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub failover_target: Option<Duration>,
    /// The longest request or stream that must survive.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub longest_stream: Option<Duration>,
}

/// What the manifests look like.
#[derive(Debug, Args)]
#[command(next_help_heading = "Manifests")]
pub struct ManifestArgs {
    /// Namespace of the manifests.
    #[arg(short, long, value_parser = resource_name)]
    pub namespace: Option<String>,
    /// Namespaces that may use the entry, such as `.` or `*`; may be repeated.
    #[arg(long, value_name = "NS", value_parser = export_to)]
    pub export_to: Vec<String>,
    /// Name of the manifests, for a single host or with `--group`; derived from the host otherwise.
    #[arg(long, value_parser = resource_name)]
    pub name: Option<String>,
    /// The egress gateway that `--proxy gateway` leads through.
    #[arg(long, value_name = "NS/NAME", default_value = "istio-system/istio-egressgateway", value_parser = gateway)]
    pub gateway: String,
    /// Share of the addresses that may be ejected; at most half of those measured without it.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub max_ejection_percent: Option<u32>,
    /// How much is said above each resource.
    #[arg(long, value_enum, default_value_t = CommentsWord::Full)]
    pub comments: CommentsWord,
    /// One ServiceEntry for all hosts whose class and settings agree.
    #[arg(long)]
    pub group: bool,
}

/// How much is said above each resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CommentsWord {
    /// Class and reasons.
    Full,
    /// One line.
    Short,
    /// Nothing.
    None,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A report that `-o json` wrote (`-`: standard input).
    pub file: PathBuf,
    /// Form of the output, one that the report has.
    #[arg(short, long, visible_alias = "format", value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

/// Whether to ask the zone's own servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Authoritative {
    /// Where they can be found and reached.
    Auto,
    /// Resolvers only.
    Never,
}

/// Which proxy carries the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Proxy {
    /// The pod's own.
    Sidecar,
    /// An egress gateway.
    Gateway,
    /// ztunnel and waypoints.
    Ambient,
}

/// Which addresses a proxy asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Family {
    /// A only.
    V4,
    /// AAAA only.
    V6,
    /// Both, merged into one list.
    All,
}

/// What the application speaks to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// TLS of its own, passed on by SNI.
    Tls,
    /// The same under Istio's other name.
    Https,
    /// Plain bytes.
    Tcp,
    /// Plain HTTP, passed on as such.
    Http,
    /// Plain HTTP, which the proxy carries on over TLS.
    TlsOrigination,
    /// HTTP/2 without TLS.
    Http2,
    /// gRPC without TLS.
    Grpc,
    /// The protocol of `MongoDB`.
    Mongo,
    /// The protocol of `MySQL`.
    Mysql,
    /// Redis.
    Redis,
}

/// Where a server listens when only a port matters.
pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
