//! Proxies and their admin ports: a scope comes in, the pods that run an Envoy of the mesh go out, and the answers of
//! their admin ports. The port listens on the pod's loopback only, so it is reached by a port-forward, or by `exec` of
//! the agent's own `pilot-agent request`, which distroless images have too.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{Api, AttachParams, ListParams};
use policies::proxy::Inspection;
use probes::lab::envoy::admin::{AdminError, fetch};
use probes::lab::envoy::inspect::{PATHS, inspect};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::failure::{Request, Right, of, status};
use super::{Cluster, Scope};
use crate::report::Problem;

/// Where Envoy's admin port is in Istio's pods.
const ADMIN_PORT: u16 = 15000;
/// The container of the proxy, a gateway's included.
const CONTAINER: &str = "istio-proxy";
/// Pods of a page.
const PAGE: u32 = 500;
/// For one answer of an admin port through the API server.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of the longest answer that is taken from `exec`.
const LONGEST: u64 = 256 << 20;

/// How an admin port is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// `pods/portforward`.
    Forward,
    /// `pods/exec` of `pilot-agent request`.
    Exec,
}

/// A pod with an Envoy of the mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyPod {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

/// The proxies of a scope.
#[derive(Debug, Default)]
pub struct Proxies {
    /// Running ones.
    pub pods: Vec<ProxyPod>,
    /// Pods with a proxy that do not run.
    pub idle: usize,
}

impl std::fmt::Display for ProxyPod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.name, self.namespace)
    }
}

impl Cluster {
    /// The pods that run a proxy.
    ///
    /// # Errors
    /// Pods may not be listed.
    pub async fn proxies(&self, scope: &Scope) -> Result<Proxies, Problem> {
        let client = self.client.clone();
        let api = match scope {
            Scope::All => Api::<Pod>::all(client),
            Scope::Namespace(name) => Api::namespaced(client, name),
            Scope::Default => Api::namespaced(client, &self.namespace),
        };
        let mut proxies = Proxies::default();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api
                .list(&params)
                .await
                .map_err(|error| self.on_pods("list", "pods", scope).refused(&error))?;
            for pod in page.items.into_iter().filter(is_proxy) {
                let running =
                    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
                if running {
                    let (namespace, name) = (pod.metadata.namespace, pod.metadata.name);
                    proxies.pods.push(ProxyPod {
                        namespace: namespace.unwrap_or_default(),
                        name: name.unwrap_or_default(),
                    });
                } else {
                    proxies.idle += 1;
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(proxies),
            }
        }
    }

    /// What a proxy says about the clusters of external names, or of one of them.
    ///
    /// # Errors
    /// The pod cannot be reached this way, or its port answers in an unknown shape.
    pub async fn inspect(
        &self,
        pod: &ProxyPod,
        reach: Reach,
        host: Option<&str>,
    ) -> Result<Inspection, Problem> {
        let mut answers: [String; PATHS.len()] = std::array::from_fn(|_| String::new());
        for (path, answer) in PATHS.iter().zip(&mut answers) {
            let asked = async {
                match reach {
                    Reach::Forward => self.forwarded(pod, path).await,
                    Reach::Exec => self.executed(pod, path).await,
                }
            };
            *answer = timeout(PATIENCE, asked).await.map_err(|_| {
                let said = format!("did not answer {path} within {PATIENCE:?}");
                Problem::new(pod, said, other_way(reach))
            })??;
        }
        inspect(&answers, host).map_err(|error: AdminError| {
            Problem::new(pod, error, "is port 15000 of this pod Envoy's? `--admin` reads another")
        })
    }

    async fn forwarded(&self, pod: &ProxyPod, path: &str) -> Result<String, Problem> {
        let scope = Scope::Namespace(pod.namespace.clone());
        let api = Api::<Pod>::namespaced(self.client.clone(), &pod.namespace);
        let mut forwarder = api
            .portforward(&pod.name, &[ADMIN_PORT])
            .await
            .map_err(|error| self.through(pod, Reach::Forward, "pods/portforward", &scope, &error))?;
        let broken =
            |said: String| Problem::new(pod, format!("port-forward: {said}"), other_way(Reach::Forward));
        let stream = forwarder.take_stream(ADMIN_PORT).ok_or_else(|| broken("no stream".to_owned()))?;
        let body = fetch(stream, path).await.map_err(|error| broken(error.to_string()))?;
        forwarder.abort();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn executed(&self, pod: &ProxyPod, path: &str) -> Result<String, Problem> {
        let scope = Scope::Namespace(pod.namespace.clone());
        let api = Api::<Pod>::namespaced(self.client.clone(), &pod.namespace);
        let path = path.trim_start_matches('/');
        let params = AttachParams::default().container(CONTAINER).stdin(false).stdout(true).stderr(true);
        let mut process = api
            .exec(&pod.name, ["pilot-agent", "request", "GET", path], &params)
            .await
            .map_err(|error| self.through(pod, Reach::Exec, "pods/exec", &scope, &error))?;
        let broken = |said: String| Problem::new(pod, format!("exec: {said}"), other_way(Reach::Exec));
        let (mut text, mut said) = (String::new(), String::new());
        let (out, err) = (process.stdout(), process.stderr());
        let status = process.take_status();
        let read_out = async {
            match out {
                Some(out) => out.take(LONGEST).read_to_string(&mut text).await.map(|_| ()),
                None => Ok(()),
            }
        };
        let read_err = async {
            match err {
                Some(err) => err.take(4096).read_to_string(&mut said).await.map(|_| ()),
                None => Ok(()),
            }
        };
        tokio::try_join!(read_out, read_err).map_err(|error| broken(error.to_string()))?;
        let ended = match status {
            Some(status) => status.await,
            None => None,
        };
        match ended {
            Some(status) if status.status.as_deref() == Some("Failure") => {
                let words = if said.trim().is_empty() { status.message.unwrap_or_default() } else { said };
                Err(broken(words.trim().to_owned()))
            }
            _ => Ok(text),
        }
    }

    /// Why the API server lets nothing through to a pod.
    fn through(
        &self,
        pod: &ProxyPod,
        reach: Reach,
        resource: &str,
        scope: &Scope,
        error: &kube::Error,
    ) -> Problem {
        match status(error).map(|status| status.code) {
            Some(403) => self.on_pods("create", resource, scope).refused(error),
            Some(404) => {
                Problem::new(pod, "there is no such pod", "`egress-audit proxy status -A` lists the proxies")
            }
            _ => {
                let Problem { subject, message, .. } = of(&pod.to_string(), error);
                Problem::new(subject, message, other_way(reach))
            }
        }
    }

    fn on_pods<'a>(&'a self, verb: &'a str, resource: &'a str, scope: &'a Scope) -> Request<'a> {
        Request { verb, resource, scope, default: &self.namespace, right: Right::Proxies }
    }
}

const fn other_way(reach: Reach) -> &'static str {
    match reach {
        Reach::Forward => "try `--reach exec`, which asks the agent in the pod instead",
        Reach::Exec => "try `--reach forward`, which needs no program in the pod",
    }
}

/// A sidecar, native ones included, or a gateway.
fn is_proxy(pod: &Pod) -> bool {
    let named = |containers: &[Container]| containers.iter().any(|container| container.name == CONTAINER);
    pod.spec
        .as_ref()
        .is_some_and(|spec| named(&spec.containers) || spec.init_containers.as_deref().is_some_and(named))
}
