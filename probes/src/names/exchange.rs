//! One query to one server, and the answer that belongs to it. Query bytes come in; the response, read, or the way in
//! which it failed come out. Queries to one server share a socket while answers are awaited on it (see `lane`), so
//! that thousands of lookups cost one system call per batch; a server that is asked rarely sees a new port each time.
//! Called by `sample`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use jiff::Timestamp;
use policies::Malformed;
use tokio::sync::{Semaphore, oneshot};

use self::lane::{Lane, Ticket};
use self::pace::Pace;
pub use self::pace::Rate;
use crate::names::wire::Reply;

mod batch;
mod lane;
mod pace;
mod tcp;

/// Servers that are waited for at one time: each holds a file descriptor, of which a process often has 1,024.
const OPEN_SOCKETS: usize = 512;

/// How queries are sent.
#[derive(Debug, Clone)]
pub struct Sending {
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// The most that any one server is asked; `None` sends as fast as answers come.
    pub rate: Option<Rate>,
    /// Unanswered queries that one server has at a time.
    pub in_flight: usize,
    /// Queries at most, over all servers and names.
    pub max_queries: Option<u64>,
}

impl Default for Sending {
    /// 2 s, a polite rate, 100 in flight: what a receive buffer of the usual 208 KiB holds of small answers.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(2),
            rate: Some(Rate::default()),
            in_flight: 100,
            max_queries: None,
        }
    }
}

/// What became of a query.
pub(crate) struct Exchanged {
    /// When it left.
    pub(crate) at: Timestamp,
    pub(crate) rtt: Duration,
    pub(crate) result: Result<Reply, Failure>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    Timeout,
    Unreachable,
    Malformed(Malformed),
}

pub(crate) struct Exchange {
    sending: Sending,
    sockets: Arc<Semaphore>,
    sent: AtomicU64,
    servers: Mutex<HashMap<SocketAddr, Server, RandomState>>,
}

struct Server {
    pace: Arc<Pace>,
    lane: Option<Arc<Lane>>,
}

impl Exchange {
    pub(crate) fn new(sending: Sending) -> Self {
        Self {
            sending,
            sockets: Arc::new(Semaphore::new(OPEN_SOCKETS)),
            sent: AtomicU64::new(0),
            servers: Mutex::default(),
        }
    }

    /// As many queries were sent as may be. Lookups that are under way still finish.
    pub(crate) fn is_spent(&self) -> bool {
        self.sending.max_queries.is_some_and(|most| self.sent.load(Ordering::Relaxed) >= most)
    }

    /// Waits until `server` has room for a query more: those that begin later would only wait in line.
    pub(crate) async fn turn(&self, server: SocketAddr) {
        let lane = self.lock().get(&server).and_then(|server| server.lane.clone());
        if let Some(lane) = lane {
            lane.turn().await;
        }
    }

    /// Over UDP. The id of `request` is drawn anew.
    pub(crate) async fn udp(&self, server: SocketAddr, request: Vec<u8>) -> Exchanged {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let (reply, answered) = oneshot::channel();
        self.enqueue(server, Ticket { request, reply });
        answered.await.unwrap_or_else(|_| Exchanged::unsent())
    }

    /// Over TCP, on a connection of its own. Another id is drawn.
    pub(crate) async fn tcp(&self, server: SocketAddr, request: Vec<u8>) -> Result<Reply, Failure> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let _socket = self.sockets.acquire().await;
        tokio::time::timeout(self.sending.timeout, tcp::ask(server, request))
            .await
            .unwrap_or(Err(Failure::Timeout))
    }

    fn enqueue(&self, address: SocketAddr, mut ticket: Ticket) {
        let mut servers = self.lock();
        let server = servers
            .entry(address)
            .or_insert_with(|| Server { pace: Arc::new(Pace::new(self.sending.rate)), lane: None });
        if let Some(lane) = &server.lane {
            match lane.push(ticket) {
                Ok(()) => return,
                Err(refused) => ticket = refused,
            }
        }
        let lane = Lane::with(ticket, self.sending.in_flight);
        server.lane = Some(Arc::clone(&lane));
        let trip = lane::Trip::new(lane, address, Arc::clone(&server.pace), &self.sending);
        tokio::spawn(trip.run(Arc::clone(&self.sockets)));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, Server, RandomState>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchanged {
    /// Given up before it left.
    pub(crate) fn unsent() -> Self {
        Self { at: Timestamp::now(), rtt: Duration::ZERO, result: Err(Failure::Unreachable) }
    }
}
