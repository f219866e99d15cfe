//! `lab run --in-cluster`: the lab's own programs as pods, one Envoy with istiod's clusters as the client's proxy, and
//! the experiments' verdicts through API server, port-forward and control APIs. Only the capture of connections is
//! played: the client is told where its proxy listens.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use harness::ports::free_port;
use harness::{Child, egress_audit, eventually};
use probes::experiments::bench::HOST;
use probes::lab::ca::Trust;
use probes::lab::envoy::Envoy;
use probes::lab::envoy::bootstrap::{
    HttpVersion, Layer, Proxy, Upstream, bootstrap, cluster_name, cluster_name_at,
};
use probes::lab::envoy::process::Launch;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Test;
use crate::control_plane::ControlPlane;
use crate::manifests::repository;
use crate::proxies::{ENVOY, Kind, ads, binary};

pub(crate) const TESTS: &[Test] = &[
    ("lab run --in-cluster: every verdict as in the lab, controls the other way", verdicts),
    ("lab run --in-cluster: what is missing is named", missing),
];

/// The listener that stands for captured plain HTTP.
const FRONT_HTTP: &str = "front-http";

/// Programs of the lab and the client's proxy, as pods of a namespace.
struct Pods {
    runtime: Runtime,
    _envoy: Envoy,
    _programs: Vec<Child>,
    _logs: tempfile::TempDir,
}

impl Pods {
    fn start(plane: &ControlPlane, namespace: &str) -> anyhow::Result<Self> {
        let logs = tempfile::tempdir()?;
        let mut programs = Vec::new();
        let egress_audit = PathBuf::from(egress_audit().get_program());
        let mut spawn = |name: &str, args: &[&str]| {
            let child = Child::spawn(&egress_audit, args, logs.path().join(format!("{name}.log")))?;
            programs.push(child);
            Ok::<_, anyhow::Error>(())
        };
        plane
            .objects
            .apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n"))?;
        let run = |name: &str, ip: IpAddr, ports: &[(&str, u16)]| {
            let ports: Vec<_> = ports
                .iter()
                .map(|(name, port)| {
                    let protocol = if *name == "dns-udp" { "UDP" } else { "TCP" };
                    json!({ "name": name, "containerPort": port, "protocol": protocol })
                })
                .collect();
            let container =
                json!({ "name": name, "image": "egress-audit:0.1.0", "ports": ports }).to_string();
            plane.kubelet.run_pod(&plane.objects, namespace, name, &container, ip)
        };

        let (dns, steered) = (free_port()?, free_port()?);
        let (port, control_port) = (dns.port().to_string(), steered.port().to_string());
        spawn(
            "lab-dns",
            &["lab", "dns", "serve", "--scenario", "gslb", "--port", &port, "--control-port", &control_port],
        )?;
        run("lab-dns", dns.ip(), &[("dns-udp", dns.port()), ("control", steered.port())])?;

        let (tls, control) = (free_port()?.port(), free_port()?.port());
        for (name, last) in [("backend-a", 11), ("backend-b", 12)] {
            let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
            let at = |port| SocketAddr::new(ip, port).to_string();
            let (listen, control_listen) = (at(tls), at(control));
            spawn(
                name,
                &["lab", "backend", "--name", name, "--listen", &listen, "--control-listen", &control_listen],
            )?;
            run(name, ip, &[("tls", tls), ("control", control)])?;
        }

        let runtime = Runtime::new()?;
        let envoy = runtime.block_on(proxy(plane, namespace))?;
        let listeners = runtime.block_on(envoy.admin().listeners())?;
        let http = listeners.get(FRONT_HTTP).context("no second listener")?.to_string();
        let (admin, front, agent) =
            (envoy.admin().addr().to_string(), envoy.front().to_string(), free_port()?);
        let listen = agent.to_string();
        spawn(
            "client",
            &[
                "lab",
                "client",
                "--listen",
                &listen,
                "--admin",
                &admin,
                "--front-tls",
                &front,
                "--front-http",
                &http,
            ],
        )?;
        run("client", agent.ip(), &[("agent", agent.port())])?;
        for at in [agent, steered] {
            eventually(Duration::from_secs(20), "the lab's programs", || {
                std::net::TcpStream::connect(at).map(drop)
            })?;
        }
        Ok(Self { runtime, _envoy: envoy, _programs: programs, _logs: logs })
    }
}

