//! The way out through an egress gateway: for each name a `Gateway` that ends the mesh's own TLS, a `VirtualService` from
//! the sidecars to the gateway and from there to the name, and the subset of the gateway's Service that starts that TLS.
//! `build` calls it where the settings name a gateway.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApiVersion, DestinationRuleKind, Manifest, Metadata, Resource};
use crate::{Protocol, Recommendation, Settings};

/// Where an egress gateway listens for the mesh.
const PORT: u16 = 443;

/// `networking.istio.io/v1` `Gateway`, the fields that the tool writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gateway {
    /// The API.
    pub api_version: ApiVersion,
    /// The kind.
    pub kind: GatewayKind,
    /// Name and namespace.
    pub metadata: Metadata,
    /// What it accepts.
    pub spec: GatewaySpec,
}

/// The kind of a [`Gateway`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GatewayKind {
    /// `Gateway`.
    #[default]
    Gateway,
}

/// `Gateway.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatewaySpec {
    /// Labels of the gateway's pods.
    pub selector: BTreeMap<String, String>,
    /// What they accept.
    pub servers: Vec<Server>,
}

/// One of `Gateway.spec.servers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Where it listens.
    pub port: super::ServicePort,
    /// The names that it takes.
    pub hosts: Vec<String>,
    /// The TLS that it ends.
    pub tls: TlsMode,
}

/// `tls`, the mode alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsMode {
    /// Always `ISTIO_MUTUAL`.
    pub mode: String,
    /// The name that tells the connections apart, on the client's side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
}

/// `networking.istio.io/v1` `VirtualService`, the fields that the tool writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VirtualService {
    /// The API.
    pub api_version: ApiVersion,
    /// The kind.
    pub kind: VirtualServiceKind,
    /// Name and namespace.
    pub metadata: Metadata,
    /// Where connections go.
    pub spec: VirtualServiceSpec,
}

/// The kind of a [`VirtualService`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VirtualServiceKind {
    /// `VirtualService`.
    #[default]
    VirtualService,
}

/// `VirtualService.spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VirtualServiceSpec {
    /// The names.
    pub hosts: Vec<String>,
    /// `mesh`, and the gateway.
    pub gateways: Vec<String>,
    /// Requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<Route>,
    /// Connections that begin with TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls: Vec<Route>,
    /// Connections whose TLS the gateway has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<Route>,
    /// Namespaces that see the routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub export_to: Vec<String>,
}

/// One route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Which connections it is for.
    #[serde(rename = "match")]
    pub matches: Vec<Match>,
    /// Where they go.
    pub route: Vec<RouteTo>,
}

/// Which connections a route is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Match {
    /// At the sidecars (`mesh`), or at the gateway.
    pub gateways: Vec<String>,
    /// The port that they came in on.
    pub port: u16,
    /// The name that they ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sni_hosts: Vec<String>,
}

/// Where a route leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteTo {
    /// Host, subset and port.
    pub destination: Destination,
}

/// `destination`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// The name.
    pub host: String,
    /// A subset of its rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    /// The port.
    pub port: PortNumber,
}

/// `port.number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortNumber {
    /// The number.
    pub number: u16,
}

/// The `DestinationRule` of the gateway's Service: one subset for each name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubsetRule {
    /// The API.
    pub api_version: ApiVersion,
    /// The kind.
    pub kind: DestinationRuleKind,
    /// Name and namespace.
    pub metadata: Metadata,
    /// The subset.
    pub spec: SubsetRuleSpec,
}

/// `DestinationRule.spec` with subsets alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubsetRuleSpec {
    /// The gateway's Service.
    pub host: String,
    /// The subsets.
    pub subsets: Vec<Subset>,
}

/// One of `DestinationRule.spec.subsets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subset {
    /// Its name.
    pub name: String,
    /// How to connect.
    pub traffic_policy: SubsetPolicy,
}

/// `trafficPolicy` of a subset: settings of the gateway's port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubsetPolicy {
    /// One port.
    pub port_level_settings: Vec<PortPolicy>,
}

/// One of `portLevelSettings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortPolicy {
    /// Which port.
    pub port: PortNumber,
    /// TLS towards the gateway.
    pub tls: TlsMode,
}

