//! What a `MeshConfig` among the files says for all of the mesh, flags given to the audit first. [`Mesh`](super::Mesh)
//! reads it before anything else.

use crate::audit::Context;
use crate::manifest::node::{Node, Value};
use crate::manifest::{Kind, Loadable, mesh_config};
use crate::{IstioBehaviour, Platform, ProxyKind};

/// A `MeshConfig` and the resource that it stands in.
#[derive(Clone, Copy)]
pub(crate) struct Config<'a> {
    pub(crate) resource: &'a Loadable,
    pub(crate) node: &'a Node,
}

/// What holds where a resource says nothing itself.
#[derive(Default)]
pub(crate) struct Defaults<'a> {
    /// `exportTo` of entries (`defaultServiceExportTo`).
    pub(crate) entries: &'a [Node],
    /// `exportTo` of rules (`defaultDestinationRuleExportTo`).
    pub(crate) rules: &'a [Node],
    /// Entries without `addresses` get one of their own.
    pub(crate) allocates: bool,
    /// `serviceEntryVisibility`, where it narrows `exportTo`.
    pub(crate) visibility: Option<&'a str>,
}

/// All of them, in the order of the files; the first one counts where they differ.
pub(crate) fn configs<'a>(resources: &[&'a Loadable]) -> Vec<Config<'a>> {
    let held = resources.iter().copied().filter(|resource| resource.kind == Kind::MeshConfig);
    held.filter_map(|resource| Some(Config { resource, node: mesh_config::of(&resource.root)? })).collect()
}

/// The flags, and the file's word where a flag was left at Istio's default.
pub(crate) fn context(given: &Context, config: Option<&Config<'_>>) -> Context {
    let mut context = given.clone();
    let Some(Config { node, .. }) = config else { return context };
    let usual = Context::default();
    if context.platform.dns_refresh_rate.is_none() {
        context.platform.dns_refresh_rate = mesh_config::dns_refresh_rate(node);
    }
    if context.root_namespace == usual.root_namespace
        && let Some(root) = node.text_at("rootNamespace").filter(|root| !root.is_empty())
    {
        root.clone_into(&mut context.root_namespace);
    }
    context
}

impl<'a> Defaults<'a> {
    pub(crate) fn of(platform: &Platform, config: Option<&Config<'a>>) -> Self {
        let list = |key: &str| config.map_or(&[][..], |config| config.node.list(key));
        Self {
            entries: list("defaultServiceExportTo"),
            rules: list("defaultDestinationRuleExportTo"),
            allocates: allocates(platform, config.map(|config| config.node)),
            visibility: visibility(config, platform),
        }
    }
}

/// The default of `serviceEntryVisibility` where it narrows what `exportTo` says: in ambient mode, for sidecars on
/// request.
pub(crate) fn visibility<'a>(config: Option<&Config<'a>>, platform: &Platform) -> Option<&'a str> {
    let node = config?.node.get("serviceEntryVisibility")?;
    let in_force = platform.istio_does(IstioBehaviour::ServiceEntryVisibility)
        && (platform.proxy_kind == ProxyKind::Ambient || node.is_true("applyToSidecars"));
    let default = node.text_at("defaultVisibility").filter(|word| matches!(*word, "NAMESPACE" | "NONE"));
    default.filter(|_| in_force && node.list("policies").is_empty())
}

/// An address takes DNS capture, which hands it out, and allocation: on request, by default from Istio 1.25 on.
fn allocates(platform: &Platform, config: Option<&Node>) -> bool {
    let set = |name: &str| {
        let value = config?.get("defaultConfig.proxyMetadata")?.get(name)?;
        Some(match &value.value {
            Value::Text(text) => text.eq_ignore_ascii_case("true"),
            value => *value == Value::Bool(true),
        })
    };
    let by_default = platform.istio_does(IstioBehaviour::AllocatesAddresses);
    let captures =
        set("ISTIO_META_DNS_CAPTURE").unwrap_or(platform.proxy_kind == ProxyKind::Ambient && by_default);
    captures && set("ISTIO_META_DNS_AUTO_ALLOCATE").unwrap_or(by_default)
}
