//! A scenario in service on real sockets: [`LabDns::start`] binds the zone, the resolvers in front of it and the
//! control API, and dropping the [`LabDns`] closes them all. Used by `probes`, the `lab` commands and tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::command::{Command, CommandError};
use crate::control::{Control, Info};
use crate::log::{Entry, Filter};
use crate::name::Name;
use crate::resolver::Farm;
use crate::scenario::{NameServer, Scenario};
use crate::seed::seed_of;
use crate::server::service::{Service, Shared, lock};
use crate::server::{Bound, Listeners};
use crate::zone::{NameView, Zone};

/// Where and how a lab is served.
#[derive(Debug, Clone)]
pub struct Options {
    /// Addresses of the zone's own server (default: one free port of 127.0.0.1). Port 0 is chosen by the system, the
    /// same for all addresses.
    pub authority: Vec<SocketAddr>,
    /// Address of the first resolver; the others follow on the next ports, or on free ones with port 0 (the
    /// default).
    pub resolver: SocketAddr,
    /// Address of the control API (default: a free port of 127.0.0.1); `None`: none.
    pub control: Option<SocketAddr>,
    /// Seed of every draw (default 1).
    pub seed: u64,
    /// Queries that the log keeps (default 10,000; about 200 bytes each).
    pub log_capacity: usize,
}

/// A lab in service.
pub struct LabDns {
    shared: Arc<Shared>,
    authority: Listeners,
    resolvers: Vec<Listeners>,
    control: Option<Control>,
}

/// Why a lab cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("cannot listen on {addr}")]
    Bind {
        /// The address that was asked for.
        addr: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// A name that DNS cannot carry.
    #[error("the zone cannot be served")]
    Zone(#[source] hickory_proto::ProtoError),
}

impl StartError {
    /// What to do instead.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Bind { .. } => {
                "free the address, or choose another; port 0 takes any free one, and ports below 1024 need privileges"
            }
            Self::Zone(_) => "shorten the names of the zone and of its name servers",
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Self { authority: vec![any], resolver: any, control: Some(any), seed: 1, log_capacity: 10_000 }
    }
}

impl LabDns {
    /// Serves a scenario. Its clock starts now. To be called within a Tokio runtime, which must outlive the lab.
    ///
    /// # Errors
    /// [`StartError`] where an address cannot be bound.
    pub async fn start(scenario: &Scenario, options: &Options) -> Result<Self, StartError> {
        let authority = bind(&options.authority, scenario.tcp).await?;
        let mut scenario = scenario.clone();
        if scenario.ns.is_empty() {
            scenario.ns = default_name_servers(&scenario.zone, &authority.addrs);
        }
        let zone = Zone::new(&scenario, options.seed);
        let shared = Shared::new(zone, scenario.max_udp, options.log_capacity).map_err(StartError::Zone)?;
        let shared = Arc::new(shared);
        let service = Arc::new(Service::authority(shared.clone()));
        let authority = serve(authority, &service)?;

        let mut resolvers = Vec::new();
        for (number, spec) in scenario.resolvers.iter().enumerate() {
            let mut addr = options.resolver;
            if addr.port() != 0 {
                addr.set_port(addr.port().saturating_add(u16::try_from(number).unwrap_or(u16::MAX)));
            }
            let farm = Farm::new(spec, seed_of(options.seed, &number.to_be_bytes()));
            let service = Arc::new(Service::resolver(shared.clone(), number, farm));
            resolvers.push(serve(bind(&[addr], scenario.tcp).await?, &service)?);
        }
        let mut lab = Self { shared, authority, resolvers, control: None };
        if let Some(addr) = options.control {
            let info = Info {
                zone: scenario.zone.clone(),
                seed: options.seed,
                authority: lab.authority_addrs().to_vec(),
                resolvers: lab.resolver_addrs(),
            };
            let control = Control::start(addr, lab.shared.clone(), info).await;
            lab.control = Some(control.map_err(|source| StartError::Bind { addr, source })?);
        }
        Ok(lab)
    }

    /// Address of the zone's own server, the first one.
    #[must_use]
    pub fn authority_addr(&self) -> SocketAddr {
        self.authority.addrs[0]
    }

    /// Addresses of the zone's own server.
    #[must_use]
    pub fn authority_addrs(&self) -> &[SocketAddr] {
        &self.authority.addrs
    }

    /// Addresses of the resolvers, in the order of the scenario.
    #[must_use]
    pub fn resolver_addrs(&self) -> Vec<SocketAddr> {
        self.resolvers.iter().flat_map(|resolver| resolver.addrs.iter().copied()).collect()
    }

    /// Address of the control API.
    #[must_use]
    pub fn control_addr(&self) -> Option<SocketAddr> {
        self.control.as_ref().map(Control::addr)
    }

    /// Time since the start: the clock that timed steps go by.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.now()
    }

    /// Carries out a command; the next query sees it.
    ///
    /// # Errors
    /// [`CommandError`] where the command does not fit the zone.
    pub fn apply(&self, command: Command) -> Result<(), CommandError> {
        lock(&self.shared.zone).apply(command, self.now())
    }

    /// Queries that pass the filter, oldest first.
    #[must_use]
    pub fn log(&self, filter: &Filter) -> Vec<Entry> {
        lock(&self.shared.log).select(filter)
    }

    /// The names in service.
    #[must_use]
    pub fn names(&self) -> Vec<NameView> {
        lock(&self.shared.zone).names(self.now()).collect()
    }

    /// Closes all sockets and waits until their tasks have ended. Dropping does the same without waiting for TCP.
    pub async fn shutdown(mut self) {
        if let Some(control) = self.control.take() {
            control.shutdown().await;
        }
        for listeners in self.resolvers.iter_mut().chain([&mut self.authority]) {
            listeners.shutdown().await;
        }
    }
}

async fn bind(addrs: &[SocketAddr], tcp: bool) -> Result<Bound, StartError> {
    let addr = addrs.first().copied().unwrap_or_else(|| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
    let addrs = if addrs.is_empty() { &[addr] } else { addrs };
    Bound::bind(addrs, tcp).await.map_err(|source| StartError::Bind { addr, source })
}

fn serve(bound: Bound, service: &Arc<Service>) -> Result<Listeners, StartError> {
    let addr = bound.addrs[0];
    bound.serve(service).map_err(|source| StartError::Bind { addr, source })
}

/// A name server at the addresses that the zone is served on.
fn default_name_servers(zone: &Name, addrs: &[SocketAddr]) -> Vec<NameServer> {
    let addresses = addrs.iter().map(SocketAddr::ip).collect();
    let name = Name::parse(&format!("ns1.{zone}"));
    name.map(|name| NameServer { name, addresses }).into_iter().collect()
}
