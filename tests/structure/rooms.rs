//! The rooms of `probes`, and that no files of a crate import each other in a circle. Both are read from the imports:
//! a file is a module, and a module and what lies in its folder are one place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::{MEMBERS, Source, sources, workspace};

/// Each room of `probes` and the rooms that it may import.
const ROOMS: [(&str, &[&str]); 3] = [("names", &[]), ("lab", &[]), ("experiments", &["lab"])];

#[test]
fn rooms_import_each_other_only_along_the_arrows() {
    let sources = sources("probes");
    let rooms: BTreeSet<String> = sources.iter().filter_map(room).collect();
    assert_eq!(rooms, ROOMS.iter().map(|(room, _)| (*room).to_owned()).collect());
    let faults: Vec<String> = sources.iter().flat_map(against_rooms).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn an_import_that_looks_up_is_found() {
    let source = Source {
        path: "probes/src/lab/envoy.rs".to_owned(),
        text:
            "//! Docs say crate::experiments.\nuse crate::experiments::find;\nuse crate::lab::child::Child;\n"
                .to_owned(),
    };
    assert_eq!(against_rooms(&source), ["probes/src/lab/envoy.rs:2: lab imports experiments"]);
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let circles: Vec<String> = MEMBERS[..5].iter().flat_map(|member| circles(&sources(member))).collect();
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn a_circle_is_found_and_a_folder_is_no_circle() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let circle = [
        source("x/src/lib.rs", "mod a;\nmod b;\npub use a::{\n    inner::{C, D},\n    A,\n};\n"),
        source("x/src/a.rs", "mod inner;\nuse crate::b::{self, B};\nuse inner::C;\n"),
        source("x/src/a/inner.rs", "use super::A;\nuse crate::b;\n"),
        source("x/src/b.rs", "use crate::{\n    A,\n};\n"),
    ];
    assert_eq!(circles(&circle), ["x/src/a.rs, x/src/a/inner.rs, x/src/b.rs import each other"]);
    assert_eq!(circles(&circle[..3]), Vec::<String>::new());
}

#[test]
fn the_arrows_of_contributing_are_those_of_the_imports() {
    let drawn: String = MEMBERS[..5].iter().map(|member| drawing(member, &sources(member))).collect();
    let file = workspace().join("CONTRIBUTING.md");
    let page = fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once("<!-- arrows -->\n```text\n").unwrap();
    let (stored, after) = rest.split_once("```\n").unwrap();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::write(&file, format!("{before}<!-- arrows -->\n```text\n{drawn}```\n{after}")).unwrap();
        return;
    }
    assert!(
        stored == drawn,
        "CONTRIBUTING.md is not what the imports say: run with UPDATE_REFERENCE=1\n{drawn}"
    );
}

/// A line for each module right beneath a crate's root that imports others, with those others.
fn drawing(member: &str, sources: &[Source]) -> String {
    let modules: BTreeMap<String, &str> =
        sources.iter().filter_map(|source| Some((module(&source.path)?, source.path.as_str()))).collect();
    let exported = exported(sources);
    let top = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let Some(from) = module(&source.path) else { continue };
        let to = imports(source, &from, &modules, &exported).into_iter().map(|to| top(to));
        let own = top(&from);
        arrows.entry(own.clone()).or_default().extend(to.filter(|to| *to != own));
    }
    let used = arrows.iter().filter(|(_, to)| !to.is_empty());
    let lines = used.map(|(from, to)| {
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        format!("  {from} -> {}\n", to.join(", "))
    });
    format!("{member}\n{}", lines.collect::<String>())
}

fn room(source: &Source) -> Option<String> {
    let inside = source.path.strip_prefix("probes/src/")?.trim_end_matches(".rs");
    let room = inside.split('/').next()?;
    (room != "lib").then(|| room.to_owned())
}

fn against_rooms(source: &Source) -> Vec<String> {
    let Some(room) = room(source) else { return Vec::new() };
    let allowed = ROOMS.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, allowed)| allowed);
    let looks = |line: &str, other: &str| {
        line.contains(&format!("crate::{other}::")) || line.contains(&format!("crate::{other};"))
    };
    let fault = |(n, line): (usize, &str)| {
        let others =
            ROOMS.iter().map(|(other, _)| *other).filter(|other| *other != room && !allowed.contains(other));
        others
            .filter(|other| looks(line, other))
            .map(|other| format!("{}:{n}: {room} imports {other}", source.path))
            .collect::<Vec<_>>()
    };
    source.lines().flat_map(fault).collect()
}

