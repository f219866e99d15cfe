//! A Kubernetes cluster: a context of the kubeconfig comes in; what the mesh has deployed, the versions in use, the
//! outcome of an apply and the admin ports of proxies go out. The only place that imports kube. Reads only, but for
//! [`Cluster::apply`] and the lab's own entries; whatever a right is missing for becomes a [`Problem`] that names it,
//! and the rest goes on.

use kube::api::{Api, ApiResource, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::report::Problem;

mod apply;
mod failure;
mod lab;
mod mesh;
mod proxies;
mod read;

pub use apply::{Applied, Change};
pub use lab::LabPods;
pub use mesh::Mesh;
pub use proxies::{Proxies, ProxyPod, Reach};
pub use read::Deployed;

/// A connection to one API server.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
}

/// Which part of it is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The namespace of the context.
    Default,
    /// This namespace.
    Namespace(String),
    /// All of them.
    All,
}

impl Cluster {
    /// Connects by the kubeconfig (`KUBECONFIG`, else `~/.kube/config`), or from inside of a pod where there is none.
    ///
    /// # Errors
    /// There is no such context, its API server cannot be reached, or its credentials are not accepted.
    pub async fn connect(context: Option<&str>) -> Result<Self, Problem> {
        let config = match context {
            None => Config::infer().await.map_err(|error| failure::no_config(&error))?,
            Some(context) => {
                let options =
                    KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
                Config::from_kubeconfig(&options)
                    .await
                    .map_err(|error| failure::no_context(context, &error))?
            }
        };
        let namespace = config.default_namespace.clone();
        let server = format!("the API server {}", config.cluster_url);
        let client = Client::try_from(config).map_err(|error| failure::of(&server, &error))?;
        match client.apiserver_version().await {
            // Whoever may not ask for the version may still have the rights that count.
            Err(error) if failure::status(&error).is_none_or(|status| status.code == 401) => {
                Err(failure::of(&server, &error))
            }
            _ => Ok(Self { client, namespace }),
        }
    }

    /// The namespace of the context, which is meant where none is named.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn api(&self, scope: &Scope, resource: &ApiResource) -> Api<DynamicObject> {
        let client = self.client.clone();
        match scope {
            Scope::All => Api::all_with(client, resource),
            Scope::Namespace(name) => Api::namespaced_with(client, name, resource),
            Scope::Default => Api::namespaced_with(client, &self.namespace, resource),
        }
    }
}

impl Scope {
    /// As it reads in a sentence: `in namespace egress`.
    fn words(&self, default: &str) -> String {
        match self {
            Self::All => "in all namespaces".to_owned(),
            Self::Namespace(name) => format!("in namespace {name}"),
            Self::Default => format!("in namespace {default}"),
        }
    }
}

/// The contexts of the kubeconfig, for an error that names what there is.
fn contexts() -> Vec<String> {
    Kubeconfig::read()
        .map(|config| config.contexts.into_iter().map(|context| context.name).collect())
        .unwrap_or_default()
}