/// The client's proxy: the lab's listeners, one a path, on the clusters that istiod sends.
async fn proxy(plane: &ControlPlane, namespace: &str) -> anyhow::Result<Envoy> {
    let trust = Trust::generate(HOST)?;
    let of = |layer| {
        bootstrap(&Proxy {
            version: ENVOY,
            old_dns: false,
            host: HOST,
            layer,
            http: HttpVersion::H1,
            behind_mtls: false,
            upstream: Upstream::Ads(ads(plane, Kind::Sidecar, "client", namespace)),
            trust: trust.envoy(),
            max_connection_duration: None,
        })
    };
    let (mut config, http) = (of(Layer::Passthrough), of(Layer::Http));
    let http = http["static_resources"]["listeners"][0].to_string();
    let mut http: Value =
        serde_json::from_str(&http.replace(&cluster_name(HOST), &cluster_name_at(80, HOST)))?;
    http["name"] = json!(FRONT_HTTP);
    // The cluster comes later, with the first cell on HTTP.
    http["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]["validate_clusters"] =
        json!(false);
    let listeners = config["static_resources"]["listeners"].as_array_mut().context("no listeners")?;
    listeners.push(http);
    Ok(Envoy::start_with(&binary(ENVOY).await?, &config, Launch::default()).await?)
}

/// Experiments and filters. A lifetime on passthrough is a property of istiod's listener, which does not run here.
const RUNS: &[&[&str]] = &[
    &["in-flight-flip", "keepalive-pinning", "--http", "h1", "--no-controls"],
    &["multi-a-spread", "flip-record"],
    &["in-flight-flip", "keepalive-pinning", "--path", "l7", "--http", "h2", "--resolution", "strict"],
    &["dead-ip", "--resolution", "strict", "--path", "l4"],
];

fn verdicts(plane: &ControlPlane) -> anyhow::Result<()> {
    let namespace = "lab-run";
    let pods = Pods::start(plane, namespace)?;
    // With the rights that are shipped for it, and no other.
    let role = std::fs::read_to_string(repository().join("manifests/rbac/lab.yaml"))?;
    plane.objects.apply(&format!(
        "{role}---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: lab, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: egress-audit-lab}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: experimenter}}]
"
    ))?;
    for run in RUNS {
        let mut command = plane.egress_audit_as("experimenter")?;
        command.args([
            "lab",
            "run",
            "--in-cluster",
            "--namespace",
            namespace,
            "--stream",
            "4s",
            "-o",
            "json",
        ]);
        let output = command.args(*run).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let report: Value = serde_json::from_slice(&output.stdout).with_context(|| said.clone())?;
        let evidence = report["lab"]["evidence"].as_array().cloned().unwrap_or_default();
        ensure!(!evidence.is_empty(), "{run:?}: {report:#}\n{said}");
        for one in &evidence {
            let wanted = if one["cell"]["egress"]["control"].is_null() { "confirmed" } else { "refuted" };
            ensure!(one["verdict"] == wanted, "{} {}: {}", one["experiment"], one["cell"], one["because"]);
            ensure!(one["timeline"]["lanes"].as_array().is_some_and(|lanes| lanes.len() > 3), "{one:#}");
        }
        ensure!(output.status.success(), "{run:?}: {said}");
    }
    // Nothing of it stays, not even of a run that is cut short.
    let entry = || plane.objects.get("networking.istio.io/v1", "ServiceEntry", namespace, "egress-audit-lab");
    ensure!(entry().is_err(), "{:?}", entry());
    let mut command = plane.egress_audit_as("experimenter")?;
    command.args(["lab", "run", "in-flight-flip", "--in-cluster", "--namespace", namespace]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    eventually(Duration::from_secs(20), "the first cell", || entry().map(drop))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no pid")?;
    kill_process(pid, Signal::INT)?;
    let output = child.wait_with_output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(2) && words.contains("interrupted"), "{words}");
    ensure!(entry().is_err(), "{:?}", entry());
    drop(pods.runtime);
    Ok(())
}

fn missing(plane: &ControlPlane) -> anyhow::Result<()> {
    let namespace = "lab-missing";
    plane.objects.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n"))?;
    let run = |extra: &[&str]| -> anyhow::Result<String> {
        let mut command = plane.egress_audit();
        let output = command.args(["lab", "run", "--in-cluster", "-n", namespace]).args(extra).output()?;
        ensure!(output.status.code() == Some(2), "{output:?}");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let words = run(&["appendix"])?;
    ensure!(words.contains("no running pod `app=lab-dns`") && words.contains("manifests/lab"), "{words}");
    let mut stranger = plane.egress_audit_as("stranger")?;
    let refused = stranger.args(["lab", "run", "appendix", "--in-cluster", "-n", namespace]).output()?;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(words.contains("may not list") && words.contains("manifests/rbac/lab.yaml"), "{words}");
    let words = run(&["appendix", "--topology", "gateway"])?;
    ensure!(words.contains("the client's own sidecar"), "{words}");
    let entry = std::fs::read_to_string(repository().join("manifests/lab/entry-strict.yaml"))?;
    plane.objects.apply(&entry.replace("dns-lab", namespace))?;
    let words = run(&["appendix"])?;
    ensure!(words.contains("kubectl delete serviceentry api"), "{words}");
    Ok(())
}