/// The circles of a crate, each as its files in order of their paths.
fn circles(sources: &[Source]) -> Vec<String> {
    let modules: BTreeMap<String, &str> =
        sources.iter().filter_map(|source| Some((module(&source.path)?, source.path.as_str()))).collect();
    let exported = exported(sources);
    let edges: BTreeMap<&String, BTreeSet<&String>> = sources
        .iter()
        .filter_map(|source| {
            let (from, _) = modules.get_key_value(&module(&source.path)?)?;
            let beneath = modules.keys().filter(|module| parent(module) == *from);
            Some((from, imports(source, from, &modules, &exported).into_iter().chain(beneath).collect()))
        })
        .collect();
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|&from| (from, reach(from, &edges))).collect();
    let mutual = |a: &String| -> BTreeSet<&str> {
        let back = reached[a].iter().filter(|b| reached.get(**b).is_some_and(|there| there.contains(a)));
        back.map(|b| modules[*b]).collect()
    };
    let groups: BTreeSet<BTreeSet<&str>> =
        edges.keys().map(|a| mutual(a)).filter(|group| group.len() > 1).collect();
    groups
        .iter()
        .map(|group| format!("{} import each other", group.iter().copied().collect::<Vec<_>>().join(", ")))
        .collect()
}

fn reach<'a>(from: &'a String, edges: &BTreeMap<&'a String, BTreeSet<&'a String>>) -> BTreeSet<&'a String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        open.extend(edges.get(at).into_iter().flatten().filter(|to| seen.insert(**to)));
    }
    seen
}

/// `a::b` of `x/src/a/b.rs`; nothing for the root, which only lists the modules.
fn module(path: &str) -> Option<String> {
    let inside = path.split_once("/src/")?.1.trim_end_matches(".rs");
    (!matches!(inside, "lib" | "main")).then(|| inside.replace('/', "::"))
}

/// The other modules that a file names, but for those above and beneath it. What the crate's root exports is looked up.
fn imports<'a>(
    source: &Source,
    from: &str,
    modules: &'a BTreeMap<String, &str>,
    exported: &BTreeMap<String, String>,
) -> BTreeSet<&'a String> {
    let code: String = source.lines().flat_map(|(_, line)| [line, "\n"]).collect();
    let mut found = BTreeSet::new();
    for path in paths(&code, from) {
        let path = exported.get(&path).unwrap_or(&path);
        let holds = |module: &&String| path == *module || path.starts_with(&format!("{module}::"));
        let longest = modules.keys().filter(holds).max_by_key(|module| module.len());
        found.extend(longest.filter(|to| !related(from, to)));
    }
    found
}

/// What the root exports, and the module that it comes from.
fn exported(sources: &[Source]) -> BTreeMap<String, String> {
    let root = sources.iter().filter(|source| source.path.ends_with("/lib.rs"));
    let code: String = root.flat_map(|source| source.lines().flat_map(|(_, line)| [line, "\n"])).collect();
    let trees = code.match_indices("pub use ").flat_map(|(at, found)| tree("", &code[at + found.len()..]));
    trees.filter_map(|path| Some((path.rsplit("::").next()?.to_owned(), path))).collect()
}

/// Whether one module holds the other.
fn related(a: &str, b: &str) -> bool {
    a == b || a.starts_with(&format!("{b}::")) || b.starts_with(&format!("{a}::"))
}

/// Paths from `crate::` or `super::` in code, from the crate's root; `{a, b}` as one path each.
fn paths(code: &str, from: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, base) in [("crate::", String::new()), ("super::", parent(from))] {
        for (at, _) in code.match_indices(keyword) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                found.extend(tree(&base, &code[at + keyword.len()..]));
            }
        }
    }
    found
}

/// The paths of a use tree that `code` begins with.
fn tree(base: &str, code: &str) -> Vec<String> {
    let head: String = code.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
    let join = |tail: &str| match (base, tail.trim_end_matches(':')) {
        ("", tail) => tail.to_owned(),
        (base, "") => base.to_owned(),
        (base, tail) => format!("{base}::{tail}"),
    };
    let Some(inside) = code[head.len()..].strip_prefix('{') else { return vec![join(&head)] };
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            ',' if depth == 0 => {
                found.extend(tree(&join(&head), inside[begin..at].trim()));
                begin = at + 1;
            }
            '}' if depth == 0 => {
                found.extend(tree(&join(&head), inside[begin..at].trim()));
                break;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

fn parent(module: &str) -> String {
    module.rsplit_once("::").map_or_else(String::new, |(parent, _)| parent.to_owned())
}
