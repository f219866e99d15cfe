//! A control plane on loopback: etcd, kube-apiserver with RBAC, and istiod with its CRDs and validation, from the
//! programs that `build-control-plane` made. Starting it takes seconds; dropping it kills all three.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use harness::ports::free_port;
use harness::{Child, egress_audit, eventually, find};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::kubelet::Kubelet;
use crate::objects::Objects;

/// The administrator's token.
const TOKEN: &str = "token-of-admin";
/// Where istiod lives.
pub(crate) const ROOT: &str = "istio-system";

/// No mutual TLS on the way in: its certificates come from Istio's agent, which does not run here, and a sidecar's
/// inbound listener would wait for them.
const PLAIN_INBOUND: &str = "---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: DISABLE}}
";

/// etcd and the API server load a large binary and start cold.
const START: Duration = Duration::from_secs(120);

/// A running control plane.
pub(crate) struct ControlPlane {
    /// The API server, as the administrator.
    pub(crate) objects: Objects,
    /// Where proxies ask for their configuration, in plain text.
    pub(crate) ads: SocketAddr,
    /// The node that pods run on.
    pub(crate) kubelet: Kubelet,
    api_addr: SocketAddr,
    dir: TempDir,
    // Dropped in this order.
    _istiod: Child,
    _api_server: Child,
    _etcd: Child,
}

impl ControlPlane {
    /// Starts all of it and waits until istiod validates.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let programs = programs()?;
        let dir = TempDir::with_prefix("egress-audit-cluster-")?;
        let etcd_addr = free_port()?;
        let etcd = start_etcd(&programs, dir.path(), etcd_addr)?;
        let api_addr = free_port()?;
        write_keys(dir.path())?;
        let api_server = start_api_server(&programs, dir.path(), etcd_addr, api_addr)?;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_text(api_addr, ""))?;
        let objects = Objects::connect(&kubeconfig)?;
        eventually(START, "the API server", || objects.ready())
            .with_context(|| format!("its log:\n{}", api_server.log()))?;
        objects.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {ROOT}}}\n"))?;
        objects.apply(&std::fs::read_to_string(programs.join("istio-crds.yaml"))?)?;
        let (istiod, ads, https) = start_istiod(&programs, dir.path())?;
        objects.apply(&webhook(https))?;
        eventually(START, "istiod's validation", || objects.validates())
            .with_context(|| format!("its log:\n{}", istiod.log()))?;
        objects.apply(&(deployment(&version(&programs.join("istiod"))?) + PLAIN_INBOUND))?;
        let kubelet = Kubelet::start(dir.path(), &objects)?;
        Ok(Self {
            objects,
            ads,
            kubelet,
            api_addr,
            dir,
            _istiod: istiod,
            _api_server: api_server,
            _etcd: etcd,
        })
    }

    /// `egress-audit` with the administrator's kubeconfig.
    pub(crate) fn egress_audit(&self) -> Command {
        self.with_kubeconfig(&self.dir.path().join("kubeconfig"))
    }

    /// `egress-audit` as a user who has no right but those that are bound to the name.
    ///
    /// # Errors
    /// The kubeconfig cannot be written.
    pub(crate) fn egress_audit_as(&self, user: &str) -> anyhow::Result<Command> {
        let kubeconfig = self.dir.path().join(format!("{user}.kubeconfig"));
        std::fs::write(&kubeconfig, kubeconfig_text(self.api_addr, &format!(", as: {user}")))?;
        Ok(self.with_kubeconfig(&kubeconfig))
    }

    fn with_kubeconfig(&self, kubeconfig: &Path) -> Command {
        let mut command = egress_audit();
        command.env("KUBECONFIG", kubeconfig);
        command
    }
}

/// The folder of the programs; built on demand, which takes minutes the first time and nothing afterwards.
pub(crate) fn programs() -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/build-control-plane");
    let built = Command::new(&script).stderr(std::process::Stdio::inherit()).output()?;
    if !built.status.success() {
        bail!("{} failed; what it said is above", script.display());
    }
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
}

