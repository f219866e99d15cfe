//! Findings that somebody has decided about: an annotation on the resource, or a baseline of those that were there
//! before. What suppresses nothing any more is a finding itself.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Findings;
use super::rule::Rule;
use crate::finding::{Finding, Severity};
use crate::manifest::node::Place;
use crate::manifest::{Kind, Loadable, Loaded};

/// Annotation whose value lists codes to keep quiet, separated by commas; `EA2*` stands for a family.
pub(super) const ANNOTATION: &str = "egress-audit/ignore";

pub(super) const RULES: &[Rule] = &[UNUSED];

const UNUSED: Rule = Rule {
    code: "EA001",
    name: "unused-suppression",
    severity: Severity::Warning,
    what: "an annotation suppresses a code that is not found here",
    why: "a suppression that outlives its reason hides the next finding of that kind",
    fix: "remove the code from the annotation `egress-audit/ignore`",
    source: &[crate::Citation::Deduced],
    examples: include_str!("examples/EA001.yaml"),
    check: nothing,
};

/// It comes out of what the other rules found.
fn nothing(_: &super::Mesh<'_>, _: &mut Findings<'_>) {}

/// Takes out what annotations keep quiet and adds a finding for every code that keeps nothing quiet, unless one of its
/// rules could not be asked. Returns how many were taken out.
pub(super) fn by_annotation(
    loaded: &Loaded,
    ran: impl Fn(&Rule) -> bool,
    findings: &mut Vec<Finding>,
) -> usize {
    let before = findings.len();
    let mut ignores: HashMap<String, Vec<Ignore<'_>>> = HashMap::new();
    for resource in &loaded.resources {
        let annotations = resource.root.get("metadata.annotations");
        let Some((_, value)) = annotations.and_then(|annotations| annotations.entry(ANNOTATION)) else {
            continue;
        };
        let codes =
            value.text().unwrap_or_default().split(',').map(str::trim).filter(|code| !code.is_empty());
        let key = key(resource.kind, &resource.namespace, &resource.name, &resource.file);
        let ignore = |code| Ignore { resource, at: value.at, code, used: false };
        ignores.entry(key).or_default().extend(codes.map(ignore));
    }
    findings.retain(|finding| {
        let at = &finding.at;
        let Some(here) = ignores.get_mut(&key(at.kind, &at.namespace, &at.name, &at.file)) else {
            return true;
        };
        let mut meant = here.iter_mut().filter(|ignore| matches(ignore.code, &finding.code)).peekable();
        let quiet = meant.peek().is_some();
        meant.for_each(|ignore| ignore.used = true);
        !quiet
    });
    let taken = before - findings.len();
    let mut add = Findings { rule: &UNUSED, all: findings };
    for unused in ignores.into_values().flatten().filter(|ignore| !ignore.used) {
        let mut meant = super::RULES.iter().copied().flatten().filter(|rule| matches(unused.code, rule.code));
        if !meant.all(&ran) {
            continue;
        }
        let text = format!("{:?} suppresses nothing here", unused.code);
        add.add(unused.resource, unused.at, text).about(unused.code);
    }
    taken
}

fn key(kind: Kind, namespace: &str, name: &str, file: &str) -> String {
    format!("{kind} {namespace}/{name} {file}")
}

/// One code of an annotation.
struct Ignore<'a> {
    resource: &'a Loadable,
    at: Place,
    code: &'a str,
    used: bool,
}

pub(super) fn matches(pattern: &str, code: &str) -> bool {
    match pattern.strip_suffix('*') {
        // `EA1*` is the family of EA101, not that of EA1001.
        Some(family) => code.starts_with(family) && (family.len() <= 2 || family.len() + 2 >= code.len()),
        None => pattern.eq_ignore_ascii_case(code),
    }
}

/// Findings that were there before: fingerprints without lines, with their number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Fingerprint and how often it was found.
    pub known: BTreeMap<String, usize>,
}

impl Baseline {
    /// What is there now.
    #[must_use]
    pub fn of(findings: &[Finding]) -> Self {
        let mut known = BTreeMap::new();
        for finding in findings {
            *known.entry(finding.fingerprint()).or_default() += 1;
        }
        Self { known }
    }

    /// Takes out what is known. Returns how many that were, and the fingerprints that nothing answered to.
    pub(super) fn take_out(&self, findings: &mut Vec<Finding>) -> (usize, Vec<String>) {
        let mut left = self.known.clone();
        let before = findings.len();
        findings.retain(|finding| match left.get_mut(&finding.fingerprint()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        });
        let stale = left.into_iter().filter(|(_, count)| *count > 0).map(|(known, _)| known).collect();
        (before - findings.len(), stale)
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_a_family() {
        assert!(matches("EA2*", "EA201") && matches("ea201", "EA201") && matches("*", "EA905"));
        assert!(!matches("EA2*", "EA101") && !matches("EA20", "EA201"));
    }
}
