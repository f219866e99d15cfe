//! The queries that share one socket to one server. Tickets (query bytes and a place for the answer) come in from any
//! task; a task of the lane's own sends them in batches, matches the answers by id and question, and gives up on
//! those that take too long. A lane ends when nothing is awaited, a busy one a moment later, and changes its port after
//! [`LIFETIME`] queries. Opened by `exchange`, one at a time for each server.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use jiff::Timestamp;
use policies::Malformed;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};
use tokio::time::{Instant, sleep_until};

use super::pace::Pace;
use super::{Exchanged, Failure, Sending, batch};
use crate::names::wire::{self, Reply};

/// Queries that one port carries: enough that opening a socket costs nothing per query, few enough of the 65,536 ids
/// that a fresh one is found at once.
const LIFETIME: usize = 8192;
/// How long a port that carried a batch is kept for the next query. One that carried less goes at once: a load balancer
/// in front of many resolvers chooses by port.
const LINGER: Duration = Duration::from_millis(5);

/// A query, and where its answer is awaited.
pub(super) struct Ticket {
    pub(super) request: Vec<u8>,
    pub(super) reply: oneshot::Sender<Exchanged>,
}

/// The end of a lane that lookups see.
pub(super) struct Lane {
    inbox: Mutex<Inbox>,
    filled: Notify,
    /// A permit for each query that could be sent at once.
    room: Semaphore,
}

struct Inbox {
    tickets: VecDeque<Ticket>,
    /// The lane has ended.
    closed: bool,
}

impl Lane {
    pub(super) fn with(ticket: Ticket, in_flight: usize) -> Arc<Self> {
        let inbox = Inbox { tickets: VecDeque::from([ticket]), closed: false };
        Arc::new(Self { inbox: Mutex::new(inbox), filled: Notify::new(), room: Semaphore::new(in_flight) })
    }

    /// Waits for room, in the order of the calls.
    pub(super) async fn turn(&self) {
        // A lane that has ended has room.
        let _ = self.room.acquire().await.map(SemaphorePermit::forget);
    }

    fn set_room(&self, room: usize) {
        let told = self.room.available_permits();
        self.room.add_permits(room.saturating_sub(told));
        self.room.forget_permits(told.saturating_sub(room));
    }

