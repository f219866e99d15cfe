//! When outlier detection ejects an address and takes it back: the gauge `ejections_active`, asked twenty times a
//! second while the load runs.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::interval;

use crate::client::Exchange;
use crate::envoy::bootstrap::cluster_name;
use crate::evidence::Table;
use crate::lab::{Bench, HOST};

/// One ejection; times from the start of the cell.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "durations carry their unit in JSON")]
pub(super) struct Cycle {
    /// The gauge had risen.
    ejected_ms: u64,
    /// The gauge was still up; between this and the return it fell.
    still_ms: u64,
    returned_ms: Option<u64>,
}

pub(super) struct Watch {
    end: oneshot::Sender<()>,
    task: JoinHandle<Vec<Cycle>>,
}

impl Watch {
    pub(super) fn start(bench: &Bench) -> Self {
        let (admin, start, (end, mut ended)) = (bench.admin(), bench.clock(), oneshot::channel());
        let task = tokio::spawn(async move {
            let (mut turns, mut cycles) = (interval(Duration::from_millis(50)), Vec::new());
            loop {
                tokio::select! {
                    _ = turns.tick() => {}
                    _ = &mut ended => return cycles,
                }
                let asked = ms(start.elapsed());
                let Ok(stats) = admin.cluster_stats(&cluster_name(HOST)).await else { continue };
                let active = stats.get("outlier_detection.ejections_active").copied().unwrap_or(0) > 0;
                note(&mut cycles, active, asked, ms(start.elapsed()));
            }
        });
        Self { end, task }
    }

    pub(super) async fn end(self) -> Vec<Cycle> {
        let _ = self.end.send(());
        self.task.await.unwrap_or_default()
    }
}

/// The gauge was as `active` says at some moment between `asked` and `told`.
fn note(cycles: &mut Vec<Cycle>, active: bool, asked: u64, told: u64) {
    let ejected = cycles.last_mut().filter(|cycle| cycle.returned_ms.is_none());
    match (ejected, active) {
        (Some(cycle), true) => cycle.still_ms = asked,
        (Some(cycle), false) => cycle.returned_ms = Some(told),
        (None, true) => cycles.push(Cycle { ejected_ms: told, still_ms: told, returned_ms: None }),
        (None, false) => {}
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Envoy's `update_merge_window`, 1 s by default: a change of health that follows another within it reaches the
/// workers only at its end, so an address that came back and failed again goes on getting requests until then.
const MERGE_WINDOW_MS: u64 = 1000;

/// Failures of requests that began and ended while an address was away, as the workers knew: not in the first half
/// of an ejection, since on a machine with many cells the word reaches the workers later than the merge window says.
pub(super) fn failed_while_ejected(cycles: &[Cycle], requests: &[Exchange]) -> usize {
    let within = |request: &&Exchange| {
        let inside = |cycle: &Cycle| {
            let half = cycle.still_ms.saturating_sub(cycle.ejected_ms) / 2;
            request.at_ms >= cycle.ejected_ms + half.max(MERGE_WINDOW_MS + 100)
                && request.at_ms + request.took_ms < cycle.still_ms
        };
        cycles.iter().any(inside)
    };
    requests.iter().filter(|request| !request.ok()).filter(within).count()
}

/// Time to eject and time ejected, cycle by cycle.
pub(super) fn table(began_ms: u64, cycles: &[Cycle]) -> Table {
    let mut back = began_ms;
    let rows = cycles.iter().enumerate().map(|(n, cycle)| {
        let to_eject = cycle.ejected_ms.saturating_sub(back);
        let away = cycle.returned_ms.map(|returned| returned - cycle.ejected_ms);
        back = cycle.returned_ms.unwrap_or(cycle.ejected_ms);
        let away = away.map_or_else(|| "to the end".to_owned(), |ms| format!("{ms} ms"));
        vec![(n + 1).to_string(), format!("{to_eject} ms"), away]
    });
    Table::new("Ejections", &["cycle", "time to eject", "ejected for"], rows.collect())
}
