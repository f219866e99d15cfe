//! Clients of the load balancer: one request per connection, at a steady rate or one at a time, each with its ending.
//! A disruption is a 5xx, a connection error or a body that broke off; a status alone hides two of the three.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::backend::{LINES, NUMBER};

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// 200 and the whole body.
    Whole,
    /// Another status.
    Refused,
    /// No answer: the connection failed or broke before a status came.
    ConnectionError,
    /// 200, but the body broke off.
    Truncated,
}

/// One request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Shot {
    /// When it began, ms from the start of the load's clock.
    pub at_ms: u64,
    /// Until its end.
    pub took_ms: u64,
    /// HTTP status, where one came.
    pub status: Option<u16>,
    /// Lines of the body that arrived.
    pub lines: u64,
    /// How it ended.
    pub ending: Ending,
    /// hyper's words for a failure.
    pub said: Option<String>,
}

/// Requests by ending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// All.
    pub requests: u64,
    /// Status other than 200.
    pub refused: u64,
    /// No answer at all.
    pub connection_errors: u64,
    /// Broken off after a 200.
    pub truncated: u64,
}

impl Tally {
    /// Counts.
    #[must_use]
    pub fn of(shots: &[Shot]) -> Self {
        let count = |ending| shots.iter().filter(|shot| shot.ending == ending).count() as u64;
        Self {
            requests: shots.len() as u64,
            refused: count(Ending::Refused),
            connection_errors: count(Ending::ConnectionError),
            truncated: count(Ending::Truncated),
        }
    }

    /// Requests that did not end whole.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.refused + self.connection_errors + self.truncated
    }
}

/// A load that goes on until it is stopped.
#[derive(Debug)]
pub struct Load {
    task: JoinHandle<()>,
    running: Arc<Mutex<JoinSet<Shot>>>,
}

/// What to send.
#[derive(Debug, Clone)]
pub struct Target {
    /// The load balancer's socket.
    pub front: PathBuf,
    /// Speak HTTP/2.
    pub h2: bool,
    /// Method.
    pub method: Method,
    /// HTTP/1: whether the request is the second of its connection, as those of a client with a pool are. HAProxy closes
    /// such a connection without a word where it would answer a first request with 502.
    pub kept: bool,
    /// The zero of the clock.
    pub start: Instant,
}

impl Target {
    /// `GET` over HTTP/1.
    #[must_use]
    pub fn get(front: PathBuf, start: Instant) -> Self {
        Self { front, h2: false, method: Method::GET, kept: false, start }
    }

    /// One request, to its end.
    pub async fn shoot(&self, path: &str, number: &str) -> Shot {
        let begun = self.start.elapsed();
        let mut shot = Shot {
            at_ms: millis(begun),
            took_ms: 0,
            status: None,
            lines: 0,
            ending: Ending::ConnectionError,
            said: None,
        };
        match timeout(Duration::from_secs(180), self.exchange(path, number, &mut shot)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shot.said = Some(error.to_string()),
            Err(_) => shot.said = Some("no end within 180 s".to_owned()),
        }
        shot.took_ms = millis(self.start.elapsed().saturating_sub(begun));
        shot
    }

    async fn exchange(
        &self,
        path: &str,
        number: &str,
        shot: &mut Shot,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let request = Request::builder()
            .method(self.method.clone())
            .uri(format!("http://lab{path}"))
            .header("host", "lab")
            // Two loads on two load balancers count alike.
            .header(NUMBER, format!("{} {number}", self.front.display()))
            .body(Empty::<Bytes>::new())?;
        let io = TokioIo::new(UnixStream::connect(&self.front).await?);
        let response = if self.h2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            sender.send_request(request).await?
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
            tokio::spawn(connection);
            if self.kept {
                let first = Request::get("/sleep?ms=0").header("host", "lab").body(Empty::new())?;
                sender.send_request(first).await?.into_body().collect().await?;
                sender.ready().await?;
            }
            sender.send_request(request).await?
        };
        shot.status = Some(response.status().as_u16());
        shot.ending = if response.status().as_u16() == 200 { Ending::Truncated } else { Ending::Refused };
        let promised = response.headers().get(LINES).and_then(|lines| lines.to_str().ok()?.parse().ok());
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let lines = frame?.data_ref().map_or(0, |data| data.split(|&byte| byte == b'\n').count() - 1);
            shot.lines += lines as u64;
        }
        // hyper takes an HTTP/2 stream that is cancelled (RST_STREAM CANCEL) for one that has ended.
        if let Some(promised) = promised.filter(|promised| shot.lines < *promised) {
            return Err(format!("ended after {} of {promised} lines", shot.lines).into());
        }
        if shot.ending == Ending::Truncated {
            shot.ending = Ending::Whole;
        }
        Ok(())
    }
}

impl Load {
    /// Sends `rate` requests per second to paths chosen by `path` (given the request's number).
    #[must_use]
    pub fn start(target: Target, rate: f64, path: fn(u64) -> String) -> Self {
        let running = Arc::new(Mutex::new(JoinSet::new()));
        let shots = Arc::clone(&running);
        let task = tokio::spawn(async move {
            let mut tick = interval(Duration::from_secs_f64(1.0 / rate));
            tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for number in 0.. {
                tick.tick().await;
                let target = target.clone();
                shots
                    .lock()
                    .await
                    .spawn(async move { target.shoot(&path(number), &number.to_string()).await });
            }
        });
        Self { task, running }
    }

    /// No more requests; those under way are waited for.
    pub async fn stop(self) -> Vec<Shot> {
        self.task.abort();
        let _ = self.task.await;
        let mut running = self.running.lock().await;
        let mut shots = Vec::new();
        while let Some(shot) = running.join_next().await {
            shots.extend(shot.ok());
        }
        shots.sort_by_key(|shot| shot.at_ms);
        shots
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
