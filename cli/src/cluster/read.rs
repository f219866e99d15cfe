//! What is deployed: a scope comes in, the resources that the audit reads go out, each as the YAML that
//! `kubectl get -o yaml` shows (without bookkeeping), so that a finding has a line. Lists are paged; one page of raw
//! objects is held at a time.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::core::ListMeta;
use policies::manifest::{Kind, Loaded};
use serde_json::Value;

use super::failure::{Request, Right, status};
use super::{Cluster, Scope};
use crate::console::Console;
use crate::report::Problem;

/// Objects of a page: what `kubectl` asks for too.
const PAGE: u32 = 500;
/// Pages of one kind that a list which never ends may have.
const MOST_PAGES: usize = 2_000;

/// Versions of Istio's API, the newest first; `EnvoyFilter` has stayed at the oldest.
const ISTIO_VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha3"];

/// What was read.
#[derive(Debug, Default)]
pub struct Deployed {
    /// As from files; the file of a resource is `NAMESPACE/KIND/NAME.yaml`.
    pub loaded: Loaded,
    /// Name and text of each.
    pub texts: Vec<(String, String)>,
    /// Kinds that could not be read.
    pub problems: Vec<Problem>,
}

impl Cluster {
    /// Everything of these kinds within `scope`.
    pub async fn deployed(&self, kinds: &[Kind], scope: &Scope, console: &mut Console) -> Deployed {
        let mut deployed = Deployed::default();
        console.start_progress(kinds.len() as u64);
        for (position, kind) in (0..).zip(kinds) {
            console.progress(position, &format!("{kind}: {} read so far", deployed.texts.len()));
            if let Err(problem) = self.kind(*kind, scope, &mut deployed).await {
                deployed.problems.push(problem);
            }
        }
        console.end_progress();
        deployed
    }

    async fn kind(&self, kind: Kind, scope: &Scope, into: &mut Deployed) -> Result<(), Problem> {
        let served = resources(kind);
        let mut last = None;
        for resource in &served {
            match self.list(resource, scope, |object| into.add(kind, resource, object)).await {
                // Not in this version; the one before may be.
                Err(error) if status(&error).is_some_and(|status| status.code == 404) => last = Some(error),
                Err(error) => return Err(self.list_of(&name(resource), scope).refused(&error)),
                Ok(()) => return Ok(()),
            }
        }
        let (Some(error), Some(resource)) = (last, served.last()) else { return Ok(()) };
        Err(self.list_of(&name(resource), scope).refused(&error))
    }

    /// Hands every object of a kind on, page by page.
    pub(super) async fn list(
        &self,
        resource: &ApiResource,
        scope: &Scope,
        mut each: impl FnMut(DynamicObject),
    ) -> Result<(), kube::Error> {
        let api = self.api(scope, resource);
        let mut params = ListParams::default().limit(PAGE);
        for _ in 0..MOST_PAGES {
            let next = match api.list(&params).await {
                Ok(page) => {
                    let next = page.metadata.continue_.clone();
                    page.items.into_iter().for_each(&mut each);
                    next
                }
                // The snapshot behind the pages is gone; the server says how to go on with a newer one.
                Err(error) => match status(&error).filter(|status| status.code == 410) {
                    Some(expired) => expired.metadata.as_ref().and_then(goes_on).ok_or(error)?.into(),
                    None => return Err(error),
                },
            };
            match next.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn list_of<'a>(&'a self, resource: &'a str, scope: &'a Scope) -> Request<'a> {
        Request { verb: "list", resource, scope, default: &self.namespace, right: Right::Read }
    }
}

fn goes_on(meta: &ListMeta) -> Option<String> {
    meta.continue_.clone().filter(|token| !token.is_empty())
}

impl Deployed {
    /// The mesh's own settings, by name and text.
    pub fn add_config(&mut self, config: Option<(String, String)>) {
        if let Some((file, text)) = config {
            self.loaded.add(&file, text.as_bytes());
            self.texts.push((file, text));
        }
    }

    fn add(&mut self, kind: Kind, resource: &ApiResource, object: DynamicObject) {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let file = format!("{namespace}/{kind}/{}.yaml", object.metadata.name.clone().unwrap_or_default());
        match yaml(resource, object) {
            Ok(text) => {
                self.loaded.add(&file, text.as_bytes());
                self.texts.push((file, text));
            }
            Err(error) => {
                let hint = "audit its manifest as a file instead";
                self.problems.push(Problem::new(file, format!("cannot be written as YAML: {error}"), hint));
            }
        }
    }
}

/// The object as its author wrote it: bookkeeping of the API server and of `kubectl` left out.
pub(super) fn yaml(
    resource: &ApiResource,
    object: DynamicObject,
) -> Result<String, serde_saphyr::SerializeError> {
    serde_saphyr::to_string(&authored(resource, object))
}

fn authored(resource: &ApiResource, mut object: DynamicObject) -> Value {
    let meta = &mut object.metadata;
    meta.managed_fields = None;
    meta.resource_version = None;
    meta.uid = None;
    meta.generation = None;
    meta.creation_timestamp = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if annotations.is_empty() {
            meta.annotations = None;
        }
    }
    if let Some(data) = object.data.as_object_mut() {
        data.remove("status");
    }
    // Items of a list do not say what they are.
    object.types =
        Some(kube::core::TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    serde_json::to_value(&object).unwrap_or_default()
}

/// Where a kind may be served, the likeliest first.
fn resources(kind: Kind) -> Vec<ApiResource> {
    let of = |group: &str, version: &str| {
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind.as_str()))
    };
    match kind {
        Kind::Service => vec![of("", "v1")],
        Kind::EnvoyFilter => vec![of("networking.istio.io", "v1alpha3")],
        _ => ISTIO_VERSIONS.iter().map(|version| of("networking.istio.io", version)).collect(),
    }
}

/// As RBAC names it: `serviceentries.networking.istio.io`.
pub(super) fn name(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}
