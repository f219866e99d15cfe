//! The resources as the rules see them: entries with their hosts, ports and advice, rules with the entries that they
//! are about, who sees what. Built once from [`Loaded`]; every rule reads it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

mod config;

use config::Defaults;
pub(crate) use config::{Config, visibility};

use super::{Context, Known};
use crate::manifest::node::{Node, Place};
use crate::manifest::{Kind, Loadable, Loaded};
use crate::schema::Checked;
use crate::{
    Host, IstioBehaviour, LookupFamily, Observation, Protocol, Recommendation, Resolution, Settings,
    recommend,
};

/// Everything that was read, resolved against each other.
pub(crate) struct Mesh<'a> {
    /// All that was read, in the order of the files.
    pub(crate) resources: &'a [Loadable],
    /// Held against the shapes of their kinds, when the first rule asks.
    pub(crate) checked: OnceCell<Vec<(&'a Loadable, Checked<'a>)>>,
    pub(crate) entries: Vec<Entry<'a>>,
    pub(crate) rules: Vec<DestRule<'a>>,
    pub(crate) virtual_services: Vec<&'a Loadable>,
    pub(crate) gateways: Vec<&'a Loadable>,
    pub(crate) filters: Vec<&'a Loadable>,
    pub(crate) services: Vec<&'a Loadable>,
    pub(crate) sidecars: Vec<&'a Loadable>,
    pub(crate) workloads: Vec<&'a Loadable>,
    pub(crate) configs: Vec<Config<'a>>,
    /// Objects that are defined a second time beside the first: the one before, and the one that counts.
    pub(crate) twice: Vec<(&'a Loadable, &'a Loadable)>,
    /// Routes of the Gateway API were passed over: what seems to lead nowhere may be led on by one of them.
    pub(crate) routes_elsewhere: bool,
    /// The flags, with what the first `MeshConfig` says.
    pub(crate) context: Context,
    by_host: HashMap<&'a str, Vec<usize>>,
    rules_by_host: HashMap<&'a str, Vec<usize>>,
}

/// A `ServiceEntry`.
pub(crate) struct Entry<'a> {
    pub(crate) resource: &'a Loadable,
    pub(crate) spec: &'a Node,
    pub(crate) hosts: Vec<EntryHost<'a>>,
    /// `None` where the value is none of Istio's.
    pub(crate) resolution: Option<Resolution>,
    pub(crate) ports: Vec<Port<'a>>,
    pub(crate) endpoints: &'a [Node],
    /// Workload entries that its selector picks.
    pub(crate) workloads: Vec<&'a Loadable>,
    /// It has a virtual address: one that it lists, or one that Istio allocates.
    pub(crate) has_vip: bool,
    /// Namespaces that see it.
    pub(crate) scope: Scope<'a>,
}

/// One host of an entry.
pub(crate) struct EntryHost<'a> {
    pub(crate) name: &'a str,
    pub(crate) at: Place,
    /// What would be advised, where DNS was observed.
    pub(crate) advice: Option<Recommendation>,
    /// Only AAAA records exist, and the proxies ask for A only.
    pub(crate) v6_only: bool,
}

/// One port of an entry.
#[derive(Clone, Copy)]
pub(crate) struct Port<'a> {
    pub(crate) node: &'a Node,
    pub(crate) number: Option<i64>,
    pub(crate) target: Option<i64>,
    /// In upper case as it is written.
    pub(crate) protocol: &'a str,
}

/// A `DestinationRule`.
pub(crate) struct DestRule<'a> {
    pub(crate) resource: &'a Loadable,
    pub(crate) host: &'a str,
    pub(crate) host_at: Place,
    pub(crate) policy: Option<&'a Node>,
    /// The workloads of its namespace that it is for, where it does not hold for all: such a rule is never merged with
    /// another one and never exported.
    pub(crate) selector: Option<&'a Node>,
    /// Entries that register the host.
    pub(crate) entries: Vec<usize>,
    /// Namespaces that see it.
    pub(crate) scope: Scope<'a>,
}

