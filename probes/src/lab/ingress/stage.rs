//! One whole way in: a backend, pods, and one or two HAProxy nodes that have found every pod UP. What is wanted comes
//! in as a [`StagePlan`]. Used by the drain experiment and the tests.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, sleep};

use super::{Backend, Pod, PodError, PodSpec};
use crate::lab::envoy::Binary;
use crate::lab::haproxy::config::Config;
use crate::lab::haproxy::{HaProxy, HaProxyError};

/// How long pods may take to be found UP.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is to be set up.
#[derive(Debug, Clone)]
pub struct StagePlan {
    /// Envoy to run in every pod.
    pub envoy: Binary,
    /// Sidecar to run in every pod.
    pub sidecar: PathBuf,
    /// How many pods.
    pub pods: usize,
    /// Flags of every sidecar.
    pub sidecar_args: Vec<String>,
    /// Flags of every Envoy.
    pub envoy_args: Vec<String>,
    /// Whether sidecars have an agent-check port.
    pub agent: bool,
    /// Whether sidecars keep a state file.
    pub state_file: bool,
    /// A server of configuration that every Envoy keeps a stream to.
    pub xds: Option<SocketAddr>,
    /// The load balancers, without servers.
    pub nodes: Vec<Config>,
}

impl StagePlan {
    /// Two pods behind one understanding HAProxy; Envoy drains at once, the sidecar has a state file.
    #[must_use]
    pub fn new(envoy: Binary, sidecar: PathBuf) -> Self {
        Self {
            envoy,
            sidecar,
            pods: 2,
            sidecar_args: Vec::new(),
            envoy_args: ["--drain-strategy", "immediate", "--drain-time-s", "600"]
                .map(str::to_owned)
                .to_vec(),
            agent: false,
            state_file: true,
            xds: None,
            nodes: vec![Config::understanding(Vec::new())],
        }
    }

    fn pod(&self, index: usize) -> PodSpec {
        PodSpec {
            name: format!(
                "pod-{}",
                char::from_digit(u32::try_from(10 + index % 26).unwrap_or(10), 36).unwrap_or('a')
            ),
            envoy: self.envoy.clone(),
            envoy_args: self.envoy_args.clone(),
            sidecar: self.sidecar.clone(),
            sidecar_args: self.sidecar_args.clone(),
            agent: self.agent,
            state_file: self.state_file,
            xds: self.xds,
        }
    }
}

/// Why there is no stage.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// A pod.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// A load balancer.
    #[error(transparent)]
    HaProxy(#[from] HaProxyError),
    /// A socket, file or task of the stage itself.
    #[error("a socket or file of the stage cannot be used")]
    Io(#[from] std::io::Error),
    /// A pod was not found UP.
    #[error("HAProxy does not find every pod up: {0}")]
    NotUp(String),
    /// What a scenario waits for did not come.
    #[error("{what} was not seen in time: {last}")]
    NotSeen {
        /// What was waited for.
        what: &'static str,
        /// What was seen last.
        last: String,
    },
}

impl StageError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Pod(PodError::Envoy(error)) => error.hint(),
            Self::Pod(PodError::Sidecar(error)) => error.hint(),
            Self::HaProxy(error) => error.hint(),
            Self::Pod(_) | Self::Io(_) => "too many ports or files may be in use on this machine",
            Self::NotUp(_) | Self::NotSeen { .. } => {
                "the machine may be too busy; try again with a larger --scale"
            }
        }
    }
}

/// The running parts. Dropping them ends them all.
#[derive(Debug)]
pub struct Stage {
    /// The service behind the gateway.
    pub backend: Backend,
    /// The gateway pods.
    pub pods: Vec<Pod>,
    /// The load balancers.
    pub nodes: Vec<HaProxy>,
    /// The zero of the time axis.
    pub start: Instant,
    /// The same moment in ms since the epoch, for what logs by wall clock.
    pub epoch_ms: u64,
}

impl Stage {
    /// Starts everything and waits until every node finds every pod UP.
    ///
    /// # Errors
    /// A part does not come up.
    pub async fn start(plan: &StagePlan) -> Result<Self, StageError> {
        let backend = Backend::start().await?;
        let mut pods = Vec::new();
        for index in 0..plan.pods {
            pods.push(Pod::start(plan.pod(index), &backend).await?);
        }
        let servers: Vec<_> = pods.iter().map(Pod::server).collect();
        let mut nodes = Vec::new();
        for config in &plan.nodes {
            nodes.push(HaProxy::start(&Config { servers: servers.clone(), ..config.clone() }).await?);
        }
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch_ms = u64::try_from(epoch.as_millis()).unwrap_or_default();
        let stage = Self { backend, pods, nodes, start: Instant::now(), epoch_ms };
        stage.until_up().await?;
        Ok(stage)
    }

    /// Waits until every node finds every pod UP, and has checked its health for it: HAProxy takes servers for UP
    /// until the first check.
    ///
    /// # Errors
    /// Not within 20 s.
    pub async fn until_up(&self) -> Result<(), StageError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut missing = Vec::new();
            for node in &self.nodes {
                let down = node.servers().await?.into_iter().filter(|server| server.status != "UP");
                missing.extend(down.map(|server| format!("{} {}", server.name, server.status)));
            }
            for pod in &self.pods {
                let status = pod.sidecar.status().await.map_err(PodError::Sidecar)?;
                let probed = status["lb"]["lb_probe_seen"] == true;
                // Every server at a node has probes of its own, the one for TCP too.
                let probers = status["lb"]["probers"].as_array().map(Vec::as_slice).unwrap_or_default();
                let up = probers.iter().all(|prober| prober["word"].is_null() || prober["word"] == "up");
                if !probed || !up || status["state"] != "OPEN" {
                    missing.push(format!("{} probed: {probed}, up: {up}", status["state"]));
                }
            }
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(StageError::NotUp(missing.join(", ")));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// A moment in ms since the epoch, on the stage's axis.
    #[must_use]
    pub const fn on_axis(&self, epoch_ms: u64) -> u64 {
        epoch_ms.saturating_sub(self.epoch_ms)
    }
}
