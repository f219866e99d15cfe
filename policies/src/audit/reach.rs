//! Family EA7: rules that are never used: about no host, out of sight of the client, or one of two.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Findings;
use super::mesh::{DestRule, Entry, Mesh, Scope, full, is_external, is_short, same_namespace};
use super::rule::Rule;
use crate::finding::Severity;
use crate::manifest::Loadable;
use crate::manifest::node::Node;
use crate::{Citation, IstioBehaviour};

const VISIBILITY: Citation = Citation::docs(
    "https://istio.io/latest/docs/ops/best-practices/traffic-management/#cross-namespace-configuration",
);

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA701",
        name: "rule-without-host",
        severity: Severity::Warning,
        what: "a DestinationRule about an external host that no entry registers",
        why: "its settings apply to nothing",
        fix: "correct spec.host, or add the ServiceEntry to the audit",
        source: &[
            Citation::docs("https://istio.io/latest/docs/reference/config/analysis/"),
            Citation::thread("https://github.com/istio/istio/issues/57329"),
        ],
        examples: include_str!("examples/EA701.yaml"),
        check: rule_without_host,
    },
    Rule {
        code: "EA702",
        name: "rule-out-of-sight",
        severity: Severity::Warning,
        what: "a DestinationRule in a namespace where neither the entry nor a gateway for it is",
        why: "a client looks in its own namespace, in the entry's and in the root namespace; through a gateway, the \
              gateway is the client",
        fix: "move the rule to the entry's namespace, or to the root namespace",
        source: &[VISIBILITY, Citation::thread("https://github.com/istio/istio/issues/15556")],
        examples: include_str!("examples/EA702.yaml"),
        check: rule_out_of_sight,
    },
    Rule {
        code: "EA703",
        name: "two-rules-one-host",
        severity: Severity::Warning,
        what: "two DestinationRules of one namespace with a trafficPolicy for one host",
        why: "only one of the two policies is used",
        fix: "put both into one rule",
        source: &[Citation::docs(
            "https://istio.io/latest/docs/ops/best-practices/traffic-management/#split-virtual-services",
        )],
        examples: include_str!("examples/EA703.yaml"),
        check: two_rules_one_host,
    },
    Rule {
        code: "EA704",
        name: "rule-not-exported",
        severity: Severity::Warning,
        what: "a DestinationRule that is not exported to a namespace that sees its entry",
        why: "clients there reach the host without the rule's settings",
        fix: "export the rule to where the entry is exported to",
        source: &[VISIBILITY],
        examples: include_str!("examples/EA704.yaml"),
        check: rule_not_exported,
    },
    Rule {
        code: "EA705",
        name: "sidecar-names-no-entry",
        severity: Severity::Warning,
        what: "a Sidecar imports an external host that is not there for it",
        why: "its clients have no cluster for the host: the connection is blocked, or passes by the entry's settings",
        fix: "correct the namespace or the name in egress.hosts, or export the entry to the Sidecar's namespace",
        source: &[Citation::docs(
            "https://istio.io/latest/docs/reference/config/networking/sidecar/#IstioEgressListener",
        )],
        examples: include_str!("examples/EA705.yaml"),
        check: sidecar_names_no_entry,
    },
    Rule {
        code: "EA706",
        name: "short-name-misses-entry",
        severity: Severity::Error,
        what: "a rule or a route names an entry's host without a dot",
        why: "Istio completes a name without a dot with the namespace and the cluster's domain, so that the Service of that \
              name is meant; the entry's own host is not completed",
        fix: "give the entry a host with a dot in it, and write that in the rule and in the route",
        source: &[
            Citation::docs(
                "https://istio.io/latest/docs/reference/config/networking/destination-rule/#DestinationRule",
            ),
            Citation::docs(
                "https://istio.io/latest/docs/reference/config/networking/virtual-service/#Destination",
            ),
        ],
        examples: include_str!("examples/EA706.yaml"),
        check: short_name,
    },
];

fn rule_without_host(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if mesh.entries.is_empty() {
        return;
    }
    let near = NearMisses::of(mesh);
    for rule in mesh.rules.iter().filter(|rule| rule.entries.is_empty() && is_external(rule.host)) {
        if !rule.host.starts_with('*') && !mesh.entries_for(rule.host).is_empty() {
            continue;
        }
        let text = format!("no entry registers {}", rule.host);
        let draft = found.add(rule.resource, rule.host_at, text).about(rule.host);
        let Some(near) = near.to(rule.host) else { continue };
        if near.ends_with('.') {
            let hint =
                format!("remove the dot at the end of {near} in the entry: hosts are compared with it");
            draft.severity(Severity::Error).hint(hint);
        } else {
            draft
                .severity(Severity::Error)
                .hint(format!("write {near}, if that is what is meant"))
                .edit(super::patch::replace(rule.host_at, near));
        }
    }
}

