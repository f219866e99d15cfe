//! The whole way from saved windows (captured from the lab's demo zone) to each form of the output, with exact layout;
//! what depends on the day is replaced. And what one command writes, the next one reads.

use std::process::{Command, Output, Stdio};

const WINDOWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/windows");

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_egress-audit"));
    command.args(args).stdin(Stdio::null()).output().expect("the binary runs")
}

fn shown(args: &[&str]) -> String {
    let output = run(args);
    let date = jiff::Timestamp::now().strftime("%F").to_string();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8").replace(&date, "YYYY-MM-DD");
    let code = output.status.code().expect("it exits");
    format!(
        "exit: {code}\n----- stdout -----\n{}----- stderr -----\n{}",
        text(&output.stdout),
        text(&output.stderr)
    )
}

fn one(name: &str) -> String {
    format!("{WINDOWS}/{name}.A.json")
}

#[test]
fn many_names_are_a_table() {
    insta::assert_snapshot!(shown(&["classify", "--from", WINDOWS]));
}

#[test]
fn a_name_is_explained() {
    let window = one("storage.cloud.example");
    insta::assert_snapshot!(shown(&["classify", "--from", &window, "--istio-version", "1.31"]));
}

#[test]
fn markdown_is_for_a_wiki() {
    insta::assert_snapshot!(shown(&["classify", "--from", &one("api.partner.example"), "-o", "markdown"]));
}

#[test]
fn a_fail_over_target_becomes_a_lifetime() {
    let window = one("pay.partner.example");
    insta::assert_snapshot!(shown(&[
        "generate",
        "--from",
        &window,
        "--failover-target",
        "60s",
        "--namespace",
        "egress",
        "--export-to",
        ".",
    ]));
}

#[test]
fn a_report_is_valid_and_renders_again() {
    let json = run(&["classify", "--from", WINDOWS, "-o", "json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let schema: serde_json::Value = serde_json::from_str(include_str!("../schema/report.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let mut wrong = report.clone();
    wrong["hosts"][0]["families"] = serde_json::json!("none");
    assert!(!validator.is_valid(&wrong), "the schema refuses nothing");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    std::fs::write(&file, &json).unwrap();
    let again = run(&["report", file.to_str().unwrap()]);
    assert_eq!(again.stdout, run(&["classify", "--from", WINDOWS]).stdout);
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn hostile_text_in_a_window_reaches_no_terminal_and_no_yaml() {
    let window = std::fs::read_to_string(one("www.shop.example")).unwrap();
    let hostile = window.replace("shop.edge.cdn.example", "\\u001b[31m\\u009bevil\\n# x: \\u202e");
    assert_ne!(window, hostile);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("w.json");
    std::fs::write(&file, hostile).unwrap();
    for form in [
        &["classify", "-o", "text"][..],
        &["classify", "-o", "json"],
        &["classify", "-o", "markdown"],
        &["generate"],
    ] {
        let args = [form, &["--from", file.to_str().unwrap()]].concat();
        let output = run(&args);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let raw = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!text.chars().any(raw), "{form:?}: {text:?}");
        assert!(!text.contains("\n# x:"), "{form:?}: {text}");
    }
}

#[test]
fn a_result_goes_into_a_file_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("entry.yaml");
    let named = format!("--output-file={}", file.display());
    let args = ["generate", "--from", &one("pay.partner.example")];
    let printed = run(&args);
    std::fs::write(&file, "what was there before").unwrap();
    let written = run(&[&args[..], &[&named]].concat());
    assert!(written.status.success() && written.stdout.is_empty(), "{written:?}");
    assert_eq!(std::fs::read(&file).unwrap(), printed.stdout);
    // A run that ends in an error leaves the file as it is, and nothing beside it.
    let failed = run(&["generate", "--from", "no-such-folder", &named]);
    assert_eq!(failed.status.code(), Some(2));
    assert_eq!(std::fs::read(&file).unwrap(), printed.stdout);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A link is not a regular file: it stays, and what it leads to is replaced, or written to where it is a device. One that
/// leads nowhere is refused.
#[test]
fn a_result_goes_where_a_link_leads() {
    let folder = tempfile::tempdir().unwrap();
    let [file, link, lost, device] = ["file", "link", "lost", "device"].map(|name| folder.path().join(name));
    std::fs::write(&file, "what was there before").unwrap();
    for (target, link) in
        [(file.as_path(), &link), (&folder.path().join("nowhere"), &lost), ("/dev/null".as_ref(), &device)]
    {
        std::os::unix::fs::symlink(target, link).unwrap();
    }
    let args = ["generate", "--from", &one("pay.partner.example")];
    let printed = run(&args).stdout;
    assert!(run(&[&args[..], &["--output-file", link.to_str().unwrap()]].concat()).status.success());
    assert_eq!(std::fs::read(&file).unwrap(), printed);
    for (place, code) in [(lost, 2), (device, 0)] {
        let output = run(&[&args[..], &["--output-file", place.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(code));
        assert!(std::fs::symlink_metadata(&place).unwrap().is_symlink());
    }
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_place_that_can_hold_no_file_is_named_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone/report.json").display().to_string();
    for place in [&gone, &folder.path().display().to_string()] {
        let output = run(&["classify", "--from", WINDOWS, "--output-file", place]);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains(place) && words.contains("hint: name a file"), "{words}");
    }
}
