//! The lab's client. It owns its connections, so that each request can say which one it went over: local port,
//! backend (by the backend's own word), bytes, time, and how it failed. Used by the experiments.

mod failure;

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::ext::Protocol;
use hyper::header::HeaderValue;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::lab::backend::{HEADER_IP, HEADER_NAME};
use crate::lab::ca::{Roots, TrustError};
use crate::lab::envoy::bootstrap::{HttpVersion, Layer};

pub use failure::Failure;

/// Anything that bytes go through.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens connections to the lab's front as an application would: TLS to the external name on passthrough, plain
/// HTTP otherwise.
#[derive(Clone)]
pub struct Client {
    front: SocketAddr,
    host: String,
    http: HttpVersion,
    tls: Option<TlsConnector>,
    start: Instant,
    /// TCP and TLS together, as curl's `--connect-timeout` counts.
    connect_timeout: Duration,
}

/// One connection.
pub struct Connection {
    sender: Sender,
    driver: JoinHandle<()>,
    local: SocketAddr,
    host: String,
    start: Instant,
}

enum Sender {
    H1(http1::SendRequest<Empty<Bytes>>),
    H2(http2::SendRequest<Empty<Bytes>>),
}

/// An answer that is on its way.
type Answer = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

/// One request and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// What the experiment calls it.
    pub label: String,
    /// When it began, ms from the start of the cell.
    pub at_ms: u64,
    /// Until the last byte or the failure, ms.
    pub took_ms: u64,
    /// The client's own port, which names the connection; 0 when none came about.
    pub local_port: u16,
    /// HTTP status, where an answer began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The backend's name in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The backend's address in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub backend_ip: Option<IpAddr>,
    /// Bytes of the body that arrived.
    pub bytes: u64,
    /// How it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Exchange {
    /// An answer with status 200, whole.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.failure.is_none() && self.status == Some(200)
    }
}

impl Client {
    /// A client of the front at `front`; `start` is the zero of its clock.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(
        front: SocketAddr,
        host: &str,
        layer: Layer,
        http: HttpVersion,
        roots: &Roots,
        start: Instant,
    ) -> Result<Self, TrustError> {
        let alpn: &[u8] = if http == HttpVersion::H2 { b"h2" } else { b"http/1.1" };
        let tls = match layer {
            Layer::Passthrough => Some(TlsConnector::from(Arc::new(roots.client(alpn)?))),
            Layer::Http => None,
        };
        Ok(Self { front, host: host.to_owned(), http, tls, start, connect_timeout: Duration::from_secs(3) })
    }

    /// The same client with another time for TCP and TLS together.
    #[must_use]
    pub fn with_connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// Connect timeout (TCP and TLS together), refused, TLS handshake.
    pub async fn open(&self) -> Result<Connection, Failure> {
        let deadline = Instant::now() + self.connect_timeout;
        let (stream, local) = self.dial(deadline).await?;
        let io = TokioIo::new(stream);
        let (sender, driver) = match self.http {
            HttpVersion::H1 => {
                let (sender, connection) = http1::handshake(io).await.map_err(|e| Failure::of_request(&e))?;
                (Sender::H1(sender), tokio::spawn(async move { drop(connection.await) }))
            }
            HttpVersion::H2 => {
                let (sender, connection) =
                    http2::handshake(TokioExecutor::new(), io).await.map_err(|e| Failure::of_request(&e))?;
                (Sender::H2(sender), tokio::spawn(async move { drop(connection.await) }))
            }
        };
        Ok(Connection { sender, driver, local, host: self.host.clone(), start: self.start })
    }

    /// One request on a connection of its own, as `curl` does; at most `patience` from first to last byte.
    pub async fn once(&self, label: &str, path: &str, patience: Duration) -> Exchange {
        let began = Instant::now();
        match self.open().await {
            Ok(mut connection) => {
                let mut exchange = connection.get(label, path, patience).await;
                exchange.at_ms = ms(began.duration_since(self.start));
                exchange.took_ms = ms(began.elapsed());
                exchange
            }
            Err(failure) => Exchange {
                failure: Some(failure),
                took_ms: ms(began.elapsed()),
                ..blank(label, began.duration_since(self.start), 0)
            },
        }
    }

    async fn dial(&self, deadline: Instant) -> Result<(Box<dyn Stream>, SocketAddr), Failure> {
        let late = |_| Failure::ConnectTimeout;
        let tcp = timeout_at(deadline, TcpStream::connect(self.front)).await.map_err(late)?;
        let tcp = tcp.map_err(|error| Failure::of_connect(&error))?;
        let _ = tcp.set_nodelay(true);
        let local = tcp.local_addr().map_err(|error| Failure::of_connect(&error))?;
        let Some(tls) = &self.tls else { return Ok((Box::new(tcp), local)) };
        let name = ServerName::try_from(self.host.clone())
            .map_err(|error| Failure::TlsHandshake { said: error.to_string() })?;
        let stream = timeout_at(deadline, tls.connect(name, tcp)).await.map_err(late)?;
        let stream = stream.map_err(|error| Failure::TlsHandshake { said: error.to_string() })?;
        Ok((Box::new(stream), local))
    }

    /// A WebSocket to `/ws`: an upgrade of HTTP/1.1, or an extended CONNECT (RFC 8441) of HTTP/2.
    ///
    /// # Errors
    /// As [`Client::open`], and an upgrade that is refused.
    pub async fn web_socket(&self) -> Result<WebSocket, Failure> {
        let deadline = Instant::now() + self.connect_timeout;
        let (stream, local) = self.dial(deadline).await?;
        let opened = match self.http {
            HttpVersion::H1 => timeout_at(deadline, self.upgrade(stream)).await,
            HttpVersion::H2 => timeout_at(deadline, self.extended_connect(stream)).await,
        };
        let socket = opened.map_err(|_| Failure::ConnectTimeout)??;
        Ok(WebSocket { socket, local })
    }

    async fn upgrade(&self, stream: Box<dyn Stream>) -> Result<Messages, Failure> {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        let url = format!("{scheme}://{}/ws", self.host);
        let upgraded = tokio_tungstenite::client_async(url, stream).await;
        Ok(upgraded.map_err(|error| Failure::NoAnswer { said: error.to_string() })?.0)
    }

    async fn extended_connect(&self, stream: Box<dyn Stream>) -> Result<Messages, Failure> {
        let failed = |error: hyper::Error| Failure::of_request(&error);
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(failed)?;
        // Ends with the stream of the socket, which is its last.
        tokio::spawn(async move { drop(connection.await) });
        let request = |method, path| {
            let uri = format!("https://{}{path}", self.host);
            Request::builder().method(method).uri(uri).body(Empty::<Bytes>::new())
        };
        let said = |error: hyper::http::Error| Failure::NoAnswer { said: error.to_string() };
        // The other side says in its first frames that it knows extended CONNECT; they are in with an answer.
        let first = request(Method::GET, "/").map_err(said)?;
        sender.send_request(first).await.map_err(failed)?.into_body().collect().await.map_err(failed)?;
        let mut connect = request(Method::CONNECT, "/ws").map_err(said)?;
        connect.extensions_mut().insert(Protocol::from_static("websocket"));
        connect.headers_mut().insert("sec-websocket-version", HeaderValue::from_static("13"));
        let response = sender.send_request(connect).await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(Failure::NoAnswer { said: format!("CONNECT was answered {}", response.status()) });
        }
        let upgraded: Box<dyn Stream> =
            Box::new(TokioIo::new(hyper::upgrade::on(response).await.map_err(failed)?));
        Ok(Messages::from_raw_socket(upgraded, Role::Client, None).await)
    }
}

