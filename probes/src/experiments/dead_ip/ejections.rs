//! When outlier detection ejects an address and takes it back: the gauge `ejections_active`, asked twenty times a
//! second while the load runs.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval};

use crate::envoy::bootstrap::cluster_name;
use crate::evidence::Table;
use crate::lab::{Bench, HOST};

/// One ejection; times from the start of the load.
#[derive(Debug, Serialize)]
pub(super) struct Cycle {
    ejected_ms: u64,
    returned_ms: Option<u64>,
}

pub(super) struct Watch {
    end: oneshot::Sender<()>,
    task: JoinHandle<Vec<Cycle>>,
}

impl Watch {
    pub(super) fn start(bench: &Bench) -> Self {
        let (admin, (end, mut ended)) = (bench.admin(), oneshot::channel());
        let task = tokio::spawn(async move {
            let (start, mut turns, mut cycles) =
                (Instant::now(), interval(Duration::from_millis(50)), Vec::new());
            loop {
                tokio::select! {
                    _ = turns.tick() => {}
                    _ = &mut ended => return cycles,
                }
                let Ok(stats) = admin.cluster_stats(&cluster_name(HOST)).await else { continue };
                let active = stats.get("outlier_detection.ejections_active").copied().unwrap_or(0) > 0;
                note(&mut cycles, active, u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
            }
        });
        Self { end, task }
    }

    pub(super) async fn end(self) -> Vec<Cycle> {
        let _ = self.end.send(());
        self.task.await.unwrap_or_default()
    }
}

fn note(cycles: &mut Vec<Cycle>, active: bool, at: u64) {
    let ejected = cycles.last_mut().filter(|cycle| cycle.returned_ms.is_none());
    match (ejected, active) {
        (Some(cycle), false) => cycle.returned_ms = Some(at),
        (None, true) => cycles.push(Cycle { ejected_ms: at, returned_ms: None }),
        _ => {}
    }
}

/// Time to eject and time ejected, cycle by cycle.
pub(super) fn table(cycles: &[Cycle]) -> Table {
    let mut back = 0;
    let rows = cycles.iter().enumerate().map(|(n, cycle)| {
        let to_eject = cycle.ejected_ms.saturating_sub(back);
        let away = cycle.returned_ms.map(|returned| returned - cycle.ejected_ms);
        back = cycle.returned_ms.unwrap_or(cycle.ejected_ms);
        let away = away.map_or_else(|| "to the end".to_owned(), |ms| format!("{ms} ms"));
        vec![(n + 1).to_string(), format!("{to_eject} ms"), away]
    });
    Table::new("Ejections", &["cycle", "time to eject", "ejected for"], rows.collect())
}
