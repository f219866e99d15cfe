//! What an experiment wants on its bench: how many backends, what DNS answers at first, and what the ServiceEntry,
//! the DestinationRule and the mesh would set.

use std::net::IpAddr;
use std::time::Duration;

use labdns::{Scenario, ScenarioError};

use super::HOST;
use crate::lab::envoy::bootstrap::Outlier;

/// The zone it lies in.
const ZONE: &str = "partner.example";

/// What an experiment wants on its bench.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Number of backends.
    pub backends: usize,
    /// What each name answers at first, in the YAML of a lab DNS scenario; `$0` stands for the first backend's
    /// address.
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

    /// The records with the backends' addresses put in.
    pub(super) fn scenario(&self, addrs: &[IpAddr]) -> Result<Scenario, ScenarioError> {
        let names: Vec<String> =
            self.records.iter().map(|(name, spec)| format!("  {name}: {spec}")).collect();
        let mut yaml = format!("zone: {ZONE}\nnames:\n{}\n", names.join("\n"));
        // The last first: `$1` is also how `$10` begins.
        for (index, addr) in addrs.iter().enumerate().rev() {
            yaml = yaml.replace(&format!("${index}"), &addr.to_string());
        }
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
    backends.iter().map(|index| format!("${index}")).collect::<Vec<_>>().join(", ")
}
