//! Tier `envoy`: the lab's experiments and their controls on real Envoys, with short streams. The releases come from
//! the cache; one that is missing is installed, and a machine that cannot fails here with the remedy.

mod faults;
mod install;
mod status;

use std::time::Duration;

use anyhow::Context;
use policies::Version;
use policies::platform::BEHAVIOURS;
use probes::experiments::evidence::{Evidence, Topology, Verdict};
use probes::experiments::matrix::{self, Matrix};
use probes::experiments::runner::{self, Options, Selection};
use probes::experiments::{self, Experiment};
use probes::lab::envoy::Binary;
use probes::lab::envoy::install::{default_cache, obtain};

const OLD: Version = Version::release(1, 38, 3);
const NEW: Version = Version::release(1, 40, 0);
const STREAM: Duration = Duration::from_secs(4);

fn everything() -> Selection {
    Selection {
        resolutions: Vec::new(),
        paths: Vec::new(),
        http: Vec::new(),
        topologies: vec![Topology::Sidecar],
        controls: true,
        old_dns: false,
    }
}

async fn binaries(versions: &[Version]) -> anyhow::Result<Vec<Binary>> {
    let mut found = Vec::new();
    for version in versions {
        let binary = obtain(&default_cache(), *version).await;
        found.push(
            binary.map_err(|error| anyhow::anyhow!("hint: {}", error.hint()).context(error.to_string()))?,
        );
    }
    Ok(found)
}

async fn run(ids: &[&str], versions: &[Version], selection: &Selection) -> anyhow::Result<Vec<Evidence>> {
    let chosen: Vec<&'static Experiment> = ids
        .iter()
        .map(|id| experiments::find(id).with_context(|| format!("no experiment {id}")))
        .collect::<Result<_, _>>()?;
    let jobs = runner::jobs(&chosen, &binaries(versions).await?, selection);
    // A gateway's cell has two Envoys, and there are many: a machine that is too busy tells lies about times.
    let at_once = if selection.topologies.contains(&Topology::Gateway) { 16 } else { 64 };
    let options = Options { stream: STREAM, at_once, save: None };
    Ok(runner::run(jobs, options, |_| {}).await)
}

/// Every cell confirmed and every control refuted; anything else is shown with its reason.
fn assert_as_known(evidence: &[Evidence]) {
    let wanted =
        |e: &Evidence| if e.cell.control().is_some() { Verdict::Refuted } else { Verdict::Confirmed };
    let wrong: Vec<String> = evidence
        .iter()
        .filter(|e| e.verdict != wanted(e))
        .map(|e| format!("{} {}: {:?}: {}", e.experiment, e.cell, e.verdict, e.because))
        .collect();
    assert!(!evidence.is_empty() && wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(evidence.iter().any(|e| e.cell.control().is_some()), "no control ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_in_flight_survives_the_flip() {
    assert_as_known(&run(&["in-flight-flip"], &[NEW], &everything()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn pinning_and_record_differ_by_version_as_known() {
    let all = run(&["keepalive-pinning", "flip-record"], &[OLD, NEW], &everything()).await.unwrap();
    assert_as_known(&all);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_spread_and_dead_ones_ejected_as_known() {
    assert_as_known(&run(&["multi-a-spread", "dead-ip"], &[NEW], &everything()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn ejections_are_forgotten_as_known() {
    assert_as_known(&run(&["ejection-memory"], &[OLD, NEW], &everything()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_survive_the_drain_switch_and_several_flips() {
    assert_as_known(&run(&["drain-switch", "long-stream"], &[NEW], &everything()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_answers_churn_as_known() {
    assert_as_known(&run(&["rotation-churn", "order-churn"], &[OLD, NEW], &everything()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn outages_and_refreshes_are_as_known() {
    assert_as_known(&run(&["dns-outage", "ttl-refresh"], &[NEW], &everything()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_takes_its_parts() {
    assert_as_known(&run(&["failover-time"], &[NEW], &everything()).await.unwrap());
}

/// The guide's real environment: client, sidecar, mutual TLS, egress gateway, backend; over HTTP/1.1 and HTTP/2.
#[tokio::test(flavor = "multi_thread")]
async fn the_egress_gateway_behaves_as_the_sidecar_does() {
    let gateway = Selection { topologies: vec![Topology::Gateway], ..everything() };
    let ids: Vec<&str> = experiments::CATALOG.iter().map(|experiment| experiment.id).collect();
    assert_as_known(&run(&ids, &[NEW], &gateway).await.unwrap());
}

/// `lab matrix` measures the platform's table again; the table in the code must be what is measured.
#[tokio::test(flavor = "multi_thread")]
async fn the_platform_table_is_what_each_version_does() {
    let binaries = binaries(&[OLD, NEW]).await.unwrap();
    let options = Options { stream: STREAM, at_once: 64, save: None };
    let evidence = runner::run(matrix::jobs(&binaries), options, |_| {}).await;
    let matrix = Matrix::of(&binaries, &evidence, &matrix::ask(&binaries).await);
    assert_eq!(matrix.rows.len(), BEHAVIOURS.len(), "every behaviour of the table is measured");
    assert!(matrix.is_complete() && !matrix.differs(), "{:#?}", matrix.table());
    // A table that says yes everywhere would prove nothing.
    assert!(matrix.rows.iter().any(|row| row.cells.iter().any(|cell| cell.measured == Some(false))));
}
