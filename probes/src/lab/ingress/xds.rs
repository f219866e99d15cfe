//! A server of configuration (ADS over gRPC) that agrees to every stream and never says anything: what every proxy of
//! a mesh keeps open for as long as it lives, and what is no work. Used by the drain experiment.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A running one. Dropping it ends it.
#[derive(Debug)]
pub struct SilentXds {
    /// Where it listens.
    pub at: SocketAddr,
    _task: JoinSet<()>,
}

impl SilentXds {
    /// Starts it on a free port.
    ///
    /// # Errors
    /// No port can be bound.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let at = listener.local_addr()?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                streams.spawn(keep_silent(stream));
            }
        });
        Ok(Self { at, _task: task })
    }
}

async fn keep_silent(stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| async move {
        // The request's body is the client's half of the stream: it is kept, and nothing is said.
        tokio::spawn(request.into_body().collect());
        let silence = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        Response::builder().header("content-type", "application/grpc").body(silence)
    });
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
