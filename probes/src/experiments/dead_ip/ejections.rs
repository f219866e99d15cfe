//! When outlier detection ejects an address and takes it back: the gauge `ejections_active`, asked twenty times a
//! second while the load runs.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::interval;

use crate::experiments::bench::Bench;
use crate::experiments::evidence::Table;
use crate::lab::client::Exchange;

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
        let cluster = bench.cluster().to_owned();
        let task = tokio::spawn(async move {
            let (mut turns, mut cycles) = (interval(Duration::from_millis(50)), Vec::new());
            let mut so_far = None;
            loop {
                tokio::select! {
                    _ = turns.tick() => {}
                    _ = &mut ended => return cycles,
                }
                let asked = ms(start.elapsed());
                let Ok(stats) = admin.cluster_stats(&cluster).await else { continue };
                let value = |name: &str| stats.get(name).copied().unwrap_or(0);
                let ejections = value("outlier_detection.ejections_enforced_total");
                let more = so_far.replace(ejections).is_some_and(|before| ejections > before);
                let seen = Seen { active: value("outlier_detection.ejections_active") > 0, more };
                note(&mut cycles, seen, asked, ms(start.elapsed()));
            }
        });
        Self { end, task }
    }

    pub(super) async fn end(self) -> Vec<Cycle> {
        let _ = self.end.send(());
        self.task.await.unwrap_or_default()
    }
}

/// What one look showed.
#[derive(Clone, Copy)]
struct Seen {
    /// The gauge was up.
    active: bool,
    /// The counter has risen since the look before.
    more: bool,
}

/// It was as seen at some moment between `asked` and `told`. An address that came back and failed again between two
/// looks shows in the counter alone.
fn note(cycles: &mut Vec<Cycle>, seen: Seen, asked: u64, told: u64) {
    let fresh = Cycle { ejected_ms: told, still_ms: told, returned_ms: None };
    let ejected = cycles.last_mut().filter(|cycle| cycle.returned_ms.is_none());
    match (ejected, seen.active) {
        (Some(cycle), true) if seen.more => {
            cycle.returned_ms = Some(told);
            cycles.push(fresh);
        }
        (Some(cycle), true) => cycle.still_ms = asked,
        (Some(cycle), false) => cycle.returned_ms = Some(told),
        (None, true) => cycles.push(fresh),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_between_two_looks_ends_a_cycle() {
        let mut cycles = Vec::new();
        let looks =
            [(false, false), (true, true), (true, false), (true, true), (true, false), (false, false)];
        for (at, (active, more)) in (0..).map(|n| n * 50).zip(looks) {
            note(&mut cycles, Seen { active, more }, at, at + 1);
        }
        let shown: Vec<_> =
            cycles.iter().map(|cycle| (cycle.ejected_ms, cycle.still_ms, cycle.returned_ms)).collect();
        assert_eq!(shown, [(51, 100, Some(151)), (151, 200, Some(251))]);
    }
}
