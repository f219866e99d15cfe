//! Backends of the lab: TLS servers on several loopback addresses and one port, which name themselves in every
//! answer, so that nobody has to trust a proxy about where traffic went. Each can die, refuse or turn into a black
//! hole, and keeps a ledger of the connections it had. Driven by `lab` and the experiments.

pub mod control;
mod dead;
mod routes;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::lab::ca::{Trust, TrustError};
use dead::{BlackHole, Refusing};

pub use routes::{HEADER_IP, HEADER_NAME, SLOW_BYTES};

/// Why backends are not up.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// macOS configures 127.0.0.1 only.
    #[error("the loopback addresses {} are missing", list(missing))]
    NoAlias {
        /// Those that cannot be bound.
        missing: Vec<IpAddr>,
    },
    /// No port is free on all addresses at once.
    #[error("no port is free on all of {first} to {last}")]
    NoPort {
        /// First address.
        first: IpAddr,
        /// Last address.
        last: IpAddr,
        /// What the system said last.
        source: io::Error,
    },
    /// Any other failure of a socket.
    #[error("the backend {addr} cannot {what}")]
    Socket {
        /// Address and port.
        addr: SocketAddr,
        /// `listen`, `become a black hole`.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// TLS.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

impl BackendError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoAlias { missing } => {
                let commands: Vec<String> =
                    missing.iter().map(|addr| format!("sudo ifconfig lo0 alias {addr} up")).collect();
                format!("add them until the next restart: {}", commands.join("; "))
            }
            Self::NoPort { .. } => {
                "too many ports are in use on this machine; end other labs and try again".to_owned()
            }
            Self::Socket { what: "listen", .. } => {
                "name an address of this machine and a port that is free".to_owned()
            }
            Self::Socket { .. } => "the limit of open files may be too low (`ulimit -n`)".to_owned(),
            Self::Trust(_) => "this is a fault of the lab; please report it".to_owned(),
        }
    }
}

fn list(addrs: &[IpAddr]) -> String {
    addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The loopback addresses of a lab: 127.0.0.11 and up. The same for every cell, which keeps macOS's list of aliases
/// short; cells differ by port.
#[must_use]
pub fn loopback_addrs(count: usize) -> Vec<IpAddr> {
    (0..count)
        .map(|i| {
            IpAddr::V4(Ipv4Addr::from(
                u32::from(Ipv4Addr::new(127, 0, 0, 11)) + u32::try_from(i).unwrap_or(0),
            ))
        })
        .collect()
}

/// One connection as the backend saw it; times from the start of the lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLife {
    /// Index of the backend.
    pub backend: usize,
    /// The other end (Envoy's socket).
    pub peer: SocketAddr,
    /// TCP accepted.
    pub opened: Duration,
    /// Closed by either side.
    pub closed: Option<Duration>,
    /// Requests that were begun on it.
    pub requests: u32,
}

/// All connections of a set of backends, in the order of their opening.
#[derive(Debug)]
pub struct Ledger {
    start: Instant,
    lives: Mutex<Vec<ConnectionLife>>,
}

