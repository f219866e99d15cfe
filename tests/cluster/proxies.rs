//! Plain Envoys as members of the mesh: who they say they are comes in, a running Envoy with istiod's clusters (and
//! listeners) goes out. The tests here read them with `egress-audit proxy status`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use harness::{egress_audit, eventually};
use labdns::command::{Flip, Target};
use labdns::{Command, LabDns, Name, Options, Scenario};
use policies::Version;
use probes::lab::ca::Trust;
use probes::lab::envoy::bootstrap::{Ads, HttpVersion, Layer, Proxy, Upstream, bootstrap};
use probes::lab::envoy::install::{default_cache, obtain};
use probes::lab::envoy::process::Launch;
use probes::lab::envoy::{Binary, Envoy};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Test;
use crate::control_plane::ControlPlane;

pub(crate) const TESTS: &[Test] = &[
    ("proxy status reads a proxy by port-forward, by exec and directly", by_every_way),
    ("proxy status tells of sockets that a flip left behind", left_behind),
];

const HOST: &str = "api.partner.example";

/// The release that Istio 1.31 ships, by the platform's table.
pub(crate) const ENVOY: Version = Version::release(1, 39, 3);

/// Which kind of proxy asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sidecar,
    Router,
}

/// An Envoy in the mesh, and the runtime that it lives in.
pub(crate) struct Member {
    pub(crate) runtime: Runtime,
    pub(crate) envoy: Envoy,
}

/// The Envoy of a release, installed if need be.
pub(crate) async fn binary(version: Version) -> anyhow::Result<Binary> {
    obtain(&default_cache(), version)
        .await
        .map_err(|error| anyhow::anyhow!("hint: {}", error.hint()).context(error.to_string()))
}

/// Where and as whom a proxy asks istiod.
pub(crate) fn ads(plane: &ControlPlane, kind: Kind, name: &str, namespace: &str) -> Ads {
    let kind = match kind {
        Kind::Sidecar => "sidecar",
        Kind::Router => "router",
    };
    Ads {
        addr: plane.ads,
        node: json!({
            "id": format!("{kind}~127.0.0.1~{name}.{namespace}~{namespace}.svc.cluster.local"),
            "cluster": format!("{name}.{namespace}"),
            "metadata": {
                "NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.0", "INSTANCE_IPS": "127.0.0.1",
                "LABELS": { "app": name },
            },
        }),
    }
}

/// A namespace whose proxies ask the DNS server at `addr` and no other: istiod's own clusters name none, so that a
/// proxy asks those of the pod's `/etc/resolv.conf`.
pub(crate) fn resolver(namespace: &str, addr: SocketAddr) -> String {
    format!(
        "apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {{name: lab-dns, namespace: {namespace}}}
spec:
  configPatches:
  - applyTo: CLUSTER
    match: {{context: ANY}}
    patch:
      operation: MERGE
      value:
        typed_dns_resolver_config:
          name: envoy.network.dns_resolver.cares
          typed_config:
            '@type': type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig
            resolvers: [{{socket_address: {{address: {}, port_value: {}}}}}]
            use_resolvers_as_fallback: false
            udp_max_queries: 100
",
        addr.ip(),
        addr.port()
    )
}

impl Member {
    /// Starts one; it has istiod's clusters once this returns, and its listeners too.
    pub(crate) fn start(
        plane: &ControlPlane,
        kind: Kind,
        name: &str,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        let runtime = Runtime::new()?;
        let trust = Trust::generate(HOST)?;
        let proxy = Proxy {
            version: ENVOY,
            old_dns: false,
            host: HOST,
            layer: Layer::Passthrough,
            http: HttpVersion::H1,
            behind_mtls: false,
            upstream: Upstream::Ads(ads(plane, kind, name, namespace)),
            trust: trust.envoy(),
            max_connection_duration: None,
        };
        let mut config = bootstrap(&proxy);
        // Whatever comes in is passed on, whether it names a host or not.
        config["static_resources"]["listeners"][0]["filter_chains"][0]["filter_chain_match"] = json!({});
        config["dynamic_resources"]["lds_config"] =
            json!({ "ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s" });
        let envoy = runtime.block_on(async {
            let binary = binary(ENVOY).await?;
            Ok::<_, anyhow::Error>(Envoy::start_with(&binary, &config, Launch::default()).await?)
        })?;
        Ok(Self { runtime, envoy })
    }

    /// What its admin port answers.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        let text = self.runtime.block_on(self.envoy.admin().get(path))?;
        serde_json::from_str(&text).with_context(|| format!("{path}: {text}"))
    }

    /// The report of `proxy status --admin`.
    pub(crate) fn status(&self, args: &[&str]) -> anyhow::Result<Value> {
        let admin = self.envoy.admin().addr().to_string();
        let output =
            egress_audit().args(["proxy", "status", "--admin", &admin, "-o", "json"]).args(args).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).context(said)
    }

    /// Its clusters of external names, once there are `count` of them.
    pub(crate) fn clusters(&self, count: usize) -> anyhow::Result<Vec<Value>> {
        eventually(Duration::from_secs(20), "istiod's clusters", || {
            let report = self.status(&[])?;
            let clusters = report["fleet"]["proxies"][0]["inspection"]["clusters"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            anyhow::ensure!(clusters.len() >= count, "{} of {count}", clusters.len());
            Ok::<_, anyhow::Error>(clusters)
        })
    }
}

