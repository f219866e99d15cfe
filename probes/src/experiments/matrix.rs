//! The platform's table of behaviours, measured again: versions come in, one small cell per behaviour and version is
//! run, or Envoy is asked what it thinks of a configuration, and what was seen goes out beside what `policies` says.
//! Called by `lab matrix` and by the test that compares.

use policies::platform::Behaviour;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::experiments::evidence::{EgressCell, Evidence, Table, Topology, Verdict};
use crate::experiments::runner::Job;
use crate::experiments::{find, is_known_of};
use crate::lab::envoy::Binary;
use crate::lab::envoy::bootstrap::{HttpVersion, Layer};
use crate::lab::envoy::process::opinion;
use policies::Resolution;
use policies::Version;
use policies::platform::NEW_DNS_SINCE;

/// Where a behaviour can be seen: experiment, resolution, path, variant and control.
type Place = (Behaviour, &'static str, Resolution, Layer, Option<&'static str>, Option<&'static str>);

const PLACES: &[Place] = {
    use Behaviour as B;
    use Layer::{Http as L7, Passthrough as L4};
    use Resolution::{Dns as Strict, DnsRoundRobin as Logical};
    &[
        (B::EmptyAnswerEmptiesStrict, "dns-outage", Strict, L4, Some("nxdomain"), None),
        (B::EjectionLimitBindsFirst, "dead-ip", Strict, L4, Some("refuse+outlier"), Some("limit-10")),
        (B::LogicalFlipRecorded, "flip-record", Logical, L4, None, None),
        (B::LogicalFlipDrains, "keepalive-pinning", Logical, L7, None, None),
        (B::LogicalOrderChurns, "order-churn", Logical, L7, None, None),
        (B::LogicalForgetsEjection, "ejection-memory", Logical, L4, None, None),
    ]
};

/// A behaviour that shows in what Envoy says of a configuration: no cell has to run.
struct Question {
    behaviour: Behaviour,
    /// Fields of a cluster.
    cluster: fn() -> Value,
    /// Taken or refused, and the warnings.
    holds: fn(bool, &str) -> bool,
}

const QUESTIONS: &[Question] = &[
    Question {
        behaviour: Behaviour::AlwaysEjectOneHostExists,
        cluster: || json!({ "type": "STATIC", "outlier_detection": { "always_eject_one_host": true } }),
        // A field that it does not know is an error.
        holds: |taken, _| taken,
    },
    Question {
        behaviour: Behaviour::ClusterDnsFieldsDeprecated,
        cluster: || json!({ "type": "STRICT_DNS", "dns_refresh_rate": "60s", "respect_dns_ttl": true, "dns_jitter": "0.1s" }),
        holds: |_, said| {
            let warned = |field| {
                said.contains(&format!("deprecated option 'envoy.config.cluster.v3.Cluster.{field}'"))
            };
            ["dns_refresh_rate", "respect_dns_ttl", "dns_jitter"].into_iter().all(warned)
        },
    },
];

/// One question to one Envoy.
pub struct Answer {
    behaviour: Behaviour,
    envoy: Version,
    holds: bool,
}

/// Asks every Envoy every question. What it does not answer is missing, and so is all that is said by one that takes a
/// field that there is not.
pub async fn ask(binaries: &[Binary]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for binary in binaries {
        let nonsense = json!({ "type": "STATIC", "outlier_detection": { "no_such_field": true } });
        if !matches!(opinion(binary, &with_cluster(nonsense)).await, Ok((false, _))) {
            continue;
        }
        for Question { behaviour, cluster, holds } in QUESTIONS {
            if let Ok((taken, said)) = opinion(binary, &with_cluster(cluster())).await {
                answers.push(Answer {
                    behaviour: *behaviour,
                    envoy: binary.version,
                    holds: holds(taken, &said),
                });
            }
        }
    }
    answers
}

fn with_cluster(mut cluster: Value) -> Value {
    cluster["name"] = json!("asked");
    cluster["load_assignment"] = json!({ "cluster_name": "asked" });
    json!({ "static_resources": { "clusters": [cluster] } })
}

/// What each version was seen to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// The columns.
    pub columns: Vec<Column>,
    /// One row a behaviour.
    pub rows: Vec<Row>,
}

/// One Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its version.
    pub envoy: Version,
    /// `enable_new_dns_implementation` was set to false.
    pub old_dns: bool,
}