impl<'a> Mesh<'a> {
    pub(crate) fn new(loaded: &'a Loaded, known: &BTreeMap<Host, Known>, given: &Context) -> Self {
        let (resources, twice) = last_of_each(&loaded.resources);
        let of = |kind: Kind| resources.iter().copied().filter(move |resource| resource.kind == kind);
        let configs = config::configs(&resources);
        let context = config::context(given, configs.first());
        let defaults = Defaults::of(&context.platform, configs.first());
        let workloads: Vec<&'a Loadable> = of(Kind::WorkloadEntry).collect();
        let mut entries: Vec<Entry<'a>> = of(Kind::ServiceEntry)
            .filter_map(|resource| Entry::of(resource, known, &context, &defaults))
            .collect();
        let mut placed: HashMap<&str, Vec<&'a Loadable>> = HashMap::new();
        for workload in workloads.iter().copied() {
            placed.entry(&workload.namespace).or_default().push(workload);
        }
        for entry in &mut entries {
            let near = placed.get(&*entry.resource.namespace).into_iter().flatten().copied();
            entry.workloads = near.filter(|workload| entry.selects(workload)).collect();
        }
        let mut by_host: HashMap<&'a str, Vec<usize>> = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            for host in &entry.hosts {
                by_host.entry(host.name).or_default().push(index);
            }
        }
        let rules: Vec<DestRule<'a>> = of(Kind::DestinationRule)
            .filter_map(|resource| {
                let host = resource.root.get("spec.host")?;
                let name = host.text()?;
                Some(DestRule {
                    resource,
                    host: name,
                    host_at: host.at,
                    policy: resource.root.get("spec.trafficPolicy"),
                    selector: resource
                        .root
                        .get("spec.workloadSelector")
                        .filter(|selector| selects_some(selector)),
                    scope: Scope::of(resource, defaults.rules),
                    entries: match name.strip_prefix('*') {
                        None => by_host.get(&*full(name, &resource.namespace)).cloned().unwrap_or_default(),
                        Some(suffix) => {
                            let under = |entry: &Entry<'_>| {
                                entry.hosts.iter().any(|host| host.name.ends_with(suffix))
                            };
                            (0..entries.len()).filter(|index| under(&entries[*index])).collect()
                        }
                    },
                })
            })
            .collect();
        let mut rules_by_host: HashMap<&'a str, Vec<usize>> = HashMap::new();
        for (index, rule) in rules.iter().enumerate() {
            if !is_short(rule.host) {
                rules_by_host.entry(rule.host).or_default().push(index);
            }
        }
        Self {
            resources: &loaded.resources,
            checked: OnceCell::new(),
            entries,
            rules,
            virtual_services: of(Kind::VirtualService).collect(),
            gateways: of(Kind::Gateway).collect(),
            filters: of(Kind::EnvoyFilter).collect(),
            services: of(Kind::Service).collect(),
            sidecars: of(Kind::Sidecar).collect(),
            workloads,
            configs,
            twice,
            routes_elsewhere: ["HTTPRoute", "TLSRoute", "TCPRoute", "GRPCRoute"]
                .iter()
                .any(|kind| loaded.passed_over.contains_key(*kind)),
            context,
            by_host,
            rules_by_host,
        }
    }

    /// Hosts and the entries that register them, those with several entries only.
    pub(crate) fn duplicates(&self) -> Vec<(&'a str, Vec<&Entry<'a>>)> {
        let mut several: Vec<_> = self
            .by_host
            .iter()
            .filter(|(_, entries)| entries.len() > 1)
            .map(|(host, entries)| (*host, entries.iter().map(|index| &self.entries[*index]).collect()))
            .collect();
        several.sort_unstable_by_key(|(host, _)| *host);
        several
    }

    /// Entries that register a host: by its name, else by the closest wildcard.
    pub(crate) fn entries_for(&self, host: &str) -> Vec<&Entry<'a>> {
        let found = closest(&self.by_host, host);
        found.into_iter().flatten().map(|index| &self.entries[*index]).collect()
    }

    /// Every host that an entry registers.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.by_host.keys().copied()
    }

    /// Rules about a host: those that name it, else those of the closest wildcard.
    pub(crate) fn rules_for(&self, host: &str) -> impl Iterator<Item = &DestRule<'a>> + '_ {
        closest(&self.rules_by_host, host).into_iter().flatten().map(|index| &self.rules[*index])
    }

    /// The entries that a rule is about.
    pub(crate) fn entries_of<'m>(&'m self, rule: &'m DestRule<'a>) -> impl Iterator<Item = &'m Entry<'a>> {
        rule.entries.iter().map(|index| &self.entries[*index])
    }
}