impl Ledger {
    /// A copy of what happened so far.
    #[must_use]
    pub fn lives(&self) -> Vec<ConnectionLife> {
        self.with(|lives| lives.clone())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<ConnectionLife>) -> T) -> T {
        change(&mut self.lives.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn open(&self, backend: usize, peer: SocketAddr) -> usize {
        let opened = self.start.elapsed();
        self.with(|lives| {
            lives.push(ConnectionLife { backend, peer, opened, closed: None, requests: 0 });
            lives.len() - 1
        })
    }

    fn close(&self, connection: usize) {
        let closed = self.start.elapsed();
        self.with(|lives| lives[connection].closed = Some(closed));
    }

    fn request(&self, connection: usize) {
        self.with(|lives| lives[connection].requests += 1);
    }
}

/// Backends `a`, `b`, ... on consecutive loopback addresses and one port.
pub struct Backends {
    port: u16,
    all: Vec<Backend>,
    ledger: Arc<Ledger>,
}

struct Backend {
    name: String,
    addr: SocketAddr,
    state: State,
    tls: TlsAcceptor,
}

/// What a backend's address does with a connection attempt.
enum State {
    Serving(JoinHandle<()>),
    Refusing(#[expect(dead_code, reason = "held for its port")] Refusing),
    BlackHole(#[expect(dead_code, reason = "held for its full queue")] BlackHole),
    /// Between two states.
    Gone,
}

impl Backends {
    /// Starts `count` backends; `start` is the zero of the ledger's clock.
    ///
    /// # Errors
    /// Missing loopback aliases (macOS), or no port free on all addresses.
    pub async fn start(count: usize, trust: &Trust, start: Instant) -> Result<Self, BackendError> {
        let tls = TlsAcceptor::from(Arc::new(trust.server()?));
        let ledger = Arc::new(Ledger { start, lives: Mutex::default() });
        let listeners = bind_all(&loopback_addrs(count)).await?;
        let port = listeners[0].1.port();
        let mut all = Vec::with_capacity(count);
        for (index, (listener, addr)) in listeners.into_iter().enumerate() {
            let mut backend = Backend { name: name_of(index), addr, state: State::Gone, tls: tls.clone() };
            backend.serve(index, listener, &ledger);
            all.push(backend);
        }
        Ok(Self { port, all, ledger })
    }

    /// One backend, called `name`, on an address of one's own: for a lab whose parts are pods.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn one(name: &str, addr: SocketAddr, trust: &Trust) -> Result<Self, BackendError> {
        let tls = TlsAcceptor::from(Arc::new(trust.server()?));
        let ledger = Arc::new(Ledger { start: Instant::now(), lives: Mutex::default() });
        let failed = |source| BackendError::Socket { addr, what: "listen", source };
        let listener = TcpListener::bind(addr).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let mut backend = Backend { name: name.to_owned(), addr, state: State::Gone, tls };
        backend.serve(0, listener, &ledger);
        Ok(Self { port: addr.port(), all: vec![backend], ledger })
    }

    /// The port of all.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address of each.
    #[must_use]
    pub fn addrs(&self) -> Vec<IpAddr> {
        self.all.iter().map(|backend| backend.addr.ip()).collect()
    }

    /// `backend-a` for an address of the set.
    #[must_use]
    pub fn name(&self, addr: IpAddr) -> Option<&str> {
        self.all.iter().find(|backend| backend.addr.ip() == addr).map(|backend| backend.name.as_str())
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The process dies: every connection is closed, new ones are refused.
    ///
    /// # Errors
    /// The port cannot be held.
    pub async fn refuse(&mut self, index: usize) -> Result<(), BackendError> {
        let addr = self.all[index].addr;
        self.all[index].vacate().await;
        let held = retried(|| Refusing::hold(addr)).await.map_err(|source| BackendError::Socket {
            addr,
            what: "hold its port",
            source,
        })?;
        self.all[index].state = State::Refusing(held);
        Ok(())
    }

    /// The host falls off the network: connections are closed, and new attempts get no answer at all.
    ///
    /// # Errors
    /// The accept queue cannot be filled.
    pub async fn black_hole(&mut self, index: usize) -> Result<(), BackendError> {
        let addr = self.all[index].addr;
        self.all[index].vacate().await;
        let what = "become a black hole";
        let hole =
            BlackHole::dig(addr).await.map_err(|source| BackendError::Socket { addr, what, source })?;
        self.all[index].state = State::BlackHole(hole);
        Ok(())
    }

    /// Comes back to life.
    ///
    /// # Errors
    /// The port cannot be bound again.
    pub async fn revive(&mut self, index: usize) -> Result<(), BackendError> {
        let addr = self.all[index].addr;
        self.all[index].vacate().await;
        let listener =
            listen(addr).map_err(|source| BackendError::Socket { addr, what: "listen", source })?;
        let ledger = Arc::clone(&self.ledger);
        self.all[index].serve(index, listener, &ledger);
        Ok(())
    }
}

impl Backend {
    /// Frees the address: listener and connections are closed when this returns.
    async fn vacate(&mut self) {
        if let State::Serving(task) = &mut self.state {
            task.abort();
            let _ = task.await;
        }
        self.state = State::Gone;
    }

    fn serve(&mut self, index: usize, listener: TcpListener, ledger: &Arc<Ledger>) {
        let (alive, watched) = watch::channel(());
        let identity =
            Arc::new(routes::Identity { name: self.name.clone(), addr: self.addr.ip(), alive: watched });
        let (tls, ledger) = (self.tls.clone(), Arc::clone(ledger));
        self.state = State::Serving(tokio::spawn(async move {
            let _alive = alive;
            accept(listener, index, identity, tls, ledger).await;
        }));
    }
}

/// Accepts until it is aborted; then all its connections are dropped, which closes them.
async fn accept(
    listener: TcpListener,
    index: usize,
    identity: Arc<routes::Identity>,
    tls: TlsAcceptor,
    ledger: Arc<Ledger>,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Out of file descriptors: the next turn may have one.
                let Ok((stream, peer)) = accepted else { continue };
                let life = Life { connection: ledger.open(index, peer), ledger: Arc::clone(&ledger) };
                connections.spawn(serve_connection(stream, Arc::clone(&identity), tls.clone(), Arc::new(life)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Closes the entry in the ledger however the connection ends.
struct Life {
    connection: usize,
    ledger: Arc<Ledger>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.ledger.close(self.connection);
    }
}

async fn serve_connection(
    stream: TcpStream,
    identity: Arc<routes::Identity>,
    tls: TlsAcceptor,
    life: Arc<Life>,
) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(Duration::from_secs(30), tls.accept(stream)).await else { return };
    let service = service_fn(|request| {
        life.ledger.request(life.connection);
        let (identity, life) = (Arc::clone(&identity), Arc::clone(&life));
        async move { Ok::<_, std::convert::Infallible>(routes::answer(request, &identity, life)) }
    });
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http2().enable_connect_protocol();
    // An error here is a client that left, which the ledger shows.
    let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
}

async fn bind_all(addrs: &[IpAddr]) -> Result<Vec<(TcpListener, SocketAddr)>, BackendError> {
    let unavailable = |addr: &IpAddr| {
        std::net::TcpListener::bind((*addr, 0))
            .is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
    };
    let missing: Vec<IpAddr> = addrs.iter().copied().filter(unavailable).collect();
    if !missing.is_empty() {
        return Err(BackendError::NoAlias { missing });
    }
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..20 {
        match bind_one_port(addrs) {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
        tokio::task::yield_now().await;
    }
    let (first, end) = (addrs[0], addrs[addrs.len() - 1]);
    Err(BackendError::NoPort { first, last: end, source: last })
}

/// A process that is being started (an Envoy of another cell) holds copies of all sockets between fork and exec, so an
/// address that was closed just now can stay taken for a moment.
async fn retried<T>(mut bind: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                sleep(Duration::from_millis(5)).await;
            }
            other => return other,
        }
    }
}

/// The system picks a port on the first address; the others must have it too.
fn bind_one_port(addrs: &[IpAddr]) -> io::Result<Vec<(TcpListener, SocketAddr)>> {
    let mut port = 0;
    let mut bound = Vec::with_capacity(addrs.len());
    for addr in addrs {
        let listener = listen(SocketAddr::new(*addr, port))?;
        let local = listener.local_addr()?;
        port = local.port();
        bound.push((listener, local));
    }
    Ok(bound)
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // The address may have connections in TIME_WAIT from its last life.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(1024)
}

/// `backend-a` to `backend-z`, then `backend-aa`.
fn name_of(index: usize) -> String {
    let letter = |i: usize| char::from(b'a' + u8::try_from(i % 26).unwrap_or(0));
    if index < 26 {
        format!("backend-{}", letter(index))
    } else {
        format!("backend-{}{}", letter(index / 26 - 1), letter(index))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Self::Serving(task) = self {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
