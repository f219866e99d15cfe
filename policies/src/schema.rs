//! The shapes of Istio's networking kinds by release: the OpenAPI schemas and CEL rules of the CRDs, made small by
//! `scripts/istio-schemas`. The audit asks for the [`Shape`] of a kind and checks a resource against it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

mod cel;
mod check;
mod fault;
mod metadata;

pub(crate) use check::{Checked, check};
pub(crate) use fault::What;

use crate::Version;
use crate::manifest::Kind;

/// All that the script wrote.
static SHIPPED: LazyLock<Option<Shipped>> =
    LazyLock::new(|| serde_json::from_str(include_str!("schema/istio.json")).ok());

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shipped {
    /// Release lines, oldest first.
    releases: Vec<String>,
    /// API versions that are served, by kind.
    served: BTreeMap<String, Vec<String>>,
    /// The node of a whole object, by kind and release.
    roots: BTreeMap<String, Vec<usize>>,
    nodes: Vec<Schema>,
}

/// One schema; its children are numbers of nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Schema {
    #[serde(rename = "type")]
    kind: Option<Type>,
    format: Option<String>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    #[serde(default, rename = "enum")]
    values: Vec<String>,
    #[serde(default)]
    required: Vec<String>,
    #[serde(default)]
    nullable: bool,
    min_length: Option<usize>,
    max_length: Option<usize>,
    pattern: Option<String>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    max_properties: Option<usize>,
    #[serde(default, rename = "preserve-unknown-fields")]
    open: bool,
    #[serde(default)]
    properties: BTreeMap<String, usize>,
    items: Option<usize>,
    /// Of a map of any keys.
    #[serde(rename = "values")]
    any: Option<usize>,
    #[serde(default)]
    one_of: Vec<usize>,
    #[serde(default)]
    any_of: Vec<usize>,
    #[serde(default)]
    all_of: Vec<usize>,
    not: Option<usize>,
    /// Keys that tell the items of a list apart.
    #[serde(default)]
    unique_by: Vec<String>,
    /// CEL rules and what they say.
    #[serde(default)]
    rules: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// The shape of one kind in one release.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    shipped: &'static Shipped,
    release: usize,
    kind: Kind,
    root: usize,
}

impl Shape {
    /// The shape of a kind, for a release of Istio: the closest that is known, the newest where none is named.
    pub(crate) fn of(kind: Kind, istio: Option<Version>) -> Option<Self> {
        let shipped = SHIPPED.as_ref()?;
        let roots = shipped.roots.get(kind.as_str())?;
        let newest = roots.len().checked_sub(1)?;
        let release = istio.map_or(newest, |wanted| {
            let not_newer = |line: &String| line.parse::<Version>().is_ok_and(|line| line <= wanted.line());
            shipped.releases.iter().rposition(not_newer).unwrap_or(0).min(newest)
        });
        Some(Self { shipped, release, kind, root: roots[release] })
    }

    /// Istio's release line that it is of.
    fn release(&self) -> &'static str {
        &self.shipped.releases[self.release]
    }

    /// The shapes of the same kind in later releases, with those.
    fn later(&self) -> impl Iterator<Item = (&'static str, Self)> {
        let this = *self;
        let roots = self.shipped.roots.get(self.kind.as_str()).map_or(&[][..], Vec::as_slice);
        let later = self.shipped.releases.iter().zip(roots).enumerate().skip(self.release + 1);
        later.map(move |(release, (line, root))| (line.as_str(), Self { release, root: *root, ..this }))
    }

    fn served(&self) -> &'static [String] {
        self.shipped.served.get(self.kind.as_str()).map_or(&[], Vec::as_slice)
    }

    fn node(&self, number: usize) -> Option<&'static Schema> {
        self.shipped.nodes.get(number)
    }
}

/// Every CEL rule of every release, with its message.
#[must_use]
pub fn cel_rules() -> Vec<(&'static str, &'static str)> {
    let nodes = SHIPPED.iter().flat_map(|shipped| &shipped.nodes);
    let mut rules: Vec<_> =
        nodes.flat_map(|node| &node.rules).map(|(rule, says)| (rule.as_str(), says.as_str())).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// Release lines that shapes are shipped for, oldest first.
#[must_use]
pub fn releases() -> Vec<&'static str> {
    SHIPPED.iter().flat_map(|shipped| &shipped.releases).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_shape_in_every_release_and_the_closest_is_taken() {
        let shipped = SHIPPED.as_ref().unwrap();
        for (kind, roots) in &shipped.roots {
            assert_eq!(roots.len(), shipped.releases.len(), "{kind}");
        }
        let release = |version: &str| Shape::of(Kind::ServiceEntry, version.parse().ok()).unwrap().release();
        assert_eq!([release("1.20"), release("1.29.3"), release("1.99")], ["1.27", "1.29", "1.32"]);
        assert_eq!(Shape::of(Kind::ServiceEntry, None).unwrap().release(), "1.32");
        assert!(Shape::of(Kind::Service, None).is_none());
    }

    #[test]
    fn every_cel_rule_of_the_data_has_a_row() {
        let without: Vec<_> = cel_rules().into_iter().filter(|(rule, _)| cel::find(rule).is_none()).collect();
        assert!(without.is_empty(), "{without:#?}");
        let shipped: Vec<&str> = cel_rules().into_iter().map(|(rule, _)| rule).collect();
        let idle: Vec<_> =
            cel::ROWS.iter().filter(|(rule, _)| !shipped.contains(rule)).map(|row| row.0).collect();
        assert!(idle.is_empty(), "rows of no rule: {idle:#?}");
    }
}
