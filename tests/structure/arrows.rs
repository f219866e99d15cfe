//! Which member may depend on which, and what `policies` may not pull in, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::workspace;

/// Each member and the members that it may use. `tests` may use all.
const ARROWS: [(&str, &[&str]); 5] = [
    ("policies", &[]),
    ("labdns", &[]),
    ("sidecar", &[]),
    ("probes", &["policies", "labdns"]),
    ("cli", &["policies", "probes", "labdns"]),
];

/// Crates that bring a runtime or a socket.
const IMPURE: [&str; 6] = ["tokio", "mio", "socket2", "hyper", "reqwest", "async-io"];

#[test]
fn members_depend_on_each_other_only_along_the_arrows() {
    let members = members(&metadata());
    assert_eq!(members.len(), ARROWS.len() + 1, "members: {:?}", members.keys());
    assert_eq!(against_arrows(&members), Vec::<String>::new());
}

#[test]
fn an_arrow_the_wrong_way_is_found() {
    let members = BTreeMap::from([
        ("policies".to_owned(), BTreeSet::from(["probes".to_owned()])),
        ("probes".to_owned(), BTreeSet::from(["policies".to_owned()])),
    ]);
    assert_eq!(against_arrows(&members), ["policies uses probes"]);
}

#[test]
fn policies_pulls_in_no_runtime_and_no_socket() {
    let metadata = metadata();
    let reached = reachable(&metadata, "egress-audit-policies");
    assert!(reached.contains("serde"), "the graph was read: {reached:?}");
    let impure: Vec<_> = IMPURE.iter().filter(|name| reached.contains(**name)).collect();
    assert!(impure.is_empty(), "policies pulls in {impure:?}");
    assert!(
        reachable(&metadata, "egress-audit-probes").contains("tokio"),
        "the same search finds tokio in probes"
    );
}

#[test]
fn every_dependency_has_its_reason_in_the_readme() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let (_, table) = readme.split_once("## Dependencies").unwrap();
    let without = |name: &str| {
        !table.split(|c: char| !(c.is_alphanumeric() || "-_".contains(c))).any(|word| word == name)
    };
    let foreign = foreign(&metadata());
    assert!(foreign.contains("tokio"), "the members were read: {foreign:?}");
    let unexplained: Vec<_> = foreign.iter().filter(|name| without(name)).collect();
    assert!(unexplained.is_empty(), "no row in README's table of dependencies: {unexplained:?}");
    assert!(without("left-pad"));
}

/// Names of all crates from outside that a member asks for itself, for whatever purpose.
fn foreign(metadata: &Value) -> BTreeSet<String> {
    let packages =
        metadata["packages"].as_array().unwrap().iter().filter(|package| package["source"].is_null());
    let dependencies = packages.flat_map(|package| package["dependencies"].as_array().unwrap());
    let foreign = dependencies.filter(|dependency| dependency["path"].is_null());
    foreign.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
}

fn against_arrows(members: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut faults = Vec::new();
    for (member, allowed) in ARROWS {
        let used = members.get(member).into_iter().flatten();
        faults.extend(
            used.filter(|used| !allowed.contains(&used.as_str())).map(|used| format!("{member} uses {used}")),
        );
    }
    faults
}

/// Each member's folder and the folders of the members that it depends on, for whatever purpose.
fn members(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let local = |package: &Value| package["source"].is_null();
    let packages = metadata["packages"].as_array().unwrap().iter().filter(|package| local(package));
    packages
        .map(|package| {
            let manifest = package["manifest_path"].as_str().unwrap();
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let used = dependencies.filter_map(|dependency| dependency["path"].as_str()).map(folder);
            (folder(manifest.trim_end_matches("/Cargo.toml")), used.collect())
        })
        .collect()
}

fn folder(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Names of all crates that a package needs outside its tests.
fn reachable(metadata: &Value, package: &str) -> BTreeSet<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeMap<&str, &str> =
        packages.iter().map(|p| (p["id"].as_str().unwrap(), p["name"].as_str().unwrap())).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let graph: BTreeMap<&str, &Value> = nodes.iter().map(|n| (n["id"].as_str().unwrap(), n)).collect();
    let mut open: Vec<&str> = names.iter().filter(|(_, name)| **name == package).map(|(id, _)| *id).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(names[id].to_owned()) {
            continue;
        }
        let normal = |kinds: &Value| kinds.as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
        let dependencies = graph[id]["deps"].as_array().unwrap().iter();
        open.extend(dependencies.filter(|d| normal(&d["dep_kinds"])).map(|d| d["pkg"].as_str().unwrap()));
    }
    seen
}

/// The dependency graph of the platform that is released for.
pub(crate) fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = "x86_64-unknown-linux-gnu";
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