/// A ServiceEntry whose backends listen on `port`.
fn entry(namespace: &str, port: u16) -> String {
    format!(
        "---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: api, namespace: {namespace}}}
spec:
  hosts: [{HOST}]
  location: MESH_EXTERNAL
  resolution: DNS
  exportTo: [.]
  ports: [{{number: 443, name: tls, protocol: TLS, targetPort: {port}}}]
"
    )
}

/// The zone of [`HOST`], answering 127.0.0.1.
fn dns(runtime: &Runtime) -> anyhow::Result<LabDns> {
    let zone = format!("zone: partner.example\nnames:\n  {HOST}: {{a: {{pool: [127.0.0.1], ttl: 1}}}}\n");
    Ok(runtime.block_on(LabDns::start(&Scenario::from_yaml(&zone)?, &Options::default()))?)
}

fn by_every_way(plane: &ControlPlane) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let dns = dns(&runtime)?;
    plane.objects.apply(&(resolver("reached", dns.authority_addr()) + &entry("reached", 9)))?;
    let member = Member::start(plane, Kind::Sidecar, "api-0", "reached")?;
    let direct = member.clusters(1)?;
    ensure!(direct.len() == 1 && direct[0]["host"] == HOST, "{direct:#?}");
    plane.kubelet.run(&plane.objects, "reached", "api-0", member.envoy.admin().addr())?;
    // What changes between two looks is left out.
    let steady = |cluster: &Value| {
        [&cluster["name"], &cluster["type"], &cluster["dns"], &cluster["written"]].map(Clone::clone)
    };
    for reach in ["forward", "exec"] {
        let args = ["proxy", "status", "api-0.reached", "--reach", reach, "-o", "json"];
        let output = plane.egress_audit().args(args).output()?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{reach}: {}", String::from_utf8_lossy(&output.stderr)))?;
        ensure!(report["fleet"]["proxies"][0]["proxy"] == "api-0.reached", "{report:#}");
        ensure!(
            steady(&report["fleet"]["proxies"][0]["inspection"]["clusters"][0]) == steady(&direct[0]),
            "{report:#}"
        );
    }
    // All of a namespace, for people.
    let args = ["proxy", "status", "-n", "reached", "--host", HOST];
    let output = plane.egress_audit().args(args).output()?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.contains("api-0.reached") && text.contains("STRICT_DNS"), "{text}");
    // A pod that is not there, and a name that no proxy looks up.
    let output = plane.egress_audit().args(["proxy", "status", "api-1.reached"]).output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(2) && words.contains("there is no such pod"), "{words}");
    let output = plane
        .egress_audit()
        .args(["proxy", "status", "-n", "reached", "--host", "other.example"])
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(2) && words.contains("no proxy that was asked has a cluster"),
        "{words}"
    );
    Ok(())
}

fn left_behind(plane: &ControlPlane) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let dns = dns(&runtime)?;
    let backend = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = backend.local_addr()?.port();
    plane.objects.apply(&(resolver("behind", dns.authority_addr()) + &entry("behind", port)))?;
    let member = Member::start(plane, Kind::Sidecar, "api-0", "behind")?;
    member.clusters(1)?;
    let pinned =
        || -> anyhow::Result<Value> { Ok(member.status(&["--host", HOST])?["fleet"]["proxies"][0].clone()) };
    let connected = |proxy: &Value| proxy["inspection"]["clusters"][0]["members"][0].clone();

    // A session through the proxy, which stays open. Its first bytes are not TLS, which ends the look for a name.
    let mut session = std::net::TcpStream::connect(member.envoy.front())?;
    session.write_all(b"hello\n")?;
    eventually(Duration::from_secs(10), "the session at the backend", || {
        let proxy = pinned()?;
        ensure!(connected(&proxy)["active"].as_u64() > Some(0), "{proxy:#}");
        Ok::<_, anyhow::Error>(())
    })?;
    let before = pinned()?;
    ensure!(before["inspection"]["clusters"][0]["pinned"] == 0, "{before:#}");

    dns.apply(Command::Flip(Flip {
        name: Name::parse(HOST)?,
        to: vec![Target::Addr("127.0.0.2".parse()?)],
    }))?;
    eventually(Duration::from_secs(10), "the flip to leave the session behind", || {
        let proxy = pinned()?;
        ensure!(connected(&proxy)["addr"] == "127.0.0.2", "{proxy:#}");
        ensure!(proxy["inspection"]["clusters"][0]["pinned"].as_u64() > Some(0), "{proxy:#}");
        ensure!(proxy["meanings"].to_string().contains("is no member any more"), "{proxy:#}");
        Ok::<_, anyhow::Error>(())
    })?;
    drop(session);
    Ok(())
}
