//! A balancer of connections, not requests, as a cloud's network load balancer is: it checks each target's health over
//! HTTP, sends new connections to healthy ones only, and either keeps the flows of an unhealthy target or cuts them
//! (AWS calls it "connection termination" of unhealthy targets). It knows two answers: 200, and anything else. For tests
//! of the drain behind such a balancer.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use crate::lab::haproxy::config::Server;
use crate::lab::scratch::Scratch;

/// How it checks, and what becomes of flows.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Time between two checks of a target.
    pub inter: Duration,
    /// Failed checks until a target is unhealthy.
    pub fall: u32,
    /// Whether the flows of a target that turns unhealthy are cut.
    pub terminate: bool,
}

/// A running one. Dropping it ends it and cuts every flow.
#[derive(Debug)]
pub struct L4 {
    front: PathBuf,
    targets: Vec<Arc<Target>>,
    _tasks: JoinSet<()>,
    _folder: Scratch,
}

#[derive(Debug)]
struct Target {
    data: SocketAddr,
    health: SocketAddr,
    healthy: watch::Sender<bool>,
}

impl L4 {
    /// Starts it in front of `servers`, none of which is healthy yet.
    ///
    /// # Errors
    /// Its folder or socket cannot be made.
    pub fn start(servers: &[Server], rules: Rules) -> io::Result<Self> {
        let folder = Scratch::new("l4")?;
        let front = folder.path().join("front.sock");
        let listener = UnixListener::bind(&front)?;
        let target = |server: &Server| {
            let healthy = watch::Sender::new(false);
            Arc::new(Target { data: server.data, health: server.health, healthy })
        };
        let targets: Vec<_> = servers.iter().map(target).collect();
        let mut tasks = JoinSet::new();
        for target in &targets {
            tasks.spawn(check(Arc::clone(target), rules));
        }
        tasks.spawn(accept(listener, targets.clone(), rules.terminate));
        Ok(Self { front, targets, _tasks: tasks, _folder: folder })
    }

    /// Where clients connect.
    #[must_use]
    pub fn front(&self) -> &Path {
        &self.front
    }

    /// Which targets it takes for healthy.
    #[must_use]
    pub fn healthy(&self) -> Vec<bool> {
        self.targets.iter().map(|target| *target.healthy.borrow()).collect()
    }
}

/// One good check is enough to be healthy, as at the start of a target in the field's balancers.
async fn check(target: Arc<Target>, rules: Rules) {
    let mut tick = interval(rules.inter);
    let mut failed = 0;
    loop {
        tick.tick().await;
        let good =
            timeout(rules.inter, is_200(target.health)).await.is_ok_and(|status| status.unwrap_or(false));
        failed = if good { 0 } else { failed + 1 };
        if good || failed >= rules.fall {
            target.healthy.send_if_modified(|healthy| std::mem::replace(healthy, good) != good);
        }
    }
}

async fn is_200(at: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(at).await?;
    stream.write_all(b"GET /health_check.html HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200 "))
}

async fn accept(listener: UnixListener, targets: Vec<Arc<Target>>, terminate: bool) {
    let next = AtomicUsize::new(0);
    let mut flows = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let turn = next.fetch_add(1, Ordering::Relaxed);
        let healthy: Vec<_> = targets.iter().filter(|target| *target.healthy.borrow()).collect();
        if let Some(target) = healthy.get(turn % healthy.len().max(1)) {
            flows.spawn(flow(client, Arc::clone(target), terminate));
        }
        while flows.try_join_next().is_some() {}
    }
}

async fn flow(mut client: UnixStream, target: Arc<Target>, terminate: bool) {
    let Ok(mut server) = TcpStream::connect(target.data).await else { return };
    let mut healthy = target.healthy.subscribe();
    let cut = async {
        if !terminate || healthy.wait_for(|healthy| !healthy).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        () = cut => {}
    }
}
