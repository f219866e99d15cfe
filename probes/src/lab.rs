//! The bench of one cell: lab DNS, backends, Envoy (or two) and a client on loopback, with a recorder of everything
//! that happens. An experiment gets a bench, does its steps on it and hands back what it measured; dropping the
//! bench tears all of it down.

mod control_plane;
mod dns;
mod error;
mod plan;
mod recorder;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::backend::Backends;
use crate::client::{Client, Exchange};
use crate::envoy::admin::Admin;
use crate::envoy::bootstrap::{self, Ads, DnsCluster, Layer, Proxy, Upstream, cluster_name};
use crate::envoy::process::Launch;
use crate::envoy::{Binary, Envoy, EnvoyError};
use crate::evidence::{Answered, Cell, Evidence, Exhibits, Judgement, Snapshot, Topology};
use crate::experiments::Experiment;
use crate::trust::Trust;
use dns::NameServer;
use labdns::command::{Clear, FaultKind, FaultOn, Flip, Target};
use labdns::{Command, Name};
use recorder::Recorder;

pub use control_plane::{Publish, Wanted};
pub use error::LabError;
pub use plan::{Plan, fixed, pool, ttl};

/// The external name of every lab.
pub const HOST: &str = "api.partner.example";

/// Draws of the lab DNS are the same in every run.
const SEED: u64 = 1;

/// Envoy's own way to a new address is one TTL, one jitter and one answer; this much more is an Envoy that is stuck.
const SLACK: Duration = Duration::from_secs(10);

/// What to set up.
pub struct Setup {
    /// Id of the experiment.
    pub experiment: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// Where it runs.
    pub cell: Cell,
    /// What it wants.
    pub plan: Plan,
    /// The stream time that all other times are derived from.
    pub stream: Duration,
    /// Where the Envoys' files stay; without it they go with the bench.
    pub keep: Option<PathBuf>,
    /// Who sends the DNS cluster, where that is not the lab's own bootstrap.
    pub publish: Option<Publish>,
}

/// A running cell.
pub struct Bench {
    setup: Setup,
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
    pub async fn start(mut setup: Setup, binary: &Binary) -> Result<Self, LabError> {
        let (start, started_at) = (Instant::now(), Timestamp::now());
        let trust = Trust::generate(HOST)?;
        let backends = Backends::start(setup.plan.backends, &trust, start).await?;
        let scenario = setup.plan.scenario()?;
        let dns = NameServer::start(&scenario, SEED, started_at).await?;
        let ads = match setup.publish.take() {
            Some(publish) => {
                let (discovery, resolver) = (setup.cell.resolution, dns.addr());
                let wanted = Wanted { host: HOST, discovery, resolver, backend_port: backends.port() };
                Some(publish(wanted).await.map_err(LabError::ControlPlane)?)
            }
            None => None,
        };
        let sent = ads.is_some();
        let proxies = start_proxies(&setup, &trust, &dns, backends.port(), ads, binary).await?;
        if sent {
            until_sent(proxies[0].admin()).await?;
        }
        let admin = proxies[proxies.len() - 1].admin();
        let recorder = Recorder::start(admin, cluster_name(HOST), start, setup.stream, dns.in_service());
        Ok(Self { setup, start, started_at, trust, dns, backends, proxies, recorder })
    }

    /// The cell's coordinates.
    #[must_use]
    pub const fn cell(&self) -> &Cell {
        &self.setup.cell
    }

    /// Whether this run is the control of that name.
    #[must_use]
    pub fn is_control(&self, name: &str) -> bool {
        self.setup.cell.control.as_deref() == Some(name)
    }

    /// The stream time that all other times are derived from.
    #[must_use]
    pub const fn stream(&self) -> Duration {
        self.setup.stream
    }

