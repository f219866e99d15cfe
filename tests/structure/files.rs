//! How source files look: a module doc on top, 500 lines at most before the unit tests, `foo.rs` beside `foo/`, and one
//! place for each foreign library.

use crate::{MEMBERS, Source, every_source_obeys};

/// Lines that a file may have before its unit tests.
const LONGEST: usize = 500;

/// A library and where it may be named: a file, or a file and its folder.
const ONE_PLACE: [(&str, &str); 6] = [
    ("hickory_server", "labdns/src/server"),
    ("quick_junit", "cli/src/render/audit/junit.rs"),
    ("comfy_table", "cli/src/render/table.rs"),
    ("indicatif", "cli/src/console.rs"),
    ("tracing_subscriber", "cli/src/log.rs"),
    ("kube", "cli/src/cluster"),
];

#[test]
fn every_file_opens_with_its_module_doc() {
    every_source_obeys(&MEMBERS, |source| {
        fault(!source.text.starts_with("//! "), source, "no module doc on top")
    });
}

#[test]
fn no_file_is_longer_than_a_sitting() {
    every_source_obeys(&MEMBERS, too_long);
}

#[test]
fn modules_are_files_beside_their_folder() {
    every_source_obeys(&MEMBERS, |source| {
        fault(source.path.ends_with("/mod.rs"), source, "write `foo.rs` beside `foo/`")
    });
}

#[test]
fn every_foreign_library_has_its_place() {
    every_source_obeys(&MEMBERS[..5], misplaced);
}

#[test]
fn what_breaks_a_rule_is_found() {
    let source = |path: &str, text: String| Source { path: path.to_owned(), text };
    let long = "let x = 1;\n".repeat(LONGEST + 1);
    assert_eq!(too_long(&source("a.rs", long.clone())), ["a.rs: 501 lines before its tests"]);
    assert!(
        too_long(&source("a.rs", format!("//! Docs\n\n#[cfg(test)]\nmod tests {{\n{long}}}"))).is_empty()
    );
    let import = "use hickory_server::Server;\nlet kubernetes = kube::Client;\n".to_owned();
    assert_eq!(
        misplaced(&source("cli/src/cluster/read.rs", import.clone())),
        ["cli/src/cluster/read.rs:1: hickory_server belongs into labdns/src/server"]
    );
    assert_eq!(
        misplaced(&source("labdns/src/server.rs", import)),
        ["labdns/src/server.rs:2: kube belongs into cli/src/cluster"]
    );
}

fn too_long(source: &Source) -> Vec<String> {
    let lines = source.code().lines().count();
    fault(lines > LONGEST, source, &format!("{lines} lines before its tests"))
}

fn misplaced(source: &Source) -> Vec<String> {
    let names = |line: &str, library: &str| {
        line.contains(&format!("{library}::")) || line.contains(&format!("use {library};"))
    };
    let place = |at: &str| source.path.starts_with(at);
    let found = |(n, line): (usize, &str)| {
        let foreign = ONE_PLACE.into_iter().filter(|(library, at)| names(line, library) && !place(at));
        foreign
            .map(|(library, at)| format!("{}:{n}: {library} belongs into {at}", source.path))
            .collect::<Vec<_>>()
    };
    source.lines().flat_map(found).collect()
}

fn fault(found: bool, source: &Source, what: &str) -> Vec<String> {
    if found { vec![format!("{}: {what}", source.path)] } else { Vec::new() }
}