    /// Queues a ticket, or gives it back where the lane has ended.
    pub(super) fn push(&self, ticket: Ticket) -> Result<(), Ticket> {
        let mut inbox = self.lock();
        if inbox.closed {
            return Err(ticket);
        }
        inbox.tickets.push_back(ticket);
        if inbox.tickets.len() == 1 {
            self.filled.notify_one();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lane's own side, from its first query to its last answer.
pub(super) struct Trip {
    lane: Arc<Lane>,
    server: SocketAddr,
    pace: Arc<Pace>,
    timeout: Duration,
    in_flight: usize,
    /// Taken from the inbox.
    queue: VecDeque<Ticket>,
    /// Paced and numbered, for the kernel to take.
    ready: VecDeque<(u16, Ticket)>,
    /// Sent through the present port and neither answered nor given up, by id.
    awaited: HashMap<u16, Sent, RandomState>,
    /// Ids that the present port has used: a late or second answer is known for what it is.
    used: HashSet<u16, RandomState>,
    /// In the order in which they were sent, which is the order in which they time out.
    deadlines: VecDeque<(Instant, u16)>,
}

struct Sent {
    ticket: Ticket,
    at: Timestamp,
    since: Instant,
    malformed: Option<Malformed>,
}

/// What sending waits for.
enum Blocked {
    No,
    Kernel,
    Pace(Instant),
}

impl Trip {
    pub(super) fn new(lane: Arc<Lane>, server: SocketAddr, pace: Arc<Pace>, sending: &Sending) -> Self {
        Self {
            lane,
            server,
            pace,
            timeout: sending.timeout,
            in_flight: sending.in_flight.max(1),
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            awaited: HashMap::default(),
            used: HashSet::default(),
            deadlines: VecDeque::new(),
        }
    }

    pub(super) async fn run(mut self, sockets: Arc<Semaphore>) {
        let _open = sockets.acquire().await;
        while !self.is_over() {
            match connect(self.server).await {
                Ok(socket) => self.use_up(&socket).await,
                Err(_) => return self.abandon(),
            }
        }
    }

    /// Sends and receives until nothing comes any more or the port has served its time.
    async fn use_up(&mut self, socket: &UdpSocket) {
        self.used.clear();
        self.deadlines.clear();
        let mut lingered = false;
        let mut alarm = pin!(sleep_until(Instant::now() + self.timeout));
        loop {
            self.expire();
            self.take_inbox();
            let blocked = self.send(socket);
            self.tell_room(&blocked);
            let idle = self.awaited.is_empty() && self.ready.is_empty();
            let done = lingered || self.used.len() < batch::BATCH;
            if idle && (self.is_worn() || done && self.is_over()) {
                return;
            }
            let deadline = self.deadlines.front().map(|(deadline, _)| *deadline);
            let wake = match blocked {
                Blocked::Pace(at) => Some(deadline.map_or(at, |d| d.min(at))),
                _ if idle => Some(Instant::now() + LINGER),
                _ => deadline,
            };
            lingered = false;
            if let Some(wake) = wake.filter(|wake| *wake != alarm.deadline()) {
                alarm.as_mut().reset(wake);
            }
            tokio::select! {
                ready = socket.ready(batch::ARRIVAL) => if ready.is_ok() { self.receive(socket) },
                () = self.lane.filled.notified() => {}
                _ = socket.writable(), if matches!(blocked, Blocked::Kernel) => {}
                () = alarm.as_mut() => lingered = idle,
            }
        }
    }

    /// What waits for the pace takes no room: no more names are under way than it serves within their windows.
    fn tell_room(&self, blocked: &Blocked) {
        let waiting = if matches!(blocked, Blocked::Pace(_)) { 0 } else { self.queue.len() };
        let taken = self.awaited.len() + self.ready.len() + waiting;
        self.lane.set_room(self.in_flight.saturating_sub(taken));
    }

    fn is_worn(&self) -> bool {
        self.used.len() >= LIFETIME
    }

    fn take_inbox(&mut self) {
        let mut inbox = self.lane.lock();
        self.queue.append(&mut inbox.tickets);
    }

    /// Ends the lane where nothing is left to wait for.
    fn is_over(&mut self) -> bool {
        if !self.awaited.is_empty() || !self.queue.is_empty() || !self.ready.is_empty() {
            return false;
        }
        let mut inbox = self.lane.lock();
        let over = inbox.tickets.is_empty();
        if over {
            inbox.closed = true;
            self.lane.room.close();
        }
        over
    }

    fn abandon(mut self) {
        self.lane.lock().closed = true;
        self.lane.room.close();
        self.take_inbox();
        for ticket in self.queue {
            let _ = ticket.reply.send(Exchanged::unsent());
        }
    }

    /// Sends what the window, the pace and the kernel allow.
    fn send(&mut self, socket: &UdpSocket) -> Blocked {
        loop {
            let now = Instant::now();
            // Those that are ready go first, so that none waits for ever for others of its size.
            let paused = if self.ready.is_empty() { self.make_ready(now) } else { None };
            if self.ready.is_empty() {
                return paused.map_or(Blocked::No, Blocked::Pace);
            }
            let requests = self.ready.iter().map(|(_, ticket)| &*ticket.request);
            match batch::send(socket, requests) {
                Ok(count) => self.await_answers(count, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Blocked::Kernel,
                // An ICMP message about earlier queries; this one is still to be sent.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.give_up_all(),
                Err(_) => {
                    if let Some((_, ticket)) = self.ready.pop_front() {
                        let _ = ticket.reply.send(Exchanged::unsent());
                    }
                }
            }
        }
    }

    /// Moves what may go now from the queue to `ready`, each with an id that this port has not used, and those of one
    /// size together. Says when the pace allows more.
    fn make_ready(&mut self, now: Instant) -> Option<Instant> {
        let paused = self.take_turns(now);
        self.ready.make_contiguous().sort_by_key(|(_, ticket)| ticket.request.len());
        paused
    }

    fn take_turns(&mut self, now: Instant) -> Option<Instant> {
        while !self.is_worn()
            && self.ready.len() < batch::BATCH
            && self.awaited.len() + self.ready.len() < self.in_flight
        {
            while self.queue.front().is_some_and(|ticket| ticket.reply.is_closed()) {
                self.queue.pop_front();
            }
            if self.queue.is_empty() {
                break;
            }
            if let Err(at) = self.pace.take(now) {
                return Some(at);
            }
            let Some(mut ticket) = self.queue.pop_front() else { break };
            let id = self.fresh_id();
            ticket.request[..2].copy_from_slice(&id.to_be_bytes());
            self.ready.push_back((id, ticket));
        }
        None
    }

    fn fresh_id(&mut self) -> u16 {
        loop {
            let id = rand::random();
            if self.used.insert(id) {
                return id;
            }
        }
    }

    fn await_answers(&mut self, count: usize, since: Instant) {
        let at = Timestamp::now();
        for (id, ticket) in self.ready.drain(..count) {
            self.awaited.insert(id, Sent { ticket, at, since, malformed: None });
            self.deadlines.push_back((since + self.timeout, id));
        }
    }

    fn receive(&mut self, socket: &UdpSocket) {
        // Each error that is read clears one that is pending, so this ends.
        let now = Instant::now();
        while batch::receive(socket, |datagram| self.arrived(datagram, now)).is_err() {
            self.give_up_all();
        }
    }

    fn arrived(&mut self, datagram: &[u8], now: Instant) {
        let Some(id) = datagram.first_chunk().map(|id| u16::from_be_bytes(*id)) else {
            return self.blame(datagram);
        };
        match self.awaited.get_mut(&id) {
            Some(sent) => match wire::read(&sent.ticket.request, datagram) {
                Ok(reply) => self.settle(id, now, Ok(reply)),
                Err(malformed) => sent.malformed = Some(malformed),
            },
            None if self.used.contains(&id) => {}
            None => self.blame(datagram),
        }
    }

    /// A message with an id that was never sent from here: it goes to the account of the oldest query that it can be
    /// meant for. The right answer may still come.
    fn blame(&mut self, datagram: &[u8]) {
        let mut suspects = None;
        for (_, id) in &self.deadlines {
            let Some(sent) = self.awaited.get(id) else { continue };
            if sent.malformed.is_none() {
                let meant = wire::same_question(&sent.ticket.request, datagram);
                if suspects.is_none() || meant {
                    suspects = Some(*id);
                }
                if meant {
                    break;
                }
            }
        }
        if let Some(sent) = suspects.and_then(|id| self.awaited.get_mut(&id)) {
            sent.malformed = wire::read(&sent.ticket.request, datagram).err();
        }
    }

    fn expire(&mut self) {
        let now = Instant::now();
        while let Some((deadline, id)) = self.deadlines.front().copied() {
            match self.awaited.get(&id) {
                Some(_) if deadline > now => return,
                Some(sent) => {
                    let failure = sent.malformed.map_or(Failure::Timeout, Failure::Malformed);
                    self.settle(id, now, Err(failure));
                }
                None => {}
            }
            self.deadlines.pop_front();
        }
    }

    fn give_up_all(&mut self) {
        let now = Instant::now();
        for (_, id) in std::mem::take(&mut self.deadlines) {
            self.settle(id, now, Err(Failure::Unreachable));
        }
    }

    fn settle(&mut self, id: u16, now: Instant, result: Result<Reply, Failure>) {
        if let Some(Sent { ticket, at, since, .. }) = self.awaited.remove(&id) {
            let _ = ticket.reply.send(Exchanged { at, rtt: now - since, result });
        }
    }
}

async fn connect(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    Ok(socket)
}
