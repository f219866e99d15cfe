//! Clients that each send one request after the other on new connections, and a tally of what they saw.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::lab::client::{Client, Exchange};

/// Clients at once: black-holed attempts take their whole timeout, and one client would see few of them.
pub(in crate::experiments) const CLIENTS: usize = 4;
/// Between two requests of a client: each is a TLS handshake at both ends, and dozens of cells run at once.
const PAUSE: Duration = Duration::from_millis(50);

/// Requests begun within `time`, in the order of their beginning.
pub(in crate::experiments) async fn run(client: &Client, clients: usize, time: Duration) -> Vec<Exchange> {
    let until = Instant::now() + time;
    let clients = (0..clients).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut done = Vec::new();
            while Instant::now() < until {
                // As curl's -m 10 to a stream of 40 s, with time for Envoy's own connect timeout.
                done.push(client.once("load", "/", time / 2 + Duration::from_secs(1)).await);
                sleep(PAUSE).await;
            }
            done
        })
    });
    let mut all = Vec::new();
    for task in clients.collect::<Vec<_>>() {
        all.extend(task.await.unwrap_or_default());
    }
    all.sort_by_key(|exchange| exchange.at_ms);
    all
}

/// Counts over a run.
#[derive(Debug, Serialize)]
pub(in crate::experiments) struct Tally {
    pub(in crate::experiments) requests: usize,
    pub(in crate::experiments) failed: usize,
    /// Failures in the last third of the time.
    pub(in crate::experiments) failed_late: usize,
    pub(in crate::experiments) by_kind: BTreeMap<String, usize>,
}

impl Tally {
    pub(in crate::experiments) fn of(requests: &[Exchange]) -> Self {
        let (first, last) = (requests.first().map_or(0, |x| x.at_ms), requests.last().map_or(0, |x| x.at_ms));
        let late = first + (last - first) * 2 / 3;
        let failed: Vec<&Exchange> = requests.iter().filter(|exchange| !exchange.ok()).collect();
        let mut by_kind = BTreeMap::new();
        for exchange in &failed {
            let kind = exchange.failure.as_ref().map_or_else(
                || format!("status {}", exchange.status.unwrap_or(0)),
                |failure| failure.kind().to_owned(),
            );
            *by_kind.entry(kind).or_default() += 1;
        }
        let failed_late = failed.iter().filter(|exchange| exchange.at_ms >= late).count();
        Self { requests: requests.len(), failed: failed.len(), failed_late, by_kind }
    }

    pub(in crate::experiments) fn failed_share(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "thousands of requests at most")]
        let (failed, requests) = (self.failed as f64, self.requests.max(1) as f64);
        failed / requests
    }
}
