//! The service behind the gateway: `/sleep?ms=` answers after that time and not a byte before, `/stream?chunks=&ms=`
//! sends a line at a time, `/ws` echoes after an upgrade; a second port echoes raw TCP. It counts how often each
//! numbered request was carried out, so that a request that a load balancer repeats is seen. On shutdown it lets
//! what runs finish, for 300 s at most.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The header that numbers a request.
pub const NUMBER: &str = "x-number";

/// The header that says how many lines the body has when it is whole.
pub const LINES: &str = "x-lines";

/// How long a shutdown waits for what runs.
const PATIENCE: Duration = Duration::from_secs(300);

type Body = BoxBody<Bytes, Infallible>;

/// A running backend. Dropping it ends it at once; [`Backend::stop`] lets requests finish.
#[derive(Debug)]
pub struct Backend {
    /// HTTP.
    pub http: SocketAddr,
    /// Raw echo.
    pub raw: SocketAddr,
    carried_out: Arc<Mutex<HashMap<String, u32>>>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Backend {
    /// Starts it on free ports.
    ///
    /// # Errors
    /// No port can be bound.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let echo = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (http, raw) = (listener.local_addr()?, echo.local_addr()?);
        let carried_out = Arc::new(Mutex::new(HashMap::new()));
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::clone(&carried_out), stop.subscribe()));
        tasks.spawn(serve_raw(echo));
        Ok(Self { http, raw, carried_out, stop, tasks })
    }

    /// How often numbered requests were carried out beyond the first time.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        let counts = self.carried_out.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().map(|count| u64::from(count - 1)).sum()
    }

    /// No new connections; returns when what runs has finished, or after 300 s.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // The first task to end is the HTTP server: the echo goes on for ever.
        let _ = timeout(PATIENCE, self.tasks.join_next()).await;
    }
}

async fn serve(listener: TcpListener, counts: Arc<Mutex<HashMap<String, u32>>>, stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let mut stopping = stop.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(serve_connection(stream, Arc::clone(&counts), stop.clone()));
            }
            Some(_) = connections.join_next() => {}
            _ = stopping.wait_for(|stop| *stop) => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve_connection(
    stream: TcpStream,
    counts: Arc<Mutex<HashMap<String, u32>>>,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(request, Arc::clone(&counts)));
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        _ = stop.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

async fn answer(
    request: Request<Incoming>,
    counts: Arc<Mutex<HashMap<String, u32>>>,
) -> Result<Response<Body>, Infallible> {
    if let Some(number) = request.headers().get(NUMBER).and_then(|value| value.to_str().ok()) {
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(number.to_owned()).or_default() += 1;
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    Ok(match request.uri().path() {
        "/sleep" => {
            sleep(Duration::from_millis(number(&query, "ms"))).await;
            Response::new(Full::new(Bytes::from_static(b"slept\n")).boxed())
        }
        "/stream" => streaming(number(&query, "chunks"), Duration::from_millis(number(&query, "ms"))),
        "/ws" => upgrade(request),
        _ => {
            let mut response = Response::new(Full::new(Bytes::from_static(b"no such page\n")).boxed());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    })
}

fn number(query: &str, key: &str) -> u64 {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| *name == key).find_map(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// `chunk <n>` once per pause, `chunks` times.
fn streaming(chunks: u64, pause: Duration) -> Response<Body> {
    let lines = stream::iter(1..=chunks).then(move |n| async move {
        sleep(pause).await;
        Ok(Frame::data(Bytes::from(format!("chunk {n}\n"))))
    });
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(lines)));
    response.headers_mut().insert(LINES, HeaderValue::from(chunks));
    response
}

/// Agrees to a WebSocket and echoes bytes; frames are the client's business.
fn upgrade(mut request: Request<Incoming>) -> Response<Body> {
    let key = request.headers().get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(stream) = upgraded.await else { return };
        let (mut read, mut write) = tokio::io::split(TokioIo::new(stream));
        let _ = tokio::io::copy(&mut read, &mut write).await;
    });
    let mut response = Response::new(Full::default().boxed());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    // HAProxy holds the answer against the key.
    if let Some(accept) = key.and_then(|key| HeaderValue::from_str(&key).ok()) {
        response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

async fn serve_raw(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        connections.spawn(async move {
            let (mut read, mut write) = stream.split();
            let _ = tokio::io::copy(&mut read, &mut write).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_shutdown_lets_what_runs_finish_and_idle_connections_go() {
        let backend = Backend::start().await.unwrap();
        let mut idle = TcpStream::connect(backend.http).await.unwrap();
        idle.write_all(b"GET /sleep?ms=1 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        idle.read_u8().await.unwrap();
        let mut busy = TcpStream::connect(backend.http).await.unwrap();
        busy.write_all(b"GET /sleep?ms=500 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        sleep(Duration::from_millis(100)).await;
        let begun = Instant::now();
        backend.stop().await;
        assert!(begun.elapsed() < PATIENCE);
        let mut answer = String::new();
        busy.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("slept\n"), "{answer}");
    }
}
