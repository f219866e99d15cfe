//! `drain-sidecar serve`: binds the listeners, starts the loops, lives until told to end. One thread runs it all.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::rc::Rc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{LocalSet, spawn_local};

use crate::address::{Bind, Stream};
use crate::agent;
use crate::config::ServeArgs;
use crate::connections::{Connections, Ticket};
use crate::engine::Engine;
use crate::link::Link;
use crate::log::{chain, log};
use crate::public;
use crate::routes::Audience;
use crate::state_file::{self, StateFileError};

/// Connections kept on one listener; beyond that an idle one makes room. The port is open to the node's network: memory
/// and file descriptors stay bounded, and a probe is answered however many are held open.
const MOST_CONNECTIONS: usize = 256;

/// Connections that wait to be taken in.
const BACKLOG: u32 = 4096;

/// An idle or unfinished connection is closed after this.
const IDLE: Duration = Duration::from_secs(30);

/// Why the sidecar cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("cannot listen on {what}")]
    Bind { what: String, source: io::Error },
    #[error("cannot keep the state in {what}")]
    StateFile { what: String, source: StateFileError },
    #[error("cannot install a signal handler")]
    Signal(#[source] io::Error),
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Runs until CLOSED and told to end, or interrupted.
pub(crate) async fn run(args: ServeArgs) -> Result<(), ServeError> {
    LocalSet::new().run_until(run_local(args)).await
}

async fn run_local(args: ServeArgs) -> Result<(), ServeError> {
    if let Some(path) = &args.state_file {
        let what = path.display().to_string();
        state_file::regular(path).map_err(|source| ServeError::StateFile { what, source })?;
    }
    let public = bind(&args.public)?;
    let control = if args.control_on_public { None } else { Some(bind(&args.control)?) };
    let agent = match &args.agent {
        Some(address) => Some(bind(address)?),
        None => None,
    };
    let metrics = scrapers(&args);
    let mut term = signal(SignalKind::terminate()).map_err(ServeError::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signal)?;

    let engine = Engine::new(args);
    // One question before the first answer, so that a restarted sidecar does not greet its load balancer with 503.
    engine.read_now().await;
    announce(&public, [control.as_ref(), agent.as_ref(), metrics.as_ref()], &engine);

    spawn_local(Rc::clone(&engine).poll());
    spawn_local(Rc::clone(&engine).inquire());
    spawn_local(Rc::clone(&engine).tick());
    spawn_local(Rc::clone(&engine).persist());
    if let Some(Listener::Tcp(listener)) = agent {
        spawn_local(agent::serve(listener, Rc::clone(&engine)));
    }
    let of_public = if control.is_none() { Audience::Control } else { Audience::Public };
    spawn_local(accept(public, of_public, Rc::clone(&engine)));
    for (listener, audience) in [(control, Audience::Control), (metrics, Audience::Metrics)] {
        spawn_local_if(listener.map(|listener| accept(listener, audience, Rc::clone(&engine))));
    }
    loop {
        tokio::select! {
            _ = term.recv() => engine.sigterm(),
            _ = interrupt.recv() => break,
            () = engine.exit.notified() => break,
        }
    }
    log("info", "exit", json!({"state": engine.drain().state}));
    Ok(())
}

fn spawn_local_if(task: Option<impl Future<Output = ()> + 'static>) {
    if let Some(task) = task {
        spawn_local(task);
    }
}

/// The listener for scrapers. A pod whose metrics nobody can read is drained all the same.
fn scrapers(args: &ServeArgs) -> Option<Listener> {
    match bind(args.metrics.0.as_ref()?) {
        Ok(listener) => Some(listener),
        Err(error) => {
            let hint = "choose another port with --metrics, or `off`";
            log("error", "metrics_not_served", json!({"error": chain(&error), "hint": hint}));
            None
        }
    }
}

fn bind(address: &Bind) -> Result<Listener, ServeError> {
    let failed = |what: String| move |source| ServeError::Bind { what, source };
    match address {
        Bind::Unix(path) => {
            // A socket left by a process that was killed would keep the address taken; any other file is not ours.
            if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
                let _ = fs::remove_file(path);
            }
            UnixListener::bind(path).map(Listener::Unix).map_err(failed(path.display().to_string()))
        }
        Bind::Tcp(address) => {
            let bound = match listen(*address) {
                // A node without IPv6: all of IPv4 is what was meant.
                Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                    listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()))
                }
                bound => bound,
            };
            bound.map(Listener::Tcp).map_err(failed(address.to_string()))
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // `:port` means both, whatever the node's net.ipv6.bindv6only says.
        rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn announce(public: &Listener, [control, agent, metrics]: [Option<&Listener>; 3], engine: &Engine) {
    let drain = engine.drain();
    let fields = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "public": place(Some(public)),
        "control": place(control),
        "agent": place(agent),
        "metrics": place(metrics),
        "state": drain.state,
        "order": engine.rules.order,
        "envoy": drain.unknown.unwrap_or("ok"),
    });
    log("info", "listening", fields);
    for (found, hint) in engine.args.doubts() {
        log("warn", "doubtful_setting", json!({"setting": found, "hint": hint}));
    }
    if control.is_none() {
        let hint = "anyone who reaches the health port can drain this pod; leave out --control-on-public";
        log("warn", "control_is_public", json!({"hint": hint}));
    }
}