    /// A client of this cell, on the cell's path and HTTP version.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn client(&self) -> Result<Client, LabError> {
        let (front, cell) = (self.front(), &self.setup.cell);
        Ok(Client::new(front, HOST, cell.path, cell.http, &self.trust, self.start)?)
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
        self.recorder.answer(self.dns.in_service());
        self.mark(label);
        Ok(())
    }

    /// The CA that clients of the external name must trust, as PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.trust.envoy().ca_pem
    }

    /// The cell's lab DNS.
    #[must_use]
    pub fn dns_addr(&self) -> SocketAddr {
        self.dns.addr()
    }

    /// The control API of the cell's lab DNS.
    #[must_use]
    pub fn control(&self) -> Option<SocketAddr> {
        self.dns.control()
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
        sleep_until(from + self.setup.stream.mul_f64(share)).await;
    }

    /// The zero of the cell's clock.
    #[must_use]
    pub const fn clock(&self) -> Instant {
        self.start
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
        let mut crashed = self.crashed();
        if result.is_err() && crashed.is_none() {
            // A dying process closes its ports before it has ended: the crash is what is to be told, not the port.
            sleep(Duration::from_millis(300)).await;
            crashed = self.crashed();
        }
        let result = crashed.map_or(result, |error| Err(error.into()));
        let mut evidence = {
            let Setup { experiment, question, ref cell, .. } = self.setup;
            Evidence::blank(experiment, question, cell.clone(), self.started_at)
        };
        match result {
            Ok(measured) => {
                let judgement = judge(&self.setup.cell, &measured);
                evidence.verdict = judgement.verdict;
                evidence.because = judgement.because;
                evidence.seen = judgement.seen;
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
        evidence.queries = self.dns.log();
        self.recorder.finish(&self.backends, &self.dns.log(), &mut evidence);
        evidence.took_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        evidence
    }
}

/// Waits until the control plane has sent the cluster and DNS has given it a member.
async fn until_sent(admin: Admin) -> Result<(), LabError> {
    let began = Instant::now();
    while admin.hosts(&cluster_name(HOST)).await?.is_empty() {
        if began.elapsed() > SLACK {
            return Err(LabError::ControlPlane(format!(
                "no member of {} within {SLACK:?}",
                cluster_name(HOST)
            )));
        }
        sleep(Duration::from_millis(25)).await;
    }
    Ok(())
}

/// Evidence of a cell that did not come up.
#[must_use]
pub fn inconclusive(experiment: &Experiment, cell: Cell, error: &LabError) -> Evidence {
    Evidence {
        because: explain(error),
        ..Evidence::blank(experiment.id, experiment.question, cell, Timestamp::now())
    }
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

/// One Envoy, or a sidecar in front of a gateway; the one with the DNS cluster is last.
async fn start_proxies(
    setup: &Setup,
    trust: &Trust,
    dns: &NameServer,
    backend_port: u16,
    ads: Option<Ads>,
    binary: &Binary,
) -> Result<Vec<Envoy>, LabError> {
    let Setup { cell, plan, .. } = setup;
    let keep =
        |name| Launch { keep: setup.keep.as_ref().map(|folder| folder.join(name)), ..Launch::default() };
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
        upstream: ads.map_or(Upstream::Dns(cluster), Upstream::Ads),
        trust: trust.envoy(),
        max_connection_duration: plan.max_connection_duration,
    };
    let last = Envoy::start_with(binary, &bootstrap::bootstrap(&egress), keep("envoy")).await?;
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
    let first = Envoy::start_with(binary, &bootstrap::bootstrap(&sidecar), keep("sidecar")).await?;
    Ok(vec![first, last])
}

impl Bench {
    fn crashed(&mut self) -> Option<EnvoyError> {
        self.proxies.iter_mut().find_map(|proxy| proxy.check().err())
    }

    async fn look(&self, label: &str) -> Result<Snapshot, LabError> {
        let (admin, cluster) = (self.admin(), cluster_name(HOST));
        let listed = admin.hosts(&cluster).await?;
        let counters = admin.cluster_stats(&cluster).await?;
        let keep = |(name, value): (String, u64)| recorder::is_kept(&name).then_some((name, value));
        Ok(Snapshot {
            label: label.to_owned(),
            at_ms: recorder::ms(self.start.elapsed()),
            dns: self.dns.in_service(),
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