fn start_etcd(programs: &Path, dir: &Path, addr: SocketAddr) -> anyhow::Result<Child> {
    let (client, peer) = (format!("http://{addr}"), format!("http://{}", free_port()?));
    let args = [
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // Nothing of it is to outlive the test.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    Child::spawn(&programs.join("etcd"), args, dir.join("etcd.log"))
}

fn start_api_server(
    programs: &Path,
    dir: &Path,
    etcd: SocketAddr,
    addr: SocketAddr,
) -> anyhow::Result<Child> {
    let tokens = dir.join("tokens.csv");
    std::fs::write(&tokens, format!("{TOKEN},admin,admin,system:masters\n"))?;
    let file = |name: &str| dir.join(name).display().to_string();
    let args = [
        format!("--etcd-servers=http://{etcd}"),
        format!("--bind-address={}", addr.ip()),
        format!("--advertise-address={}", addr.ip()),
        format!("--secure-port={}", addr.port()),
        format!("--tls-cert-file={}", file("api.crt")),
        format!("--tls-private-key-file={}", file("api.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--kubelet-certificate-authority={}", file("ca.crt")),
        format!("--kubelet-client-certificate={}", file("api.crt")),
        format!("--kubelet-client-key={}", file("api.key")),
        format!("--token-auth-file={}", tokens.display()),
        format!("--service-account-key-file={}", file("api.crt")),
        format!("--service-account-signing-key-file={}", file("api.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        // Nothing makes the default service accounts: there is no controller manager.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
    ];
    Child::spawn(&programs.join("kube-apiserver"), args, dir.join("kube-apiserver.log"))
}

/// istiod, its plain ADS port and its HTTPS port.
fn start_istiod(programs: &Path, dir: &Path) -> anyhow::Result<(Child, SocketAddr, SocketAddr)> {
    let home = dir.join("istiod");
    std::fs::create_dir(&home)?;
    let mesh = home.join("mesh.yaml");
    // Telemetry needs filters that only Istio's own build of Envoy has, and mutual TLS the agent.
    std::fs::write(&mesh, "defaultProviders: {}\nenableAutoMtls: false\n")?;
    let (ads, https) = (free_port()?, free_port()?);
    let environment = [
        format!("POD_NAMESPACE={ROOT}"),
        "POD_NAME=istiod-0".to_owned(),
        "REVISION=default".to_owned(),
        "CLUSTER_ID=Kubernetes".to_owned(),
        "INJECT_ENABLED=false".to_owned(),
        "VALIDATION_WEBHOOK_CONFIG_NAME=istio-validator".to_owned(),
        "ISTIOD_CUSTOM_HOST=localhost".to_owned(),
        "PILOT_ENABLE_METADATA_EXCHANGE=false".to_owned(),
        "PILOT_ENABLE_ALPN_FILTER=false".to_owned(),
    ];
    let mut args: Vec<OsString> = vec!["-C".into(), home.clone().into()];
    args.extend(environment.map(OsString::from));
    args.push(programs.join("istiod").into());
    args.push("discovery".into());
    let flags = [
        format!("--kubeconfig={}", dir.join("kubeconfig").display()),
        format!("--meshConfig={}", mesh.display()),
        "--domain=cluster.local".to_owned(),
        format!("--grpcAddr={ads}"),
        format!("--httpsAddr={https}"),
        format!("--httpAddr={}", free_port()?),
        format!("--monitoringAddr={}", free_port()?),
        format!("--secureGRPCAddr={}", free_port()?),
        format!("--ctrlz_port={}", free_port()?.port()),
    ];
    args.extend(flags.map(OsString::from));
    let child = Child::spawn(&find("env", "coreutils")?, args, dir.join("istiod.log"))?;
    Ok((child, ads, https))
}

/// A CA and the API server's key pair, which also signs for service accounts.
fn write_keys(dir: &Path) -> anyhow::Result<()> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "egress-audit cluster tests");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let certificate = params.signed_by(&key, &ca)?;
    std::fs::write(dir.join("ca.crt"), ca.pem())?;
    std::fs::write(dir.join("api.crt"), certificate.pem())?;
    std::fs::write(dir.join("api.key"), key.serialize_pem())?;
    Ok(())
}

/// A kubeconfig of the administrator, with more about the user.
fn kubeconfig_text(addr: SocketAddr, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters: [{{name: test, cluster: {{server: 'https://{addr}', certificate-authority: ca.crt}}}}]\n\
         users: [{{name: test, user: {{token: {TOKEN}{more}}}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: test, namespace: default}}}}]\n"
    )
}

/// Istio's own validation, as its chart sets it up, but by address: there is no network of pods.
fn webhook(https: SocketAddr) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: istio-validator
  labels: {{app: istiod, istio: istiod, istio.io/rev: default}}
webhooks:
- name: rev.validation.istio.io
  clientConfig: {{url: 'https://localhost:{}/validate'}}
  rules:
  - operations: [CREATE, UPDATE]
    apiGroups: [security.istio.io, networking.istio.io, telemetry.istio.io, extensions.istio.io]
    apiVersions: ['*']
    resources: ['*']
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
",
        https.port()
    )
}

/// What an installation of Istio leaves in the cluster, of which only the image's tag is read.
fn deployment(version: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: istiod, namespace: {ROOT}, labels: {{app: istiod}}}}
spec:
  selector: {{matchLabels: {{app: istiod}}}}
  template:
    metadata: {{labels: {{app: istiod}}}}
    spec:
      containers: [{{name: discovery, image: 'docker.io/istio/pilot:{version}'}}]
"
    )
}

/// `1.31-eed52ebb66ad`.
fn version(istiod: &Path) -> anyhow::Result<String> {
    let output = Command::new(istiod).args(["version", "--short"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let version = text.trim().trim_start_matches("version.BuildInfo").to_owned();
    if version.is_empty() {
        bail!("istiod says no version");
    }
    Ok(version)
}