/// A name with two dots or more (`reviews.prod` is Istio's short form of a Service) that is not the cluster's own.
pub(crate) fn is_external(host: &str) -> bool {
    let own = [".local", ".svc", ".global", ".internal.istio.io"].iter().any(|end| host.ends_with(end));
    host.trim_end_matches('.').matches('.').count() >= 2 && !own && !host.contains(".svc.")
}

/// A name without a dot: where a rule or a route names it, it is a Service of the resource's own namespace.
pub(crate) fn is_short(host: &str) -> bool {
    !host.is_empty() && host != "*" && !host.contains(['.', ':'])
}

/// The host as Istio reads it in a rule or a route (`ResolveShortnameToFQDN`).
pub(crate) fn full<'a>(host: &'a str, namespace: &str) -> Cow<'a, str> {
    if is_short(host) {
        Cow::Owned(format!("{host}.{namespace}.svc.cluster.local"))
    } else {
        Cow::Borrowed(host)
    }
}

/// `None` where one of two resources leaves its namespace to `kubectl` and the other does not: nobody can tell.
pub(crate) fn same_namespace(one: &Loadable, two: &Loadable) -> Option<bool> {
    let unknown = one.namespace.is_empty() != two.namespace.is_empty();
    (!unknown).then(|| one.namespace == two.namespace)
}

/// A selector that lists labels: an empty one stands for all workloads.
fn selects_some(selector: &Node) -> bool {
    ["matchLabels", "labels"].iter().any(|key| !selector.get(key).map_or(&[][..], Node::entries).is_empty())
}

/// Resources without those that a later one of the same name in the same file replaces, with what was replaced. Files
/// are not compared: a base and its overlay, or two variants to choose from, are not applied together.
fn last_of_each(resources: &[Loadable]) -> (Vec<&Loadable>, Vec<(&Loadable, &Loadable)>) {
    let mut last: HashMap<(Kind, &str, &str, &str), usize> = HashMap::new();
    let mut replaced = BTreeMap::new();
    for (index, resource) in resources.iter().enumerate().filter(|(_, resource)| !resource.name.is_empty()) {
        let key = (resource.kind, &*resource.namespace, &*resource.name, &*resource.file);
        if let Some(before) = last.insert(key, index) {
            replaced.insert(before, index);
        }
    }
    let left = (0..).zip(resources).filter(|(index, _)| !replaced.contains_key(index));
    let twice = replaced.iter().map(|(before, after)| (&resources[*before], &resources[*after]));
    (left.map(|(_, resource)| resource).collect(), twice.collect())
}

fn closest<'m>(table: &'m HashMap<&str, Vec<usize>>, host: &str) -> Option<&'m Vec<usize>> {
    if is_short(host) {
        return None;
    }
    let parents = std::iter::successors(Some(host), |rest| rest.split_once('.').map(|(_, parent)| parent));
    let wildcard = |parent: &str| table.get(format!("*.{parent}").as_str());
    table.get(host).or_else(|| parents.skip(1).find_map(wildcard))
}

