//! Family EA10: what the API server or istiod refuses, and what is dropped on the way. Every resource of a networking kind
//! comes in; the shape of its kind (`schema`) is checked first, then what istiod's webhook checks in Go, a function of ours
//! for each of its own. [`CHECKS`] says which; the cluster tier holds all of it against the real ones.

use super::Findings;
use super::mesh::Mesh;
use super::patch::replace;
use super::reach::distance;
use super::rule::Rule;
use crate::Citation;
use crate::finding::{Finding, Severity};
use crate::manifest::node::{Node, Place};
use crate::manifest::{Kind, Loadable, clip};
use crate::schema::{self, Checked, Shape, What};

mod destination;
mod destination_rule;
mod envoy_filter;
mod gateway;
mod headers;
mod http_route;
mod load_balancer;
mod parts;
mod regex;
mod service_entry;
mod sidecar;
mod virtual_service;
mod workload_entry;

const CRD: Citation = Citation::docs(
    "https://github.com/istio/api/blob/release-1.31/kubernetes/customresourcedefinitions.gen.yaml",
);
const WEBHOOK: Citation =
    Citation::docs("https://github.com/istio/istio/blob/eed52ebb66ad/pkg/config/validation/validation.go");

const WHY: &str =
    "its webhook turns the resource away, and the mesh goes on with the one before it, or with none";
const FIX: &str = "correct what the message names";

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA1001",
        name: "dropped-field",
        severity: Severity::Warning,
        what: "a field that Istio's CRD does not have",
        why: "`kubectl` refuses it; sent by anything else, the API server drops it without a word, and the default applies",
        fix: "correct the name, move it to where it belongs, or take it out",
        source: &[CRD],
        examples: include_str!("examples/EA1001.yaml"),
        check: |mesh, found| shapes(mesh, found, |what| matches!(what, What::Unknown { .. })),
    },
    Rule {
        code: "EA1002",
        name: "wrong-type",
        severity: Severity::Error,
        what: "a value of another type than the field has",
        why: "the API server refuses the resource, and the mesh goes on with the one before it, or with none",
        fix: "write the value in the field's own type: numbers without quotes, text with them, lists with `-`",
        source: &[CRD],
        examples: include_str!("examples/EA1002.yaml"),
        check: |mesh, found| shapes(mesh, found, |what| *what == What::Type),
    },
    Rule {
        code: "EA1003",
        name: "missing-field",
        severity: Severity::Error,
        what: "a field that has to be there and is not",
        why: "the API server refuses the resource, and the mesh goes on with the one before it, or with none",
        fix: "add the field",
        source: &[CRD],
        examples: include_str!("examples/EA1003.yaml"),
        check: |mesh, found| shapes(mesh, found, |what| *what == What::Missing),
    },
    Rule {
        code: "EA1004",
        name: "refused-value",
        severity: Severity::Error,
        what: "a value that the field cannot have",
        why: "the API server refuses the resource, and the mesh goes on with the one before it, or with none",
        fix: "choose a value that the field can have",
        source: &[CRD],
        examples: include_str!("examples/EA1004.yaml"),
        check: |mesh, found| shapes(mesh, found, |what| *what == What::Value),
    },
    Rule {
        code: "EA1005",
        name: "fields-that-exclude-each-other",
        severity: Severity::Error,
        what: "fields of which only one can be set, or of which one has to be",
        why: "the API server refuses the resource, and the mesh goes on with the one before it, or with none",
        fix: "keep one of them",
        source: &[CRD],
        examples: include_str!("examples/EA1005.yaml"),
        check: |mesh, found| shapes(mesh, found, |what| *what == What::Together),
    },
    Rule {
        code: "EA1006",
        name: "refused-metadata",
        severity: Severity::Error,
        what: "an API version that is not served, or a name, label or annotation of the wrong form",
        why: "the API server refuses the resource, and the mesh goes on with the one before it, or with none",
        fix: "correct it: names and label values have letters, digits, `-` and `.`, annotations are text",
        source: &[CRD],
        examples: include_str!("examples/EA1006.yaml"),
        check: |mesh, found| shapes(mesh, found, |what| *what == What::Metadata),
    },
    Rule {
        code: "EA1011",
        name: "refused-service-entry",
        severity: Severity::Error,
        what: "a ServiceEntry that istiod refuses",
        why: WHY,
        fix: FIX,
        source: &[WEBHOOK],
        examples: include_str!("examples/EA1011.yaml"),
        check: |mesh, found| webhook(mesh, found, Kind::ServiceEntry),
    },
    Rule {
        code: "EA1012",
        name: "refused-destination-rule",
        severity: Severity::Error,
        what: "a DestinationRule that istiod refuses",
        why: WHY,
        fix: FIX,
        source: &[WEBHOOK],
        examples: include_str!("examples/EA1012.yaml"),
        check: |mesh, found| webhook(mesh, found, Kind::DestinationRule),
    },
    Rule {
        code: "EA1013",
        name: "refused-virtual-service",
        severity: Severity::Error,
        what: "a VirtualService that istiod refuses",
        why: WHY,
        fix: FIX,
        source: &[WEBHOOK],
        examples: include_str!("examples/EA1013.yaml"),
        check: |mesh, found| webhook(mesh, found, Kind::VirtualService),
    },
    Rule {
        code: "EA1014",
        name: "refused-gateway",
        severity: Severity::Error,
        what: "a Gateway that istiod refuses",
        why: WHY,
        fix: FIX,
        source: &[WEBHOOK],
        examples: include_str!("examples/EA1014.yaml"),
        check: |mesh, found| webhook(mesh, found, Kind::Gateway),
    },
    Rule {
        code: "EA1015",
        name: "refused-sidecar",
        severity: Severity::Error,
        what: "a Sidecar that istiod refuses",
        why: WHY,
        fix: FIX,
        source: &[WEBHOOK],
        examples: include_str!("examples/EA1015.yaml"),
        check: |mesh, found| webhook(mesh, found, Kind::Sidecar),
    },
    Rule {
        code: "EA1016",
        name: "refused-workload-entry",
        severity: Severity::Error,
        what: "a WorkloadEntry that istiod refuses",
        why: WHY,
        fix: FIX,
        source: &[WEBHOOK],
        examples: include_str!("examples/EA1016.yaml"),
        check: |mesh, found| webhook(mesh, found, Kind::WorkloadEntry),
    },
    Rule {
        code: "EA1017",
        name: "refused-envoy-filter",
        severity: Severity::Error,
        what: "an EnvoyFilter that istiod refuses",
        why: WHY,
        fix: FIX,
        source: &[WEBHOOK],
        examples: include_str!("examples/EA1017.yaml"),
        check: |mesh, found| webhook(mesh, found, Kind::EnvoyFilter),
    },
];

