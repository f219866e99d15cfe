//! What to change in manifests that exist: resources, what DNS was seen to answer, and the platform come in; findings
//! go out, each with its place, its evidence and, where a machine can do it, the edit. Pure. `cli audit` calls
//! [`audit`]; the table of rules is [`RULES`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod asked;
mod connections;
mod duplicates;
mod ejection;
mod gateways;
mod hosts;
mod listeners;
mod mend;
mod mesh;
mod origination;
mod patch;
mod platforms;
mod ports;
mod reach;
pub mod refused;
mod resolutions;
mod routes;
mod rule;
mod spelling;
mod suppress;
mod wildcards;

pub use asked::asked_hosts;
pub use mend::{Mended, mend};
pub use patch::apply;
pub use rule::{Example, ExampleDns, Rule, examples};
pub use suppress::Baseline;

use crate::finding::{Edit, Finding, Severity, Spot};
use crate::manifest::node::Place;
use crate::manifest::{Loadable, Loaded};
use crate::{Citation, Classification, Family, Host, Observation, Observed, Platform};
use mesh::Mesh;

/// The rules by family, in the order of their codes.
pub const RULES: &[&[Rule]] = &[
    suppress::RULES,
    resolutions::RULES,
    ejection::RULES,
    connections::RULES,
    duplicates::RULES,
    ports::RULES,
    spelling::RULES,
    origination::RULES,
    listeners::RULES,
    wildcards::RULES,
    reach::RULES,
    gateways::RULES,
    routes::RULES,
    platforms::RULES,
    refused::RULES,
];

/// What was observed of one host.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The A records.
    pub a: (Observation, Classification),
    /// The AAAA records.
    pub aaaa: Option<(Observation, Classification)>,
}

/// What the audit is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The proxies.
    pub platform: Platform,
    /// How soon after a change in DNS the old address must be out of use.
    pub failover_target: Option<Duration>,
    /// How long the longest stream lasts.
    pub longest_stream: Option<Duration>,
    /// Proxies in the mesh, for the load on DNS.
    pub proxies: u32,
    /// `meshConfig.rootNamespace`.
    pub root_namespace: String,
    /// Codes to leave out; `EA2*` stands for a family.
    pub ignore: Vec<String>,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            platform: Platform::default(),
            failover_target: None,
            longest_stream: None,
            proxies: 1,
            root_namespace: "istio-system".to_owned(),
            ignore: Vec::new(),
        }
    }
}

/// The result of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// By file and place.
    pub findings: Vec<Finding>,
    /// Findings that an annotation keeps quiet.
    pub suppressed: usize,
    /// Findings that the baseline knows.
    pub baselined: usize,
    /// Fingerprints of the baseline that nothing answers to any more.
    pub stale_baseline: Vec<String>,
    /// Resources that were audited.
    pub resources: usize,
    /// Hosts that DNS evidence was there for.
    pub observed_hosts: usize,
}

/// Looks a rule up by its code, any case.
#[must_use]
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.iter().copied().flatten().find(|rule| rule.code.eq_ignore_ascii_case(code))
}

/// All findings. `baseline` holds those that are known already.
#[must_use]
pub fn audit(
    loaded: &Loaded,
    known: &BTreeMap<Host, Known>,
    context: &Context,
    baseline: Option<&Baseline>,
) -> Audit {
    let mesh = Mesh::new(loaded, known, context);
    let mut all = Vec::new();
    let wanted = |rule: &Rule| !context.ignore.iter().any(|code| suppress::matches(code, rule.code));
    for rule in RULES.iter().copied().flatten().filter(|rule| wanted(rule)) {
        (rule.check)(&mesh, &mut Findings { rule, all: &mut all });
    }
    let mut audit = Audit {
        resources: loaded.resources.len(),
        observed_hosts: mesh
            .entries
            .iter()
            .flat_map(|entry| entry.observed().map(|(host, _)| host.name))
            .collect::<BTreeSet<_>>()
            .len(),
        ..Audit::default()
    };
    refused::merge(&mut all);
    let blind = audit.observed_hosts == 0;
    audit.suppressed =
        suppress::by_annotation(loaded, |rule| wanted(rule) && !(blind && rule.depends_on_dns()), &mut all);
    all.iter_mut().for_each(clean);
    all.sort_by(|one, two| (&one.at, &one.code, &one.detail).cmp(&(&two.at, &two.code, &two.detail)));
    all.dedup_by(|later, earlier| same(earlier, later));
    if let Some(baseline) = baseline {
        (audit.baselined, audit.stale_baseline) = baseline.take_out(&mut all);
        // What nobody asked DNS about is not gone.
        let asked =
            |code: &str| rule(code).is_none_or(|rule| wanted(rule) && !(blind && rule.depends_on_dns()));
        audit.stale_baseline.retain(|known| asked(known.split(' ').next().unwrap_or_default()));
    }
    audit.findings = all;
    audit
}

