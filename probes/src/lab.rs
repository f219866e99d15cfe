//! The bench of one cell: lab DNS, backends, Envoy (or two) and a client on loopback, with a recorder of everything
//! that happens. An experiment gets a bench, does its steps on it and hands back what it measured; dropping the
//! bench tears all of it down.

mod dns;
mod recorder;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::backend::{BackendError, Backends, loopback_addrs};
use crate::client::{Client, Exchange};
use crate::envoy::admin::{Admin, AdminError};
use crate::envoy::bootstrap::{self, DnsCluster, Layer, Outlier, Proxy, Upstream, cluster_name};
use crate::envoy::{Binary, Envoy, EnvoyError};
use crate::evidence::{Cell, Evidence, Exhibits, Judgement, Snapshot, Topology, Verdict};
use crate::experiments::Experiment;
use crate::trust::{Trust, TrustError};
use dns::NameServer;
use labdns::command::{Clear, FaultKind, FaultOn, Flip, Target};
use labdns::{Command, CommandError, Name, Scenario, ScenarioError};
use recorder::Recorder;

pub use dns::Answered;

/// The external name of every lab.
pub const HOST: &str = "api.partner.example";
/// The zone it lies in.
const ZONE: &str = "partner.example";

/// Draws of the lab DNS are the same in every run.
const SEED: u64 = 1;

/// Envoy's own way to a new address is one TTL, one jitter and one answer; this much more is an Envoy that is stuck.
const SLACK: Duration = Duration::from_secs(10);

/// What an experiment wants on its bench.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Number of backends.
    pub backends: usize,
    /// What each name answers at first, in the YAML of a lab DNS scenario. Backend `i` has the `i`th address of
    /// [`loopback_addrs`].
    pub records: Vec<(&'static str, String)>,
    /// Mesh `dnsRefreshRate`.
    pub refresh: Duration,
    /// `connectTimeout`.
    pub connect_timeout: Duration,
    /// `outlierDetection`.
    pub outlier: Option<Outlier>,
    /// `maxConnectionDuration`.
    pub max_connection_duration: Option<Duration>,
    /// `close_connections_on_host_set_change`.
    pub close_on_host_set_change: bool,
}

impl Plan {
    /// Two backends, the first of them in the answer, and what Istio sets when nobody asks for anything.
    #[must_use]
    pub fn pair(stream: Duration) -> Self {
        Self {
            backends: 2,
            records: vec![(HOST, fixed(&[0], ttl(stream)))],
            refresh: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            outlier: None,
            max_connection_duration: None,
            close_on_host_set_change: false,
        }
    }

    fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let names: Vec<String> =
            self.records.iter().map(|(name, spec)| format!("  {name}: {spec}")).collect();
        let yaml = format!("zone: {ZONE}\nnames:\n{}\n", names.join("\n"));
        Scenario::from_yaml(&yaml)
    }
}

/// A TTL that stands to the stream as in the guide's runs: 5 s to 40 s.
#[must_use]
pub fn ttl(stream: Duration) -> u32 {
    u32::try_from(stream.as_secs() / 8).unwrap_or(60).max(1)
}

/// Records that answer these backends, always in this order.
#[must_use]
pub fn fixed(backends: &[usize], ttl: u32) -> String {
    format!("{{a: {{pool: [{}], ttl: {ttl}}}}}", pool(backends))
}

/// These backends' addresses, as a list in YAML.
#[must_use]
pub fn pool(backends: &[usize]) -> String {
    let addrs = loopback_addrs(backends.iter().max().map_or(0, |last| last + 1));
    backends.iter().map(|&index| addrs[index].to_string()).collect::<Vec<_>>().join(", ")
}