/// A function of istiod's validation that a part of this family answers to. The line is that of the commit in
/// [`GO_COMMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoCheck {
    /// `pkg/config/validation/validation.go`.
    pub file: &'static str,
    /// `validateExportTo`.
    pub function: &'static str,
    /// Where it starts.
    pub line: u32,
    /// What it refuses.
    pub refuses: &'static str,
}

/// The commit of istio/istio that [`CHECKS`] was read at, the one that the cluster tier builds.
pub const GO_COMMIT: &str = "eed52ebb66ad";

pub use parts::CHECKS;

/// What a function of ours refuses of one resource.
struct Refusals<'a> {
    resource: &'a Loadable,
    found: Vec<(Place, &'static GoCheck, String)>,
}

impl Refusals<'_> {
    fn add(&mut self, at: Place, from: &'static GoCheck, message: impl Into<String>) {
        self.found.push((at, from, message.into()));
    }

    /// Adds where a condition does not hold.
    fn unless(&mut self, good: bool, at: Place, from: &'static GoCheck, message: impl FnOnce() -> String) {
        if !good {
            self.add(at, from, message());
        }
    }

    /// As the API server fills it in.
    fn namespace(&self) -> &str {
        if self.resource.namespace.is_empty() { "default" } else { &self.resource.namespace }
    }
}

/// Resources with a shape, each checked against it; once for all rules.
fn checked<'m, 'a>(mesh: &'m Mesh<'a>) -> &'m [(&'a Loadable, Checked<'a>)] {
    let istio = mesh.context.platform.istio_version;
    mesh.checked.get_or_init(|| {
        let check = |resource: &'a Loadable| {
            let shape = Shape::of(resource.kind, istio)?;
            Some((resource, schema::check(&resource.root, shape)))
        };
        mesh.resources.iter().filter_map(check).collect()
    })
}

fn shapes(mesh: &Mesh<'_>, found: &mut Findings<'_>, wanted: impl Fn(&What) -> bool) {
    for (resource, checked) in checked(mesh) {
        for fault in checked.faults.iter().filter(|fault| wanted(&fault.what)) {
            let draft = found.add(resource, fault.at, fault.message.as_str()).about(fault.path.as_str());
            let What::Unknown { instead, since } = &fault.what else { continue };
            let written = fault.path.rsplit('.').next().unwrap_or_default();
            if let Some(since) = since {
                draft.hint(format!("take it out, or run Istio {since}"));
            } else if let Some(meant) = near(written, instead, &resource.root, &fault.path) {
                draft
                    .hint(format!("write `{meant}`, if that is what is meant"))
                    .edit(replace(fault.at, meant));
            }
        }
    }
}

