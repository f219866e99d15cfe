//! Where a `MeshConfig` stands: as text in the `ConfigMap` that istiod reads, under `spec.meshConfig` of an
//! `IstioOperator`, under `spec.values.meshConfig` of an `Istio`. The loader and the audit find it here.

use std::time::Duration;

use super::node::{Node, Value};
use super::read::read;

/// The `MeshConfig` in a resource.
pub(crate) fn of(root: &Node) -> Option<&Node> {
    let path = match (root.text_at("apiVersion")?, root.text_at("kind")?) {
        ("v1", "ConfigMap") => "data.mesh",
        (api, "IstioOperator") if api.starts_with("install.istio.io/") => "spec.meshConfig",
        (api, "Istio") if api.starts_with("sailoperator.io/") => "spec.values.meshConfig",
        _ => return None,
    };
    root.get(path).filter(|config| !config.entries().is_empty())
}

/// `dnsRefreshRate`, where it is set to a positive length.
pub(crate) fn dns_refresh_rate(config: &Node) -> Option<Duration> {
    config.duration_ms("dnsRefreshRate").filter(|ms| *ms > 0).map(Duration::from_millis)
}

/// `dnsRefreshRate` in the text of a `ConfigMap`'s `data.mesh`.
#[must_use]
pub fn dns_refresh_rate_in(mesh: &str) -> Option<Duration> {
    dns_refresh_rate(read(mesh).ok()?.first()?)
}

/// There is one.
pub(super) fn holds(root: &Node) -> bool {
    of(root).is_some()
}

/// Reads the text of a `ConfigMap`'s `data.mesh` in its place. What is no mapping stays as it is: the key is no
/// privilege of Istio's.
pub(super) fn unfold(root: &mut Node) {
    if root.text_at("kind") != Some("ConfigMap") {
        return;
    }
    let Some(mesh) = root.get_mut("data").and_then(|data| data.get_mut("mesh")) else { return };
    let parsed = mesh.text().and_then(|text| read(text).ok()).filter(|roots| roots.len() == 1);
    if let Some(mut config) = parsed.and_then(|mut roots| roots.pop())
        && matches!(config.value, Value::Map(_))
    {
        config.forget_bytes();
        // A block scalar's place is that of its text, below the `|`.
        config.shift(mesh.at.line.saturating_sub(1), 0);
        config.indent(mesh.at.column.saturating_sub(1));
        config.at = mesh.at;
        *mesh = config;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_config_map_keeps_its_places() {
        for (text, line, column) in [
            (
                "apiVersion: v1\nkind: ConfigMap\ndata:\n  mesh: |-\n    # ours\n    dnsRefreshRate: 90s\n",
                6,
                21,
            ),
            ("apiVersion: v1\nkind: ConfigMap\ndata: {mesh: 'dnsRefreshRate: 90s'}\n", 3, 0),
        ] {
            let mut root = read(text).unwrap().remove(0);
            unfold(&mut root);
            let rate = of(&root).unwrap().get("dnsRefreshRate").unwrap();
            assert_eq!((rate.text(), rate.at.line), (Some("90s"), line), "{text}");
            assert!(column == 0 || rate.at.column == column, "{text}: {:?}", rate.at);
            assert_eq!(rate.at.bytes, None, "cannot be edited where it stands");
        }
    }

    #[test]
    fn other_config_maps_and_other_kinds_hold_none() {
        for text in [
            "apiVersion: v1\nkind: ConfigMap\ndata: {mesh: 'just words'}\n",
            "apiVersion: v1\nkind: ConfigMap\ndata: {mesh: '[: {'}\n",
            "apiVersion: v1\nkind: ConfigMap\nbinaryData: {}\n",
            "apiVersion: example.io/v1\nkind: Istio\nspec: {values: {meshConfig: {a: b}}}\n",
        ] {
            let mut root = read(text).unwrap().remove(0);
            unfold(&mut root);
            assert!(!holds(&root), "{text}");
        }
    }
}
