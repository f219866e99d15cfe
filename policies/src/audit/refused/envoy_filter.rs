//! What istiod refuses of an `EnvoyFilter` beyond the shape of its CRD, but for the value of a patch: Envoy's own messages
//! are hundreds, and are not shipped.

use super::Refusals;
use super::parts::{FILTER, SELECTOR, place, selector, text};
use super::regex::{MAX_BYTES, is_readable};
use crate::manifest::node::Node;

pub(super) fn check(spec: &Node, refusals: &mut Refusals<'_>) {
    selector(spec, "workloadSelector.labels", &SELECTOR, refusals);
    for patch in spec.list("configPatches") {
        if let Some((at, message)) = fault(patch) {
            refusals.add(at, &FILTER, message);
        }
    }
}

/// The first fault of a patch.
fn fault(whole: &Node) -> Option<(crate::manifest::node::Place, &'static str)> {
    if whole.text_at("match.context") == Some("WAYPOINT") {
        return None;
    }
    let apply = text(whole, "applyTo");
    if matches!(apply, "" | "INVALID") {
        return Some((whole.at, "the patch lacks `applyTo`"));
    }
    let Some(patch) = whole.get("patch") else { return Some((whole.at, "`patch` is missing")) };
    let operation = text(patch, "operation");
    if matches!(operation, "" | "INVALID") {
        return Some((patch.at, "the patch lacks an operation"));
    }
    if operation != "REMOVE" && patch.get("value").is_none() {
        return Some((patch.at, "the patch lacks a value"));
    }
    let version = whole.text_at("match.proxy.proxyVersion").unwrap_or_default();
    if version.len() <= MAX_BYTES && !is_readable(version) {
        return Some((place(whole, "match"), "`proxyVersion` is no regular expression that RE2 reads"));
    }
    let objects = ["listener", "routeConfiguration", "cluster", "waypoint"];
    let given =
        objects.into_iter().find(|key| whole.get("match").is_some_and(|found| found.get(key).is_some()));
    let wanted = match apply {
        "LISTENER" | "FILTER_CHAIN" | "NETWORK_FILTER" | "HTTP_FILTER" => "listener",
        "ROUTE_CONFIGURATION" | "VIRTUAL_HOST" | "HTTP_ROUTE" => "routeConfiguration",
        "CLUSTER" => "cluster",
        _ => "",
    };
    if given.is_some_and(|given| !wanted.is_empty() && given != wanted) {
        return Some((place(whole, "match"), "the match is for another object than `applyTo` names"));
    }
    if wanted == "listener"
        && let Some(filter) = whole.get("match.listener.filterChain.filter")
    {
        let name = text(filter, "name");
        if name.is_empty() {
            return Some((filter.at, "the filter of the match lacks a name"));
        }
        if let Some(sub) = filter.get("subFilter") {
            let manager = ["envoy.filters.network.http_connection_manager", "envoy.http_connection_manager"];
            if apply != "HTTP_FILTER" || !manager.contains(&name) || text(sub, "name").is_empty() {
                let message =
                    "`subFilter` works with HTTP_FILTER, inside of the HTTP connection manager, by name";
                return Some((sub.at, message));
            }
        }
    }
    None
}
