//! The acts themselves: sets the stage, sends what the scenario sends, deletes the pod when it is to be deleted, and
//! brings home what everybody saw. Times are the reference's, scaled.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use tokio::time::sleep;

use super::events::{Events, timeline};
use super::told::{Told, answered, grace, mixed, since_start};
use super::{Act, Control, Measured, Options, Order, Scenario, signals};
use crate::experiments::evidence::Timeline;
use crate::lab::haproxy::HaProxy;
use crate::lab::haproxy::config::Config;
use crate::lab::ingress::load::Target;
use crate::lab::ingress::{Load, Pod, PodError, SilentXds, Stage, StageError, StagePlan, Tally, Watch};

/// The long request, s.
pub(super) const LONG: f64 = 60.0;
/// Chunks of the stream, one a second.
pub(super) const CHUNKS: u64 = 60;
/// Requests a second under steady load, whatever the scale: what counts is that Envoy is never idle.
const RATE: f64 = 40.0;

/// Plays `act`.
pub(super) async fn play(act: Act, options: &Options) -> Result<(Measured, Timeline), StageError> {
    let xds = match act.scenario {
        Scenario::Idle => Some(SilentXds::start().await?),
        _ => None,
    };
    let mut stage = Stage::start(&plan(act, options, xds.as_ref().map(|xds| xds.at))).await?;
    let pause = options.seconds(0.2).max(Duration::from_millis(10));
    let watch = Watch::start(
        stage.nodes[0].stats_socket(),
        "pod-a".to_owned(),
        stage.pods[0].envoy.admin(),
        stage.start,
        pause,
    );
    let told = match act.scenario {
        Scenario::Rolling | Scenario::RollingKept => rolling(&mut stage, act, options).await?,
        Scenario::Killed => killed(&mut stage, act, options).await?,
        Scenario::Long | Scenario::Watched | Scenario::Stream | Scenario::StreamH2 => {
            single(&mut stage, act, options).await?
        }
        _ => signals::play(&mut stage, act, options).await?,
    };
    let samples = watch.stop();
    let cuts: Vec<_> = stage.nodes.iter().flat_map(HaProxy::cut_sessions).collect();
    let events = Events::find(&stage, &told.log, &samples, &cuts, told.deleted_ms);
    let timeline = timeline(&stage, &told.log, &samples, &told.shots, &events);
    let measured = Measured {
        order: act.order,
        deleted_ms: told.deleted_ms,
        tally: Tally::of(&told.shots),
        repeated: stage.backend.repeated(),
        cut: cuts.len() as u64,
        events,
        hook: told.hook,
        resumed: told.resumed,
        said: told.said,
        shots: told.shots,
        samples,
    };
    stage.backend.stop().await;
    Ok((measured, timeline))
}

/// The load balancer knows the third answer only where it is to be given.
fn plan(act: Act, options: &Options, xds: Option<SocketAddr>) -> StagePlan {
    let inter = options.seconds(2.0);
    let node = match act.order {
        Order::NoNewWork => Config::understanding(Vec::new()),
        Order::FailFirst | Order::WaitThenFail => Config::reference(Vec::new()),
    };
    let flush = act.control != Some(Control::NoFlush);
    // The slower of two load balancers needs two of its checks to take the third answer and say so.
    let buffer = if act.scenario == Scenario::Nodes { 30.0 } else { 10.0 };
    let milliseconds = |seconds: f64| format!("{}ms", options.seconds(seconds).as_millis());
    let mut plan = StagePlan {
        pods: if act.scenario.is_rolling() { 2 } else { 1 },
        sidecar_args: vec![
            format!("--order={}", act.order.name()),
            format!("--lb-buffer={}", milliseconds(buffer)),
            format!("--drain-timeout={}", milliseconds(120.0)),
            format!("--poll-interval={}", milliseconds(2.0)),
        ],
        nodes: vec![Config { inter, flush, ..node }],
        xds,
        ..StagePlan::new(options.envoy.clone(), options.sidecar.clone())
    };
    signals::arrange(&mut plan, act, options);
    plan
}