/// Hosts by their first label and by the rest: a typing error leaves one of the two as it was, and looking at those
/// alone keeps the search linear.
struct NearMisses<'a> {
    by_part: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> NearMisses<'a> {
    /// Hosts looked at for one part.
    const MOST: usize = 500;

    fn of(mesh: &Mesh<'a>) -> Self {
        let mut by_part: HashMap<&'a str, Vec<&'a str>> = HashMap::new();
        for host in mesh.hosts() {
            for part in host.split_once('.').into_iter().flat_map(|(first, rest)| [first, rest]) {
                by_part.entry(part).or_default().push(host);
            }
        }
        Self { by_part }
    }

    fn to(&self, host: &str) -> Option<&'a str> {
        let (first, rest) = host.split_once('.')?;
        let parts = [first, rest].into_iter().filter_map(|part| self.by_part.get(part));
        let candidates = parts.flat_map(|hosts| hosts.iter().take(Self::MOST));
        candidates.filter_map(|near| Some((distance(near, host, 2)?, *near))).min().map(|(_, near)| near)
    }
}

/// Insertions, deletions and exchanges that turn one text into the other; `None` beyond `most`.
pub(super) fn distance(one: &str, two: &str, most: usize) -> Option<usize> {
    // The lengths rule most pairs out without the table.
    if one.chars().count().abs_diff(two.chars().count()) > most {
        return None;
    }
    Some(strsim::levenshtein(one, two)).filter(|distance| *distance <= most)
}

fn rule_out_of_sight(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let gateways: Vec<_> = super::gateways::hops(mesh).collect();
    // A rule with a selector is for workloads of its own namespace.
    for rule in mesh.rules.iter().filter(|rule| !rule.entries.is_empty() && rule.selector.is_none()) {
        let own = &*rule.resource.namespace;
        let near = |other: &Loadable| same_namespace(other, rule.resource) != Some(false);
        let by_entry = mesh.entries_of(rule).any(|entry| near(entry.resource));
        let by_gateway = gateways.iter().any(|hop| hop.host == rule.host && hop.gateway.is_none_or(near));
        if by_entry || by_gateway || own == mesh.context.root_namespace {
            continue;
        }
        let entry = mesh.entries_of(rule).next();
        let home = entry.map_or("", |entry| &entry.resource.namespace);
        let text =
            format!("only clients in namespace {own:?} use it: the entry for {} is in {home:?}", rule.host);
        let draft = found.add(rule.resource, rule.host_at, text).about(rule.host);
        if let Some(entry) = entry {
            draft.with(entry.resource, entry.spec.at);
        }
    }
}

fn two_rules_one_host(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let mut first: BTreeMap<(&str, &str, String), &DestRule<'_>> = BTreeMap::new();
    for rule in mesh.rules.iter().filter(|rule| rule.policy.is_some() && is_external(rule.host)) {
        // Rules with different selectors are for different workloads, and never merged.
        let selected = rule.selector.map(labels).unwrap_or_default();
        match first.entry((&rule.resource.namespace, rule.host, selected)) {
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(rule);
            }
            std::collections::btree_map::Entry::Occupied(other)
                if other.get().resource.name != rule.resource.name =>
            {
                let other = other.get();
                let text = format!("{} has a trafficPolicy for {} too", other.resource.name, rule.host);
                found
                    .add(rule.resource, rule.host_at, text)
                    .about(rule.host)
                    .with(other.resource, other.host_at);
            }
            std::collections::btree_map::Entry::Occupied(_) => {}
        }
    }
}

/// The labels of a selector, in order.
fn labels(selector: &Node) -> String {
    let listed = ["matchLabels", "labels"].iter().filter_map(|key| selector.get(key)).flat_map(Node::entries);
    let mut pairs: Vec<String> =
        listed.map(|(key, value)| format!("{}={:?}", key.text, value.value)).collect();
    pairs.sort_unstable();
    pairs.join(",")
}

fn rule_not_exported(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    // A rule with a selector is never exported, whatever exportTo says.
    for rule in mesh.rules.iter().filter(|rule| rule.selector.is_none()) {
        let scope @ Scope::Namespaces(_) = &rule.scope else { continue };
        for entry in mesh.entries_of(rule) {
            let unseen = match &entry.scope {
                Scope::Everywhere => Some("every other namespace".to_owned()),
                Scope::Namespaces(names) => {
                    names.iter().find(|name| !scope.sees(name)).map(|name| format!("namespace {name:?}"))
                }
            };
            let Some(unseen) = unseen else { continue };
            let at = rule.resource.root.get("spec.exportTo").map_or(rule.host_at, |export| export.at);
            let text = format!("{unseen} sees {} without this rule", rule.host);
            found.add(rule.resource, at, text).about(rule.host).with(entry.resource, entry.spec.at);
        }
    }
}

