//! Objects of the API server: YAML comes in and is applied as it is, objects and refusals go out. Blocking, since the
//! tests are.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::{ApiCapabilities, Scope, pinned_kind};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;

/// What becomes of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Apply,
    DryRun,
    Status,
}

/// The API server, as one user.
#[derive(Clone)]
pub(crate) struct Objects {
    runtime: Arc<Runtime>,
    client: Client,
}

impl Objects {
    /// By a kubeconfig.
    pub(crate) fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            Ok::<_, anyhow::Error>(Client::try_from(config)?)
        })?;
        Ok(Self { runtime: Arc::new(runtime), client })
    }

    /// Whether the API server serves.
    pub(crate) fn ready(&self) -> anyhow::Result<()> {
        let request = hyper::Request::get("/readyz").body(Vec::new())?;
        let said = self.runtime.block_on(self.client.request_text(request))?;
        anyhow::ensure!(said == "ok", "{said}");
        Ok(())
    }

    /// Whether istiod has taken its validation into service: it then sets the policy to `Fail`.
    pub(crate) fn validates(&self) -> anyhow::Result<()> {
        let found = self.get(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "",
            "istio-validator",
        )?;
        let policy = found.data["webhooks"][0]["failurePolicy"].as_str().unwrap_or_default();
        anyhow::ensure!(policy == "Fail", "failurePolicy {policy}");
        Ok(())
    }

    /// Applies every document of a YAML text; the first refusal is the error, in the API server's words.
    pub(crate) fn apply(&self, yaml: &str) -> anyhow::Result<()> {
        self.send(yaml, How::Apply)
    }

    /// Whether the API server and its webhooks would accept every document.
    pub(crate) fn accepts(&self, yaml: &str) -> anyhow::Result<()> {
        self.send(yaml, How::DryRun)
    }

    /// Whether a create of one object would be taken, as the API server's own defaults have it: unknown fields are dropped.
    pub(crate) fn creates(&self, document: &Value) -> anyhow::Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
        let (kind, version) = (text(&document["kind"]), text(&document["apiVersion"]));
        let plural = kind.strip_suffix("ry").map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ries"));
        let namespace = text(&document["metadata"]["namespace"]);
        let uri = format!("/apis/{version}/namespaces/{namespace}/{plural}?dryRun=All");
        let request = hyper::Request::post(uri).header("content-type", "application/json");
        self.runtime.block_on(self.client.request_text(request.body(document.to_string().into_bytes())?))?;
        Ok(())
    }

    /// Sets the status, as a kubelet does.
    pub(crate) fn apply_status(&self, yaml: &str) -> anyhow::Result<()> {
        self.send(yaml, How::Status)
    }

    fn send(&self, yaml: &str, how: How) -> anyhow::Result<()> {
        let documents: Vec<Value> = serde_saphyr::from_str_multiple(yaml)?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            self.runtime.block_on(self.send_one(&document, how))?;
        }
        Ok(())
    }

    async fn send_one(&self, document: &Value, how: How) -> anyhow::Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&document["kind"]), text(&document["metadata"]["name"]));
        let namespace = text(&document["metadata"]["namespace"]);
        let api = self.api(&text(&document["apiVersion"]), &kind, &namespace).await?;
        let params = PatchParams { dry_run: how == How::DryRun, ..PatchParams::apply("test").force() };
        let patch = Patch::Apply(document);
        let sent = match how {
            How::Status => api.patch_status(&name, &params, &patch).await,
            How::Apply | How::DryRun => api.patch(&name, &params, &patch).await,
        };
        sent.with_context(|| format!("{kind} {namespace}/{name}"))?;
        Ok(())
    }

    /// One object.
    pub(crate) fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<DynamicObject> {
        self.runtime.block_on(async { Ok(self.api(api_version, kind, namespace).await?.get(name).await?) })
    }

    async fn api(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> anyhow::Result<Api<DynamicObject>> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities): (ApiResource, ApiCapabilities) =
            pinned_kind(&self.client, &gvk).await.with_context(|| format!("{api_version} {kind}"))?;
        let client = self.client.clone();
        Ok(match capabilities.scope {
            Scope::Cluster => Api::all_with(client, &resource),
            Scope::Namespaced if namespace.is_empty() => Api::namespaced_with(client, "default", &resource),
            Scope::Namespaced => Api::namespaced_with(client, namespace, &resource),
        })
    }
}