fn place(listener: Option<&Listener>) -> Value {
    match listener {
        None => Value::Null,
        Some(Listener::Tcp(listener)) => json!(listener.local_addr().map(|address| address.to_string()).ok()),
        Some(Listener::Unix(listener)) => {
            let path =
                listener.local_addr().ok().and_then(|a| a.as_pathname().map(|p| p.display().to_string()));
            json!(path.map(|path| format!("unix:{path}")))
        }
    }
}

async fn accept(listener: Listener, audience: Audience, engine: Rc<Engine>) {
    let connections = Rc::new(Connections::default());
    loop {
        let accepted: io::Result<(Box<dyn Stream>, IpAddr)> = match &listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, peer)| {
                // Small answers, one per round trip: waiting to fill a segment only delays them.
                let _ = stream.set_nodelay(true);
                (Box::new(stream) as Box<dyn Stream>, peer.ip().to_canonical())
            }),
            Listener::Unix(listener) => listener
                .accept()
                .await
                .map(|(stream, _)| (Box::new(stream) as Box<dyn Stream>, Ipv4Addr::LOCALHOST.into())),
        };
        let Ok((stream, peer)) = accepted else {
            // Out of file descriptors: one of ours makes room, if it is ours that hold them.
            connections.evict();
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let ticket = Rc::new(connections.admit(MOST_CONNECTIONS));
        spawn_local(serve_connection(stream, peer, audience, ticket, Rc::clone(&engine)));
    }
}

async fn serve_connection(
    stream: Box<dyn Stream>,
    peer: IpAddr,
    audience: Audience,
    ticket: Rc<Ticket>,
    engine: Rc<Engine>,
) {
    let serving = async {
        let Ok(Ok(link)) = tokio::time::timeout(IDLE, Link::open(stream)).await else { return };
        let held = Rc::clone(&ticket);
        let service = service_fn(move |request| {
            let (held, engine) = (Rc::clone(&held), Rc::clone(&engine));
            async move {
                held.busy();
                let answer = public::answer(request, peer, audience, engine).await;
                held.answered();
                answer
            }
        });
        // A broken connection is the peer's affair. On the heap: most connections never get here.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_buf_size(8 * 1024)
            .serve_connection(TokioIo::new(link), service);
        let _ = Box::pin(connection).await;
    };
    tokio::select! {
        () = serving => {}
        () = ticket.ended() => {}
    }
}