/// Why a cell has no result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Envoy.
    #[error(transparent)]
    Envoy(#[from] EnvoyError),
    /// Backends.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Keys.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The lab DNS.
    #[error("the lab DNS cannot start")]
    Dns(#[source] std::io::Error),
    /// The experiment's records are none.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The experiment's command fits no record.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Something that the experiment builds on did not come about.
    #[error("{what}: not within {:.1} s; last seen: {last}", waited.as_secs_f64())]
    Never {
        /// What was waited for.
        what: String,
        /// For how long.
        waited: Duration,
        /// The last state.
        last: String,
    },
}

impl From<AdminError> for LabError {
    fn from(error: AdminError) -> Self {
        Self::Envoy(EnvoyError::Admin(error))
    }
}

impl LabError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Envoy(error) => error.hint().to_owned(),
            Self::Backend(error) => error.hint(),
            Self::Trust(_) | Self::Scenario(_) | Self::Command(_) => "this is a fault of the lab; please report it".to_owned(),
            Self::Dns(_) => "the limit of open files may be too low (`ulimit -n`)".to_owned(),
            Self::Never { .. } => {
                "a machine under load answers late: run fewer cells at once with `--jobs`, or a longer `--stream`".to_owned()
            }
        }
    }
}

/// A running cell.
pub struct Bench {
    cell: Cell,
    experiment: &'static Experiment,
    stream: Duration,
    start: Instant,
    started_at: Timestamp,
    trust: Trust,
    dns: NameServer,
    backends: Backends,
    // The one with the DNS cluster is last.
    proxies: Vec<Envoy>,
    recorder: Recorder,
}

impl Bench {
    /// Brings everything up and waits until Envoy has its first answer.
    ///
    /// # Errors
    /// Whatever does not start.
    pub async fn start(
        experiment: &'static Experiment,
        cell: Cell,
        stream: Duration,
        binary: &Binary,
    ) -> Result<Self, LabError> {
        let (start, started_at) = (Instant::now(), Timestamp::now());
        let plan = (experiment.plan)(&cell, stream);
        let trust = Trust::generate(HOST)?;
        let backends = Backends::start(plan.backends, &trust, start).await?;
        let scenario = plan.scenario()?;
        let dns = NameServer::start(&scenario, HOST, SEED, start).await.map_err(LabError::Dns)?;
        let proxies = start_proxies(&cell, &plan, &trust, &dns, backends.port(), binary).await?;
        let admin = proxies[proxies.len() - 1].admin();
        let recorder = Recorder::start(admin, cluster_name(HOST), start, stream, dns.answer());
        Ok(Self { cell, experiment, stream, start, started_at, trust, dns, backends, proxies, recorder })
    }

    /// The cell's coordinates.
    #[must_use]
    pub const fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Whether this run is the control of that name.
    #[must_use]
    pub fn is_control(&self, name: &str) -> bool {
        self.cell.control.as_deref() == Some(name)
    }

    /// The stream time that all other times are derived from.
    #[must_use]
    pub const fn stream(&self) -> Duration {
        self.stream
    }

