//! What HAProxy and Envoy say about one pod, every few milliseconds: the raw material of the six events. Runs beside
//! a scenario and is stopped at its end; asks Envoy's admin and HAProxy's stats socket only, never the data path.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::lab::envoy::admin::Admin;
use crate::lab::haproxy::stats;

/// One look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// ms from the start of the stage.
    pub at_ms: u64,
    /// HAProxy's word for the pod's server.
    pub lb: Option<String>,
    /// Sessions that HAProxy has on it.
    pub sessions: Option<u64>,
    /// Requests in Envoy's hands.
    pub active: Option<u64>,
}

/// A watcher at work.
#[derive(Debug)]
pub struct Watch {
    task: JoinHandle<()>,
    samples: tokio::sync::mpsc::UnboundedReceiver<Sample>,
}

impl Watch {
    /// Looks at `server` every `pause`. `socket` is HAProxy's stats socket, `start` the zero of the axis.
    #[must_use]
    pub fn start(socket: PathBuf, server: String, admin: Admin, start: Instant, pause: Duration) -> Self {
        let (sender, samples) = tokio::sync::mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            loop {
                // Envoy first: what DOWN cuts is never seen as gone before DOWN itself.
                let gauges = admin.stats("^http.ingress.downstream_rq_active$").await.unwrap_or_default();
                let lines = stats::ask(&socket).await.unwrap_or_default();
                let line = lines.into_iter().find(|line| line.name == server);
                let sample = Sample {
                    at_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
                    sessions: line.as_ref().map(|line| line.sessions),
                    lb: line.map(|line| line.status),
                    active: gauges.into_values().next(),
                };
                if sender.send(sample).is_err() {
                    return;
                }
                sleep(pause).await;
            }
        });
        Self { task, samples }
    }

    /// Ends it and gives what it saw.
    #[must_use]
    pub fn stop(mut self) -> Vec<Sample> {
        self.task.abort();
        let mut seen = Vec::new();
        while let Ok(sample) = self.samples.try_recv() {
            seen.push(sample);
        }
        seen
    }
}
