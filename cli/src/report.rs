//! What a run found out, complete: commands build a [`Report`], renderers choose words for it and never count or
//! judge. JSON output is this, serialised; `egress-audit report saved.json` renders it again without a network.

use std::collections::BTreeMap;
use std::fmt::Display;

use jiff::Timestamp;
use policies::audit::Audit;
use policies::proxy::{AddressUse, Inspection};
use policies::recommend::Recommendation;
use policies::{Classification, Host, Observation, Source};
use probes::experiments::evidence::Evidence;
use probes::experiments::matrix::Matrix;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the JSON form; raised whenever a field is added, renamed or removed.
pub const SCHEMA: u32 = 1;

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
    /// One entry a name, in the order given.
    pub hosts: Vec<HostReport>,
    /// What the audit of manifests found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditReport>,
    /// One entry a cell of the lab that was run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// What running proxies do with external names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxies: Vec<ProxyReport>,
    /// The addresses that those proxies have as members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressUse>,
    /// What each Envoy was seen to do, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// What could not be done, and what would help.
    pub problems: Vec<Problem>,
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
    /// The findings.
    pub result: Audit,
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

/// Something that could not be done; a command that cannot go on returns it as its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{subject}: {message}")]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The thing at fault: a name, a file and line, a resolver.
    pub subject: String,
    /// What is wrong with it, a lower-case fragment that reads after the subject.
    pub message: String,
    /// What would help.
    pub hint: String,
}

impl Problem {
    /// A problem with its remedy.
    pub fn new(subject: impl Display, message: impl Display, hint: impl Into<String>) -> Self {
        Self { subject: subject.to_string(), message: message.to_string(), hint: hint.into() }
    }
}

impl Report {
    /// An empty report of this version of the tool.
    #[must_use]
    pub fn new(inputs: Inputs, now: Timestamp) -> Self {
        Self {
            schema: SCHEMA,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            generated_at: now,
            inputs,
            hosts: Vec::new(),
            audit: None,
            evidence: Vec::new(),
            proxies: Vec::new(),
            addresses: Vec::new(),
            matrix: None,
            problems: Vec::new(),
        }
    }
}
