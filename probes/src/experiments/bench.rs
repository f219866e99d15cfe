//! The bench of one cell: lab DNS, backends, Envoy (or two) and a client on loopback or in pods, with a recorder of
//! everything that happens. An experiment gets a bench, does its steps on it and hands back what it measured;
//! dropping the bench tears down what it started.

pub mod agent;
mod backends;
mod control_plane;
mod dns;
mod error;
pub mod mesh;
mod plan;
mod proxies;
mod recorder;
mod site;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::experiments::Experiment;
use crate::experiments::evidence::{Answered, Cell, EgressCell, Evidence, Exhibits, Judgement, Snapshot};
use crate::lab::backend::Backends;
use crate::lab::ca::{Roots, Trust};
use crate::lab::client::{Client, Exchange};
use crate::lab::envoy::admin::Admin;
use crate::lab::envoy::bootstrap::{Layer, cluster_name, cluster_name_at};
use crate::lab::envoy::{Binary, Envoy, EnvoyError};
use backends::LabBackends;
use dns::{NameServer, host_name};
use labdns::Command;
use labdns::command::{Clear, FaultKind, FaultOn, Flip, Target};
use recorder::Recorder;
use site::Part;

pub use control_plane::{Publish, Wanted};
pub use error::LabError;
pub use plan::{Plan, fixed, pool, ttl};
pub use site::{Place, Site};

/// The external name of every lab.
pub const HOST: &str = "api.partner.example";

/// Draws of the lab DNS are the same in every run.
const SEED: u64 = 1;

/// A control plane has sent a cluster, and DNS has answered.
const SENT: Duration = Duration::from_secs(30);

/// Envoy's own way to a new address is one TTL, one jitter and one answer; this much more is an Envoy that is stuck.
const SLACK: Duration = Duration::from_secs(10);

/// What to set up.
pub struct Setup {
    /// Id of the experiment.
    pub experiment: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// Where it runs.
    pub cell: EgressCell,
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
    roots: Roots,
    dns: NameServer,
    backends: LabBackends,
    proxies: Vec<Envoy>,
    /// Where clients connect: the sidecar's listener.
    front: SocketAddr,
    /// Of the Envoy with the DNS cluster.
    admin: Admin,
    /// What that cluster is called.
    cluster: String,
    recorder: Recorder,
}

