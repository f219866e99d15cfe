//! `drain-sidecar serve`: binds the listeners, starts the loops, lives until told to end. One thread runs it all.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::{LocalSet, spawn_local};

use crate::address::{Bind, Stream};
use crate::agent;
use crate::config::ServeArgs;
use crate::engine::Engine;
use crate::log::log;
use crate::public;

/// Connections served at once on one listener. The port is open to the node network; memory stays bounded.
const MOST_CONNECTIONS: usize = 512;

/// An idle or unfinished connection is closed after this.
const IDLE: Duration = Duration::from_secs(30);

/// Why the sidecar cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("cannot listen on {what}")]
    Bind { what: String, source: io::Error },
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
    let public = bind(&args.public).await?;
    let control = if args.control_on_public { None } else { Some(bind(&args.control).await?) };
    let agent = match &args.agent {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let mut term = signal(SignalKind::terminate()).map_err(ServeError::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signal)?;

    let engine = Engine::new(args);
    // One question before the first answer, so that a restarted sidecar does not greet its load balancer with 503.
    engine.read_now().await;
    announce(&public, control.as_ref(), agent.as_ref(), &engine);

    spawn_local(Rc::clone(&engine).poll());
    spawn_local(Rc::clone(&engine).inquire());
    spawn_local(Rc::clone(&engine).tick());
    spawn_local(Rc::clone(&engine).persist());
    if let Some(Listener::Tcp(listener)) = agent {
        spawn_local(agent::serve(listener, Rc::clone(&engine)));
    }
    spawn_local(accept(public, control.is_none(), Rc::clone(&engine)));
    if let Some(control) = control {
        spawn_local(accept(control, true, Rc::clone(&engine)));
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

async fn bind(address: &Bind) -> Result<Listener, ServeError> {
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
            let bound = match TcpListener::bind(address).await {
                // A node without IPv6: all of IPv4 is what was meant.
                Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                    TcpListener::bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port())).await
                }
                bound => bound,
            };
            bound.map(Listener::Tcp).map_err(failed(address.to_string()))
        }
    }
}

fn announce(public: &Listener, control: Option<&Listener>, agent: Option<&Listener>, engine: &Engine) {
    let drain = engine.drain();
    let fields = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "public": place(Some(public)),
        "control": place(control),
        "agent": place(agent),
        "state": drain.state,
        "order": engine.rules.order,
        "envoy": drain.unknown.unwrap_or("ok"),
    });
    log("info", "listening", fields);
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

async fn accept(listener: Listener, control: bool, engine: Rc<Engine>) {
    let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
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
            // Out of file descriptors: let connections end before trying again.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let engine = Rc::clone(&engine);
        spawn_local(async move {
            let service = service_fn(|request| public::answer(request, peer, control, Rc::clone(&engine)));
            // A broken connection is the peer's affair.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(IDLE)
                .max_buf_size(16 * 1024)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(slot);
        });
    }
}