impl Connection {
    /// The client's side of it.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether the other side has closed it or asked to go away.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::H1(sender) => sender.is_closed(),
            Sender::H2(sender) => sender.is_closed(),
        }
    }

    /// One request; at most `patience` from sending to the last byte.
    pub async fn get(&mut self, label: &str, path: &str, patience: Duration) -> Exchange {
        let began = Instant::now();
        let mut exchange = blank(label, began.duration_since(self.start), self.local.port());
        let deadline = began + patience;
        let answered = match self.send(path) {
            Ok(answer) => match timeout_at(deadline, answer).await {
                Ok(answer) => answer.map_err(|error| Failure::of_request(&error)),
                Err(_) => Err(Failure::Silence),
            },
            Err(failure) => Err(failure),
        };
        match answered {
            Ok(response) => read(response, deadline, &mut exchange).await,
            Err(failure) => exchange.failure = Some(failure),
        }
        exchange.took_ms = ms(began.elapsed());
        exchange
    }

    /// Sends now; the answer is awaited apart, so that it can be given a deadline.
    fn send(&mut self, path: &str) -> Result<Answer, Failure> {
        let said = |error: hyper::http::Error| Failure::NoAnswer { said: error.to_string() };
        Ok(match &mut self.sender {
            Sender::H1(sender) => {
                let request =
                    Request::get(path).header("host", &self.host).body(Empty::new()).map_err(said)?;
                Box::pin(sender.send_request(request))
            }
            Sender::H2(sender) => {
                let uri = format!("https://{}{path}", self.host);
                let request = Request::get(uri).body(Empty::new()).map_err(said)?;
                Box::pin(sender.send_request(request))
            }
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn read(response: Response<Incoming>, deadline: Instant, exchange: &mut Exchange) {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    exchange.status = Some(response.status().as_u16());
    exchange.backend = header(HEADER_NAME).map(str::to_owned);
    exchange.backend_ip = header(HEADER_IP).and_then(|ip| ip.parse().ok());
    let mut body = response.into_body();
    loop {
        match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => exchange.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Ok(Some(Err(_))) => {
                exchange.failure = Some(Failure::BrokenBody { at: exchange.bytes });
                return;
            }
            Ok(None) => return,
            Err(_) => {
                exchange.failure = Some(Failure::Silence);
                return;
            }
        }
    }
}

type Messages = tokio_tungstenite::WebSocketStream<Box<dyn Stream>>;

/// A WebSocket and the local end of its connection.
pub struct WebSocket {
    socket: Messages,
    local: SocketAddr,
}

impl WebSocket {
    /// The client's side of the connection.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The next text message, `None` when the other side is gone or `patience` is over.
    pub async fn receive(&mut self, patience: Duration) -> Option<String> {
        use futures_util::StreamExt;
        let message = tokio::time::timeout(patience, self.socket.next()).await.ok()??.ok()?;
        message.into_text().ok().map(|text| text.to_string())
    }

    /// Sends `text` and returns the echo.
    pub async fn echo(&mut self, text: &str, patience: Duration) -> Option<String> {
        use futures_util::SinkExt;
        self.socket.send(tokio_tungstenite::tungstenite::Message::text(text)).await.ok()?;
        self.receive(patience).await
    }
}

fn blank(label: &str, at: Duration, local_port: u16) -> Exchange {
    Exchange {
        label: label.to_owned(),
        at_ms: ms(at),
        took_ms: 0,
        local_port,
        status: None,
        backend: None,
        backend_ip: None,
        bytes: 0,
        failure: None,
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
