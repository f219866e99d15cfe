//! Arguments of `watch` and `events`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Authoritative;
use super::values::{duration, external_host, server, subnet, time};

/// Arguments of `watch`.
#[derive(Debug, Args)]
#[command(override_usage = "egress-audit watch [OPTIONS] --store <DIR> <NAMES>...
       egress-audit watch [OPTIONS] --store <DIR> --file <FILE>
       egress-audit watch [OPTIONS] --store <DIR> --manifests <PATH>
       egress-audit watch --replay <DIR>")]
#[command(after_help = "Examples:
  egress-audit watch -f names.txt --store /var/lib/egress-audit
  egress-audit watch --manifests repo/ --store watch/ --webhook http://alerts.example:8080/dns
  egress-audit watch --replay windows/

Each event is one line of JSON on standard output, after it is stored. The page, the metrics and the API are served on
--listen; `egress-audit events` reads what happened, also while `watch` runs.")]
pub struct WatchArgs {
    /// External names, such as api.partner.example.
    #[arg(required_unless_present_any = ["file", "manifests", "replay"])]
    pub names: Vec<String>,
    /// Read names from a file, one a line, `#` for comments; read again when it changes; may be repeated.
    #[arg(short, long)]
    pub file: Vec<PathBuf>,
    /// Watch the hosts of each ServiceEntry in these files and folders; read again when they change; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub manifests: Vec<PathBuf>,
    /// Folder of the store: states, events and answers; made where it is missing.
    #[arg(long, value_name = "DIR", required_unless_present = "replay", env = "EGRESS_AUDIT_STORE")]
    pub store: Option<PathBuf>,
    /// Replay windows that `classify --save` wrote, and print the events that they would have raised.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "file", "manifests", "store", "webhook"])]
    pub replay: Option<PathBuf>,
    /// How to ask.
    #[command(flatten)]
    pub ask: WatchAskArgs,
    /// What is kept.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Who is told.
    #[command(flatten)]
    pub tell: TellArgs,
}

/// How names are asked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub struct WatchAskArgs {
    /// Ask this resolver (ADDR or ADDR:PORT) instead of the system's; may be repeated, each is asked by itself.
    #[arg(long, value_name = "ADDR", value_parser = server)]
    pub resolver: Vec<SocketAddr>,
    /// Whether to find the zone's own servers and ask them once in ten rounds.
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
    /// Ask for a name once per TTL, but not more often than this.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub every: Duration,
    /// Ask one server at most this many queries a second.
    #[arg(long, value_name = "QPS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
    /// Thresholds of the classifier, from a file (`egress-audit policy` prints the defaults).
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
}

/// What is kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub struct KeepArgs {
    /// Keep events for this long.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2160h")]
    pub keep_events: Duration,
    /// Keep answers for this long.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "336h")]
    pub keep_answers: Duration,
    /// Drop the oldest answers where the store holds more than this.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_store: u64,
}

/// Who is told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Telling")]
pub struct TellArgs {
    /// Serve the page, the metrics and the API here.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9476")]
    pub listen: SocketAddr,
    /// Serve requests for this host name, too, beside addresses and localhost; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Give at most this many names a label of their own in the metrics.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub metrics_max_hosts: usize,
    /// POST each event to this URL until it is accepted (2xx).
    #[arg(long, value_name = "URL")]
    pub webhook: Option<String>,
    /// Form of the webhook's body.
    #[arg(long, value_enum, default_value_t = WebhookForm::Json, requires = "webhook")]
    pub webhook_form: WebhookForm,
}

/// Form of a webhook's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WebhookForm {
    /// `{"events": [{"seq": .., "event": ..}]}`.
    Json,
    /// Alerts for Alertmanager's `/api/v2/alerts`.
    Alertmanager,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  egress-audit events --store /var/lib/egress-audit --since 24h
  egress-audit events --store watch/ --host api.partner.example --kind flip,vanished -o jsonl
  egress-audit events --store watch/ --since 720h -o html > events.html")]
pub struct EventsArgs {
    /// Folder of the store.
    #[arg(long, value_name = "DIR", env = "EGRESS_AUDIT_STORE")]
    pub store: PathBuf,
    /// Not before this time: a span back from now such as 24h, or a time such as 2026-07-01T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<jiff::Timestamp>,
    /// Of this name only.
    #[arg(long, value_parser = external_host)]
    pub host: Option<policies::Host>,
    /// Of these kinds only, such as flip,vanished.
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(policies::watch::What::KINDS))]
    pub kind: Vec<String>,
    /// At most this many, the newest ones.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub limit: usize,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = EventsFormat::Text)]
    pub output: EventsFormat,
}

/// Form of a list of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EventsFormat {
    /// One sentence a line.
    Text,
    /// One JSON document a line.
    Jsonl,
    /// A page of its own.
    Html,
}
