//! The lab as pods: a namespace comes in, where its pods are goes out. What the mesh is told about the lab's name is
//! applied and taken away here, and orders reach the client's pod through a port-forward.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DeleteParams, GroupVersionKind, ListParams, Patch, PatchParams};
use probes::experiments::bench::mesh::{Ground, OWNER};
use probes::experiments::bench::{HOST, Place, Site};
use probes::lab::envoy::admin::post;
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use super::apply::MANAGER;
use super::failure::{Request, Right, of, status};
use super::read::name;
use super::{Cluster, Scope};
use crate::report::Problem;

const MANIFESTS: &str =
    "`kubectl apply -k manifests/lab` makes the lab; `kubectl get pods -n dns-lab` shows what is wrong";

/// The pods of a lab.
#[derive(Debug)]
pub struct LabPods {
    namespace: String,
    client: String,
    agent_port: u16,
    resolver: SocketAddr,
    backend_port: u16,
    /// As the client's pod must know them.
    pub site: Site,
}

impl LabPods {
    /// Where the mesh is told about the name.
    #[must_use]
    pub fn ground(&self) -> Ground<'_> {
        Ground { namespace: &self.namespace, resolver: self.resolver, backend_port: self.backend_port }
    }
}

/// A pod that runs, with its address and the ports that it names.
struct Running {
    name: String,
    addr: IpAddr,
    ports: Vec<(String, u16)>,
}

impl Running {
    fn port(&self, wanted: &str) -> Result<u16, Problem> {
        let found = self.ports.iter().find(|(name, _)| name == wanted).map(|(_, port)| *port);
        found.ok_or_else(|| Problem::new(&self.name, format!("names no port `{wanted}`"), MANIFESTS))
    }

    fn at(&self, port: &str) -> Result<SocketAddr, Problem> {
        Ok(SocketAddr::new(self.addr, self.port(port)?))
    }
}

impl Cluster {
    /// Finds the lab's pods by their label `app`.
    ///
    /// # Errors
    /// One is missing or does not run, or an entry for the name is there that is not this tool's.
    pub async fn lab(&self, namespace: &str) -> Result<LabPods, Problem> {
        self.check_entries(namespace).await?;
        let dns = self.running(namespace, "lab-dns").await?;
        let client = self.running(namespace, "client").await?;
        let (mut backends, mut backend_port) = (Vec::new(), 0);
        for app in ["backend-a", "backend-b"] {
            let pod = self.running(namespace, app).await?;
            backend_port = pod.port("tls")?;
            backends.push(Place { name: app.to_owned(), addr: pod.addr, control: pod.at("control")? });
        }
        Ok(LabPods {
            namespace: namespace.to_owned(),
            agent_port: client.port("agent")?,
            client: client.name,
            resolver: dns.at("dns-udp")?,
            backend_port,
            site: Site { dns: dns.at("control")?, backends },
        })
    }

    async fn running(&self, namespace: &str, app: &str) -> Result<Running, Problem> {
        let api = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().labels(&format!("app={app}"));
        let found = api.list(&params).await;
        let scope = Scope::Namespace(namespace.to_owned());
        let pods = found.map_err(|error| self.of_lab("list", "pods", &scope).refused(&error))?;
        let running = pods.items.into_iter().find_map(|pod| {
            let status = pod.status?;
            let addr = status.pod_ip?.parse().ok()?;
            let containers = pod.spec?.containers.into_iter();
            let ports = containers.flat_map(|container| container.ports.unwrap_or_default());
            let named = ports.filter_map(|port| Some((port.name?, u16::try_from(port.container_port).ok()?)));
            let ports = named.collect();
            (status.phase.as_deref() == Some("Running") && pod.metadata.deletion_timestamp.is_none())
                .then_some(Running { name: pod.metadata.name?, addr, ports })
        });
        let missing = || {
            Problem::new(
                format!("namespace {namespace}"),
                format!("has no running pod `app={app}`"),
                MANIFESTS,
            )
        };
        running.ok_or_else(missing)
    }

