//! What the API server asks of any object: an API version that is served, a name, and labels and annotations of the right
//! form.

use super::fault::{Fault, What};
use crate::manifest::clip;
use crate::manifest::node::{Node, Place, Value};

pub(super) fn check(root: &Node, served: &[String], faults: &mut Vec<Fault>) {
    let mut add = |at: Place, path: &str, message: String| {
        faults.push(Fault { at, path: path.to_owned(), what: What::Metadata, message });
    };
    if let Some(version) = root.get("apiVersion") {
        let short = version.text().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        if !served.iter().any(|one| one == short) {
            let text = format!("version {:?} is not served, only {}", clip(short), served.join(", "));
            add(version.at, "apiVersion", text);
        }
    }
    let Some(metadata) = root.get("metadata").filter(|node| node.value != Value::Null) else {
        add(root.at, "metadata", "the resource lacks a name".to_owned());
        return;
    };
    if !matches!(metadata.value, Value::Map(_)) {
        add(metadata.at, "metadata", "`metadata` has to be a mapping".to_owned());
        return;
    }
    for key in ["name", "namespace", "generateName"] {
        let Some(node) = metadata.get(key).filter(|node| node.value != Value::Null) else { continue };
        let Some(text) = node.text() else {
            add(node.at, key, format!("`{key}` has to be text"));
            continue;
        };
        let good = match key {
            "name" => text.is_empty() || is_subdomain(text),
            "namespace" => text.is_empty() || (text.len() <= 63 && is_lower_label(text)),
            _ => text.is_empty() || is_subdomain(text.trim_end_matches('-')),
        };
        if !good {
            add(node.at, key, format!("{:?} is no {key} of a resource", clip(text)));
        }
    }
    let given = |key: &str| metadata.text_at(key).is_some_and(|text| !text.is_empty());
    if !given("name")
        && !given("generateName")
        && metadata.get("name").is_none_or(|name| name.text().is_some())
    {
        add(metadata.at, "name", "the resource lacks a name".to_owned());
    }
    for map in ["labels", "annotations"] {
        let Some(node) = metadata.get(map).filter(|node| node.value != Value::Null) else { continue };
        if !matches!(node.value, Value::Map(_)) {
            add(node.at, map, format!("`{map}` has to be a mapping"));
        }
        for (key, value) in node.entries() {
            let Some(text) = value.text() else {
                add(value.at, map, format!("{:?} of `{map}` has to be text: quote it", clip(&key.text)));
                continue;
            };
            let lower = key.text.to_lowercase();
            if !is_qualified(if map == "labels" { &key.text } else { &lower }) {
                add(key.at, map, format!("{:?} is no key of `{map}`", clip(&key.text)));
            }
            if map == "labels" && !(text.is_empty() || is_name(text)) {
                add(value.at, map, format!("{:?} is no value of a label", clip(text)));
            }
        }
    }
}

fn is_lower_label(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(inner)
        && bytes.last().is_some_and(inner)
        && bytes.iter().all(|b| inner(b) || *b == b'-')
}

/// RFC 1123 subdomain.
fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_lower_label)
}

/// The name of a label and its value.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.len() <= 63
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}
