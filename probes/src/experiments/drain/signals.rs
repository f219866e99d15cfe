//! The shorter scenarios (S5 to S15 without S9): each sets up one situation, drains, and asks the sidecar, Envoy and
//! the load balancer what they make of it. Every wait ends by what it waits for. Called by `scene`; the opinions are
//! in `said`.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::said::{ASKED, Counted, EACH, Said};
use super::told::{self, Told};
use super::{Act, Control, Options, Scenario};
use crate::lab::child::Signal;
use crate::lab::haproxy::config::Config;
use crate::lab::ingress::load::Target;
use crate::lab::ingress::{Ending, Load, Pod, PodError, Shot, Stage, StageError, StagePlan};

/// A request that is under way while a load balancer makes up its mind, s.
const LONG: f64 = 30.0;
/// When a WebSocket is let go, s from the start of the drain.
const WEBSOCKETS: f64 = 40.0;
/// Checks of the load balancer during which a state is held, to call it held.
const CHECKS: f64 = 5.0;
/// Requests a second and node under load.
const RATE: f64 = 10.0;
const SHORT: Duration = Duration::from_secs(5);
/// The preface of HTTP/2 and empty settings.
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// What the scenario needs that the others do not.
pub(super) fn arrange(plan: &mut StagePlan, act: Act, options: &Options) {
    let control = act.control.is_some();
    let mut args: Vec<String> = Vec::new();
    match act.scenario {
        Scenario::Idle => args.extend(control.then(|| "--exclude-http=none".to_owned())),
        Scenario::Kinds if control => args.extend(["--ignore-tcp", "--ws-policy=ignore"].map(str::to_owned)),
        Scenario::Kinds => args.push(format!("--ws-policy={}ms", options.seconds(WEBSOCKETS).as_millis())),
        Scenario::Unaware => {
            plan.pods = 2;
            plan.nodes[0] = Config { disable_on_404: false, send_state: !control, ..plan.nodes[0].clone() };
            args.push("--lb-drain-status=404".to_owned());
        }
        Scenario::Reopen => {
            let mode = if control { "listeners" } else { "lb-only" };
            args.extend([format!("--drain-mode={mode}"), "--zero-samples=100000".to_owned()]);
        }
        Scenario::Posts => {
            plan.pods = 2;
            plan.nodes[0].retry_all = true;
        }
        Scenario::Preflight => {
            args.push("--zero-samples=100000".to_owned());
            if !control {
                plan.envoy_args.clear();
                plan.nodes[0] = Config { inter: plan.nodes[0].inter, ..Config::reference(Vec::new()) };
            }
        }
        Scenario::Nodes => {
            plan.pods = 2;
            let inter = plan.nodes[0].inter * 7 / 2;
            let second =
                Config { node: "lb2".to_owned(), inter, send_state: !control, ..plan.nodes[0].clone() };
            plan.nodes.push(second);
        }
        _ => {}
    }
    plan.sidecar_args.extend(args);
}

/// Plays one of them.
pub(super) async fn play(stage: &mut Stage, act: Act, options: &Options) -> Result<Told, StageError> {
    let script = Script { options, act };
    match act.scenario {
        Scenario::Gone => script.gone(stage).await,
        Scenario::Idle => script.idle(stage).await,
        Scenario::Kinds => script.kinds(stage).await,
        Scenario::Unaware => script.unaware(stage).await,
        Scenario::Reopen => script.reopen(stage).await,
        Scenario::Posts => script.posts(stage).await,
        Scenario::Preflight => script.preflight(stage).await,
        _ => script.nodes(stage).await,
    }
}

struct Script<'a> {
    options: &'a Options,
    act: Act,
}

