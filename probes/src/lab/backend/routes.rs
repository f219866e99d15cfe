//! What a backend answers: `/`, `/slow`, `/sleep?seconds=`, `/stream?seconds=&interval=`, `/status?code=` and a
//! WebSocket echo on `/ws`. Every answer carries the backend's name and address, in headers and in the first line.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::ext::Protocol;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE,
};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// Header with the backend's name.
pub const HEADER_NAME: &str = "x-backend";
/// Header with the backend's address.
pub const HEADER_IP: &str = "x-backend-ip";
/// Length of `/slow`, in bytes: that of the response in the guide's appendix A.
pub const SLOW_BYTES: u64 = 409_610;
/// `/slow` comes in this many pieces.
const PIECES: u64 = 40;
/// Longest answer, so that a mistyped query does not hold a connection for ever.
const LONGEST: f64 = 86_400.0;

pub(super) struct Identity {
    pub name: String,
    pub addr: IpAddr,
    /// Its sender goes when the backend dies, and with it the connections that HTTP has let go of.
    pub alive: watch::Receiver<()>,
}

type Body = BoxBody<Bytes, Infallible>;

/// Answers one request. `life` is held for as long as the connection is used after an upgrade.
pub(super) fn answer(
    request: Request<Incoming>,
    identity: &Identity,
    life: Arc<impl Send + Sync + 'static>,
) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let seconds = |key, default| Duration::from_secs_f64(number(&query, key, default));
    let mut response = match request.uri().path() {
        "/" => Response::new(hello(identity)),
        "/slow" => slow(identity, seconds("seconds", 40.0)),
        "/sleep" => sleeping(identity, seconds("seconds", 1.0)),
        "/stream" => streaming(identity, seconds("seconds", 10.0), seconds("interval", 1.0)),
        "/status" => status(identity, number(&query, "code", 503.0)),
        "/ws" => web_socket(request, identity, life),
        _ => with_status(StatusCode::NOT_FOUND, text("no such page\n")),
    };
    if let Ok(name) = HeaderValue::from_str(&identity.name) {
        response.headers_mut().insert(HEADER_NAME, name);
    }
    if let Ok(addr) = HeaderValue::from_str(&identity.addr.to_string()) {
        response.headers_mut().insert(HEADER_IP, addr);
    }
    response
}

/// A number of the query string, kept within 0 and a day.
fn number(query: &str, key: &str, default: f64) -> f64 {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.filter(|(name, _)| *name == key).find_map(|(_, value)| value.parse::<f64>().ok());
    value.filter(|value| value.is_finite()).unwrap_or(default).clamp(0.0, LONGEST)
}

fn hello(identity: &Identity) -> Body {
    text(format!("{} {}\n", identity.name, identity.addr))
}

/// [`SLOW_BYTES`] over `time`: the name as first line, then filling, in [`PIECES`] pieces.
fn slow(identity: &Identity, time: Duration) -> Response<Body> {
    let first = Bytes::from(format!("{}\n", identity.name));
    let rest = SLOW_BYTES - first.len() as u64;
    let pause = time / u32::try_from(PIECES).unwrap_or(1);
    // By the clock and not pause by pause: a busy machine must not stretch the stream.
    let begun = Instant::now();
    let pieces = stream::iter(0..PIECES).then(move |piece| async move {
        sleep_until(begun + pause * u32::try_from(piece + 1).unwrap_or(1)).await;
        let end = |count: u64| rest * count / PIECES;
        let length = usize::try_from(end(piece + 1) - end(piece)).unwrap_or(0);
        Bytes::from(vec![b'X'; length])
    });
    let mut response = Response::new(body(stream::once(async { first }).chain(pieces)));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(SLOW_BYTES));
    response
}

fn sleeping(identity: &Identity, time: Duration) -> Response<Body> {
    let line = Bytes::from(format!("{} {}\n", identity.name, identity.addr));
    Response::new(body(stream::once(async move {
        sleep(time).await;
        line
    })))
}

/// A line per `interval` for `time`.
fn streaming(identity: &Identity, time: Duration, interval: Duration) -> Response<Body> {
    let interval = interval.max(Duration::from_millis(1));
    let lines = (time.as_secs_f64() / interval.as_secs_f64()).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 86,400,000 by the clamps"
    )]
    let count = lines as u32;
    let head = format!("{} {}", identity.name, identity.addr);
    let begun = Instant::now();
    Response::new(body(stream::iter(0..=count).then(move |n| {
        let line = Bytes::from(format!("{head} {n}\n"));
        async move {
            sleep_until(begun + interval * n).await;
            line
        }
    })))
}

fn status(identity: &Identity, code: f64) -> Response<Body> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked by from_u16")]
    let code = StatusCode::from_u16(code as u16).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    with_status(code, hello(identity))
}

/// Upgrades and echoes; the first message is the backend's own name and address. Over HTTP/2 the request is an extended
/// CONNECT, which is agreed to with 200 and no key.
fn web_socket(
    mut request: Request<Incoming>,
    identity: &Identity,
    life: Arc<impl Send + Sync + 'static>,
) -> Response<Body> {
    let key = request.headers().get(SEC_WEBSOCKET_KEY).cloned();
    let extended = request.extensions().get::<Protocol>().is_some_and(|it| it.as_str() == "websocket");
    if key.is_none() && !extended {
        return with_status(StatusCode::UPGRADE_REQUIRED, text("speak WebSocket here\n"));
    }
    let greeting = format!("{} {}", identity.name, identity.addr);
    let upgrade = hyper::upgrade::on(&mut request);
    let mut alive = identity.alive.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = echo(upgrade, greeting) => {}
            _ = alive.changed() => {}
        }
        drop(life);
    });
    let Some(key) = key else { return Response::new(text("")) };
    let mut response = with_status(StatusCode::SWITCHING_PROTOCOLS, text(""));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

async fn echo(upgrade: OnUpgrade, greeting: String) {
    let Ok(upgraded) = upgrade.await else { return };
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    let mut next = Some(Message::text(greeting));
    while let Some(message) = next {
        if socket.send(message).await.is_err() {
            return;
        }
        next = loop {
            match socket.next().await {
                Some(Ok(message)) if message.is_text() || message.is_binary() => break Some(message),
                Some(Ok(_)) => {}
                _ => break None,
            }
        };
    }
}

fn with_status(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

fn text(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

fn body(pieces: impl stream::Stream<Item = Bytes> + Send + Sync + 'static) -> Body {
    BodyExt::boxed(StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))))
}
