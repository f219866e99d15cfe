//! The lab DNS of one cell: what the name has in service, and what Envoy was told. Driven by the bench.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use labdns::log::{Filter, Transport};
use labdns::{Command, CommandError, LabDns, Options, RecordType, Scenario, StartError};

use super::HOST;
use crate::evidence::Answered;

/// A name server with one scenario.
pub(super) struct NameServer {
    lab: LabDns,
    started_at: Timestamp,
}

impl NameServer {
    /// `started_at` is the zero of its log.
    pub(super) async fn start(
        scenario: &Scenario,
        seed: u64,
        started_at: Timestamp,
    ) -> Result<Self, StartError> {
        let options = Options { seed, ..Options::default() };
        Ok(Self { lab: LabDns::start(scenario, &options).await?, started_at })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.lab.authority_addr()
    }

    /// The control API, where `lab dns flip` and its like reach it.
    pub(super) fn control(&self) -> Option<SocketAddr> {
        self.lab.control_addr()
    }

    pub(super) fn apply(&self, command: Command) -> Result<(), CommandError> {
        self.lab.apply(command)
    }

    /// The addresses of the name that are in service; none while it is at fault.
    pub(super) fn in_service(&self) -> Vec<IpAddr> {
        let name = self.lab.names().into_iter().find(|view| view.name.as_str() == HOST);
        let healthy = name.filter(|view| view.faults.is_empty());
        healthy.and_then(|view| view.a).map(|records| records.addresses).unwrap_or_default()
    }

    /// Every query for an IPv4 address so far, in order.
    pub(super) fn log(&self) -> Vec<Answered> {
        let filter = Filter { record_type: Some(RecordType::A), ..Filter::default() };
        let since = |at: Timestamp| {
            u64::try_from(at.as_millisecond() - self.started_at.as_millisecond()).unwrap_or(0)
        };
        let entries = self.lab.log(&filter).into_iter();
        entries
            .map(|entry| Answered {
                at_ms: since(entry.at),
                addrs: entry.addresses,
                tcp: entry.transport == Transport::Tcp,
            })
            .collect()
    }
}
