//! What goes wrong around an Envoy: no program, one that crashes at start, one that is killed in the middle of a run,
//! and a lab that is ended in each way that there is. Nothing may be left running.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of a test function")]

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::Duration;

use harness::{egress_audit, eventually};
use probes::lab::envoy::install::{Source, inspect};
use probes::lab::envoy::{Envoy, EnvoyError};
use rustix::process::{Pid, Signal, kill_process};

use super::{NEW, binaries};

const PATIENCE: Duration = Duration::from_secs(60);

/// A program that says it is Envoy and then does what `body` says.
fn impostor(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("envoy");
    let version = "envoy  version: 0/1.40.0/Clean/RELEASE/BoringSSL";
    std::fs::write(&path, format!("#!/bin/sh\n[ \"$1\" = --version ] && echo '{version}' && exit\n{body}\n"))
        .unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

async fn start(body: &str) -> EnvoyError {
    let folder = tempfile::tempdir().unwrap();
    let binary = inspect(&impostor(folder.path(), body), Source::Environment).await.unwrap();
    Envoy::start(&binary, &serde_json::json!({})).await.unwrap_err()
}

#[tokio::test]
async fn a_refused_configuration_and_a_crash_at_start_are_told_in_envoys_words() {
    let refused = start("echo 'error: no such field' >&2; exit 1").await;
    assert!(matches!(&refused, EnvoyError::Refused { said } if said == "error: no such field"), "{refused}");
    let crashed =
        start("[ \"$2\" = validate ] && exit 0; echo '[critical] out of luck' >&2; kill -SEGV $$").await;
    let EnvoyError::Ended { status, said } = &crashed else { panic!("{crashed}") };
    assert_eq!((status.as_str(), said.as_str()), ("signal 11", "[critical] out of luck"));
}

/// The program in a folder for temporary files, by which its children are known.
struct Run {
    child: Child,
    folder: Arc<tempfile::TempDir>,
}

impl Run {
    fn start(args: &[&str], envoy: &Path) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()), args, envoy)
    }

    fn start_in(folder: Arc<tempfile::TempDir>, args: &[&str], envoy: &Path) -> Self {
        let child = egress_audit()
            .args(args)
            .env("TMPDIR", folder.path())
            .env("ENVOY_BIN", envoy)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    /// Processes whose command line names the folder: the Envoys and their watchdogs.
    fn descendants(&self) -> Vec<i32> {
        let needle = self.folder.path().display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            String::from_utf8_lossy(&line).contains(&needle).then_some(pid)
        });
        processes.collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn gone(&self) -> Result<(), String> {
        let left = self.descendants();
        if left.is_empty() { Ok(()) } else { Err(format!("still running: {left:?}")) }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_a_lab_however_it_ends() {
    let envoy = binaries(&[NEW]).await.unwrap().remove(0).path;
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut run = Run::start(&["lab", "up", "--resolution", "strict"], &envoy);
        // The addresses are printed once all is up.
        let mut lines = lines_of(&mut run);
        assert!(lines.next().unwrap().unwrap().contains("STRICT"));
        assert!(run.descendants().len() >= 2, "two Envoys are up");
        run.signal(signal);
        run.child.wait().unwrap();
        eventually(PATIENCE, "every child to be gone", || run.gone()).unwrap();
        if signal == Signal::KILL {
            // Nobody was left to remove the files: the next lab does.
            assert_ne!(left(&run), Vec::<PathBuf>::new());
            let next =
                Run::start_in(Arc::clone(&run.folder), &["lab", "up", "--resolution", "strict"], &envoy);
            run = next;
            lines = lines_of(&mut run);
            lines.next().unwrap().unwrap();
            run.signal(Signal::INT);
            run.child.wait().unwrap();
            eventually(PATIENCE, "every child to be gone", || run.gone()).unwrap();
        }
        assert_eq!(left(&run), Vec::<PathBuf>::new(), "{signal:?}");
    }
}

fn left(run: &Run) -> Vec<PathBuf> {
    std::fs::read_dir(run.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Kept until the end: a program whose reader leaves ends in a way of its own.
fn lines_of(run: &mut Run) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(run.child.stdout.take().unwrap()).lines()
}

/// Two labs at once, with their files in one place: both come to their verdict, and each removes its own.
#[tokio::test(flavor = "multi_thread")]
async fn two_labs_at_once_do_not_disturb_each_other() {
    let envoy = binaries(&[NEW]).await.unwrap().remove(0).path;
    let args = ["lab", "run", "flip-record", "--stream", "4s", "--path", "l4", "-o", "json"];
    let first = Run::start(&args, &envoy);
    let second = Run::start_in(Arc::clone(&first.folder), &args, &envoy);
    for mut run in [first, second] {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut run.child.stdout.take().unwrap(), &mut text).unwrap();
        assert_eq!(run.child.wait().unwrap().code(), Some(0), "{text}");
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["lab"]["evidence"].as_array().unwrap().len(), 3, "two resolutions and a control");
        if Arc::strong_count(&run.folder) == 1 {
            assert_eq!(left(&run), Vec::<PathBuf>::new());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_killed_in_a_run_costs_its_own_cell_only() {
    let envoy = binaries(&[NEW]).await.unwrap().remove(0).path;
    let args = [
        "lab",
        "run",
        "in-flight-flip",
        "--stream",
        "8s",
        "--path",
        "l4",
        "--http",
        "h1",
        "--no-controls",
        "-o",
        "json",
    ];
    let mut run = Run::start(&args, &envoy);
    let is_envoy = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == envoy);
    let victim = eventually(PATIENCE, "two Envoys to serve", || {
        // Envoy writes the address of its admin port once it runs.
        let envoys: Vec<i32> = run.descendants().into_iter().filter(is_envoy).collect();
        let folders = std::fs::read_dir(run.folder.path()).unwrap().flatten();
        let serving = folders.filter(|folder| folder.path().join("admin").exists()).count() == 2;
        if serving && envoys.len() == 2 { Ok(envoys[0]) } else { Err(format!("{envoys:?}")) }
    });
    kill_process(Pid::from_raw(victim.unwrap()).unwrap(), Signal::KILL).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut run.child.stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(run.child.wait().unwrap().code(), Some(2), "a cell without a result is exit code 2");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut verdicts: Vec<&str> = report["lab"]["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["verdict"].as_str().unwrap())
        .collect();
    verdicts.sort_unstable();
    assert_eq!(verdicts, ["confirmed", "inconclusive"], "{text}");
    assert!(text.contains("signal 9"), "{text}");
    eventually(PATIENCE, "every child to be gone", || run.gone()).unwrap();
}

#[test]
fn a_program_that_is_no_envoy_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy");
    std::fs::write(&file, "text").unwrap();
    let output = egress_audit()
        .args(["lab", "run", "flip-record", "--stream", "4s"])
        .env("ENVOY_BIN", &file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("cannot be run as Envoy") && said.contains("hint: point ENVOY_BIN at"), "{said}");
}