/// The namespace of a gateway that is written as `namespace/name`, its Service and the label of its pods.
fn service(gateway: &str) -> (String, String, String) {
    let (namespace, name) = gateway.split_once('/').unwrap_or(("istio-system", gateway));
    let label = name.strip_prefix("istio-").unwrap_or(name);
    (namespace.to_owned(), format!("{name}.{namespace}.svc.cluster.local"), label.to_owned())
}

/// The three resources of one name, `name` for each; none for TCP, where no name tells connections apart at the gateway.
pub(super) fn way_out(name: &str, advice: &Recommendation, gateway: &str) -> Vec<Manifest> {
    let settings = &advice.settings;
    if settings.protocol == Protocol::Tcp {
        return Vec::new();
    }
    let http = settings.protocol.is_http();
    let host = advice.host.to_string();
    let (home, service, label) = service(gateway);
    let subset = super::resource_name(&advice.host);
    let metadata = Metadata { name: name.to_owned(), namespace: settings.namespace.clone() };
    let tls = |sni: Option<String>| TlsMode { mode: "ISTIO_MUTUAL".to_owned(), sni };
    let port = super::ServicePort {
        number: PORT,
        name: if http { "https" } else { "tls" }.to_owned(),
        protocol: if http { "HTTPS" } else { "TLS" }.to_owned(),
        target_port: None,
    };
    let server = Server { port, hosts: vec![host.clone()], tls: tls(None) };
    let to = |host: &str, subset: Option<String>, number| {
        vec![RouteTo {
            destination: Destination { host: host.to_owned(), subset, port: PortNumber { number } },
        }]
    };
    let at =
        |gateway: &str, port, sni_hosts| vec![Match { gateways: vec![gateway.to_owned()], port, sni_hosts }];
    let sni = if http { Vec::new() } else { vec![host.clone()] };
    let inward =
        Route { matches: at("mesh", settings.port, sni), route: to(&service, Some(subset.clone()), PORT) };
    let onward = Route { matches: at(name, PORT, Vec::new()), route: to(&host, None, settings.port) };
    let mut routes = VirtualServiceSpec {
        hosts: vec![host.clone()],
        gateways: vec!["mesh".to_owned(), name.to_owned()],
        export_to: export_to(settings),
        ..VirtualServiceSpec::default()
    };
    if http {
        routes.http = vec![inward, onward];
    } else {
        (routes.tls, routes.tcp) = (vec![inward], vec![onward]);
    }
    let policy = SubsetPolicy {
        port_level_settings: vec![PortPolicy { port: PortNumber { number: PORT }, tls: tls(Some(host)) }],
    };
    let subsets = vec![Subset { name: subset, traffic_policy: policy }];
    let manifest = |comment: &str, resource| Manifest { comment: vec![comment.to_owned()], resource };
    vec![
        manifest(
            "the gateway takes the mesh's own TLS off; the name in it says which server is meant",
            Resource::Gateway(Gateway {
                api_version: ApiVersion::V1,
                kind: GatewayKind::Gateway,
                metadata: metadata.clone(),
                spec: GatewaySpec {
                    selector: BTreeMap::from([("istio".to_owned(), label)]),
                    servers: vec![server],
                },
            }),
        ),
        manifest(
            "from the sidecars to the gateway, and from the gateway to the name",
            Resource::VirtualService(VirtualService {
                api_version: ApiVersion::V1,
                kind: VirtualServiceKind::VirtualService,
                metadata,
                spec: routes,
            }),
        ),
        manifest(
            "the subset of the gateway that the sidecars start the mesh's TLS to, with the name as its SNI",
            Resource::SubsetRule(SubsetRule {
                api_version: ApiVersion::V1,
                kind: DestinationRuleKind::DestinationRule,
                // Clients of every namespace look for rules about a Service beside it.
                metadata: Metadata {
                    name: super::name::joined("gateway", &advice.host),
                    namespace: Some(home),
                },
                spec: SubsetRuleSpec { host: service, subsets },
            }),
        ),
    ]
}

/// Who sees the entry and its routes: the gateway has to, wherever it is.
pub(super) fn export_to(settings: &Settings) -> Vec<String> {
    let mut listed = settings.export_to.clone();
    let home = settings.gateway.as_deref().and_then(|gateway| gateway.split_once('/'));
    if let Some((namespace, _)) = home
        && !listed.is_empty()
        && !listed.iter().any(|known| known == "*" || known == namespace)
    {
        listed.push(namespace.to_owned());
    }
    listed
}
