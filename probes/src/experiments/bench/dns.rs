//! The lab DNS of one cell: what the name has in service, and what Envoy was told. In this process, or a pod that is
//! steered over its control API. Driven by the bench.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use labdns::command::{Clear, Set};
use labdns::log::{Entry, Filter, Transport};
use labdns::zone::NameView;
use labdns::{Command, LabDns, Name, Options, RecordType, Scenario};

use super::site::{NOTHING, Part};
use super::{HOST, LabError};
use crate::experiments::evidence::Answered;

/// A name server with the records of one experiment.
pub(super) struct NameServer {
    served: Served,
    /// The zero of its log.
    started_at: Timestamp,
}

enum Served {
    Here(LabDns),
    There {
        control: Part,
        /// The last query before this cell.
        since: u64,
    },
}

impl NameServer {
    pub(super) async fn start(
        scenario: &Scenario,
        seed: u64,
        started_at: Timestamp,
    ) -> Result<Self, LabError> {
        let options = Options { seed, ..Options::default() };
        let lab = LabDns::start(scenario, &options).await?;
        Ok(Self { served: Served::Here(lab), started_at })
    }

    /// Puts the records into a lab DNS that runs already, healthy.
    pub(super) async fn prepare(
        control: Part,
        scenario: &Scenario,
        started_at: Timestamp,
    ) -> Result<Self, LabError> {
        control.post("/commands", &Command::Clear(Clear { name: None })).await?;
        for (name, spec) in &scenario.names {
            let set = Set { a: spec.a.clone(), ..Set::of(name.clone()) };
            control.post("/commands", &Command::Set(Box::new(set))).await?;
        }
        let last: Vec<Entry> = control.get("/log", &Filter { limit: Some(1), ..Filter::default() }).await?;
        let since = last.first().map_or(0, |entry| entry.seq);
        Ok(Self { served: Served::There { control, since }, started_at })
    }

    /// Where it answers; a pod's answers at the address of its control API.
    pub(super) fn addr(&self) -> SocketAddr {
        match &self.served {
            Served::Here(lab) => lab.authority_addr(),
            Served::There { control, .. } => control.addr(),
        }
    }

    /// The control API, where `lab dns flip` and its like reach it.
    pub(super) fn control(&self) -> Option<SocketAddr> {
        match &self.served {
            Served::Here(lab) => lab.control_addr(),
            Served::There { control, .. } => Some(control.addr()),
        }
    }

    pub(super) async fn apply(&self, command: Command) -> Result<(), LabError> {
        match &self.served {
            Served::Here(lab) => Ok(lab.apply(command)?),
            Served::There { control, .. } => control.post("/commands", &command).await,
        }
    }

    /// The addresses of the name that are in service; none while it is at fault.
    pub(super) async fn in_service(&self) -> Result<Vec<IpAddr>, LabError> {
        let names: Vec<NameView> = match &self.served {
            Served::Here(lab) => lab.names(),
            Served::There { control, .. } => control.get("/names", &NOTHING).await?,
        };
        let name = names.into_iter().find(|view| view.name.as_str() == HOST);
        let healthy = name.filter(|view| view.faults.is_empty());
        Ok(healthy.and_then(|view| view.a).map(|records| records.addresses).unwrap_or_default())
    }

    /// Every query for an IPv4 address so far, in order.
    pub(super) async fn log(&self) -> Result<Vec<Answered>, LabError> {
        let mut filter = Filter { record_type: Some(RecordType::A), ..Filter::default() };
        let entries = match &self.served {
            Served::Here(lab) => lab.log(&filter),
            Served::There { control, since } => {
                filter.name = Some(host_name());
                filter.since = Some(*since);
                control.get("/log", &filter).await?
            }
        };
        // Another machine's clock in a cluster, which NTP holds within milliseconds of this one.
        let since = |at: Timestamp| {
            u64::try_from(at.as_millisecond() - self.started_at.as_millisecond()).unwrap_or(0)
        };
        Ok(entries
            .into_iter()
            .map(|entry| Answered {
                at_ms: since(entry.at),
                addrs: entry.addresses,
                tcp: entry.transport == Transport::Tcp,
            })
            .collect())
    }
}

pub(super) fn host_name() -> Name {
    Name::parse(HOST).unwrap_or_else(|_| unreachable!("a constant"))
}
