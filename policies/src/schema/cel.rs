//! The CEL rules of Istio's CRDs, one row each by its text: there are two dozen, so a table reads better than an
//! interpreter. `check` looks a rule up; a test holds the table against the rules of the data.

use std::time::Duration;

use crate::manifest::node::{Node, Place, Value};
use crate::manifest::spelled::{go_duration, is_dns_label};

/// Where a rule is broken, and whether fields that exclude each other do it; `None` where it holds.
pub(super) type Broken = fn(&Node) -> Option<(Place, bool)>;

pub(super) fn find(rule: &str) -> Option<Broken> {
    ROWS.iter().find(|(text, _)| *text == rule).map(|(_, holds)| *holds)
}

pub(super) const ROWS: &[(&str, Broken)] = &[
    (
        r#"!((has(self.addresses) ? self.addresses : []).exists(k, k.contains("/")) && !((has(self.resolution) ? self.resolution : "NONE") in ["STATIC", "NONE"]))"#,
        |spec| {
            let network = spec.list("addresses").iter().find(|address| text(address).contains('/'))?;
            (!["STATIC", "NONE"].contains(&resolution(spec, "NONE"))).then_some((network.at, false))
        },
    ),
    (r#"!self.contains("*")"#, |value| text(value).contains('*').then_some((value.at, false))),
    (
        r#"((has(self.resolution) ? self.resolution : "") == "DNS_ROUND_ROBIN") ? ((has(self.endpoints) ? self.endpoints : []).size() <= 1) : true"#,
        |spec| {
            let several = spec.get("endpoints").filter(|endpoints| endpoints.items().len() > 1)?;
            (resolution(spec, "") == "DNS_ROUND_ROBIN").then_some((several.at, false))
        },
    ),
    (
        r#"((has(self.resolution) ? self.resolution : "NONE") == "NONE") ? !has(self.endpoints) : true"#,
        |spec| both(spec, "endpoints", resolution(spec, "NONE") == "NONE"),
    ),
    (
        r#"(has(self.address) ? self.address : "").startsWith("unix://") ? !has(self.ports) : true"#,
        |endpoint| both(endpoint, "ports", endpoint.get("address").is_some_and(is_socket)),
    ),
    ("(has(self.credentialName) ? 1 : 0) + (has(self.credentialNames) ? 1 : 0) <= 1", |tls| {
        both(tls, "credentialNames", set(tls, "credentialName").is_some())
    }),
    ("(has(self.credentialNames) ? 1 : 0) + (has(self.tlsCertificates) ? 1 : 0) <= 1", |tls| {
        both(tls, "credentialNames", set(tls, "tlsCertificates").is_some())
    }),
    ("(has(self.tlsCertificates) ? 1 : 0) + (has(self.credentialNames) ? 1 : 0) <= 1", |tls| {
        both(tls, "credentialNames", set(tls, "tlsCertificates").is_some())
    }),
    ("(has(self.workloadSelector) ? 1 : 0) + (has(self.endpoints) ? 1 : 0) <= 1", |spec| {
        both(spec, "endpoints", set(spec, "workloadSelector").is_some())
    }),
    ("(has(self.workloadSelector) ? 1 : 0) + (has(self.targetRefs) ? 1 : 0) <= 1", |spec| {
        both(spec, "targetRefs", set(spec, "workloadSelector").is_some())
    }),
    ("0 < self && self <= 6553", |port| number(port, 1, 6553)),
    ("0 < self && self <= 65535", |port| number(port, 1, 65535)),
    ("duration(self) >= duration('1ms')", |value| {
        let long = go_duration(text(value)).is_some_and(|time| time >= Duration::from_millis(1));
        (!long).then_some((value.at, false))
    }),
    ("has(self.address) || has(self.network)", |endpoint| {
        let has = set(endpoint, "address").is_some() || set(endpoint, "network").is_some();
        (!has).then_some((endpoint.at, false))
    }),
    (
        r#"has(self.context) ? ((self.context == "WAYPOINT") ? has(self.waypoint) : !has(self.waypoint)) : !has(self.waypoint)"#,
        |found| {
            let is_waypoint = found.text_at("context") == Some("WAYPOINT");
            let waypoint = set(found, "waypoint");
            (is_waypoint != waypoint.is_some()).then_some((waypoint.unwrap_or(found).at, true))
        },
    ),
    (r#"self != "*""#, |value| (text(value) == "*").then_some((value.at, false))),
    (r#"self.all(key, !key.contains("*"))"#, |map| key(map, |key| !key.contains('*'))),
    ("self.all(key, key.size() != 0)", |map| key(map, |key| !key.is_empty())),
    (
        r#"self.all(key, size(key) < 63 && key.matches("^[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?$"))"#,
        |map| key(map, |key| key.len() < 63 && is_dns_label(key)),
    ),
    ("self.all(l1, self.exists_one(l2, l1.number == l2.number))", |ports| {
        let items = ports.items();
        let number = |port: &Node| port.get_key("number").map(|number| number.value.clone());
        let twice = |index: usize| items[..index].iter().any(|other| number(other) == number(&items[index]));
        (0..items.len()).find(|index| twice(*index)).map(|index| (items[index].at, false))
    }),
    ("self.size() == 0", |value| (!text(value).is_empty()).then_some((value.at, false))),
    (r#"self.startsWith("unix://") ? !self.endsWith("/") : true"#, |value| {
        (is_socket(value) && text(value).ends_with('/')).then_some((value.at, false))
    }),
    (
        r#"self.startsWith("unix://") ? (self.substring(7, 8) == "/" || self.substring(7, 8) == "@") : true"#,
        |value| {
            let path = text(value).strip_prefix("unix://")?;
            (!path.starts_with(['/', '@'])).then_some((value.at, false))
        },
    ),
];

fn text(node: &Node) -> &str {
    node.text().unwrap_or_default()
}

fn set<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    node.get_key(key).filter(|value| value.value != Value::Null)
}

/// The field is set although it may not be.
fn both(node: &Node, key: &str, other: bool) -> Option<(Place, bool)> {
    set(node, key).filter(|_| other).map(|value| (value.at, true))
}

fn resolution<'n>(spec: &'n Node, default: &'static str) -> &'n str {
    set(spec, "resolution").map_or(default, text)
}

fn is_socket(node: &Node) -> bool {
    text(node).starts_with("unix://")
}

fn number(node: &Node, least: i64, most: i64) -> Option<(Place, bool)> {
    let within = node.integer().is_some_and(|number| (least..=most).contains(&number));
    (!within).then_some((node.at, false))
}

fn key(map: &Node, good: impl Fn(&str) -> bool) -> Option<(Place, bool)> {
    map.entries().iter().find(|(key, _)| !good(&key.text)).map(|(key, _)| (key.at, false))
}
