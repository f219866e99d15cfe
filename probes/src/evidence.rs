//! What a lab run leaves: one [`Evidence`] per cell, with its verdict, the figures behind it, tables as in the
//! guide's appendix, and a timeline. Filled by `lab`, judged by the experiments, rendered by `cli`, which counts
//! nothing itself.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::client::Exchange;
use crate::envoy::EnvoyVersion;
use crate::envoy::admin::ListedHost;
use crate::envoy::bootstrap::{Discovery, HttpVersion, Layer};

/// Where the DNS cluster stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// Client -> Envoy -> backend.
    Sidecar,
    /// Client -> sidecar Envoy -> mutual TLS -> gateway Envoy -> backend.
    Gateway,
}

/// The coordinates of one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Version of the Envoy that ran.
    pub envoy: EnvoyVersion,
    /// `enable_new_dns_implementation` was set to false.
    #[serde(default)]
    pub old_dns: bool,
    /// Sidecar or gateway.
    pub topology: Topology,
    /// `l4` (passthrough) or `l7` (TLS origination).
    pub path: Layer,
    /// HTTP version towards the backend.
    pub http: HttpVersion,
    /// `resolution: DNS` or `DNS_ROUND_ROBIN`.
    pub resolution: Discovery,
    /// The experiment's own axis, such as `black-hole`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The control that was run in place of the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resolution = match self.resolution {
            Discovery::Strict => "STRICT",
            Discovery::Logical => "LOGICAL",
        };
        let path = if self.path == Layer::Passthrough { "L4" } else { "L7" };
        let http = if self.http == HttpVersion::H1 { "h1" } else { "h2" };
        write!(f, "{resolution} {path} {http}")?;
        if self.topology == Topology::Gateway {
            f.write_str(" gateway")?;
        }
        if let Some(variant) = &self.variant {
            write!(f, " {variant}")?;
        }
        write!(f, " {}", self.envoy)?;
        if self.old_dns {
            f.write_str(" old-dns")?;
        }
        if let Some(control) = &self.control {
            write!(f, " control:{control}")?;
        }
        Ok(())
    }
}

/// Whether the platform did what it is known to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As known.
    Confirmed,
    /// Otherwise.
    Refuted,
    /// The run did not get far enough to tell.
    Inconclusive,
}

/// A verdict and the figures it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// One sentence with the figures.
    pub because: String,
}

impl Judgement {
    /// Confirmed if every check holds, else refuted by the checks that do not. A check is what holds when the
    /// platform behaves as known, and what was seen.
    #[must_use]
    pub fn of(checks: &[(bool, String)]) -> Self {
        let failed: Vec<&str> =
            checks.iter().filter(|(holds, _)| !holds).map(|(_, seen)| seen.as_str()).collect();
        let all: Vec<&str> = checks.iter().map(|(_, seen)| seen.as_str()).collect();
        let verdict = if failed.is_empty() { Verdict::Confirmed } else { Verdict::Refuted };
        let because = if failed.is_empty() { all.join("; ") } else { failed.join("; ") };
        Self { verdict, because }
    }
}

/// One cell's outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Id of the experiment.
    pub experiment: String,
    /// What it asks.
    pub question: String,
    /// Where it ran.
    pub cell: Cell,
    /// When it began.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// Wall time of the cell, starting and stopping included, ms.
    pub took_ms: u64,
    /// The verdict. That of a control must be `refuted`: it shows that the probe can fail.
    pub verdict: Verdict,
    /// The figures behind the verdict, in a sentence.
    pub because: String,
    /// The experiment's own figures.
    pub measured: serde_json::Value,
    /// Tables as in the guide's appendix.
    pub tables: Vec<Table>,
    /// Bars, where there is something to compare.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bars>,
    /// Everything on one time axis.
    pub timeline: Timeline,
    /// Raw state at the moments the experiment chose.
    pub snapshots: Vec<Snapshot>,
    /// Raw requests.
    pub exchanges: Vec<Exchange>,
}

impl Evidence {
    /// Whether this outcome should fail a run: an experiment refuted, or a control that was not.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self.cell.control {
            None => self.verdict == Verdict::Refuted,
            Some(_) => self.verdict == Verdict::Confirmed,
        }
    }
}

/// What an experiment shows of its figures.
#[derive(Debug, Default)]
pub struct Exhibits {
    /// Tables.
    pub tables: Vec<Table>,
    /// Bars.
    pub bars: Vec<Bars>,
}

