//! The architecture, checked from the source itself: which member may use which, that `policies` is pure, that each
//! foreign library has its one place, and how files look. Every rule is also tried on text that breaks it.

#![expect(clippy::unwrap_used, reason = "a tree that cannot be read fails the test at once")]

use std::fs;
use std::path::{Path, PathBuf};

mod arrows;
mod book;
mod files;
mod purity;
mod rooms;
mod supply;
mod waits;

/// The workspace's folders of Rust sources.
const MEMBERS: [&str; 6] = ["policies", "labdns", "probes", "sidecar", "cli", "tests"];

/// One source file: its path beneath the workspace, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The part before the unit tests; a file of unit tests has none.
    fn code(&self) -> &str {
        if self.path.ends_with("/tests.rs") {
            return "";
        }
        self.text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default()
    }

    /// Numbered lines of code, without comments and unit tests.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let code = |line: &str| !line.trim_start().starts_with("//");
        self.code().lines().enumerate().map(|(n, line)| (n + 1, line)).filter(move |(_, line)| code(line))
    }
}

/// All sources of a member, `tests` included.
fn sources(member: &str) -> Vec<Source> {
    let root = workspace();
    let folder = if member == "tests" { root.join(member) } else { root.join(member).join("src") };
    let mut found = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path: path.strip_prefix(&root).unwrap().display().to_string(), text });
            }
        }
    }
    found
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Applies a rule to all sources of some members and fails with every fault at once.
fn every_source_obeys(members: &[&str], rule: impl Fn(&Source) -> Vec<String>) {
    let sources: Vec<Source> = members.iter().flat_map(|member| sources(member)).collect();
    assert!(sources.len() >= members.len(), "the members' sources were not found");
    let faults: Vec<String> = sources.iter().flat_map(rule).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
