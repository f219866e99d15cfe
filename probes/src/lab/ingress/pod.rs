//! One gateway pod: an Envoy and a drain sidecar that share a life, and the part of the kubelet that ends it: the
//! hook first, then SIGTERM to Envoy, then to the sidecar, as native sidecars have it. Used by the drain experiment.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::Value;

use super::Backend;
use super::config::{self, bootstrap};
use super::sidecar::{Sidecar, SidecarError};
use crate::lab::child::Signal;
use crate::lab::envoy::admin::AdminError;
use crate::lab::envoy::process::Launch;
use crate::lab::envoy::{Binary, Envoy, EnvoyError};
use crate::lab::haproxy::config::Server;
use crate::lab::scratch::Scratch;

/// What a pod is made of.
#[derive(Debug, Clone)]
pub struct PodSpec {
    /// Its name in HAProxy.
    pub name: String,
    /// Envoy.
    pub envoy: Binary,
    /// Envoy's `--drain-strategy` and the like.
    pub envoy_args: Vec<String>,
    /// The sidecar's binary.
    pub sidecar: PathBuf,
    /// Its flags, beside addresses and state file.
    pub sidecar_args: Vec<String>,
    /// Whether it has an agent-check port.
    pub agent: bool,
    /// Whether it keeps its state across a restart.
    pub state_file: bool,
    /// A server of configuration that Envoy keeps a stream to.
    pub xds: Option<SocketAddr>,
}

/// Why there is no pod.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// Envoy.
    #[error(transparent)]
    Envoy(#[from] EnvoyError),
    /// Its admin port.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The sidecar.
    #[error(transparent)]
    Sidecar(#[from] SidecarError),
    /// A folder or a signal.
    #[error("the pod's folder or process cannot be reached")]
    Io(#[from] std::io::Error),
    /// Envoy has no listener of that name.
    #[error("Envoy does not listen as {0}")]
    NoListener(&'static str),
}

/// A running pod. Dropping it kills both.
#[derive(Debug)]
pub struct Pod {
    /// Its proxy.
    pub envoy: Envoy,
    /// Its sidecar.
    pub sidecar: Sidecar,
    /// Where HAProxy sends HTTP.
    pub data: SocketAddr,
    /// Where HAProxy sends raw TCP.
    pub tcp: SocketAddr,
    /// The listener of the statistics.
    pub stats: SocketAddr,
    spec: PodSpec,
    folder: Scratch,
}

impl Pod {
    /// Starts both, Envoy first; on ports of their own choice.
    ///
    /// # Errors
    /// Either does not come up.
    pub async fn start(spec: PodSpec, backend: &Backend) -> Result<Self, PodError> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::start_at(spec, backend, [any; 4]).await
    }

    /// Ends this pod and starts another like it on the same ports, as a rollout does on the same node.
    ///
    /// # Errors
    /// It does not end, or the new one does not come up.
    pub async fn replace(mut self, backend: &Backend) -> Result<Self, PodError> {
        self.envoy.signal(Signal::TERM)?;
        self.sidecar.signal(Signal::TERM)?;
        self.sidecar.ended(Duration::from_secs(3)).await;
        self.sidecar.kill().await;
        let agent = self.sidecar.agent.unwrap_or(self.data);
        let ports = [self.data, self.tcp, self.sidecar.health, agent];
        let spec = self.spec.clone();
        self.envoy.stop().await;
        Self::start_at(spec, backend, ports).await
    }

    async fn start_at(spec: PodSpec, backend: &Backend, ports: [SocketAddr; 4]) -> Result<Self, PodError> {
        let [http, tcp, health, agent] = ports;
        let config = bootstrap(http, tcp, backend.http, backend.raw, spec.xds);
        let args: Vec<&str> = spec.envoy_args.iter().map(String::as_str).collect();
        let envoy = Envoy::start_with(&spec.envoy, &config, Launch { args: &args, keep: None }).await?;
        let listeners = envoy.admin().listeners().await?;
        let at = |name| listeners.get(name).copied().ok_or(PodError::NoListener(name));
        let (data, tcp, stats) = (at(config::HTTP)?, at(config::TCP)?, at(config::STATS)?);
        let folder = Scratch::new("pod")?;
        let flags = flags(&spec, &envoy, data, health, spec.agent.then_some(agent), folder.path());
        let sidecar = Sidecar::start(&spec.sidecar, &flags, folder.path().join("sidecar.log")).await?;
        Ok(Self { envoy, sidecar, data, tcp, stats, spec, folder })
    }

    /// As HAProxy has it.
    #[must_use]
    pub fn server(&self) -> Server {
        Server {
            name: self.spec.name.clone(),
            data: self.data,
            tcp: self.tcp,
            health: self.sidecar.health,
            agent: self.sidecar.agent,
        }
    }

    /// Kills the sidecar in the middle of whatever it does and starts it again on its ports.
    ///
    /// # Errors
    /// It does not come up again.
    pub async fn restart_sidecar(&mut self) -> Result<(), PodError> {
        self.sidecar.signal(Signal::KILL)?;
        self.sidecar.ended(Duration::from_secs(3)).await;
        let flags = flags(
            &self.spec,
            &self.envoy,
            self.data,
            self.sidecar.health,
            self.sidecar.agent,
            self.folder.path(),
        );
        self.sidecar =
            Sidecar::start(&self.spec.sidecar, &flags, self.folder.path().join("sidecar.log")).await?;
        Ok(())
    }

    /// The state file, where there is one.
    #[must_use]
    pub fn state_file(&self) -> PathBuf {
        self.folder.path().join("state.json")
    }

    /// What `kubectl delete pod` sets off: the hook, then SIGTERM to Envoy, then to the sidecar. Returns the hook's
    /// answer, with its status in `status`.
    ///
    /// # Errors
    /// The hook is not answered within `grace`.
    pub async fn delete(&mut self, grace: Duration) -> Result<Value, PodError> {
        let (status, mut answer) = self.sidecar.ask(Method::GET, "/prestop", grace).await?;
        answer["status"] = status.as_u16().into();
        self.envoy.signal(Signal::TERM)?;
        self.sidecar.signal(Signal::TERM)?;
        Ok(answer)
    }

    /// Only the hook.
    ///
    /// # Errors
    /// It is not answered within `grace`.
    pub async fn hook(&self, grace: Duration) -> Result<(StatusCode, Value), PodError> {
        Ok(self.sidecar.ask(Method::GET, "/prestop", grace).await?)
    }
}

fn flags(
    spec: &PodSpec,
    envoy: &Envoy,
    data: SocketAddr,
    health: SocketAddr,
    agent: Option<SocketAddr>,
    folder: &Path,
) -> Vec<String> {
    let mut flags = vec![
        format!("--public=127.0.0.1:{}", health.port()),
        "--control=127.0.0.1:0".to_owned(),
        "--metrics=127.0.0.1:0".to_owned(),
        format!("--admin=http://{}", envoy.admin().addr()),
        format!("--data={data}"),
    ];
    flags.extend(agent.map(|agent| format!("--agent=127.0.0.1:{}", agent.port())));
    if spec.state_file {
        flags.push(format!("--state-file={}", folder.join("state.json").display()));
    }
    flags.extend(spec.sidecar_args.iter().cloned());
    flags
}