impl From<Vec<Table>> for Exhibits {
    fn from(tables: Vec<Table>) -> Self {
        Self { tables, bars: Vec::new() }
    }
}

/// Rows under a title, every cell ready to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table from anything that can be shown.
    #[must_use]
    pub fn new(title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows,
        }
    }

    /// Requests in the form of the guide's appendix B.
    #[must_use]
    pub fn of_exchanges(title: &str, exchanges: &[Exchange]) -> Self {
        let rows = exchanges.iter().map(|x| {
            let outcome = x.failure.as_ref().map_or_else(
                || x.status.map_or_else(String::new, |status| status.to_string()),
                ToString::to_string,
            );
            vec![
                seconds(x.at_ms),
                x.label.clone(),
                x.local_port.to_string(),
                x.backend.clone().unwrap_or_else(|| "-".to_owned()),
                x.backend_ip.map_or_else(|| "-".to_owned(), |ip| ip.to_string()),
                x.bytes.to_string(),
                seconds(x.took_ms),
                outcome,
            ]
        });
        Self::new(
            title,
            &["t", "request", "local port", "backend", "ip", "bytes", "took", "outcome"],
            rows.collect(),
        )
    }

    /// Snapshots side by side in the form of the guide's appendix A: one column per moment.
    #[must_use]
    pub fn of_snapshots(title: &str, snapshots: &[Snapshot], counters: &[&str]) -> Self {
        let mut columns = vec![String::new()];
        columns.extend(snapshots.iter().map(|s| format!("{} (+{})", s.label, seconds(s.at_ms))));
        let row = |name: &str, show: &dyn Fn(&Snapshot) -> String| {
            std::iter::once(name.to_owned()).chain(snapshots.iter().map(show)).collect::<Vec<_>>()
        };
        let mut rows = vec![
            row("DNS answer", &|s| addrs(s.dns.iter())),
            row("Envoy's list", &|s| addrs(s.listed.iter().map(|host| &host.addr))),
        ];
        rows.extend(counters.iter().map(|name| row(name, &|s| s.counter(name).to_string())));
        Self { title: title.to_owned(), columns, rows }
    }
}

fn addrs<'a>(addrs: impl Iterator<Item = &'a IpAddr>) -> String {
    let all: Vec<String> = addrs.map(ToString::to_string).collect();
    match all.len() {
        0 => "none".to_owned(),
        1..=3 => all.join(", "),
        more => format!("{}, ... ({more})", all[..2].join(", ")),
    }
}

/// Milliseconds as `1.25 s`.
fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}

/// Values to be drawn side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bars {
    /// What they show, with the unit.
    pub title: String,
    /// Label and value.
    pub bars: Vec<(String, f64)>,
}

/// Lanes over a common time axis, ms from the start of the cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// From top to bottom.
    pub lanes: Vec<Lane>,
    /// Moments that matter to all lanes.
    pub marks: Vec<Mark>,
    /// The end of the axis.
    pub end_ms: u64,
}

/// One row of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// `DNS answer`, `Envoy's list`, `connection 1`.
    pub name: String,
    /// In order of time.
    pub spans: Vec<Span>,
}

/// A stretch of time during which one thing held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Start.
    pub from_ms: u64,
    /// End.
    pub to_ms: u64,
    /// What held.
    pub label: String,
}

/// A moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// When.
    pub at_ms: u64,
    /// What happened.
    pub label: String,
}

/// DNS and Envoy at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// `BEFORE`, `MID1`, ...
    pub label: String,
    /// ms from the start of the cell.
    pub at_ms: u64,
    /// What the lab DNS answers.
    #[schemars(with = "Vec<String>")]
    pub dns: Vec<IpAddr>,
    /// Envoy's list.
    pub listed: Vec<ListedHost>,
    /// Counters and gauges of the DNS cluster.
    pub counters: BTreeMap<String, u64>,
}

impl Snapshot {
    /// A counter or gauge of the cluster; 0 where Envoy has not made it yet.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// The addresses of Envoy's list.
    #[must_use]
    pub fn listed_addrs(&self) -> Vec<IpAddr> {
        self.listed.iter().map(|host| host.addr).collect()
    }

    /// Connections that the cluster has but its list does not show: the cluster's gauge minus the sum over hosts.
    #[must_use]
    pub fn hidden_connections(&self) -> u64 {
        let listed: u64 = self.listed.iter().map(|host| host.active).sum();
        self.counter("upstream_cx_active").saturating_sub(listed)
    }
}
