//! Runs that are cut short: by Ctrl-C, or by a reader that has seen enough.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use harness::{egress_audit, eventually};
use policies::{ObservationWindow, Outcome};
use rustix::process::{Pid, Signal, kill_process};

use crate::responder::{Responder, zone};
use crate::{Run, classify};

#[test]
fn ctrl_c_ends_with_the_verdict_so_far() {
    let server = Responder::start(zone);
    let mut command = classify(&server, &["a.fixed.example"]);
    command.args(["--window", "10m", "-o", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    eventually(Duration::from_secs(20), "the first lookups", || match server.queries() {
        few @ ..4 => Err(format!("{few} queries")),
        _ => Ok(()),
    })
    .unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.addresses("a.fixed.example"), 1, "{run}");
    assert!(run.stderr.contains("interrupted"), "{run}");
}

#[test]
fn names_whose_turn_did_not_come_are_one_problem() {
    let server = Responder::start(zone);
    let names: Vec<_> = (0..200).map(|index| format!("n{index}.fixed.example")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut command = classify(&server, &names);
    command.args(["--rate", "5", "-o", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    eventually(Duration::from_secs(20), "the first lookup", || match server.queries() {
        0 => Err("no query"),
        _ => Ok(()),
    })
    .unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, Some(2), "{run}");
    assert_eq!(run.stderr.matches("not asked for, nor were").count(), 1, "{run}");
    assert!(!run.stderr.contains("has no address ()"), "{run}");
    assert_eq!(run.family("n199.fixed.example")["classification"]["confidence"], 0.0, "{run}");
}

#[test]
fn what_is_done_is_saved_while_others_are_watched() {
    let server = Responder::start(zone);
    let dir = tempfile::tempdir().unwrap();
    let saved = |name: &str| std::fs::read(dir.path().join(name));
    let mut command = classify(&server, &["gone.example", "a.fixed.example"]);
    command.args(["--window", "10m", "--save"]).arg(dir.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let done =
        eventually(Duration::from_secs(20), "the window of a denied name", || saved("gone.example.A.json"));
    child.kill().unwrap();
    child.wait().unwrap();
    let window: ObservationWindow = serde_json::from_slice(&done.unwrap()).unwrap();
    let denied = window.samples.iter().filter(|sample| sample.outcome == Outcome::NxDomain).count();
    assert!(denied > 0 && denied == window.samples.len(), "{window:?}");
    assert!(saved("a.fixed.example.A.json").is_err(), "its ten minutes are not over");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut command = egress_audit();
    let mut child = command.arg("schema").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success() && stderr.is_empty(), "{status}: {stderr}");
}