/// A rule about a host with several entries says the same for each: once is enough, with all of them beside it.
fn same(earlier: &mut Finding, later: &Finding) -> bool {
    let is = (&earlier.at, &earlier.code, &earlier.message) == (&later.at, &later.code, &later.message);
    if is {
        earlier.related.extend(later.related.iter().cloned());
        for edit in &later.edits {
            if !earlier.edits.contains(edit) {
                earlier.edits.push(edit.clone());
            }
        }
    }
    is
}

/// Names and hosts come out of files: a line feed or another control character in them ends no line of a report.
fn clean(finding: &mut Finding) {
    let visible = |text: &mut String| {
        if text.contains(char::is_control) {
            *text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        }
    };
    [&mut finding.message, &mut finding.hint, &mut finding.detail].into_iter().for_each(visible);
    for at in std::iter::once(&mut finding.at).chain(&mut finding.related) {
        [&mut at.name, &mut at.namespace, &mut at.file].into_iter().for_each(visible);
    }
}

impl Known {
    /// Somebody answered, be it that there is no such name: a resolver that is out of reach tells nothing of a name.
    fn is_heard(&self) -> bool {
        let families = [Some(&self.a), self.aaaa.as_ref()].into_iter().flatten();
        let mut outcomes = families.flat_map(|(observation, _)| &observation.outcomes).peekable();
        outcomes.peek().is_none() || outcomes.any(|seen| !seen.outcome.is_silence())
    }

    fn observed(&self) -> Observed<'_> {
        Observed {
            a: Family { observation: &self.a.0, classification: &self.a.1 },
            aaaa: self
                .aaaa
                .as_ref()
                .map(|(observation, classification)| Family { observation, classification }),
        }
    }
}

/// Takes the findings of one rule.
pub(crate) struct Findings<'f> {
    rule: &'static Rule,
    all: &'f mut Vec<Finding>,
}

impl Findings<'_> {
    /// One more, with the rule's severity, remedy and sources.
    fn add(&mut self, resource: &Loadable, at: Place, message: impl Into<String>) -> Draft<'_> {
        self.all.push(Finding {
            code: self.rule.code.to_owned(),
            severity: self.rule.severity,
            at: spot(resource, at),
            message: message.into(),
            hint: self.rule.fix.to_owned(),
            evidence: self.rule.source.to_vec(),
            related: Vec::new(),
            detail: String::new(),
            edits: Vec::new(),
        });
        let index = self.all.len() - 1;
        Draft { finding: &mut self.all[index] }
    }
}

/// A finding that is being written.
pub(crate) struct Draft<'f> {
    finding: &'f mut Finding,
}

impl Draft<'_> {
    /// What tells it from the rule's others on the same resource.
    fn about(self, detail: impl Into<String>) -> Self {
        self.finding.detail = detail.into();
        self
    }

    /// A remedy that knows the case.
    fn hint(self, hint: impl Into<String>) -> Self {
        self.finding.hint = hint.into();
        self
    }

    /// Worse or better than the rule's own.
    fn severity(self, severity: Severity) -> Self {
        self.finding.severity = severity;
        self
    }

    /// Rests on the observed window too.
    fn observed(self) -> Self {
        self.finding.evidence.insert(0, Citation::Window);
        self
    }

    /// Another resource that it involves.
    fn with(self, resource: &Loadable, at: Place) -> Self {
        self.finding.related.push(spot(resource, at));
        self
    }

    /// A change of the file that removes it.
    fn edit(self, edit: Option<Edit>) -> Self {
        self.finding.edits.extend(edit);
        self
    }
}

fn spot(resource: &Loadable, at: Place) -> Spot {
    Spot {
        file: resource.file.to_string(),
        line: at.line,
        column: at.column,
        kind: resource.kind,
        namespace: resource.namespace.to_string(),
        name: resource.name.to_string(),
    }
}