/// The known field that is one or two strokes away, or the same in another case, and is not set itself.
fn near<'n>(written: &str, known: &[&'n str], root: &Node, path: &str) -> Option<&'n str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], "");
    let written = plain(written);
    let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
    let free = |name: &str| at(root, parent).is_none_or(|parent| parent.get_key(name).is_none());
    let close = known.iter().filter_map(|name| Some((distance(&plain(name), &written, 2)?, *name)));
    close.filter(|(_, name)| written.len() > 3 && free(name)).min().map(|(_, name)| name)
}

/// The node at a path such as `spec.ports[0].number`.
fn at<'n>(root: &'n Node, path: &str) -> Option<&'n Node> {
    let steps = path.split(['.', '[', ']']).filter(|step| !step.is_empty());
    let mut steps = steps.map(|step| (step, step.parse::<usize>().ok()));
    steps.try_fold(root, |node, (step, index)| match index {
        Some(index) if !node.items().is_empty() => node.items().get(index),
        _ => node.get_key(step),
    })
}

fn webhook(mesh: &Mesh<'_>, found: &mut Findings<'_>, kind: Kind) {
    for (resource, checked) in checked(mesh).iter().filter(|(resource, _)| resource.kind == kind) {
        // The API server asks no webhook about what it refuses itself.
        if checked.faults.iter().any(|fault| !fault.what.is_dropped()) {
            continue;
        }
        let mut refusals = Refusals { resource, found: Vec::new() };
        let root = &*checked.kept;
        parts::metadata(root, &mut refusals);
        let nothing = Node { at: root.at, value: crate::manifest::node::Value::Map(Vec::new()) };
        let spec = root.get("spec").unwrap_or(&nothing);
        match kind {
            Kind::ServiceEntry => service_entry::check(root, spec, &mut refusals),
            Kind::DestinationRule => destination_rule::check(spec, &mut refusals),
            Kind::VirtualService => virtual_service::check(spec, &mut refusals),
            Kind::Gateway => gateway::check(root, spec, &mut refusals),
            Kind::Sidecar => sidecar::check(spec, &mut refusals),
            Kind::WorkloadEntry => workload_entry::check(spec, &mut refusals),
            Kind::EnvoyFilter => envoy_filter::check(spec, &mut refusals),
            Kind::Service | Kind::MeshConfig => {}
        }
        for (at, from, message) in refusals.found {
            found
                .add(resource, at, clip(&message))
                .about(format!("{} {}", from.function, clip(&message)))
                .hint(format!("correct it: {} in istiod refuses {}", from.function, from.refuses));
        }
    }
}

/// Whether a finding says that Istio refuses the resource: one of this family, or an older rule's that stands for one.
#[must_use]
pub fn is_refusal(finding: &Finding) -> bool {
    finding.severity == Severity::Error
        && (finding.code.starts_with("EA10") && finding.code.len() == 6
            || finding.evidence.contains(&CRD)
            || finding.evidence.contains(&WEBHOOK))
}

/// One cause, one finding: where an older rule has an error on the same line, it speaks, with the source of the refusal.
/// A misspelled field is said by the rule that can mend it.
pub(super) fn merge(all: &mut Vec<Finding>) {
    let in_family = |finding: &Finding| finding.code.len() == 6 && finding.code.starts_with("EA10");
    let (family, mut rest): (Vec<_>, Vec<_>) = all.drain(..).partition(in_family);
    for finding in family {
        let dropped = finding.severity != Severity::Error;
        let here = |other: &&mut Finding| {
            let (one, two) = (&finding.at, &other.at);
            (if dropped { other.code == "EA516" } else { other.severity == Severity::Error })
                && (one.line, one.kind) == (two.line, two.kind)
                && (&one.file, &one.name, &one.namespace) == (&two.file, &two.name, &two.namespace)
        };
        match rest.iter_mut().find(here) {
            Some(older) if !dropped => {
                let new = finding.evidence.into_iter().filter(|source| !older.evidence.contains(source));
                older.evidence.extend(new.collect::<Vec<_>>());
            }
            Some(_) => {}
            None => all.push(finding),
        }
    }
    all.append(&mut rest);
}
