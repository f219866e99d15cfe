//! Tests wait for conditions: the only sleep is the pause between two looks of `harness::eventually`. Checked in the tiers,
//! in the members' own `tests` folders and in unit tests; benches keep time and may sleep.

use std::fs;
use std::path::Path;

use crate::{MEMBERS, Source, sources, workspace};

const PAUSES: &str = "tests/harness/eventually.rs";
/// Unit tests in which the first byte of an answer must be under way, which nothing shows. They leave the list with the
/// second backend.
const UNSEEN: [&str; 2] = ["probes/src/lab/backend/tests.rs", "probes/src/lab/ingress/backend.rs"];

#[test]
fn no_test_sleeps_outside_eventually() {
    let mut tests = sources("tests");
    for member in &MEMBERS[..5] {
        tests.extend(sources(member));
        collect(&workspace().join(member).join("tests"), &mut tests);
    }
    assert!(tests.iter().any(|source| source.path.starts_with("cli/tests/")), "members' tests were read");
    let faults: Vec<String> = tests.iter().flat_map(sleeps).collect();
    assert!(faults.is_empty(), "wait with `harness::eventually`\n{}", faults.join("\n"));
}

#[test]
fn a_sleep_is_found_in_every_kind_of_test() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let tier = source("tests/cli/x.rs", "// thread::sleep(X)\nuse tokio::time::sleep;\nsleep(X).await;\n");
    assert_eq!(sleeps(&tier), ["tests/cli/x.rs:2: a sleep", "tests/cli/x.rs:3: a sleep"]);
    let unit =
        source("cli/src/x.rs", "sleep(X);\n#[cfg(test)]\nmod tests {\n    std::thread::sleep(X);\n}\n");
    assert_eq!(sleeps(&unit), ["cli/src/x.rs:4: a sleep"]);
    assert_eq!(sleeps(&source("labdns/src/x/tests.rs", "thread::sleep(X);")).len(), 1);
    assert!(sleeps(&source(PAUSES, "sleep(PAUSE);")).is_empty());
    assert!(sleeps(&source("tests/benches/lag.rs", "sleep(X);")).is_empty());
    assert!(sleeps(&source("tests/cli/x.rs", "get(\"/sleep?seconds=1\")")).is_empty());
}

fn sleeps(source: &Source) -> Vec<String> {
    let path = &*source.path;
    if path == PAUSES || path.contains("/benches/") || UNSEEN.contains(&path) {
        return Vec::new();
    }
    let whole = !path.contains("/src/") || path.ends_with("/tests.rs");
    let first = if whole {
        0
    } else {
        let mut lines = source.text.lines();
        lines.position(|line| line.trim() == "#[cfg(test)]").unwrap_or(usize::MAX)
    };
    let sleeps = |line: &str| {
        let line = line.trim_start();
        // What stands in a text is not a call.
        let code: String = line.split('"').step_by(2).collect();
        let words = ["sleep(", "::sleep", "sleep_until("];
        !line.starts_with("//") && words.iter().any(|word| code.contains(word))
    };
    let found = source.text.lines().enumerate().filter(|(n, line)| *n >= first && sleeps(line));
    found.map(|(n, _)| format!("{path}:{}: a sleep", n + 1)).collect()
}

fn collect(folder: &Path, into: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            into.push(Source { path: path.strip_prefix(workspace()).unwrap().display().to_string(), text });
        }
    }
}