impl Script<'_> {
    /// A request is under way when Envoy dies, or is paused until the sidecar has noticed.
    async fn gone(&self, stage: &Stage) -> Result<Told, StageError> {
        let mut requests = self.long_requests(stage, 1, &Method::GET);
        self.until(stage, "the request", |status| status["active"]["http"] == 1).await?;
        let deleted_ms = told::since_start(stage);
        command(stage, "/drain").await?;
        let signalled_ms = told::since_start(stage);
        if self.act.control == Some(Control::Paused) {
            stage.pods[0].envoy.signal(Signal::STOP)?;
            let paused = |status: &Value| status["active"]["error"] == "timeout";
            self.until(stage, "that Envoy hangs", paused).await?;
            stage.pods[0].envoy.signal(Signal::CONT)?;
        } else {
            stage.pods[0].envoy.signal(Signal::KILL)?;
        }
        let status = self.until(stage, "the end", closed).await?;
        let closing =
            status["transitions"].as_array().and_then(|all| all.iter().find(|t| t["to"] == "CLOSING"));
        let at_ms = closing.and_then(|closing| closing["at_ms"].as_u64()).unwrap_or_default();
        let shots = ended(&mut requests).await;
        let said = Said::Gone {
            reason: closing.and_then(|closing| text(&closing["reason"])),
            closing_after_ms: stage.on_axis(at_ms).saturating_sub(signalled_ms),
            request: shots.first().map_or(Ending::ConnectionError, |shot| shot.ending),
        };
        Ok(home(stage, deleted_ms, Value::Null, said, shots))
    }

    /// A scraper's request that never ends, idle connections of both kinds, and the stream of configuration.
    async fn idle(&self, stage: &Stage) -> Result<Told, StageError> {
        let pod = &stage.pods[0];
        let mut scraper = TcpStream::connect(pod.stats).await?;
        scraper.write_all(b"GET /sleep?ms=600000 HTTP/1.1\r\nhost: x\r\n\r\n").await?;
        let mut idle = TcpStream::connect(pod.data).await?;
        converse(&mut idle, "GET /sleep?ms=0 HTTP/1.1\r\nhost: x\r\n\r\n").await?;
        let _idle_h2 = idle_h2(pod).await?;
        let status = self
            .until(stage, "every connection", |status| status["active"]["connections"].as_u64() >= Some(3))
            .await?;
        let deadline = Instant::now() + told::grace(self.options);
        while streams(pod).await? != Some(1) && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        let deleted_ms = told::since_start(stage);
        let hook = told::answered(pod.hook(told::grace(self.options)).await?);
        let said = Said::Idle {
            counted: Counted::of(&status),
            connections: status["active"]["connections"].as_u64(),
            configuration_streams: streams(pod).await?,
            forced: hook["forced"].as_bool(),
            waited_ms: hook["waited_ms"].as_u64(),
        };
        Ok(home(stage, deleted_ms, hook, said, Vec::new()))
    }

    /// One of each kind. Requests end first, the WebSocket's time is next, and the TCP session ends last.
    async fn kinds(&self, stage: &Stage) -> Result<Told, StageError> {
        let pod = &stage.pods[0];
        let mut session = UnixStream::connect(stage.nodes[0].front_tcp()).await?;
        echo(&mut session).await?;
        let mut socket = UnixStream::connect(stage.nodes[0].front_h1()).await?;
        let hello = "GET /ws HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                     sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        converse(&mut socket, hello).await?;
        let mut idle = idle_h2(pod).await?;
        let request_h2 = self.long_h2(pod).await?;
        let mut request = self.long_requests(stage, 1, &Method::GET);
        let let_go = self.act.control == Some(Control::LetGo);
        let all = |status: &Value| {
            let row = |name: &str| status["active"][name] == 1;
            row("http") && row("h2") && row("websocket") && (row("tcp") || let_go)
        };
        let counted = Counted::of(&self.until(stage, "one of each kind", all).await?);
        let deleted_ms = told::since_start(stage);
        command(stage, "/drain").await?;
        let shots = ended(&mut request).await;
        let answer = request_h2.await.map_err(io::Error::other)?;
        let held = self.options.seconds(WEBSOCKETS + CHECKS * 2.0);
        let held_ms = u64::try_from(held.as_millis()).unwrap_or(u64::MAX);
        let over = |status: &Value| {
            let at = |value: &Value| value.as_u64().unwrap_or_default();
            let checked = at(&status["lb"]["probers"][0]["last_ms"]);
            status["state"] != "DRAINING" || checked > at(&status["progress"]["started_ms"]) + held_ms
        };
        let status = self.until(stage, "the end of the WebSocket's time", over).await?;
        let state_with_tcp = text(&status["state"]);
        if !let_go {
            echo(&mut session).await?;
        }
        drop(session);
        let status = self.until(stage, "the end", closed).await?;
        let said = Said::Kinds {
            counted,
            state_with_tcp,
            h2_status: answer.ok().map(|status| status.as_u16()),
            remaining: status["progress"]["remaining"].as_u64(),
            forced: status["progress"]["forced"].as_bool(),
            idle_h2_open: is_open(&mut idle),
        };
        drop(socket);
        Ok(home(stage, deleted_ms, Value::Null, said, shots))
    }

    /// Requests on both pods, and a third answer that the load balancer has not heard of.
    async fn unaware(&self, stage: &Stage) -> Result<Told, StageError> {
        let mut requests = self.long_requests(stage, 2 * EACH, &Method::GET);
        self.until(stage, "the requests", |status| status["active"]["http"] == EACH).await?;
        let deleted_ms = told::since_start(stage);
        command(stage, "/drain").await?;
        let shots = ended(&mut requests).await;
        let status = self.until(stage, "the end", closed).await?;
        let probers = status["lb"]["probers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let said = Said::Unaware {
            taken_back: probers.iter().all(|prober| prober["refused"] == true),
            offers: probers.iter().filter_map(|prober| prober["offers"].as_u64()).max(),
        };
        Ok(home(stage, deleted_ms, Value::Null, said, shots))
    }

    /// Drained, taken back, and looked at as a client sees it.
    async fn reopen(&self, stage: &Stage) -> Result<Told, StageError> {
        let deleted_ms = told::since_start(stage);
        command(stage, "/drain").await?;
        self.until_lb_says(stage, "NOLB").await?;
        if self.act.control == Some(Control::ListenersDrained) {
            self.until(stage, "the listener drain", |status| status["envoy"]["reversible"] == false).await?;
        }
        let answer = command(stage, "/reopen").await?;
        self.until_lb_says(stage, "UP").await?;
        let said = Said::Reopen {
            degraded: answer["envoy_degraded"].as_bool(),
            told_to_close: told_to_close(&stage.pods[0]).await?,
        };
        Ok(home(stage, deleted_ms, Value::Null, said, Vec::new()))
    }

    /// POSTs on both pods, and a load balancer that hides a cut by sending them again.
    async fn posts(&self, stage: &mut Stage) -> Result<Told, StageError> {
        let mut requests = self.long_requests(stage, 2 * EACH, &Method::POST);
        let status = self.until(stage, "the requests", |status| status["active"]["http"] == EACH).await?;
        let deleted_ms = told::since_start(stage);
        let hook = stage.pods[0].delete(told::grace(self.options)).await?;
        let shots = ended(&mut requests).await;
        let said = Said::Posts { on_the_pod: Counted::of(&status).http };
        Ok(home(stage, deleted_ms, hook, said, shots))
    }

    /// Asked before it is needed, then held against what Envoy does.
    async fn preflight(&self, stage: &Stage) -> Result<Told, StageError> {
        let (_, report) = ask(stage, Method::GET, "/drain/preflight").await?;
        let checks = report["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let warned = checks.iter().filter(|check| check["verdict"] == "warn");
        let warned = warned.filter_map(|check| text(&check["name"])).collect();
        let envoy = checks.iter().find(|check| check["name"] == "envoy_drain_settings");
        let envoy = envoy.and_then(|check| text(&check["found"]));
        let deleted_ms = told::since_start(stage);
        command(stage, "/drain").await?;
        self.until(stage, "the listener drain", |status| status["envoy"]["reversible"] == false).await?;
        let said = Said::Preflight { warned, envoy, told_to_close: told_to_close(&stage.pods[0]).await? };
        Ok(home(stage, deleted_ms, Value::Null, said, Vec::new()))
    }

    /// Load from two load balancers, of which the second checks less often.
    async fn nodes(&self, stage: &mut Stage) -> Result<Told, StageError> {
        let fronts = stage.nodes.iter().map(|node| Target::get(node.front_h1(), stage.start));
        let loads: Vec<Load> = fronts.map(|target| Load::start(target, RATE, told::mixed)).collect();
        self.until(stage, "load", |status| status["active"]["http"].as_u64() > Some(1)).await?;
        let deleted_ms = told::since_start(stage);
        let hook = stage.pods[0].delete(told::grace(self.options)).await?;
        let mut shots = Vec::new();
        for load in loads {
            shots.extend(load.stop().await);
        }
        let log = stage.pods[0].sidecar.log();
        let when = |event: &str, detail: &str| {
            let mut lines = log.iter().filter(|line| line["event"] == event);
            let line =
                lines.find(|line| line["detail"].as_str().is_some_and(|said| said.ends_with(detail)))?;
            line["ts_ms"].as_u64().map(|at| stage.on_axis(at))
        };
        let said = Said::Nodes {
            words_ms: ["lb1", "lb2"].map(|node| when("lb_state", &format!("{node} igw/pod-a Nolb"))),
            acknowledged_ms: when("lb_acknowledged", "no_new_work"),
        };
        Ok(home(stage, deleted_ms, hook, said, shots))
    }

    fn long(&self) -> String {
        format!("/sleep?ms={}", self.options.seconds(LONG).as_millis())
    }

    /// `count` requests that are answered after 30 s.
    fn long_requests(&self, stage: &Stage, count: u64, method: &Method) -> JoinSet<Shot> {
        let method = method.clone();
        let target = Target { method, ..Target::get(stage.nodes[0].front_h1(), stage.start) };
        let mut requests = JoinSet::new();
        for number in 1..=count {
            let (target, path) = (target.clone(), self.long());
            requests.spawn(async move { target.shoot(&path, &number.to_string()).await });
        }
        requests
    }

    /// One over HTTP/2, straight to the pod: the load balancer speaks HTTP/1 to it.
    async fn long_h2(&self, pod: &Pod) -> io::Result<JoinHandle<hyper::Result<StatusCode>>> {
        let io = TokioIo::new(TcpStream::connect(pod.data).await?);
        let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await;
        let (mut sender, connection) = shaken.map_err(io::Error::other)?;
        tokio::spawn(connection);
        let request = Request::get(format!("http://lab{}", self.long())).body(Empty::<Bytes>::new());
        let answer = sender.send_request(request.map_err(io::Error::other)?);
        // The sender is kept: without it the connection would end.
        Ok(tokio::spawn(async move {
            let answer = answer.await;
            drop(sender);
            answer.map(|answer| answer.status())
        }))
    }

    /// Asks the first pod's sidecar until it holds.
    async fn until(
        &self,
        stage: &Stage,
        what: &'static str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, StageError> {
        let deadline = Instant::now() + told::grace(self.options);
        loop {
            let status = stage.pods[0].sidecar.status().await.map_err(PodError::Sidecar)?;
            if holds(&status) {
                return Ok(status);
            }
            if Instant::now() > deadline {
                let last = format!("{} with {:?}", status["state"], Counted::of(&status));
                return Err(StageError::NotSeen { what, last });
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asks the first load balancer until its word for the first pod is `word`.
    async fn until_lb_says(&self, stage: &Stage, word: &'static str) -> Result<(), StageError> {
        let deadline = Instant::now() + told::grace(self.options);
        loop {
            let servers = stage.nodes[0].servers().await?;
            let last = servers.into_iter().next().map(|server| server.status).unwrap_or_default();
            if last == word {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(StageError::NotSeen { what: word, last });
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn home(stage: &Stage, deleted_ms: u64, hook: Value, said: Said, shots: Vec<Shot>) -> Told {
    Told { deleted_ms, hook, resumed: None, said: Some(said), shots, log: stage.pods[0].sidecar.log() }
}

fn closed(status: &Value) -> bool {
    status["state"] == "CLOSED"
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

async fn ask(stage: &Stage, method: Method, path: &str) -> Result<(StatusCode, Value), StageError> {
    Ok(stage.pods[0].sidecar.ask(method, path, SHORT).await.map_err(PodError::Sidecar)?)
}

async fn command(stage: &Stage, path: &str) -> Result<Value, StageError> {
    ask(stage, Method::POST, path).await.map(told::answered)
}

async fn ended(requests: &mut JoinSet<Shot>) -> Vec<Shot> {
    let mut shots = Vec::new();
    while let Some(shot) = requests.join_next().await {
        shots.extend(shot.ok());
    }
    shots
}

/// Streams to the server of configuration, by Envoy's own gauge.
async fn streams(pod: &Pod) -> Result<Option<u64>, StageError> {
    let stats = pod.envoy.admin().stats("^cluster.xds.upstream_rq_active$").await;
    Ok(stats.map_err(PodError::Admin)?.into_values().next())
}

/// A connection that has sent its preface, been answered, and asks for nothing.
async fn idle_h2(pod: &Pod) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(pod.data).await?;
    stream.write_all(PREFACE.as_bytes()).await?;
    stream.read_u8().await?;
    Ok(stream)
}

/// Whether the other side has not closed it.
fn is_open(stream: &mut TcpStream) -> bool {
    let mut frames = [0; 1024];
    loop {
        match stream.try_read(&mut frames) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

async fn echo(session: &mut UnixStream) -> io::Result<()> {
    session.write_all(b"ping").await?;
    session.read_exact(&mut [0; 4]).await?;
    Ok(())
}

/// Says `said` and returns the head of the answer.
async fn converse(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), said: &str) -> io::Result<String> {
    stream.write_all(said.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

/// How many answers on fresh connections tell the client to close.
async fn told_to_close(pod: &Pod) -> io::Result<u64> {
    let mut closing = 0;
    for _ in 0..ASKED {
        let mut stream = TcpStream::connect(pod.data).await?;
        let head = converse(&mut stream, "GET /sleep?ms=0 HTTP/1.1\r\nhost: x\r\n\r\n").await?;
        closing += u64::from(head.contains("\r\nconnection: close\r\n"));
    }
    Ok(closing)
}
