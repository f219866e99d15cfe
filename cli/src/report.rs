//! What a run found out, complete: commands build a [`Report`], renderers choose words for it and never count or
//! judge, and its exit code is part of it. JSON output is this, serialised; `egress-audit report saved.json` renders it
//! again without a network and exits as the run did.

use std::collections::BTreeMap;

use clap::ValueEnum;
use jiff::Timestamp;
use policies::audit::Audit;
use policies::finding::{Finding, Severity};
use policies::proxy::{AddressUse, Inspection};
use policies::recommend::Recommendation;
use policies::{Classification, Host, Observation, Source};
use probes::experiments::evidence::{Evidence, Verdict};
use probes::experiments::matrix::Matrix;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::format::Kind;

pub use crate::problem::Problem;

/// Version of the JSON form; raised whenever a field is added, renamed or removed.
pub const SCHEMA: u32 = 2;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// Version of the tool that wrote it.
    pub tool_version: String,
    /// When it was written.
    #[schemars(with = "String")]
    pub generated_at: Timestamp,
    /// What the run was asked to do.
    pub inputs: Inputs,
    /// What was found.
    #[serde(flatten)]
    pub body: Body,
    /// What could not be done, and what would help.
    pub problems: Vec<Problem>,
}

/// What was found, by what the run was about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// One entry a name, in the order given.
    Hosts(Vec<HostReport>),
    /// What the audit of manifests found.
    Audit(AuditReport),
    /// Experiments of the lab.
    Lab(LabReport),
    /// What running proxies do with external names.
    Fleet(FleetReport),
}

/// What the run was asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// The command, such as `classify`.
    pub command: String,
    /// Names taken from arguments, files and windows.
    pub names: usize,
    /// Resolvers asked, or empty where windows were replayed.
    pub resolvers: Vec<String>,
    /// The observation window as asked for: `auto`, `quick` or a length such as `5m`; `stream 40s` or `scale 0.1` in the
    /// lab.
    pub window: String,
    /// The Istio and Envoy versions that the advice is for.
    pub platform: String,
}

/// One name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostReport {
    /// The name, lower case, punycode.
    pub host: Host,
    /// Its Unicode form, where it has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unicode: Option<String>,
    /// One entry a record type that was asked for, A first.
    pub families: Vec<FamilyReport>,
    /// What to write into the ServiceEntry and DestinationRule, and why.
    pub recommendation: Recommendation,
    /// How the name was asked for, where that needs a word: no authority reached, a search list that would change it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One record type of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FamilyReport {
    /// The servers that were asked; facts refer to them by index.
    pub sources: Vec<Source>,
    /// The verdict.
    pub classification: Classification,
    /// The facts behind it.
    pub observation: Observation,
}

/// An audit of manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditReport {
    /// Files read.
    pub files: usize,
    /// Their names, in order.
    #[serde(default)]
    pub file_names: Vec<String>,
    /// Documents read, empty ones left out.
    pub documents: usize,
    /// Resources of other kinds, counted.
    pub passed_over: BTreeMap<String, usize>,
    /// From which severity on the exit code is 1.
    pub fail_on: FailOn,
    /// The findings, counted.
    pub counts: Counts,
    /// The findings.
    pub result: Audit,
}

/// Findings by severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
    /// Notes.
    pub notes: usize,
    /// Findings of whatever severity that `--fix` mends.
    pub fixable: usize,
}

impl Counts {
    /// Counts findings.
    #[must_use]
    pub fn of(findings: &[Finding]) -> Self {
        let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        Self {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            notes: count(Severity::Info),
            fixable: findings.iter().filter(|finding| !finding.edits.is_empty()).count(),
        }
    }
}

/// From which severity on the exit code is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailOn {
    /// Errors.
    Error,
    /// Warnings and errors.
    Warning,
    /// Any finding.
    Info,
    /// No finding.
    Never,
}

/// Experiments of the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabReport {
    /// One entry a cell that was run.
    pub evidence: Vec<Evidence>,
    /// What each Envoy was seen to do, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
}