impl<'a> Entry<'a> {
    fn of(
        resource: &'a Loadable,
        known: &BTreeMap<Host, Known>,
        context: &Context,
        defaults: &Defaults<'a>,
    ) -> Option<Self> {
        let spec = resource.root.get("spec")?;
        let ports: Vec<Port<'a>> = spec.list("ports").iter().map(Port::of).collect();
        let settings = Settings {
            protocol: ports.first().map_or(Protocol::Tls, Port::family),
            failover_target: context.failover_target,
            longest_stream: context.longest_stream,
            ..Settings::default()
        };
        let hosts = spec.list("hosts").iter().filter_map(|host| {
            let name = host.text()?;
            let seen =
                Host::parse(name).ok().and_then(|host| known.get(&host)).filter(|seen| seen.is_heard());
            let advice = seen.map(|seen| recommend(&seen.observed(), &context.platform, &settings));
            let v6_only = context.platform.lookup_family == LookupFamily::V4Only
                && seen.is_some_and(|seen| {
                    let has_v6 = |(observation, _): &(Observation, _)| !observation.addresses.is_empty();
                    seen.a.0.addresses.is_empty() && seen.aaaa.as_ref().is_some_and(has_v6)
                });
            Some(EntryHost { name, at: host.at, advice, v6_only })
        });
        let hosts: Vec<EntryHost<'a>> = hosts.collect();
        let resolution = match spec.get("resolution") {
            None => Some(Resolution::None),
            Some(value) => value.text().and_then(Resolution::parse),
        };
        // From then on istiod allocates for wildcards too, of this resolution alone (`keepHost`).
        let dynamic = resolution == Some(Resolution::DynamicDns)
            && context.platform.istio_does(IstioBehaviour::AllocatesForDynamicWildcards);
        let labels = resource.root.get("metadata.labels");
        let asks_not = labels.and_then(|labels| labels.get_key("networking.istio.io/enable-autoallocate-ip"));
        let allocated = defaults.allocates
            && resolution != Some(Resolution::None)
            && (dynamic || !hosts.iter().any(|host| host.name.starts_with('*')))
            && asks_not.and_then(Node::text) != Some("false");
        Some(Self {
            resource,
            spec,
            hosts,
            resolution,
            ports,
            endpoints: spec.list("endpoints"),
            workloads: Vec::new(),
            has_vip: allocated || !spec.list("addresses").is_empty(),
            scope: match defaults.visibility {
                None => Scope::of(resource, defaults.entries),
                Some("NAMESPACE") => Scope::Namespaces(BTreeSet::from([&*resource.namespace])),
                Some(_) => Scope::Namespaces(BTreeSet::new()),
            },
        })
    }

    /// The host of that name.
    pub(crate) fn host(&self, name: &str) -> Option<&EntryHost<'a>> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// Members of the host's cluster at any one time: measured, or counted where the entry lists addresses.
    pub(crate) fn members(&self, host: &str) -> Option<usize> {
        match self.resolution? {
            Resolution::Static => {
                Some(self.endpoints.len() + self.workloads.len()).filter(|members| *members > 0)
            }
            Resolution::Dns if self.asks_for_hosts() => {
                let advice = self.host(host)?.advice.as_ref()?;
                advice.resolution.and(advice.pattern).map(|pattern| pattern.members)
            }
            _ => None,
        }
    }

    /// Where the resolution stands, else the spec.
    pub(crate) fn resolution_at(&self) -> Place {
        self.spec.get("resolution").map_or(self.spec.at, |value| value.at)
    }

    pub(crate) fn is_dns(&self) -> bool {
        matches!(self.resolution, Some(Resolution::Dns | Resolution::DnsRoundRobin))
    }

    /// The proxies look its hosts up, not its endpoints or workloads.
    pub(crate) fn asks_for_hosts(&self) -> bool {
        super::asked::asks_for_hosts(self.spec)
    }

    /// Names and advice of the hosts that DNS was observed for; only where the entry asks DNS for its hosts.
    pub(crate) fn observed(&self) -> impl Iterator<Item = (&EntryHost<'a>, &Recommendation)> {
        let asks = self.asks_for_hosts();
        self.hosts.iter().filter(move |_| asks).filter_map(|host| Some((host, host.advice.as_ref()?)))
    }

    /// All ports pass bytes on, and there is one.
    pub(crate) fn is_passthrough(&self) -> bool {
        !self.ports.is_empty() && self.ports.iter().all(Port::is_passthrough)
    }

