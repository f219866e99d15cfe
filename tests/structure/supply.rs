//! What comes from outside, from `cargo metadata` alone and so without a network: licences that Apache-2.0 can use, crates
//! from crates.io only, and none of those that were decided against. The checks of cargo-deny that need no advisory
//! database, without the minutes that it takes to build.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::arrows::metadata;

/// Licences that work distributed under Apache-2.0 may include.
const LICENCES: [&str; 12] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    // Data of root certificates.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that stay out, and why.
const BANNED: [(&str, &str); 6] = [
    ("aws-lc-rs", "TLS is on ring alone"),
    ("aws-lc-sys", "TLS is on ring alone"),
    ("native-tls", "TLS is on ring alone"),
    ("openssl-sys", "TLS is on ring alone"),
    ("serde_yaml", "its author deprecated it; serde-saphyr is the YAML library"),
    ("async-std", "the runtime is tokio"),
];

#[test]
fn what_comes_from_outside_may_be_used() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "the graph was read");
    let faults: Vec<String> = packages.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn what_may_not_be_used_is_found() {
    let package = |name: &str, licence: &str, source: &str| {
        fault(&json!({ "name": name, "version": "1.0.0", "license": licence, "source": source }))
    };
    assert_eq!(package("good", "MIT/Apache-2.0", REGISTRY), None);
    assert_eq!(package("good", "(GPL-3.0 OR MIT) AND Unicode-3.0", REGISTRY), None);
    assert_eq!(package("x", "GPL-3.0", REGISTRY).unwrap(), "x 1.0.0: licence GPL-3.0");
    assert_eq!(package("x", "MIT AND GPL-3.0", REGISTRY).unwrap(), "x 1.0.0: licence MIT AND GPL-3.0");
    assert_eq!(package("x", "", REGISTRY).unwrap(), "x 1.0.0: licence ");
    assert_eq!(package("x", "MIT", "git+https://example.com/x").unwrap(), "x 1.0.0: not from crates.io");
    assert!(package("serde_yaml", "MIT", REGISTRY).unwrap().contains("deprecated"));
}

fn fault(package: &Value) -> Option<String> {
    let source = package["source"].as_str()?;
    let name = package["name"].as_str().unwrap();
    let licence = package["license"].as_str().unwrap_or_default();
    let what = if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == name) {
        (*why).to_owned()
    } else if source != REGISTRY {
        "not from crates.io".to_owned()
    } else if !may_be_used(licence) {
        format!("licence {licence}")
    } else {
        return None;
    };
    Some(format!("{name} {}: {what}", package["version"].as_str().unwrap()))
}

/// An SPDX expression of one level of brackets; `/` is how `OR` was written once.
fn may_be_used(expression: &str) -> bool {
    let known: BTreeSet<&str> = LICENCES.into();
    let alternatives = |text: &str| {
        let text = text.trim().trim_start_matches('(').trim_end_matches(')').replace('/', " OR ");
        text.split(" OR ").any(|one| known.contains(one.trim()))
    };
    // `A OR B AND C` without brackets does not occur, and would be refused where `C` is not allowed.
    expression.split(" AND ").all(alternatives)
}
