//! Input that means harm or is broken: refused with its name and a remedy, in bounded memory, while its neighbours are
//! audited. The limit on memory is the kernel's.
#![cfg(unix)]

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command as Program;

use crate::{CLEAN, ENTRY, audit, run};

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let hostile =
        CLEAN.replace("api.partner.example", "\"a\\e[31mb:443\"").replace("name: api", "name: \"x\\ny\"");
    for form in ["text", "markdown", "github", "junit", "json", "sarif"] {
        let (_dir, found) = audit(&[("a.yaml", &hostile)], &["a.yaml", "--offline", "-o", form]);
        assert!(found.out.contains("EA510"), "{}", found.out);
        assert!(!found.out.contains('\u{1b}') && !found.out.contains("x\ny"), "{form}: {}", found.out);
    }
}

/// Address space of the process, in KiB: less than the giant alone would take.
const LIMIT_KIB: u32 = 900_000;

fn bomb() -> String {
    let mut bomb = "apiVersion: v1\nkind: ConfigMap\na: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (one, two) in ('a'..='h').zip('b'..='i') {
        let nine = vec![format!("*{one}"); 9].join(",");
        bomb.push_str(&[&two.to_string(), ": &", &two.to_string(), " [", &nine, "]\n"].concat());
    }
    bomb
}

fn fill(dir: &Path) {
    let write = |name: &str, text: &[u8]| std::fs::write(dir.join(name), text).unwrap();
    write("bomb.yaml", bomb().as_bytes());
    write("deep.yaml", "[".repeat(200_000).as_bytes());
    write("deep-block.yaml", "- ".repeat(20_000).as_bytes());
    write("deep.json", "{\"a\":".repeat(50_000).as_bytes());
    write("latin1.yaml", b"kind: ServiceEntry # M\xfcnchen\n");
    write("chart.yaml", b"kind: ServiceEntry\nmetadata:\n  name: {{ .Release.Name }}\n");
    write("twice.yaml", ENTRY.replace("  resolution:", "  hosts: []\n  resolution:").as_bytes());
    File::create(dir.join("giant.yaml")).unwrap().set_len(1 << 30).unwrap();
    symlink(dir, dir.join("folder")).unwrap();
    symlink(dir.join("b.yaml"), dir.join("a.yaml")).unwrap();
    symlink(dir.join("a.yaml"), dir.join("b.yaml")).unwrap();
    write(std::str::from_utf8("z \u{202e}name.yaml".as_bytes()).unwrap(), ENTRY.as_bytes());
}

#[test]
fn what_means_harm_is_refused_and_the_rest_is_audited() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let program = assert_cmd::cargo::cargo_bin!("egress-audit");
    let mut limited = Program::new("sh");
    let script = format!("ulimit -v {LIMIT_KIB}; exec \"$0\" audit . --offline");
    let output = limited.args(["-c", &script]).arg(program).current_dir(dir.path()).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(2), "{err}");
    for (name, fault) in [
        ("bomb.yaml", "expand without measure"),
        ("deep.yaml", "nested more than 128 levels deep"),
        ("deep-block.yaml", "nested more than 128"),
        ("deep.json", "nested more than 128"),
        ("latin1.yaml", "not UTF-8 from byte 22 on"),
        ("chart.yaml", "a template"),
        ("twice.yaml", "stands twice"),
        ("giant.yaml", "more than 64 MiB"),
        ("a.yaml", "cannot be read"),
        ("b.yaml", "cannot be read"),
    ] {
        let line = err.lines().find(|line| line.contains(&format!("error: {name}:")));
        assert!(line.is_some_and(|line| line.contains(fault)), "{name}: {fault}\n{err}");
    }
    assert_eq!(err.matches("hint: ").count(), err.matches("error: ").count(), "each with a remedy\n{err}");
    assert!(out.contains("EA501") && out.contains("name.yaml"), "{out}");
    for text in [&out, &err] {
        assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 400), "no line without measure\n{text}");
    }
}

#[test]
fn a_name_that_is_no_text_and_a_pipe_that_nobody_writes_are_no_trap() {
    let dir = tempfile::tempdir().unwrap();
    let strange = dir.path().join(std::ffi::OsStr::from_bytes(b"m\xff.yaml"));
    std::fs::write(&strange, ENTRY).unwrap();
    let made = Program::new("mkfifo").arg(dir.path().join("pipe.yaml")).status().unwrap();
    assert!(made.success());
    let found = run(assert_cmd::Command::cargo_bin("egress-audit").unwrap().current_dir(dir.path()).args([
        "audit",
        ".",
        "--offline",
    ]));
    assert!(found.code == 1 && found.out.contains("EA501"), "{}{}", found.out, found.err);
}
