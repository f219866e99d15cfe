//! What `--fix` prints is what `git apply` and `patch` take, and what `--write` writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command as Program;

use assert_cmd::Command;

use crate::{ENTRY, again, audit, every_fault, run};

#[test]
fn a_fix_is_a_patch_or_is_written() {
    let mended = ENTRY.replace("STRICT_DNS", "DNS").replace("protocol: TCP", "protocol: TLS").replace(
        "      consecutiveLocal",
        "      splitExternalLocalOriginErrors: true\n      consecutiveLocal",
    );
    let (dir, patch) = audit(&[("m/api.yaml", ENTRY)], &["m", "--offline", "--fix"]);
    assert_eq!(patch.code, 1, "nothing is written yet");
    insta::assert_snapshot!("patch", patch.out);
    let file = dir.path().join("m/api.yaml");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), ENTRY);
    let written = again(dir.path(), &["m", "--offline", "--fix", "--write"]);
    assert_eq!((written.code, std::fs::read_to_string(&file).unwrap()), (0, mended));
    let piped = run(Command::cargo_bin("egress-audit")
        .unwrap()
        .args(["audit", "-", "--offline", "--fix", "--write"])
        .write_stdin(ENTRY));
    assert!(piped.out.contains("+++ b/stdin") && piped.code == 1, "{}", piped.out);
}

/// Files by name.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    entries.map(|path| (named(path.clone()), std::fs::read(path).unwrap())).collect()
}

#[test]
fn git_and_patch_take_it_and_make_of_it_what_write_writes() {
    let faults = every_fault();
    let mut files: Vec<(String, String)> =
        faults.iter().map(|(name, text)| (name.clone(), (*text).to_owned())).collect();
    files.push(("windows lines.yaml".to_owned(), ENTRY.replace('\n', "\r\n")));
    files.push(("no-end.yaml".to_owned(), ENTRY.trim_end().to_owned()));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let before: BTreeMap<&str, &str> = files.iter().copied().collect();
    let (written, wrote) = audit(&files, &[".", "--offline", "--fix", "--write"]);
    let wanted = contents(written.path());
    let changed = wanted.iter().filter(|(name, text)| before[name.as_str()].as_bytes() != **text).count();
    assert!(changed >= 12, "{changed}: {}", wrote.err);
    for tool in [&["git", "apply", "-p1"][..], &["patch", "-p1", "--silent"]] {
        let (dir, patch) = audit(&files, &[".", "--offline", "--fix"]);
        std::fs::write(dir.path().join("fix.patch"), &patch.out).unwrap();
        let input = std::fs::File::open(dir.path().join("fix.patch")).unwrap();
        let mut program = Program::new(tool[0]);
        let output = program.args(&tool[1..]).current_dir(dir.path()).stdin(input).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}; install the package", tool[0]));
        assert!(output.status.success(), "{tool:?}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::remove_file(dir.path().join("fix.patch")).unwrap();
        assert_eq!(contents(dir.path()), wanted, "{tool:?}");
    }
}

#[test]
fn a_patch_names_files_from_the_working_folder_on() {
    let (dir, _) = audit(&[("m/api.yaml", ENTRY)], &["m", "--offline"]);
    let whole = dir.path().canonicalize().unwrap().join("m");
    let patch = again(dir.path(), &[whole.to_str().unwrap(), "--offline", "--fix"]);
    assert!(patch.out.starts_with("--- a/m/api.yaml\n+++ b/m/api.yaml\n"), "{}", patch.out);
}
