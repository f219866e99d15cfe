//! Tier `envoy`: the lab's experiments and their controls on real Envoys, with short streams. The releases come from
//! the cache; one that is missing is installed, and a machine that cannot fails here with the remedy.

use std::time::Duration;

use anyhow::Context;
use probes::envoy::install::{default_cache, obtain};
use probes::envoy::{Binary, EnvoyVersion};
use probes::evidence::{Evidence, Topology, Verdict};
use probes::experiments::{self, Experiment};
use probes::runner::{self, Selection};

const OLD: EnvoyVersion = EnvoyVersion::new(1, 38, 3);
const NEW: EnvoyVersion = EnvoyVersion::new(1, 40, 0);
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

async fn binaries(versions: &[EnvoyVersion]) -> anyhow::Result<Vec<Binary>> {
    let mut found = Vec::new();
    for version in versions {
        let binary = obtain(&default_cache(), *version).await;
        found.push(
            binary.map_err(|error| anyhow::anyhow!("hint: {}", error.hint()).context(error.to_string()))?,
        );
    }
    Ok(found)
}

async fn run(
    ids: &[&str],
    versions: &[EnvoyVersion],
    selection: &Selection,
) -> anyhow::Result<Vec<Evidence>> {
    let chosen: Vec<&'static Experiment> = ids
        .iter()
        .map(|id| experiments::find(id).with_context(|| format!("no experiment {id}")))
        .collect::<Result<_, _>>()?;
    let jobs = runner::jobs(&chosen, &binaries(versions).await?, selection);
    Ok(runner::run(jobs, STREAM, 64, |_| {}).await)
}

/// Every cell confirmed and every control refuted; anything else is shown with its reason.
fn assert_as_known(evidence: &[Evidence]) {
    let wanted = |e: &Evidence| if e.cell.control.is_some() { Verdict::Refuted } else { Verdict::Confirmed };
    let wrong: Vec<String> = evidence
        .iter()
        .filter(|e| e.verdict != wanted(e))
        .map(|e| format!("{} {}: {:?}: {}", e.experiment, e.cell, e.verdict, e.because))
        .collect();
    assert!(!evidence.is_empty() && wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(evidence.iter().any(|e| e.cell.control.is_some()), "no control ran");
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
