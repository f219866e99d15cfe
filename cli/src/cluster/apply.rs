//! Server-side apply: manifests come in; for each the change that it makes, as a diff against what is deployed, goes
//! out. The field manager is the tool's own, so fields that somebody else owns stay theirs unless that is forced.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use policies::manifest::Resource;
use similar::TextDiff;

use super::failure::{Request, Right, status};
use super::read::{name, yaml};
use super::{Cluster, Scope};
use crate::report::Problem;

/// Who the API server sees as the owner of the fields that are applied.
pub(super) const MANAGER: &str = "egress-audit";

/// How to apply.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Ask the API server what would happen, and change nothing.
    pub dry_run: bool,
    /// Take fields over that another manager owns.
    pub force: bool,
}

/// What became of one manifest.
#[derive(Debug)]
pub struct Applied {
    /// `ServiceEntry egress/api`.
    pub resource: String,
    /// A unified diff; empty where nothing changes.
    pub diff: String,
}

impl Cluster {
    /// Applies one manifest; one without a namespace goes to that of the context. The diff is made from a dry run, so
    /// that it shows the API server's own defaults and nothing that would be refused.
    ///
    /// # Errors
    /// Refused: by the API server, by Istio's validation, for a missing right, or because of another field manager.
    pub async fn apply(&self, resource: &Resource, change: Change) -> Result<Applied, Problem> {
        let (kind, namespace, object_name) = resource.identity();
        let namespace = namespace.unwrap_or(&self.namespace).to_owned();
        let served = ApiResource::from_gvk(&GroupVersionKind::gvk("networking.istio.io", "v1", kind));
        let plural = name(&served);
        let scope = Scope::Namespace(namespace.clone());
        let api = self.api(&scope, &served);
        let title = format!("{kind} {namespace}/{object_name}");
        let refused = |verb| {
            let request = Request {
                verb,
                resource: &plural,
                scope: &scope,
                default: &self.namespace,
                right: Right::Apply,
            };
            let title = title.clone();
            move |error: kube::Error| conflict(&title, &error).unwrap_or_else(|| request.refused(&error))
        };

        let before = api.get_opt(object_name).await.map_err(refused("get"))?;
        let wanted = serde_json::to_value(resource).map_err(|error| {
            Problem::new(&title, format!("cannot be written as JSON: {error}"), "report this as a defect")
        })?;
        let patch = Patch::Apply(&wanted);
        let params = PatchParams { dry_run: true, force: change.force, ..PatchParams::apply(MANAGER) };
        let after = api.patch(object_name, &params, &patch).await.map_err(refused("patch"))?;
        let text = |object: DynamicObject| {
            yaml(&served, object).map_err(|error| {
                Problem::new(&title, format!("cannot be shown: {error}"), "see it with `kubectl get -o yaml`")
            })
        };
        let (old, new) = (before.map(text).transpose()?.unwrap_or_default(), text(after)?);
        let file = format!("{namespace}/{kind}/{object_name}.yaml");
        let diff = TextDiff::from_lines(&old, &new)
            .unified_diff()
            .header(if old.is_empty() { "/dev/null" } else { &file }, &file)
            .to_string();
        if !change.dry_run {
            let params = PatchParams { dry_run: false, ..params };
            api.patch(object_name, &params, &patch).await.map_err(refused("patch"))?;
        }
        Ok(Applied { resource: title, diff: if old == new { String::new() } else { diff } })
    }
}

/// Fields that another manager owns, by path.
fn conflict(title: &str, error: &kube::Error) -> Option<Problem> {
    let status = status(error).filter(|status| status.code == 409)?;
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields: Vec<_> = causes.map(|cause| format!("{} ({})", cause.field, cause.message)).collect();
    let what = if fields.is_empty() { status.message.clone() } else { fields.join("; ") };
    Some(Problem::new(
        title,
        format!("another manager owns what would change: {what}"),
        "let its owner change it, or take the fields over with `--force-conflicts`",
    ))
}