/// One behaviour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Which.
    pub behaviour: Behaviour,
    /// In a sentence.
    pub what: String,
    /// For each column, what was seen (absent where the cell was inconclusive), and what is known.
    pub cells: Vec<Seen>,
}

/// Seen against known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// What this run saw.
    pub measured: Option<bool>,
    /// What the platform's table says.
    pub known: bool,
}

/// The cells to run: every version as it comes, and from 1.39 on with the earlier DNS implementation too.
#[must_use]
pub fn jobs(binaries: &[Binary]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for binary in binaries {
        for column in columns(binary.version) {
            jobs.extend(PLACES.iter().filter_map(|place| {
                let cell = cell(place, column);
                Some(Job { experiment: find(place.1)?, cell, binary: binary.clone() })
            }));
        }
    }
    jobs
}

fn columns(envoy: Version) -> Vec<Column> {
    let guards: &[bool] = if envoy >= NEW_DNS_SINCE { &[false, true] } else { &[false] };
    guards.iter().map(|&old_dns| Column { envoy, old_dns }).collect()
}

fn cell(&(_, _, resolution, path, variant, control): &Place, column: Column) -> EgressCell {
    EgressCell {
        envoy: column.envoy,
        old_dns: column.old_dns,
        topology: Topology::Sidecar,
        path,
        http: HttpVersion::H1,
        resolution,
        variant: variant.map(str::to_owned),
        control: control.map(str::to_owned),
    }
}

impl Row {
    fn of(behaviour: Behaviour, columns: &[Column], measured: impl Fn(Column) -> Option<bool>) -> Self {
        let seen = |&column: &Column| Seen {
            measured: measured(column),
            known: is_known_of(column.envoy, column.old_dns, behaviour),
        };
        Self { behaviour, what: behaviour.row().what.to_owned(), cells: columns.iter().map(seen).collect() }
    }
}

impl Matrix {
    /// Sets what was seen and answered beside what is known.
    #[must_use]
    pub fn of(binaries: &[Binary], evidence: &[Evidence], answers: &[Answer]) -> Self {
        let columns: Vec<Column> = binaries.iter().flat_map(|binary| columns(binary.version)).collect();
        let ran = PLACES.iter().map(|place| {
            Row::of(place.0, &columns, |column| {
                let cell = cell(place, column);
                let found =
                    evidence.iter().find(|e| e.experiment == place.1 && e.cell.egress() == Some(&cell));
                let conclusive = found.filter(|evidence| evidence.verdict != Verdict::Inconclusive)?;
                conclusive.seen.iter().find(|seen| seen.behaviour == place.0).map(|seen| seen.holds)
            })
        });
        let asked = QUESTIONS.iter().map(|Question { behaviour, .. }| {
            Row::of(*behaviour, &columns, |column| {
                let of = |answer: &&Answer| (answer.behaviour, answer.envoy) == (*behaviour, column.envoy);
                answers.iter().find(of).map(|answer| answer.holds)
            })
        });
        let rows = ran.chain(asked).collect();
        Self { columns, rows }
    }

    /// Whether anything was seen that the platform's table does not say.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.cells().any(|cell| cell.measured.is_some_and(|measured| measured != cell.known))
    }

    /// Whether every cell was conclusive.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.cells().all(|cell| cell.measured.is_some())
    }

    fn cells(&self) -> impl Iterator<Item = &Seen> {
        self.rows.iter().flat_map(|row| &row.cells)
    }

    /// As a table: `yes` or `no` as measured, with what is known where that differs.
    #[must_use]
    pub fn table(&self) -> Table {
        let word = |holds| if holds { "yes" } else { "no" };
        let show = |cell: &Seen| match cell.measured {
            Some(measured) if measured == cell.known => word(measured).to_owned(),
            Some(measured) => format!("{} (known: {})", word(measured), word(cell.known)),
            None => "?".to_owned(),
        };
        let heads = self.columns.iter().map(|column| {
            let guard = if column.old_dns { ", old DNS" } else { "" };
            format!("{}{guard}", column.envoy)
        });
        let rows = self.rows.iter().map(|row| {
            std::iter::once(row.what.clone()).chain(row.cells.iter().map(show)).collect::<Vec<_>>()
        });
        Table {
            title: "What each Envoy was seen to do".to_owned(),
            columns: std::iter::once("behaviour".to_owned()).chain(heads).collect(),
            rows: rows.collect(),
        }
    }
}
