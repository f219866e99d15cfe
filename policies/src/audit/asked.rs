//! Which hosts the proxies ask DNS for: manifests come in, the entries with those of their hosts go out. Called by the
//! audit's rules and by whoever asks DNS on its behalf.

use crate::manifest::node::Node;
use crate::manifest::{Kind, Loadable, Loaded};
use crate::{Host, Resolution};

/// Whether a ServiceEntry's `spec` makes proxies look its hosts up, not its endpoints or workloads.
pub(super) fn asks_for_hosts(spec: &Node) -> bool {
    let resolution = spec.text_at("resolution").and_then(Resolution::parse);
    matches!(resolution, Some(Resolution::Dns | Resolution::DnsRoundRobin))
        && spec.list("endpoints").is_empty()
        && spec.get("workloadSelector").is_none()
}

/// Entries with the hosts that they ask DNS for; wildcards and the cluster's own names are left out.
pub fn asked_hosts(loaded: &Loaded) -> impl Iterator<Item = (&Loadable, Host)> {
    let entries = loaded.resources.iter().filter(|resource| resource.kind == Kind::ServiceEntry);
    let asks = entries.filter(|entry| entry.root.get("spec").is_some_and(asks_for_hosts));
    asks.flat_map(|entry| entry.root.list("spec.hosts").iter().map(move |host| (entry, host)))
        .filter_map(|(entry, host)| Some((entry, Host::parse(host.text()?).ok()?)))
        .filter(|(_, host)| host.as_str().rsplit('.').next() != Some("local"))
}
