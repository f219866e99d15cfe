//! The mesh itself: its root namespace comes in; Istio's version, the `MeshConfig` values that DNS hangs on, and whether
//! there is an ambient mesh beside the sidecars go out. The version is that of istiod's image, or of its labels.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use policies::manifest::dns_refresh_rate_in;
use policies::{Platform, Version};

use super::failure::{Request, Right, status};
use super::{Cluster, Scope};
use crate::args::{PlatformArgs, Proxy};
use crate::console::Console;
use crate::report::Problem;

/// Labels that name a release, the most exact first.
const VERSION_LABELS: [&str; 3] = ["app.kubernetes.io/version", "operator.istio.io/version", "helm.sh/chart"];

/// What the cluster says about its mesh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mesh {
    /// Istio's version, the oldest where several istiods run.
    pub istio: Option<Version>,
    /// All versions that run, where they are several.
    pub versions: Vec<Version>,
    /// The `ConfigMap` that istiod reads, as YAML with its name.
    pub config: Option<(String, String)>,
    /// `meshConfig.dnsRefreshRate`.
    pub dns_refresh_rate: Option<Duration>,
    /// A ztunnel runs: some pods have no sidecar.
    pub ambient: bool,
}

impl Cluster {
    /// Asks; what it may not ask becomes a problem and stays unknown.
    pub async fn mesh(&self, root_namespace: &str) -> (Mesh, Vec<Problem>) {
        let scope = Scope::Namespace(root_namespace.to_owned());
        let (mut mesh, mut problems) = (Mesh::default(), Vec::new());
        let refused = |verb, resource, error: &kube::Error| {
            Request { verb, resource, scope: &scope, default: root_namespace, right: Right::Read }
                .refused(error)
        };
        let client = || self.client.clone();

        let istiods = Api::<Deployment>::namespaced(client(), root_namespace);
        match istiods.list(&ListParams::default().labels("app=istiod")).await {
            Ok(found) => {
                mesh.versions = found.items.iter().filter_map(version).collect();
                mesh.versions.sort();
                mesh.versions.dedup();
                mesh.istio = mesh.versions.first().copied();
            }
            Err(error) => problems.push(refused("list", "deployments.apps", &error)),
        }
        let config = Api::<ConfigMap>::namespaced(client(), root_namespace);
        match config.get("istio").await {
            Ok(map) => {
                let text = map.data.as_ref().and_then(|data| data.get("mesh"));
                mesh.dns_refresh_rate = text.and_then(|text| dns_refresh_rate_in(text));
                mesh.config = text.and_then(|text| config_map(root_namespace, text));
            }
            // Without one istiod runs on its defaults.
            Err(error) if status(&error).is_some_and(|status| status.code == 404) => {}
            Err(error) => problems.push(refused("get", "configmaps", &error)),
        }
        let daemons = Api::<DaemonSet>::namespaced(client(), root_namespace);
        match daemons.list(&ListParams::default().labels("app=ztunnel").limit(1)).await {
            Ok(found) => mesh.ambient = !found.items.is_empty(),
            Err(error) => problems.push(refused("list", "daemonsets.apps", &error)),
        }
        (mesh, problems)
    }
}

impl Mesh {
    /// Fills the platform in where the flags name nothing, and says what was found.
    pub fn tell(&self, flags: &PlatformArgs, platform: &mut Platform, console: &Console) {
        if let Some(istio) = self.istio.filter(|_| platform.istio_version.is_none()) {
            platform.istio_version = Some(istio);
            console.note(&format!("Istio {istio}, by its istiod; so Envoy {}", platform.envoy().version));
        }
        if self.versions.len() > 1 {
            let all: Vec<_> = self.versions.iter().map(ToString::to_string).collect();
            console.warn(&format!("several istiods run: {}; the oldest decides", all.join(", ")));
        }
        if self.istio.is_none() && flags.istio_version.is_none() && flags.envoy_version.is_none() {
            console.warn(&format!(
                "no istiod says its version; Envoy {} is assumed, `--istio-version` names another",
                platform.envoy().version
            ));
        }
        platform.dns_refresh_rate = platform.dns_refresh_rate.or(self.dns_refresh_rate);
        if self.ambient && flags.proxy != Some(Proxy::Ambient) {
            console.note(
                "a ztunnel runs here: the advice is for sidecars and gateways, `--proxy ambient` is for it",
            );
        }
    }
}

/// By the tag of its image, else by its labels.
fn version(istiod: &Deployment) -> Option<Version> {
    let pod = istiod.spec.as_ref()?.template.spec.as_ref();
    let images =
        pod.into_iter().flat_map(|pod| &pod.containers).filter_map(|container| container.image.as_deref());
    let labels = istiod.metadata.labels.as_ref();
    let labelled = VERSION_LABELS.iter().filter_map(|label| labels?.get(*label).map(String::as_str));
    images.filter_map(tag).chain(labelled).find_map(release)
}

/// `registry:5000/istio/pilot:1.31.2@sha256:..` -> `1.31.2`.
fn tag(image: &str) -> Option<&str> {
    let image = image.split('@').next()?;
    image.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag)
}

/// `istiod-1.31.2`, `1.31.2-distroless`, `1.31-alpha.5cb0…` -> the version in it.
fn release(text: &str) -> Option<Version> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let number = text[from..].split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    number.trim_end_matches('.').parse().ok()
}

/// Only what the audit reads of it.
fn config_map(namespace: &str, mesh: &str) -> Option<(String, String)> {
    let map = serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "istio", "namespace": namespace },
        "data": { "mesh": mesh },
    });
    Some((format!("{namespace}/ConfigMap/istio.yaml"), serde_saphyr::to_string(&map).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_or_a_label_names_the_release() {
        for (text, expected) in [
            ("docker.io/istio/pilot:1.31.2-distroless", "1.31.2"),
            ("registry.example:5000/istio/pilot:1.30.4@sha256:00", "1.30.4"),
            ("pilot:1.31-alpha.5cb0", "1.31"),
        ] {
            assert_eq!(tag(text).and_then(release).unwrap().to_string(), expected, "{text}");
        }
        assert_eq!(tag("registry.example:5000/istio/pilot"), None);
        assert_eq!(tag("pilot:latest").and_then(release), None);
        assert_eq!(release("istiod-1.29.1").unwrap().to_string(), "1.29.1");
    }

    #[test]
    fn the_audit_reads_the_config_map() {
        let (name, text) = config_map("istio-system", "dnsRefreshRate: 90s\ntrustDomain: 'x: y'\n").unwrap();
        let mut loaded = policies::manifest::Loaded::default();
        loaded.add(&name, text.as_bytes());
        assert_eq!(loaded.problems, []);
        assert_eq!(loaded.resources[0].kind, policies::manifest::Kind::MeshConfig, "{text}");
    }

    #[test]
    fn the_refresh_rate_stands_among_many_keys() {
        let mesh = "defaultConfig:\n  discoveryAddress: istiod:15012\ndnsRefreshRate: 30s\ntrustDomain: cluster.local\n";
        assert_eq!(dns_refresh_rate_in(mesh), Some(Duration::from_secs(30)));
        assert_eq!(dns_refresh_rate_in("trustDomain: x\n"), None);
        assert_eq!(dns_refresh_rate_in("- not a mesh"), None);
    }
}