    /// A client of this cell, on the cell's path and HTTP version.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn client(&self) -> Result<Client, LabError> {
        let front = self.front();
        Ok(Client::new(front, HOST, self.cell.path, self.cell.http, &self.trust, self.start)?)
    }

    /// Where clients connect: the sidecar's listener.
    #[must_use]
    pub fn front(&self) -> SocketAddr {
        self.proxies[0].front()
    }

    /// The addresses of the backends.
    #[must_use]
    pub fn addrs(&self) -> Vec<IpAddr> {
        self.backends.addrs()
    }

    /// The backends, to be killed and revived.
    pub fn backends(&mut self) -> &mut Backends {
        &mut self.backends
    }

    /// Changes the DNS answer to these backends.
    ///
    /// # Errors
    /// The name has no addresses to change.
    pub fn flip(&mut self, to: &[usize]) -> Result<(), LabError> {
        let to = to.iter().map(|&index| Target::Addr(self.backends.addrs()[index])).collect();
        self.command("flip", Command::Flip(Flip { name: host_name(), to }))
    }

    /// Breaks the answers about the name in this way, or mends them.
    ///
    /// # Errors
    /// Never for the lab's own name.
    pub fn fault(&mut self, fault: Option<FaultKind>) -> Result<(), LabError> {
        match fault {
            Some(kind) => {
                let fault = FaultOn { name: Some(host_name()), fault: kind.into() };
                self.command("DNS breaks", Command::Fault(fault))
            }
            None => self.command("DNS is mended", Command::Clear(Clear { name: None })),
        }
    }

    fn command(&mut self, label: &str, command: Command) -> Result<(), LabError> {
        self.dns.apply(command)?;
        self.recorder.answer(self.dns.answer());
        self.mark(label);
        Ok(())
    }

    /// The answers that Envoy got so far.
    #[must_use]
    pub fn answers(&self) -> Vec<Answered> {
        self.dns.log()
    }

    /// Notes a moment on the timeline.
    pub fn mark(&mut self, label: &str) {
        self.recorder.mark(label);
    }

    /// Notes requests.
    pub fn record(&mut self, exchanges: &[Exchange]) {
        self.recorder.exchanges(exchanges);
    }

    /// DNS, list and counters at this moment.
    ///
    /// # Errors
    /// The admin port does not answer.
    pub async fn snapshot(&mut self, label: &str) -> Result<Snapshot, LabError> {
        let snapshot = self.look(label).await?;
        self.recorder.snapshot(&snapshot);
        Ok(snapshot)
    }

    /// Waits until a snapshot satisfies `holds`, and returns it. At most one TTL and some slack.
    ///
    /// # Errors
    /// It never does, with the last list and the reason.
    pub async fn until(
        &mut self,
        what: &str,
        patience: Duration,
        holds: impl Fn(&Snapshot) -> bool,
    ) -> Result<Snapshot, LabError> {
        let began = Instant::now();
        let patience = patience + SLACK;
        loop {
            for proxy in &mut self.proxies {
                proxy.check()?;
            }
            let seen = self.look(what).await?;
            if holds(&seen) {
                return Ok(seen);
            }
            if began.elapsed() > patience {
                let last = format!("list {:?}, counters {:?}", seen.listed_addrs(), seen.counters);
                return Err(LabError::Never { what: what.to_owned(), waited: began.elapsed(), last });
            }
            sleep(Duration::from_millis(25)).await;
        }
    }

    /// Waits until the backends' ledger satisfies `holds`.
    ///
    /// # Errors
    /// It never does.
    pub async fn until_ledger(
        &self,
        what: &str,
        holds: impl Fn(&[crate::backend::ConnectionLife]) -> bool,
    ) -> Result<(), LabError> {
        let began = Instant::now();
        while !holds(&self.backends.ledger().lives()) {
            if began.elapsed() > SLACK {
                let last = format!("{:?}", self.backends.ledger().lives());
                return Err(LabError::Never { what: what.to_owned(), waited: began.elapsed(), last });
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Sleeps until `share` of the stream time has passed since `from`.
    pub async fn at(&self, from: Instant, share: f64) {
        sleep_until(from + self.stream.mul_f64(share)).await;
    }

    /// The admin port of the Envoy with the DNS cluster.
    #[must_use]
    pub fn admin(&self) -> Admin {
        self.proxies[self.proxies.len() - 1].admin()
    }

    /// Tears down and writes the evidence.
    pub async fn conclude<M: Serialize>(
        mut self,
        result: Result<M, LabError>,
        judge: fn(&Cell, &M) -> Judgement,
        exhibits: fn(&M) -> Exhibits,
    ) -> Evidence {
        let crashed = self.proxies.iter_mut().find_map(|proxy| proxy.check().err());
        let result = crashed.map_or(result, |error| Err(error.into()));
        let mut evidence = blank(self.experiment, self.cell.clone(), self.started_at);
        match result {
            Ok(measured) => {
                let judgement = judge(&self.cell, &measured);
                evidence.verdict = judgement.verdict;
                evidence.because = judgement.because;
                let exhibits = exhibits(&measured);
                evidence.tables = exhibits.tables;
                evidence.bars = exhibits.bars;
                evidence.measured = serde_json::to_value(&measured).unwrap_or_default();
            }
            Err(error) => evidence.because = explain(&error),
        }
        for proxy in self.proxies.drain(..) {
            proxy.stop().await;
        }
        self.recorder.finish(&self.backends, &self.dns.log(), &mut evidence);
        evidence.took_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        evidence
    }
}

/// Evidence of a cell that did not come up.
#[must_use]
pub fn inconclusive(experiment: &Experiment, cell: Cell, error: &LabError) -> Evidence {
    Evidence { because: explain(error), ..blank(experiment, cell, Timestamp::now()) }
}

fn explain(error: &LabError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    format!("{text} ({})", error.hint())
}

fn blank(experiment: &Experiment, cell: Cell, started_at: Timestamp) -> Evidence {
    Evidence {
        experiment: experiment.id.to_owned(),
        question: experiment.question.to_owned(),
        cell,
        started_at,
        took_ms: 0,
        verdict: Verdict::Inconclusive,
        because: String::new(),
        measured: serde_json::Value::Null,
        tables: Vec::new(),
        bars: Vec::new(),
        timeline: crate::evidence::Timeline::default(),
        snapshots: Vec::new(),
        exchanges: Vec::new(),
    }
}

/// One Envoy, or a sidecar in front of a gateway; the one with the DNS cluster is last.
async fn start_proxies(
    cell: &Cell,
    plan: &Plan,
    trust: &Trust,
    dns: &NameServer,
    backend_port: u16,
    binary: &Binary,
) -> Result<Vec<Envoy>, LabError> {
    let cluster = DnsCluster {
        discovery: cell.resolution,
        resolver: dns.addr(),
        backend_port,
        refresh: plan.refresh,
        connect_timeout: plan.connect_timeout,
        outlier: plan.outlier,
        close_on_host_set_change: plan.close_on_host_set_change,
    };
    let behind_mtls = cell.topology == Topology::Gateway;
    let egress = Proxy {
        version: binary.version,
        old_dns: cell.old_dns,
        host: HOST,
        layer: cell.path,
        http: cell.http,
        behind_mtls,
        upstream: Upstream::Dns(cluster),
        trust: trust.envoy(),
        max_connection_duration: plan.max_connection_duration,
    };
    let last = Envoy::start(binary, &bootstrap::bootstrap(&egress)).await?;
    if !behind_mtls {
        return Ok(vec![last]);
    }
    // A lifetime on the gateway's listener is what the DestinationRule sets; the sidecar has none of its own.
    let sidecar = Proxy {
        behind_mtls: false,
        upstream: Upstream::Gateway(last.front()),
        max_connection_duration: None,
        ..egress
    };
    let first = Envoy::start(binary, &bootstrap::bootstrap(&sidecar)).await?;
    Ok(vec![first, last])
}

impl Bench {
    async fn look(&self, label: &str) -> Result<Snapshot, LabError> {
        let (admin, cluster) = (self.admin(), cluster_name(HOST));
        let listed = admin.hosts(&cluster).await?;
        let counters = admin.cluster_stats(&cluster).await?;
        let keep = |(name, value): (String, u64)| recorder::is_kept(&name).then_some((name, value));
        Ok(Snapshot {
            label: label.to_owned(),
            at_ms: recorder::ms(self.start.elapsed()),
            dns: self.dns.answer(),
            listed,
            counters: counters.into_iter().filter_map(keep).collect(),
        })
    }
}

fn host_name() -> Name {
    Name::parse(HOST).unwrap_or_else(|_| unreachable!("a constant"))
}

/// Whether the path hides HTTP from Envoy.
#[must_use]
pub fn is_l4(cell: &Cell) -> bool {
    cell.path == Layer::Passthrough
}
