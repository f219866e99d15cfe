//! What counts as work, on a real Envoy: requests, WebSockets and TCP sessions do; idle connections, scrapers and the
//! poll itself do not.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use probes::envoy::EnvoyVersion;
use probes::envoy::install::{default_cache, obtain};
use probes::ingress::StagePlan;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::time::{Instant, sleep};

use crate::{get, plan, stage, until};

const SHORT: Duration = Duration::from_secs(3);

/// S6: a scraper that keeps its connection to the stats listener, idle HTTP/1 and HTTP/2 connections to the data
/// listener, and the poll: zero, at once, on each Envoy from the oldest that can be had.
#[tokio::test(flavor = "multi_thread")]
async fn idle_is_exactly_zero_whoever_is_connected() {
    for version in [EnvoyVersion::new(1, 36, 4), EnvoyVersion::new(1, 38, 3), EnvoyVersion::new(1, 40, 0)] {
        let mut plan = plan(&[]).await;
        plan.pods = 1;
        plan.envoy = obtain(&default_cache(), version).await.unwrap();
        idle_is_exactly_zero(&plan).await;
    }
}

async fn idle_is_exactly_zero(plan: &StagePlan) {
    let stage = stage(plan).await;
    let pod = &stage.pods[0];
    let mut scraper = TcpStream::connect(pod.stats).await.unwrap();
    scraper.write_all(b"GET /sleep?ms=600000 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut idle = TcpStream::connect(pod.data).await.unwrap();
    idle.write_all(b"GET /sleep?ms=1 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    idle.read_u8().await.unwrap();
    let mut idle_h2 = TcpStream::connect(pod.data).await.unwrap();
    idle_h2.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    idle_h2.read_u8().await.unwrap();
    let status = until(&stage, 0, "all are counted as connections", |status| {
        status["active"]["connections"].as_u64() >= Some(3)
    })
    .await;
    let active = &status["active"];
    for proto in ["http", "h2", "websocket", "tcp"] {
        assert_eq!(active[proto], 0, "{proto}: {active:#}");
    }
    let excluded = active["excluded"].as_array().unwrap();
    assert!(excluded.contains(&Value::from("http.stats.downstream_rq_active")), "{active:#}");
    let (code, answer) = pod.hook(Duration::from_secs(30)).await.unwrap();
    assert_eq!((code.as_u16(), &answer["forced"]), (200, &Value::from(false)));
}

/// S6: the stream that brings the configuration is open for as long as Envoy lives, and is no work.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_configuration_is_no_work() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    plan.xds = Some(silent_xds().await);
    let stage = stage(&plan).await;
    let streams = async || {
        let admin = stage.pods[0].envoy.admin();
        admin.stats("^cluster.xds.upstream_rq_active$").await.unwrap().into_values().next()
    };
    until(&stage, 0, "Envoy is read", |status| status["active"]["stats"] == "ok").await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while streams().await != Some(1) {
        assert!(Instant::now() < deadline, "the stream is there, and counts as a request upstream");
        sleep(Duration::from_millis(10)).await;
    }
    // A check of the load balancer may be a connection for a moment; the stream would be one for good.
    let counted = ["http", "h2", "websocket", "tcp", "connections"];
    until(&stage, 0, "nothing is active", |status| counted.iter().all(|kind| status["active"][kind] == 0))
        .await;
    let (code, answer) = stage.pods[0].hook(Duration::from_secs(30)).await.unwrap();
    assert_eq!((code.as_u16(), &answer["forced"]), (200, &Value::from(false)));
    assert_eq!(streams().await, Some(1), "it outlives the drain");
}

/// A server of configuration (ADS over gRPC) that agrees to every stream and never says anything.
async fn silent_xds() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request: Request<Incoming>| async move {
                // The request's body is the client's half of the stream: it is kept, and nothing is said.
                let silence =
                    StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>());
                let response = Response::builder().header("content-type", "application/grpc").body(silence);
                tokio::spawn(request.into_body().collect());
                response
            });
            let io = hyper_util::rt::TokioIo::new(stream);
            let executor = hyper_util::rt::TokioExecutor::new();
            tokio::spawn(hyper::server::conn::http2::Builder::new(executor).serve_connection(io, service));
        }
    });
    addr
}

/// S7: a TCP session through HAProxy is waited for, to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_tcp_session_is_waited_for() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let mut session = UnixStream::connect(stage.nodes[0].front_tcp()).await.unwrap();
    echo(&mut session).await;
    until(&stage, 0, "it is counted", |status| status["active"]["tcp"] == 1).await;
    stage.pods[0].sidecar.ask(Method::POST, "/drain", SHORT).await.unwrap();
    until(&stage, 0, "the drain is settled", |status| !status["lb"]["settled_ms"].is_null()).await;
    for _ in 0..20 {
        echo(&mut session).await;
        let status = stage.pods[0].sidecar.status().await.unwrap();
        assert_eq!(status["state"], "DRAINING");
    }
    drop(session);
    let status = until(&stage, 0, "the end", |status| status["state"] == "CLOSED").await;
    assert_eq!(status["progress"]["forced"], false);
}

/// ... unless TCP is let go.
#[tokio::test(flavor = "multi_thread")]
async fn a_tcp_session_is_let_go_when_told_so() {
    let mut plan = plan(&["--ignore-tcp"]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let mut session = UnixStream::connect(stage.nodes[0].front_tcp()).await.unwrap();
    echo(&mut session).await;
    let (code, answer) = stage.pods[0].hook(Duration::from_secs(30)).await.unwrap();
    assert_eq!((code.as_u16(), &answer["forced"]), (200, &Value::from(false)));
}

/// S7: WebSockets wait, or are let go at their time and named as what is left.
#[tokio::test(flavor = "multi_thread")]
async fn websockets_are_let_go_at_their_time() {
    let mut plan = plan(&["--ws-policy=1500ms"]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(web_socket(stage.nodes[0].front_h1()).await);
    }
    until(&stage, 0, "they are counted", |status| status["active"]["websocket"] == 3).await;
    let (_, answer) = stage.pods[0].hook(Duration::from_secs(30)).await.unwrap();
    assert_eq!((&answer["state"], &answer["remaining"]), (&"CLOSED".into(), &3.into()), "{answer}");
    assert!(answer["waited_ms"].as_u64() >= Some(1_500), "{answer}");
    assert_eq!(answer["forced"], false);
}

/// HTTP/2 requests are told apart from HTTP/1 ones.
#[tokio::test(flavor = "multi_thread")]
async fn h2_streams_have_their_own_row() {
    let mut plan = plan(&[]).await;
    plan.pods = 1;
    let stage = stage(&plan).await;
    let data = TcpStream::connect(stage.pods[0].data).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(data);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, http_body_util::Empty<hyper::body::Bytes>>(
            executor, io,
        )
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::get("http://lab/sleep?ms=3000").body(http_body_util::Empty::new()).unwrap();
    let slow = tokio::spawn(sender.send_request(request));
    let target = get(&stage);
    let other = tokio::spawn(async move { target.shoot("/sleep?ms=3000", "1").await });
    until(&stage, 0, "each in its row", |status| {
        status["active"]["h2"] == 1 && status["active"]["http"] == 1
    })
    .await;
    assert!(slow.await.unwrap().is_ok());
    other.await.unwrap();
}

async fn echo(session: &mut UnixStream) {
    session.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    session.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"ping");
}

async fn web_socket(front: PathBuf) -> UnixStream {
    let mut socket = UnixStream::connect(front).await.unwrap();
    let hello = b"GET /ws HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                  sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    socket.write_all(hello).await.unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 101");
    socket
}
