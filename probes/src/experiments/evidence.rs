//! What a lab run leaves: one [`Evidence`] per cell, with its verdict, the figures behind it, tables as in the
//! guide's appendix, and a timeline. Filled by `lab`, judged by the experiments, rendered by `cli`, which counts
//! nothing itself.

mod exhibits;
mod timeline;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use policies::platform::Behaviour;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::client::Exchange;
use crate::lab::envoy::admin::ListedHost;
use crate::lab::envoy::bootstrap::{HttpVersion, Layer};
use policies::Resolution;
use policies::Version;

pub use exhibits::{Bars, Exhibits, Table};
pub use timeline::{Lane, Mark, Span, Timeline};

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
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// On the way out, where a proxy looks a name up.
    Egress(EgressCell),
    /// On the way in, where a gateway pod leaves. Nothing is looked up there.
    Drain(DrainCell),
}

/// Where an experiment on the way out runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EgressCell {
    /// Version of the Envoy that ran.
    pub envoy: Version,
    /// `enable_new_dns_implementation` was set to false.
    #[serde(default)]
    pub old_dns: bool,
    /// Sidecar or gateway.
    pub topology: Topology,
    /// `l4` (passthrough) or `l7` (TLS origination).
    pub path: Layer,
    /// HTTP version towards the backend.
    pub http: HttpVersion,
    /// `DNS` or `DNS_ROUND_ROBIN`.
    pub resolution: Resolution,
    /// The experiment's own axis, such as `black-hole`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The control that was run in place of the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
}

/// Where a drain runs: client -> HAProxy -> gateway Envoy with a drain sidecar -> backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainCell {
    /// Version of the Envoy that ran.
    pub envoy: Version,
    /// HTTP version of the requests.
    pub http: HttpVersion,
    /// What happens while the pod leaves, such as `s1-rolling`.
    pub scenario: String,
    /// Which signals go off in which order.
    pub order: String,
    /// The control that was run in place of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
}

impl Cell {
    /// The cell's name as a folder.
    #[must_use]
    pub fn slug(&self) -> String {
        slug(self)
    }

    /// Version of the Envoy that ran.
    #[must_use]
    pub const fn envoy(&self) -> Version {
        match self {
            Self::Egress(cell) => cell.envoy,
            Self::Drain(cell) => cell.envoy,
        }
    }

    /// The control that was run in place of the experiment.
    #[must_use]
    pub fn control(&self) -> Option<&str> {
        match self {
            Self::Egress(cell) => cell.control.as_deref(),
            Self::Drain(cell) => cell.control.as_deref(),
        }
    }

    /// The cell on the way out, if it is one.
    #[must_use]
    pub const fn egress(&self) -> Option<&EgressCell> {
        match self {
            Self::Egress(cell) => Some(cell),
            Self::Drain(_) => None,
        }
    }
}

impl EgressCell {
    /// The cell's name as a folder.
    #[must_use]
    pub fn slug(&self) -> String {
        slug(self)
    }
}

fn slug(cell: &impl fmt::Display) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    cell.to_string().chars().map(plain).collect()
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Egress(cell) => cell.fmt(f),
            Self::Drain(cell) => cell.fmt(f),
        }
    }
}

impl fmt::Display for EgressCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resolution = match self.resolution {
            Resolution::DnsRoundRobin => "LOGICAL",
            _ => "STRICT",
        };
        let path = if self.path == Layer::Passthrough { "L4" } else { "L7" };
        write!(f, "{resolution} {path} {}", self.http.short())?;
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

impl fmt::Display for DrainCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "drain {} {} {} {}", self.http.short(), self.scenario, self.order, self.envoy)?;
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
    /// Behaviours of the platform table that the cell shows to hold or not.
    pub seen: Vec<SeenBehaviour>,
}

/// A row of the platform's table, measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeenBehaviour {
    /// Which behaviour.
    pub behaviour: Behaviour,
    /// Whether this Envoy showed it.
    pub holds: bool,
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
        Self { verdict, because, seen: Vec::new() }
    }

    /// Nothing can be said, and why.
    #[must_use]
    pub const fn open(because: String) -> Self {
        Self { verdict: Verdict::Inconclusive, because, seen: Vec::new() }
    }

    /// Adds what the cell shows of the platform's table, in the cells where it can be seen.
    #[must_use]
    pub fn showing(mut self, visible: bool, behaviour: Behaviour, holds: bool) -> Self {
        if visible {
            self.seen.push(SeenBehaviour { behaviour, holds });
        }
        self
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
    /// Behaviours of the platform table that the cell shows to hold or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<SeenBehaviour>,
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
    /// Every query of Envoy that the lab DNS saw, with what it was told.
    pub queries: Vec<Answered>,
}

/// One answer of the lab DNS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// ms from the start of the cell.
    pub at_ms: u64,
    /// Addresses in wire order; none for every kind of failure.
    #[schemars(with = "Vec<String>")]
    pub addrs: Vec<IpAddr>,
    /// Asked over TCP, after a truncated answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tcp: bool,
}

impl Evidence {
    /// A cell of which nothing is known yet.
    #[must_use]
    pub fn blank(experiment: &str, question: &str, cell: Cell, started_at: Timestamp) -> Self {
        Self {
            experiment: experiment.to_owned(),
            question: question.to_owned(),
            cell,
            started_at,
            took_ms: 0,
            verdict: Verdict::Inconclusive,
            because: String::new(),
            seen: Vec::new(),
            measured: serde_json::Value::Null,
            tables: Vec::new(),
            bars: Vec::new(),
            timeline: Timeline::default(),
            snapshots: Vec::new(),
            exchanges: Vec::new(),
            queries: Vec::new(),
        }
    }

    /// Whether this outcome should fail a run: an experiment refuted, or a control that was not.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self.cell.control() {
            None => self.verdict == Verdict::Refuted,
            Some(_) => self.verdict == Verdict::Confirmed,
        }
    }
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