/// The client's own pod, whose proxy has the cluster from the mesh.
#[derive(Debug, Clone, Copy)]
pub struct Around {
    /// Where the proxy takes connections to the name.
    pub front: SocketAddr,
    /// The proxy's admin port.
    pub admin: Admin,
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
        let scenario = setup.plan.scenario(&backends.addrs())?;
        let dns = NameServer::start(&scenario, SEED, started_at).await?;
        let resolver = dns.addr();
        let ads = match setup.publish.take() {
            Some(publish) => {
                let wanted = Wanted { resolver, backend_port: backends.port() };
                Some(publish(wanted).await.map_err(LabError::ControlPlane)?)
            }
            None => None,
        };
        let sent = ads.is_some();
        let proxies = proxies::start(&setup, &trust, resolver, backends.port(), ads, binary).await?;
        // The one with the DNS cluster is last.
        let (front, admin) = (proxies[0].front(), proxies[proxies.len() - 1].admin());
        let cluster = cluster_name(HOST);
        if sent {
            proxies::until_sent(admin, &cluster).await?;
        }
        let served = dns.in_service().await?;
        let recorder = Recorder::start(admin, cluster.clone(), start, setup.stream, served);
        let (roots, backends) = (trust.roots().clone(), LabBackends::here(backends));
        Ok(Self { setup, start, started_at, roots, dns, backends, proxies, front, admin, cluster, recorder })
    }

    /// Takes over a lab whose parts are pods, from within the client's, and waits until its proxy has the cluster.
    ///
    /// # Errors
    /// A pod that does not answer, or a proxy that is not sent the cluster.
    pub async fn join(setup: Setup, site: &Site, around: Around) -> Result<Self, LabError> {
        let (start, started_at) = (Instant::now(), Timestamp::now());
        let backends = LabBackends::there(site, start).await?;
        let roots = backends.roots().await?;
        let scenario = setup.plan.scenario(&backends.addrs())?;
        let dns = NameServer::prepare(Part::new(site.dns)?, &scenario, started_at).await?;
        let Around { front, admin } = around;
        let cluster = cluster_name_at(mesh_port(setup.cell.path), HOST);
        proxies::until_told(admin, &cluster, setup.cell.resolution, &dns).await?;
        let served = dns.in_service().await?;
        let recorder = Recorder::start(admin, cluster.clone(), start, setup.stream, served);
        let proxies = Vec::new();
        Ok(Self { setup, start, started_at, roots, dns, backends, proxies, front, admin, cluster, recorder })
    }

    /// The cell's coordinates.
    #[must_use]
    pub const fn cell(&self) -> &EgressCell {
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
        let cell = &self.setup.cell;
        Ok(Client::new(self.front, HOST, cell.path, cell.http, &self.roots, self.start)?)
    }

    /// Where clients connect: the sidecar's listener.
    #[must_use]
    pub const fn front(&self) -> SocketAddr {
        self.front
    }

    /// The addresses of the backends.
    #[must_use]
    pub fn addrs(&self) -> Vec<IpAddr> {
        self.backends.addrs()
    }

    /// The backends, to be killed and revived.
    pub const fn backends(&mut self) -> &mut LabBackends {
        &mut self.backends
    }

    /// Changes the DNS answer to these backends.
    ///
    /// # Errors
    /// The name has no addresses to change, or the lab DNS is out of reach.
    pub async fn flip(&mut self, to: &[usize]) -> Result<(), LabError> {
        let to = to.iter().map(|&index| Target::Addr(self.backends.addrs()[index])).collect();
        self.command("flip", Command::Flip(Flip { name: host_name(), to })).await
    }

    /// Breaks the answers about the name in this way, or mends them.
    ///
    /// # Errors
    /// The lab DNS is out of reach.
    pub async fn fault(&mut self, fault: Option<FaultKind>) -> Result<(), LabError> {
        match fault {
            Some(kind) => {
                let fault = FaultOn { name: Some(host_name()), fault: kind.into() };
                self.command("DNS breaks", Command::Fault(fault)).await
            }
            None => self.command("DNS is mended", Command::Clear(Clear { name: None })).await,
        }
    }

    async fn command(&mut self, label: &str, command: Command) -> Result<(), LabError> {
        self.dns.apply(command).await?;
        self.recorder.answer(self.dns.in_service().await?);
        self.mark(label);
        Ok(())
    }

    /// The CA that clients of the external name must trust, as PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.roots.pem()
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
    ///
    /// # Errors
    /// The lab DNS is out of reach.
    pub async fn answers(&self) -> Result<Vec<Answered>, LabError> {
        self.dns.log().await
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
    /// It never does, or a backend is out of reach.
    pub async fn until_ledger(
        &self,
        what: &str,
        holds: impl Fn(&[crate::lab::backend::ConnectionLife]) -> bool,
    ) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            let lives = self.backends.lives().await?;
            if holds(&lives) {
                return Ok(());
            }
            if began.elapsed() > SLACK {
                let last = format!("{lives:?}");
                return Err(LabError::Never { what: what.to_owned(), waited: began.elapsed(), last });
            }
            sleep(Duration::from_millis(5)).await;
        }
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
    pub const fn admin(&self) -> Admin {
        self.admin
    }

    /// What the DNS cluster is called.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Tears down and writes the evidence.
    pub async fn conclude<M: Serialize>(
        mut self,
        result: Result<M, LabError>,
        judge: fn(&EgressCell, &M) -> Judgement,
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
            Evidence::blank(experiment, question, Cell::Egress(cell.clone()), self.started_at)
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
        // Without them the verdict stands, and the timeline has gaps.
        evidence.queries = self.dns.log().await.unwrap_or_default();
        let lives = self.backends.lives().await.unwrap_or_default();
        self.recorder.finish(&self.backends, &lives, &mut evidence);
        self.backends.release().await;
        evidence.took_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        evidence
    }
}

/// Evidence of a cell that did not come up.
#[must_use]
pub fn inconclusive(experiment: &Experiment, cell: EgressCell, error: &LabError) -> Evidence {
    Evidence {
        because: explain(error),
        ..Evidence::blank(experiment.id, experiment.question, Cell::Egress(cell), Timestamp::now())
    }
}

fn explain(error: &LabError) -> String {
    format!("{} ({})", policies::chain(error), error.hint())
}

impl Bench {
    fn crashed(&mut self) -> Option<EnvoyError> {
        self.proxies.iter_mut().find_map(|proxy| proxy.check().err())
    }

    async fn look(&self, label: &str) -> Result<Snapshot, LabError> {
        let listed = self.admin.hosts(&self.cluster).await?;
        let counters = self.admin.cluster_stats(&self.cluster).await?;
        let keep = |(name, value): (String, u64)| recorder::is_kept(&name).then_some((name, value));
        Ok(Snapshot {
            label: label.to_owned(),
            at_ms: recorder::ms(self.start.elapsed()),
            dns: self.dns.in_service().await?,
            listed,
            counters: counters.into_iter().filter_map(keep).collect(),
        })
    }
}

/// Whether the path hides HTTP from Envoy.
#[must_use]
pub fn is_l4(cell: &EgressCell) -> bool {
    cell.path == Layer::Passthrough
}

/// The port of the name's ServiceEntry in a mesh: HTTP and TLS cannot share one.
#[must_use]
pub const fn mesh_port(path: Layer) -> u16 {
    match path {
        Layer::Passthrough => 443,
        Layer::Http => 80,
    }
}
