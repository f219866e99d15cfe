//! One HTTP request over one connection, with a time limit and a size limit: a request goes in, status and body come
//! out. Used by `envoy` to ask the admin and by the subcommands to ask a running sidecar.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;

use crate::address::Target;

/// More than Envoy's filtered stats of thousands of listeners.
const LARGEST_BODY: usize = 4 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    #[error("no whole answer in time")]
    Timeout,
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("the request is not well formed")]
    Request(#[source] hyper::http::Error),
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    #[error("the answer broke off or is larger than 4 MiB")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Sends `method path` and reads the whole answer within `limit`.
pub(crate) async fn ask(
    target: &Target,
    method: Method,
    path: &str,
    limit: Duration,
) -> Result<(StatusCode, Bytes), ClientError> {
    tokio::time::timeout(limit, exchange(target, method, path)).await.unwrap_or(Err(ClientError::Timeout))
}

async fn exchange(target: &Target, method: Method, path: &str) -> Result<(StatusCode, Bytes), ClientError> {
    let stream = target.connect().await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ClientError::Refused,
        _ => ClientError::Connect(error),
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(ClientError::Broken)?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("connection", "close")
        .body(Empty::<Bytes>::new())
        .map_err(ClientError::Request)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(ClientError::Broken)?;
        let status = response.status();
        let body =
            Limited::new(response.into_body(), LARGEST_BODY).collect().await.map_err(ClientError::Body)?;
        Ok((status, body.to_bytes()))
    };
    // The connection is driven beside the request and dropped with it, so nothing outlives the time limit.
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    let mut connected = true;
    loop {
        tokio::select! {
            result = &mut answer => return result,
            _ = &mut connection, if connected => connected = false,
        }
    }
}
