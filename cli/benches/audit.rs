//! What `audit` costs as a program, and what it finds beside `istioctl analyze`. Folders of 1,000, 10,000 and 100,000
//! entries, then one folder of faulty inputs through both. istioctl comes from `ISTIOCTL` or the path; without it only the
//! growth is measured, and that is said. `UPDATE_REFERENCE=1` writes the book's page.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use policies::audit::{Example, RULES, examples};
use serde_json::Value;

const OURS: &str = env!("CARGO_BIN_EXE_egress-audit");
/// Faults that are none of the table's.
const OTHERS: &str = include_str!("faults.yaml");
const RUNS: usize = 5;
const PER_FILE: usize = 10;

fn main() -> anyhow::Result<()> {
    let mut page = String::from(
        "# The audit in figures\n\nWritten by `cargo bench -p egress-audit --bench audit`, with `UPDATE_REFERENCE=1` to renew \
         this page.\n\n## Growth\n\nFiles of ten ServiceEntries each, `audit --offline`, wall time of the whole process (median \
         of five) and the most memory that it held.\n\n| entries | files | time | memory |\n|---|---|---|---|\n",
    );
    let mut thousand = None;
    for entries in [1_000, 10_000, 100_000] {
        let dir = tempfile::tempdir()?;
        fill(dir.path(), entries)?;
        let time = median(&mut ours(dir.path()))?;
        let _ = writeln!(
            page,
            "| {entries} | {} | {} ms | {} MiB |",
            entries / PER_FILE,
            time.as_millis(),
            peak_mib()?
        );
        thousand = thousand.or(Some((dir, time)));
    }
    let (dir, time) = thousand.context("a folder of 1,000 entries")?;
    match istioctl() {
        Some(istioctl) => beside(&istioctl, dir.path(), time, &mut page)?,
        None => eprint("no istioctl in ISTIOCTL or the path: only the growth was measured"),
    }
    out(&page);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/reference/audit-figures.md"),
            page,
        )?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a bench prints its figures")]
fn out(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a bench says what it left out")]
fn eprint(text: &str) {
    eprintln!("{text}");
}

fn fill(dir: &Path, entries: usize) -> anyhow::Result<()> {
    for file in 0..entries / PER_FILE {
        let mut text = String::new();
        for number in file * PER_FILE..(file + 1) * PER_FILE {
            let _ = write!(
                text,
                "# owned by team {file}\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: \
                 api-{number}\n  namespace: ns-{file}\nspec:\n  hosts:\n  - api-{number}.partner.example\n  exportTo:\n  - \
                 \".\"\n  location: MESH_EXTERNAL\n  resolution: DNS\n  ports:\n  - number: 443\n    name: tls\n    protocol: \
                 TLS\n---\n"
            );
        }
        std::fs::write(dir.join(format!("team-{file}.yaml")), text)?;
    }
    Ok(())
}

fn ours(path: &Path) -> Command {
    let mut command = Command::new(OURS);
    command.args(["audit", "--offline", "-o", "json"]).arg(path);
    command
}

fn theirs(istioctl: &Path, path: &Path) -> Command {
    let mut command = Command::new(istioctl);
    command.args(["analyze", "--use-kube=false", "-o", "json"]).arg(path);
    command
}

fn istioctl() -> Option<PathBuf> {
    let named = std::env::var_os("ISTIOCTL").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("istioctl")).find(|path| path.is_file());
    named.or(found)
}

fn median(command: &mut Command) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        times.push(start.elapsed());
        ensure!(status.code().is_some(), "{command:?} died");
    }
    times.sort_unstable();
    Ok(times[RUNS / 2])
}

/// The most that any child so far has held; the folders grow, so it is the last one's.
fn peak_mib() -> anyhow::Result<i64> {
    Ok(getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() / 1024)
}

/// A faulty input and, where there is one, its mended twin.
struct Fault {
    about: String,
    bad: &'static str,
    good: &'static str,
}