    /// Its selector picks the workload.
    fn selects(&self, workload: &Loadable) -> bool {
        let Some(wanted) = self.spec.get("workloadSelector.labels") else { return false };
        let labels = workload.root.get("spec.labels");
        let has = |key: &str, value: &Node| {
            labels.and_then(|labels| labels.get_key(key)).is_some_and(|found| found.value == value.value)
        };
        !wanted.entries().is_empty() && wanted.entries().iter().all(|(key, value)| has(&key.text, value))
    }

    /// The waypoint that its label names.
    pub(crate) fn waypoint(&self) -> Option<&'a str> {
        let labels = self.resource.root.get("metadata.labels")?;
        let name = labels.get_key("istio.io/use-waypoint").and_then(Node::text)?;
        (!name.is_empty() && !name.eq_ignore_ascii_case("none")).then_some(name)
    }

    /// One of its hosts is a wildcard.
    pub(crate) fn has_wildcard(&self) -> bool {
        self.hosts.iter().any(|host| host.name.starts_with('*'))
    }

    pub(crate) fn has_addresses(&self) -> bool {
        !self.spec.list("addresses").is_empty()
    }
}

impl<'a> Port<'a> {
    fn of(node: &'a Node) -> Self {
        Self {
            node,
            number: node.integer_at("number"),
            target: node.integer_at("targetPort"),
            protocol: node.text_at("protocol").unwrap_or_default(),
        }
    }

    pub(crate) fn is(&self, protocol: &str) -> bool {
        self.protocol.eq_ignore_ascii_case(protocol)
    }

    pub(crate) fn is_http(&self) -> bool {
        ["HTTP", "HTTP2", "GRPC", "GRPC-WEB"].iter().any(|http| self.is(http))
    }

    /// TLS of the application's own.
    pub(crate) fn is_tls(&self) -> bool {
        self.is("TLS") || self.is("HTTPS")
    }

    /// Bytes without a name that Envoy could tell entries apart by.
    pub(crate) fn is_tcp(&self) -> bool {
        ["TCP", "MONGO", "MYSQL", "REDIS"].iter().any(|tcp| self.is(tcp))
    }

    /// No protocol is named, so that the proxy waits for the client's first bytes to tell it.
    pub(crate) fn is_detected(&self) -> bool {
        self.protocol.is_empty()
    }

    pub(crate) fn is_passthrough(&self) -> bool {
        self.is_tls() || self.is_tcp()
    }

    /// What Envoy makes of it: requests, a connection that goes by its SNI, or bytes.
    pub(crate) fn family(&self) -> Protocol {
        match (self.is_http(), self.is_tcp()) {
            (true, _) => Protocol::Http,
            (_, true) => Protocol::Tcp,
            _ => Protocol::Tls,
        }
    }
}

/// The namespaces that see a resource: `exportTo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    Everywhere,
    Namespaces(BTreeSet<&'a str>),
}

impl<'a> Scope<'a> {
    /// What the resource lists, else the mesh's default, else everywhere.
    fn of(resource: &'a Loadable, default: &'a [Node]) -> Self {
        let own = resource.root.list("spec.exportTo");
        let listed = if own.is_empty() { default } else { own };
        let names: Vec<&str> = listed.iter().filter_map(Node::text).collect();
        if names.is_empty() || names.contains(&"*") {
            return Self::Everywhere;
        }
        let own = &*resource.namespace;
        Self::Namespaces(
            names
                .into_iter()
                .filter(|name| *name != "~")
                .map(|name| if name == "." { own } else { name })
                .collect(),
        )
    }

    /// Whether it may be seen there: a namespace that is left to `kubectl` may be any.
    pub(crate) fn sees(&self, namespace: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Namespaces(names) => {
                names.contains(namespace)
                    || (!names.is_empty() && (namespace.is_empty() || names.contains("")))
            }
        }
    }

    /// Whether some namespace surely sees both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everywhere, Self::Everywhere) => true,
            (Self::Everywhere, Self::Namespaces(names)) | (Self::Namespaces(names), Self::Everywhere) => {
                !names.is_empty()
            }
            (Self::Namespaces(one), Self::Namespaces(two)) => one.intersection(two).next().is_some(),
        }
    }
}