    /// Two entries of one host: the oldest would win, and the cells would measure that one.
    async fn check_entries(&self, namespace: &str) -> Result<(), Problem> {
        let served = served("networking.istio.io/v1", "ServiceEntry");
        let scope = Scope::Namespace(namespace.to_owned());
        let mut others = Vec::new();
        let listed = self.list(&served, &scope, |object| {
            let hosts = object.data["spec"]["hosts"].as_array();
            let same = hosts.is_some_and(|hosts| hosts.iter().any(|host| host == HOST));
            let labels = object.metadata.labels.unwrap_or_default();
            if same && labels.get(OWNER.0).map(String::as_str) != Some(OWNER.1) {
                others.push(object.metadata.name.unwrap_or_default());
            }
        });
        listed.await.map_err(|error| self.of_lab("list", &name(&served), &scope).refused(&error))?;
        match others.first() {
            None => Ok(()),
            Some(other) => Err(Problem::new(
                format!("ServiceEntry {namespace}/{other}"),
                format!("has {HOST} already, and each cell makes an entry of its own"),
                format!("`kubectl delete serviceentry {other} -n {namespace}`, then run again"),
            )),
        }
    }

    /// Applies what a cell needs.
    ///
    /// # Errors
    /// Refused by the API server or by Istio's validation.
    pub async fn publish(&self, resources: &[Value]) -> Result<(), Problem> {
        for resource in resources {
            let (served, scope, object) = parts(resource);
            let params = PatchParams::apply(MANAGER).force();
            let sent = self.api(&scope, &served).patch(&object, &params, &Patch::Apply(resource)).await;
            sent.map_err(|error| self.of_lab("patch", &name(&served), &scope).refused(&error))?;
        }
        Ok(())
    }

    /// Takes it away again; what is gone already is well.
    ///
    /// # Errors
    /// Refused by the API server.
    pub async fn withdraw(&self, resources: &[Value]) -> Result<(), Problem> {
        for resource in resources.iter().rev() {
            let (served, scope, object) = parts(resource);
            match self.api(&scope, &served).delete(&object, &DeleteParams::default()).await {
                Err(error) if status(&error).is_none_or(|status| status.code != 404) => {
                    return Err(self.of_lab("delete", &name(&served), &scope).refused(&error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends an order to the client's pod and returns what it answers.
    ///
    /// # Errors
    /// The pod cannot be reached, refuses, or does not answer in time.
    pub async fn order(
        &self,
        lab: &LabPods,
        path: &str,
        order: &impl Serialize,
        patience: Duration,
    ) -> Result<Vec<u8>, Problem> {
        let subject = format!("{}.{}", lab.client, lab.namespace);
        let scope = Scope::Namespace(lab.namespace.clone());
        let broken = |said: String| {
            Problem::new(&subject, said, "`kubectl logs` of the pod's container `client` may say why")
        };
        let asked = async {
            let api = Api::<Pod>::namespaced(self.client.clone(), &lab.namespace);
            let opened = api.portforward(&lab.client, &[lab.agent_port]).await;
            let mut forwarder = opened.map_err(|error| match status(&error).map(|status| status.code) {
                Some(403) => self.of_lab("create", "pods/portforward", &scope).refused(&error),
                _ => of(&subject, &error),
            })?;
            let stream = forwarder
                .take_stream(lab.agent_port)
                .ok_or_else(|| broken("port-forward: no stream".to_owned()))?;
            let body = serde_json::to_vec(order).map_err(|error| broken(error.to_string()))?;
            let answered = post(stream, path, body).await;
            forwarder.abort();
            let (code, body) = answered.map_err(|error| broken(format!("port-forward: {error}")))?;
            if code >= 300 {
                return Err(broken(format!("{path}: {code}: {}", String::from_utf8_lossy(&body))));
            }
            Ok(body.to_vec())
        };
        timeout(patience, asked)
            .await
            .unwrap_or_else(|_| Err(broken(format!("did not answer {path} within {patience:?}"))))
    }

    fn of_lab<'a>(&'a self, verb: &'a str, resource: &'a str, scope: &'a Scope) -> Request<'a> {
        Request { verb, resource, scope, default: &self.namespace, right: Right::Lab }
    }
}

/// Its kind, its namespace and its name.
fn parts(resource: &Value) -> (ApiResource, Scope, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let served = served(&text(&resource["apiVersion"]), &text(&resource["kind"]));
    let meta = &resource["metadata"];
    (served, Scope::Namespace(text(&meta["namespace"])), text(&meta["name"]))
}

fn served(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}