fn sidecar_names_no_entry(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if mesh.entries.is_empty() {
        return;
    }
    let near = NearMisses::of(mesh);
    for sidecar in &mesh.sidecars {
        for listed in sidecar.root.list("spec.egress").iter().flat_map(|egress| egress.list("hosts")) {
            let Some((namespace, host)) = listed.text().and_then(|text| text.split_once('/')) else {
                continue;
            };
            // `~namespace/host` leaves a host out.
            if namespace.starts_with('~') {
                if namespace != "~" && !mesh.context.platform.istio_does(IstioBehaviour::SidecarExclusions) {
                    let (istio, row) =
                        (mesh.context.platform.istio(), IstioBehaviour::SidecarExclusions.row());
                    let text = format!(
                        "Istio {istio} reads {namespace}/{host} as no exclusion: that takes {}",
                        row.since
                    );
                    found.add(sidecar, listed.at, text).about(listed.text().unwrap_or_default());
                }
                continue;
            }
            if host.starts_with('*') || !is_external(host) {
                continue;
            }
            let home = if namespace == "." { &*sidecar.namespace } else { namespace };
            let entries = mesh.entries_for(host);
            let unknown = |namespace: &str| namespace.is_empty() || home.is_empty();
            let here = |entry: &&&Entry<'_>| {
                let own = &*entry.resource.namespace;
                home == "*" || own == home || unknown(own)
            };
            let seen = |entry: &&Entry<'_>| entry.scope.sees(&sidecar.namespace);
            if entries.iter().filter(here).copied().any(|entry| seen(&entry)) {
                continue;
            }
            let other = entries.iter().find(|entry| seen(entry));
            let text = match (other, entries.first()) {
                (Some(other), _) => format!("the entry for {host} is in {:?}", &*other.resource.namespace),
                (None, Some(_)) => {
                    format!("the entry for {host} is not exported to {:?}", &*sidecar.namespace)
                }
                (None, None) => format!("no entry registers {host}"),
            };
            let draft = found.add(sidecar, listed.at, text).about(listed.text().unwrap_or_default());
            if let Some(entry) = other.or(entries.first()) {
                draft.with(entry.resource, entry.spec.at);
            } else if let Some(near) = near.to(host) {
                let edit = super::patch::replace(listed.at, format!("\"{namespace}/{near}\""));
                draft.hint(format!("write {near}, if that is what is meant")).edit(edit);
            }
        }
    }
}

fn short_name(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let registered: HashSet<&str> = mesh.hosts().filter(|host| is_short(host)).collect();
    let rules = mesh.rules.iter().map(|rule| (rule.resource, rule.host, rule.host_at));
    let routes = mesh.virtual_services.iter().flat_map(|service| {
        let hosts = service.root.list("spec.hosts").iter();
        let to = super::routes::destinations(service).filter_map(|to| to.destination.get("host"));
        hosts.chain(to).filter_map(|host| Some((*service, host.text()?, host.at)))
    });
    for (resource, host, at) in rules.chain(routes).filter(|(_, host, _)| registered.contains(host)) {
        let home = if resource.namespace.is_empty() { "<namespace>" } else { &*resource.namespace };
        let text = format!("{host} is read as {}, which is not the entry's host", full(host, home));
        found.add(resource, at, text).about(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn near_misses_are_within_two_strokes() {
        assert_eq!(distance("api.partner.example", "api.partner.example", 2), Some(0));
        assert_eq!(distance("api.partner.example", "api.partnr.example", 2), Some(1));
        assert_eq!(distance("api.partner.example", "web.partner.example", 2), None);
        assert_eq!(distance("", "ab", 2), Some(2));
    }

    #[test]
    fn short_names_and_the_cluster_s_own_are_left_alone() {
        for (host, external) in [
            ("api.partner.example", true),
            ("*.partner.example", true),
            ("reviews", false),
            ("reviews.prod", false),
            ("reviews.prod.svc.cluster.local", false),
        ] {
            assert_eq!(is_external(host), external, "{host}");
        }
    }

    proptest! {
        #[test]
        fn distance_is_symmetric(one in "[ab.]{0,8}", two in "[ab.]{0,8}") {
            prop_assert_eq!(distance(&one, &two, 9), distance(&two, &one, 9));
        }
    }
}
