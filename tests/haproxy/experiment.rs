//! `lab run drain` as a whole, at a tenth of the reference's times: every cell as known, every control not.

use std::path::PathBuf;

use harness::binaries::workspace_binary;
use policies::Version;
use probes::experiments::drain::{Act, Control, Measured, Options, Order, Scenario, acts, run_all};
use probes::experiments::evidence::Verdict;
use probes::lab::envoy::install::{self, default_cache, obtain};

async fn options(scenarios: &[Scenario]) -> Options {
    Options {
        envoy: install::discover(&default_cache()).await.unwrap(),
        sidecar: PathBuf::from(workspace_binary("drain-sidecar").get_program()),
        scale: 0.1,
        scenarios: scenarios.to_vec(),
        orders: Order::ALL.to_vec(),
        controls: true,
    }
}

/// Runs every cell of the scenarios and holds each verdict against what the cell is: an experiment or a control.
async fn all_as_known(scenarios: &[Scenario]) -> Vec<(Act, Measured)> {
    side_by_side(&options(scenarios).await, 1).await
}

async fn side_by_side(options: &Options, at_once: usize) -> Vec<(Act, Measured)> {
    let mut measured = Vec::new();
    for (act, evidence) in acts(options).into_iter().zip(run_all(options, at_once, |_| {}).await) {
        let wanted = if act.control.is_some() { Verdict::Refuted } else { Verdict::Confirmed };
        // The reference's order meets a moment without requests by chance, and may then lose none.
        let by_chance = act.order == Order::WaitThenFail && evidence.verdict == Verdict::Inconclusive;
        let lucky = by_chance && evidence.because.contains("no request was under way");
        assert!(
            evidence.verdict == wanted || lucky,
            "{}: {:?}: {} {:#?}",
            evidence.cell,
            evidence.verdict,
            evidence.because,
            evidence.tables
        );
        assert!(evidence.timeline.lanes.len() >= 3, "{}", evidence.cell);
        measured.push((act, serde_json::from_value(evidence.measured).unwrap()));
    }
    measured
}

#[tokio::test(flavor = "multi_thread")]
async fn the_long_request_and_its_control() {
    let cells = all_as_known(&[Scenario::Long, Scenario::Watched]).await;
    assert_eq!(cells.len(), 6);
    for (act, measured) in cells {
        let events = &measured.events;
        let cut = act.order == Order::FailFirst && act.control != Some(Control::NoFlush);
        assert_eq!(events.sessions_cut_ms.is_some(), cut, "{act:?} {events:?}");
        assert_eq!(events.no_new_work_ms.is_some(), act.order == Order::NoNewWork, "{act:?} {events:?}");
        assert_eq!(events.listener_drain_ms.is_some(), act.order != Order::FailFirst, "{act:?} {events:?}");
        let zero_first = events.active_zero_ms.zip(events.lb_down_ms).is_some_and(|(zero, down)| zero < down);
        assert_eq!(zero_first, act.order != Order::FailFirst, "{act:?} {events:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_streams() {
    assert_eq!(all_as_known(&[Scenario::Stream, Scenario::StreamH2]).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_killed_sidecar_and_its_control() {
    assert_eq!(all_as_known(&[Scenario::Killed]).await.len(), 2);
}

/// S5 to S15 mostly wait, so they do it together.
#[tokio::test(flavor = "multi_thread")]
async fn the_signals_and_their_controls() {
    let scenarios = [
        Scenario::Gone,
        Scenario::Kinds,
        Scenario::Unaware,
        Scenario::Reopen,
        Scenario::Posts,
        Scenario::Preflight,
        Scenario::Nodes,
    ];
    let cells = side_by_side(&options(&scenarios).await, 4).await;
    assert_eq!(cells.len(), 2 * scenarios.len());
    for (act, measured) in cells.iter().filter(|(act, _)| act.control.is_some()) {
        let harm = match act.scenario {
            // As many as were on the pod.
            Scenario::Unaware => measured.cut,
            Scenario::Posts => measured.repeated,
            _ => continue,
        };
        assert_eq!(harm, 4, "{act:?} {measured:?}");
    }
}

/// Idle is exactly zero, whoever is connected, on each Envoy from the oldest that can be had.
#[tokio::test(flavor = "multi_thread")]
async fn idle_is_zero_on_every_envoy() {
    for version in [Version::release(1, 36, 4), Version::release(1, 38, 3), Version::release(1, 40, 0)] {
        let envoy = obtain(&default_cache(), version).await.unwrap();
        let newest = version == Version::release(1, 40, 0);
        let options = Options { envoy, controls: newest, ..options(&[Scenario::Idle]).await };
        assert_eq!(side_by_side(&options, 2).await.len(), 1 + usize::from(newest), "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rolling_restart() {
    let cells = all_as_known(&[Scenario::Rolling, Scenario::RollingKept]).await;
    assert_eq!(cells.len(), 6);
    // `retries 3` repeats failed connects only. What is cut after it was sent is a 502 where it was the first request
    // of its connection, and a connection closed without a status where it was a later one.
    let naive = |scenario| {
        let (_, measured) =
            cells.iter().find(|(act, _)| (act.scenario, act.order) == (scenario, Order::FailFirst)).unwrap();
        let bad_gateways = measured.shots.iter().filter(|shot| shot.status == Some(502)).count();
        (bad_gateways > 0, measured.tally.connection_errors > 0)
    };
    assert_eq!(naive(Scenario::Rolling), (true, false));
    assert_eq!(naive(Scenario::RollingKept), (false, true));
}
