//! One case: runs `egress-audit classify` against a server and compares its verdict on the A records with the right one.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use harness::{Endpoint, egress_audit, eventually, find};
use policies::Classification;
use serde_json::Value;

use crate::cases::{Asked, Case};
use crate::servers::named;

/// Runs the case; the error says what was seen instead.
pub(crate) fn check(case: &Case, servers: &[Endpoint]) -> anyhow::Result<()> {
    let server = named(servers, case.server)?;
    let addr = server.addr.to_string();
    let vantage: &[&str] = match case.asked {
        Asked::Authority => &["--authority", &addr],
        Asked::Cache => &["--authoritative", "never"],
    };
    let mut command = egress_audit();
    command.args(["classify", case.host, "-o", "json", "--resolver", &addr]).args(vantage).args(case.args);
    command.args(["--policy", concat!(env!("CARGO_MANIFEST_DIR"), "/dns/policy.yaml")]);

    let output = std::thread::scope(|scope| {
        let meanwhile = scope.spawn(|| case.meanwhile.map_or(Ok(()), |act| act(server)));
        let output = command.output();
        meanwhile.join().map_err(|_| anyhow::anyhow!("what was to happen meanwhile panicked"))??;
        anyhow::Ok(output?)
    })?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let seen = verdict(&stdout).with_context(|| {
        format!("{command:?}: {}\n{stdout}{}", output.status, String::from_utf8_lossy(&output.stderr))
    })?;
    let traits = case.traits.iter().all(|expected| seen.traits.contains(expected));
    if seen.class != case.class || !traits {
        bail!("expected {:?} {:?}, got {seen:#?}\n{command:?}", case.class, case.traits);
    }
    Ok(())
}

/// The classification of the A records in a report.
fn verdict(report: &str) -> anyhow::Result<Classification> {
    let report: Value = serde_json::from_str(report).context("the report is no JSON")?;
    let family = &report["hosts"][0]["families"][0]["classification"];
    let seen: Classification =
        serde_json::from_value(family.clone()).context("the report has no classification")?;
    ensure!(seen.record_type == policies::RecordType::A, "the first record type is {}", seen.record_type);
    Ok(seen)
}

/// Takes gdnsd's primary down once the binary has seen it up.
pub(crate) fn fail_over(server: &Endpoint) -> anyhow::Result<()> {
    let before = queries(server)?;
    eventually(Duration::from_secs(20), "four queries at the primary", || {
        let asked = queries(server)? - before;
        ensure!(asked >= 4, "{asked} queries");
        Ok(())
    })?;
    std::fs::write(server.dir.join("state/pair"), "192.0.2.31 => DOWN\n192.0.2.32 => UP\n")?;
    Ok(())
}

/// Queries that gdnsd has answered.
fn queries(server: &Endpoint) -> anyhow::Result<u64> {
    let stats = std::process::Command::new(find("gdnsdctl", "gdnsd")?)
        .arg("-c")
        .arg(&server.dir)
        .arg("stats")
        .output()?;
    let stats: Value = serde_json::from_slice(&stats.stdout)
        .with_context(|| String::from_utf8_lossy(&stats.stderr).into_owned())?;
    stats["udp"]["reqs"].as_u64().context("gdnsd counts its UDP requests")
}