/// Running proxies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetReport {
    /// One entry a proxy.
    pub proxies: Vec<ProxyReport>,
    /// The addresses that they have as members.
    pub addresses: Vec<AddressUse>,
}

/// One running proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyReport {
    /// `POD.NAMESPACE`, or the admin port that was read.
    pub proxy: String,
    /// What it says.
    pub inspection: Inspection,
    /// What that means, one list a cluster, in their order.
    pub meanings: Vec<Vec<String>>,
}

impl Report {
    /// A report of this version of the tool, without problems.
    #[must_use]
    pub fn new(inputs: Inputs, body: Body, now: Timestamp) -> Self {
        Self {
            schema: SCHEMA,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            generated_at: now,
            inputs,
            body,
            problems: Vec::new(),
        }
    }

    /// Reads a saved report.
    ///
    /// # Errors
    /// The text is not a report, or one of another schema.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        let head: Head = serde_json::from_str(text).map_err(Unreadable::NoReport)?;
        if head.schema != SCHEMA {
            return Err(Unreadable::OtherSchema { found: head.schema, by: head.tool_version });
        }
        serde_json::from_str(text).map_err(Unreadable::NoReport)
    }

    /// The exit code that the report stands for.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let done = if self.problems.is_empty() { Exit::Clean } else { Exit::CouldNot };
        done.and(self.body.exit())
    }
}

impl Body {
    /// What it is about.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Hosts(_) => Kind::Hosts,
            Self::Audit(_) => Kind::Audit,
            Self::Lab(_) => Kind::Lab,
            Self::Fleet(_) => Kind::Proxies,
        }
    }

    /// The names of a classification; none where it is something else.
    #[must_use]
    pub fn hosts(&self) -> &[HostReport] {
        if let Self::Hosts(hosts) = self { hosts } else { &[] }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Hosts(_) | Self::Fleet(_) => Exit::Clean,
            Self::Audit(audit) => audit.exit(),
            Self::Lab(lab) => lab.exit(),
        }
    }
}

impl AuditReport {
    /// 1 when a finding is at or above the severity that was asked for.
    fn exit(&self) -> Exit {
        let worst = self.result.findings.iter().map(|finding| finding.severity).max();
        let fails = worst.is_some_and(|worst| match self.fail_on {
            FailOn::Error => worst >= Severity::Error,
            FailOn::Warning => worst >= Severity::Warning,
            FailOn::Info => true,
            FailOn::Never => false,
        });
        if fails { Exit::Findings } else { Exit::Clean }
    }
}

impl LabReport {
    /// 1 when an experiment was refuted, a control was not, or a version does not do what the platform's table says; 2
    /// when a cell has no result.
    fn exit(&self) -> Exit {
        let differs = self.matrix.as_ref().is_some_and(Matrix::differs);
        // A control's verdict is not a finding of the matrix, which reads it as a measurement.
        let refuted = self.matrix.is_none() && self.evidence.iter().any(Evidence::is_failure);
        if differs || refuted {
            return Exit::Findings;
        }
        let open = self.evidence.iter().any(|evidence| evidence.verdict == Verdict::Inconclusive);
        if open { Exit::CouldNot } else { Exit::Clean }
    }
}

/// What every schema has.
#[derive(Deserialize)]
struct Head {
    schema: u32,
    #[serde(default)]
    tool_version: String,
}

/// Why a text is not taken for a report.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is something else, or damaged.
    #[error("is not a report of schema {SCHEMA}")]
    NoReport(#[source] serde_json::Error),
    /// Another version wrote it.
    #[error("is a report of schema {found}; this version reads schema {SCHEMA}")]
    OtherSchema {
        /// Its schema.
        found: u32,
        /// The version that wrote it.
        by: String,
    },
}

impl Unreadable {
    /// What would help.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoReport(_) => {
                "write one with `classify -o json`, `audit -o json` or `lab run -o json`".to_owned()
            }
            Self::OtherSchema { by, .. } => format!(
                "render it with egress-audit {by}, which wrote it, or run the command again with `-o json`"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