/// Every rule that needs no DNS and no flags, with its first input that fires and its first that does not; then the others.
fn faults() -> Vec<Fault> {
    let alone = |example: &Example<'_>| example.dns.is_empty() && example.flags.is_empty();
    let of_a_rule = RULES.iter().copied().flatten().filter_map(|rule| {
        let examples = rule.examples();
        let pick = |fires| examples.iter().find(|example| example.fires == fires && alone(example));
        let (bad, good) = (pick(true)?.yaml, pick(false)?.yaml);
        Some(Fault { about: rule.what.to_owned(), bad, good })
    });
    let others = examples(OTHERS);
    let pairs = others.chunks(2).filter_map(|pair| {
        let [bad, good] = pair else { return None };
        Some(Fault { about: bad.title.to_owned(), bad: bad.yaml, good: good.yaml })
    });
    of_a_rule.chain(pairs).collect()
}

fn beside(
    istioctl: &Path,
    thousand: &Path,
    ours_thousand: Duration,
    page: &mut String,
) -> anyhow::Result<()> {
    let faults = faults();
    let dir = tempfile::tempdir()?;
    let (mut rows, mut found) = (String::new(), [0; 2]);
    for (number, fault) in faults.iter().enumerate() {
        let path = dir.path().join(format!("{number}.yaml"));
        let mut cells = Vec::new();
        for (tool, found) in found.iter_mut().enumerate() {
            let codes = |text: &str| -> anyhow::Result<BTreeSet<String>> {
                std::fs::write(&path, text)?;
                if tool == 0 { our_codes(&path) } else { their_codes(istioctl, &path) }
            };
            // What it says of the mended twin as well is not about the fault.
            let about: Vec<String> = codes(fault.bad)?.difference(&codes(fault.good)?).cloned().collect();
            *found += usize::from(!about.is_empty());
            cells.push(about.join(", "));
        }
        std::fs::write(&path, fault.bad)?;
        let _ = writeln!(rows, "| {} | {} | {} |", fault.about.replace('|', "\\|"), cells[0], cells[1]);
    }
    let version = Command::new(istioctl).args(["version", "--remote=false", "--short"]).output()?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let (all_ours, all_theirs) = (median(&mut ours(dir.path()))?, median(&mut theirs(istioctl, dir.path()))?);
    let their_thousand = median(&mut theirs(istioctl, thousand))?;
    let _ = write!(
        page,
        "\n## Beside istioctl analyze\n\n`istioctl analyze --use-kube=false` {version}, on the same {n} faulty inputs without a \
         cluster and without DNS: the first input of every rule that needs neither, and faults that no rule is about. A code \
         counts where it is reported for the faulty input and not for its mended twin. Rules that need DNS are left out: \
         `istioctl` asks none. It knows more than files about a cluster that it is connected to, and checks kinds that \
         `egress-audit` passes over.\n\n| | egress-audit | istioctl analyze |\n|---|---|---|\n| faults found, of {n} | {} | {} \
         |\n| time for the folder of {n} | {} ms | {} ms |\n| time for 1,000 entries in 100 files | {} ms | {} ms |\n\n| fault \
         | egress-audit | istioctl analyze |\n|---|---|---|\n{rows}",
        found[0],
        found[1],
        all_ours.as_millis(),
        all_theirs.as_millis(),
        ours_thousand.as_millis(),
        their_thousand.as_millis(),
        n = faults.len(),
    );
    Ok(())
}

fn our_codes(path: &Path) -> anyhow::Result<BTreeSet<String>> {
    let output = ours(path).output()?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    codes(&report["audit"]["result"]["findings"])
}

fn their_codes(istioctl: &Path, path: &Path) -> anyhow::Result<BTreeSet<String>> {
    let output = theirs(istioctl, path).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    // Warnings about the file may stand before the list, and what could not be parsed after it.
    let start = if said.starts_with('[') { Some(0) } else { said.find("\n[").map(|at| at + 1) };
    let list =
        start.and_then(|at| serde_json::Deserializer::from_str(&said[at..]).into_iter::<Value>().next());
    let mut found = match list {
        Some(Ok(messages)) => codes(&messages)?,
        // Nothing to say is no JSON but a sentence.
        None if said.contains("No validation issues") => BTreeSet::new(),
        _ => anyhow::bail!("istioctl: {said}{}", String::from_utf8_lossy(&output.stderr)),
    };
    if String::from_utf8_lossy(&output.stderr).contains("could not be parsed") {
        found.insert("not parsed".to_owned());
    }
    Ok(found)
}

fn codes(findings: &Value) -> anyhow::Result<BTreeSet<String>> {
    let findings = findings.as_array().context("a list of findings")?;
    Ok(findings.iter().filter_map(|found| found["code"].as_str()).map(str::to_owned).collect())
}