/// One request on one pod, and the pod deleted under it. With `fail-first` and a load balancer that cuts nothing,
/// Envoy is left alone after the hook, for it is the load balancer's cut that is looked for.
async fn single(stage: &mut Stage, act: Act, options: &Options) -> Result<Told, StageError> {
    let mut target = Target::get(stage.nodes[0].front_h1(), stage.start);
    let stream = matches!(act.scenario, Scenario::Stream | Scenario::StreamH2);
    if act.scenario == Scenario::StreamH2 {
        (target.front, target.h2) = (stage.nodes[0].front_h2(), true);
    }
    let path = if stream {
        format!("/stream?chunks={CHUNKS}&ms={}", options.seconds(1.0).as_millis())
    } else {
        format!("/sleep?ms={}", options.seconds(LONG).as_millis())
    };
    let request = tokio::spawn(async move { target.shoot(&path, "1").await });
    sleep(options.seconds(if stream { 8.0 } else { 5.0 })).await;
    let deleted_ms = since_start(stage);
    let hook = if act.control == Some(Control::NoFlush) {
        answered(stage.pods[0].hook(grace(options)).await?)
    } else {
        stage.pods[0].delete(grace(options)).await?
    };
    let shots = vec![request.await.map_err(std::io::Error::other)?];
    Ok(Told { deleted_ms, hook, resumed: None, said: None, shots, log: stage.pods[0].sidecar.log() })
}

/// Two pods under load, replaced one after the other.
async fn rolling(stage: &mut Stage, act: Act, options: &Options) -> Result<Told, StageError> {
    let kept = act.scenario == Scenario::RollingKept;
    let target = Target { kept, ..Target::get(stage.nodes[0].front_h1(), stage.start) };
    let load = Load::start(target, RATE, mixed);
    sleep(Duration::from_secs(2)).await;
    let deleted_ms = since_start(stage);
    let (mut hook, mut log) = (Value::Null, Vec::new());
    for index in 0..stage.pods.len() {
        let answer = answered(stage.pods[index].hook(grace(options)).await?);
        let old = stage.pods.remove(index);
        if index == 0 {
            (hook, log) = (answer, old.sidecar.log());
        }
        let new = Pod::replace(old, &stage.backend).await?;
        stage.pods.insert(index, new);
        stage.until_up().await?;
    }
    Ok(Told { deleted_ms, hook, resumed: None, said: None, shots: load.stop().await, log })
}

/// A request that outlives the sidecar's death and return.
async fn killed(stage: &mut Stage, act: Act, options: &Options) -> Result<Told, StageError> {
    let target = Target::get(stage.nodes[0].front_h1(), stage.start);
    let path = format!("/sleep?ms={}", options.seconds(LONG).as_millis());
    let request = tokio::spawn(async move { target.shoot(&path, "1").await });
    sleep(options.seconds(5.0)).await;
    let deleted_ms = since_start(stage);
    let drained = stage.pods[0].sidecar.ask(Method::POST, "/drain", Duration::from_secs(5)).await;
    drained.map_err(PodError::Sidecar)?;
    sleep(options.seconds(5.0)).await;
    if act.control == Some(Control::NoStateFile) {
        std::fs::remove_file(stage.pods[0].state_file())?;
    }
    stage.pods[0].restart_sidecar().await?;
    let status = stage.pods[0].sidecar.status().await.map_err(PodError::Sidecar)?;
    let resumed = status["state"].as_str().map(str::to_owned);
    let hook = answered(stage.pods[0].hook(grace(options)).await?);
    let shots = vec![request.await.map_err(std::io::Error::other)?];
    Ok(Told { deleted_ms, hook, resumed, said: None, shots, log: stage.pods[0].sidecar.log() })
}
