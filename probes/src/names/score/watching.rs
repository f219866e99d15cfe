//! How often is the watcher wrong? The same cases as for the classifier are watched for days of simulated time, with
//! operations put into them (a name that vanishes for an hour, two fail-overs); false and missed events are counted.
//! Called by `lab watch-score` and the tests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use labdns::command::{Clear, Command, Fault, FaultKind, FaultOn, Flip, Target};
use labdns::{Name, Zone};
use policies::watch::{Event, Pace, Trouble, Watcher, What};
use policies::{Host, Outcome, Policy, RecordType, ResolutionClass};
use serde::Serialize;

use super::simulation::{self, START};
use policies::recommend::resolution_for;

use super::{Access, Case, resolution_of};

/// Scenarios change in their first minutes: what is told of that, is told by then.
const SETTLED: Duration = Duration::from_secs(6 * 3600);
/// Until when a flip after a return may come of what was replaced meanwhile.
const RETURNED: Duration = Duration::from_secs(1800);
const DAY: f64 = 86_400.0;

/// How to score.
#[derive(Debug, Clone)]
pub struct WatchSettings {
    /// Days of simulated time for each case.
    pub days: u32,
    /// Same seed, same score.
    pub seed: u64,
    /// From where to look.
    pub access: Access,
    /// The classifier's settings.
    pub policy: Policy,
    /// How often a name is asked.
    pub pace: Pace,
}

/// The outcome of one case.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WatchRow {
    /// The case.
    pub name: String,
    /// The pool rotates.
    pub rotating: bool,
    /// Days watched.
    pub days: f64,
    /// Lookups.
    pub queries: u64,
    /// Flips that were none.
    pub false_flips: usize,
    /// Changes to a class that asks for another `resolution` than the right one.
    pub wrong_classes: usize,
    /// `vanished` and `lookups_failing` that were none.
    pub false_troubles: usize,
    /// Operations that were put in, and those that were told.
    pub operations: usize,
    /// Those of them that were told.
    pub found: usize,
    /// Longest time from an operation to its event, seconds.
    pub slowest_s: f64,
    /// The class after the first day is the right one; where it asks for a `resolution`, that one is.
    pub first_day: bool,
    /// All other events.
    pub others: usize,
    /// What was false or missed, in words.
    pub remarks: Vec<String>,
}

/// The outcome of all cases.
#[derive(Debug, Clone, Serialize)]
pub struct WatchScore {
    /// One row for each case, in their order.
    pub rows: Vec<WatchRow>,
    /// Name-days.
    pub days: f64,
    /// Per 1,000 name-days.
    pub false_flips_per_1000: f64,
    /// Per 10,000 name-days.
    pub wrong_classes_per_10000: f64,
    /// Operations that were put in.
    pub operations: usize,
    /// Those of them that were told.
    pub found: usize,
}

/// Watches the cases on all cores.
#[must_use]
pub fn watch_score(cases: &[Case], settings: &WatchSettings) -> WatchScore {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(16);
    let mut rows: Vec<(usize, WatchRow)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(index) else { return done };
                done.push((index, Watched::new(case, index, settings).run()));
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
    });
    rows.sort_by_key(|(index, _)| *index);
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    let sum = |of: fn(&WatchRow) -> usize| rows.iter().map(of).sum::<usize>();
    let days = rows.iter().map(|row| row.days).sum::<f64>();
    let per = |count: usize, of: f64| super::real(count) * of / days.max(1e-9);
    WatchScore {
        days,
        false_flips_per_1000: per(sum(|r| r.false_flips), 1000.0),
        wrong_classes_per_10000: per(sum(|r| r.wrong_classes), 10_000.0),
        operations: sum(|r| r.operations),
        found: sum(|r| r.found),
        rows,
    }
}

/// Something that was done to the zone.
struct Operation {
    at: Duration,
    what: Kind,
    done: bool,
    told: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A step of the scenario that replaces addresses.
    Scripted,
    FailOver,
    Vanish,
    Return,
}

struct Watched<'a> {
    case: &'a Case,
    settings: &'a WatchSettings,
    zone: Zone,
    seed: u64,
    operations: Vec<Operation>,
    row: WatchRow,
    /// Addresses of the last answer, so that a fail-over keeps their number.
    size: usize,
    flips: u8,
}

impl<'a> Watched<'a> {
    fn new(case: &'a Case, index: usize, settings: &'a WatchSettings) -> Self {
        let seed = settings.seed ^ (index as u64) << 40;
        let rotating = case.expect.resolution == Some(labdns::scenario::ExpectedResolution::DnsRoundRobin);
        let answers = case.expect.resolution.is_some();
        let at = |share: f64| Duration::from_secs_f64(f64::from(settings.days) * DAY * share);
        let operation = |at, what| Operation { at, what, done: false, told: None };
        let mut operations = Vec::new();
        if answers {
            operations.push(operation(at(0.4), Kind::Vanish));
            operations.push(operation(at(0.4) + Duration::from_secs(3600), Kind::Return));
        }
        if answers && !rotating {
            operations.push(operation(at(0.7), Kind::FailOver));
            operations.push(operation(at(0.9), Kind::FailOver));
        }
        let row = WatchRow {
            name: case.name.clone(),
            rotating,
            days: f64::from(settings.days),
            ..WatchRow::default()
        };
        let zone = Zone::new(&case.scenario, seed);
        Self { case, settings, zone, seed, operations, row, size: 1, flips: 0 }
    }

    fn run(mut self) -> WatchRow {
        let Self { case, settings, .. } = self;
        let mut servers = simulation::servers(case, self.seed, settings.access);
        let sources = servers.iter().enumerate().map(|(i, server)| simulation::source(i, server)).collect();
        let start = Timestamp::from_second(START).unwrap_or_default();
        let record_type = simulation::record_type(case);
        let Ok(host) = Host::parse(&case.host) else { unreachable!("names of a scenario are host names") };
        let mut watcher = Watcher::new(host, record_type, sources, start);
        let end = Duration::from_secs_f64(self.row.days * DAY);
        let mut now = start;
        while let Some((source, at)) = watcher.next(&settings.pace, now) {
            let passed = at.duration_since(start).unsigned_abs();
            if passed > end {
                break;
            }
            self.operate(passed, record_type);
            let sample =
                simulation::ask(case, &mut self.zone, &mut servers[source], source, record_type, at, start);
            if let Outcome::Answered { answers, .. } = &sample.outcome {
                self.size = answers.len().clamp(1, 8);
            }
            self.row.queries += 1;
            now = at + sample.rtt;
            for event in watcher.record(&sample, &settings.policy, &settings.pace) {
                self.judge(&event, passed);
            }
            if passed.as_secs_f64() < DAY {
                self.row.first_day = self.fits(watcher.class());
            }
        }
        for operation in self.operations.iter().filter(|o| o.done) {
            self.row.operations += 1;
            match operation.told {
                Some(told) => {
                    self.row.found += 1;
                    if operation.what == Kind::Scripted {
                        continue;
                    }
                    let took = told.saturating_sub(operation.at).as_secs_f64();
                    self.row.slowest_s = self.row.slowest_s.max(took);
                }
                None => self.row.remarks.push(format!("missed: {:?}", operation.what)),
            }
        }
        self.row
    }

    /// Does to the zone what is due.
    fn operate(&mut self, now: Duration, record_type: RecordType) {
        let Ok(name) = Name::parse(&self.case.host) else { return };
        for i in 0..self.operations.len() {
            let Operation { at, what, done, .. } = self.operations[i];
            if done || now < at {
                continue;
            }
            let command = match what {
                Kind::FailOver => {
                    self.flips += 1;
                    let octet = |last: usize| u8::try_from(last + 1).unwrap_or(u8::MAX);
                    let to = (0..self.size).map(|last| match record_type {
                        RecordType::A => Target::Addr([203, 0, 113 + self.flips, octet(last)].into()),
                        RecordType::Aaaa => Target::Addr(
                            [0x2001, 0xdb8, 0xffff, u16::from(self.flips), 0, 0, 0, u16::from(octet(last))]
                                .into(),
                        ),
                    });
                    Command::Flip(Flip { name: name.clone(), to: to.collect() })
                }
                Kind::Scripted => continue,
                Kind::Vanish => Command::Fault(FaultOn {
                    name: Some(name.clone()),
                    fault: Fault { kind: FaultKind::Nxdomain, share: 1.0, only: None },
                }),
                Kind::Return => Command::Clear(Clear { name: Some(name.clone()) }),
            };
            let faulty = self.case.scenario.names.values().any(|spec| !spec.faults.is_empty());
            // Clearing would take the scenario's own faults away, and aliases have no addresses to flip.
            let skipped = faulty && what != Kind::FailOver;
            if !skipped && self.zone.apply(command, now).is_ok() {
                self.operations[i].done = true;
            } else {
                self.operations.remove(i);
                return;
            }
        }
    }

    fn judge(&mut self, event: &Event, now: Duration) {
        let told = |operations: &mut Vec<Operation>, kind: Kind| {
            let pending = operations.iter_mut().rev().find(|o| o.done && o.what == kind);
            pending.map(|operation| operation.told = operation.told.or(Some(now))).is_some()
        };
        if now < SETTLED && matches!(event.what, What::Flip { .. } | What::Withdrawn { .. }) {
            told(&mut self.operations, Kind::Scripted);
        }
        // What was replaced while the name was gone comes back as a flip.
        let back = self.operations.iter().any(|o| o.what == Kind::Return && o.done && now < o.at + RETURNED);
        let scripted = (now < SETTLED || back) && !self.case.scenario.steps.is_empty();
        let false_one = match &event.what {
            What::Flip { to, .. } => {
                let ours = to.iter().any(|addr| {
                    matches!(addr, std::net::IpAddr::V4(v4) if v4.octets()[..2] == [203, 0])
                        || matches!(addr, std::net::IpAddr::V6(v6) if v6.segments()[2] == 0xffff)
                });
                let right = ours && told(&mut self.operations, Kind::FailOver) || scripted;
                self.row.false_flips += usize::from(!right);
                !right
            }
            What::ClassChanged { to, .. } => {
                let right = self.fits(*to);
                self.row.wrong_classes += usize::from(!right);
                !right
            }
            What::Vanished { .. } => {
                let right = told(&mut self.operations, Kind::Vanish);
                self.row.false_troubles += usize::from(!right);
                !right
            }
            What::Recovered { from: Trouble::Vanished } => {
                told(&mut self.operations, Kind::Return);
                false
            }
            What::LookupsFailing { .. } => {
                let right = self.case.expect.resolution.is_none();
                self.row.false_troubles += usize::from(!right);
                !right
            }
            _ => {
                self.row.others += 1;
                false
            }
        };
        if false_one && self.row.remarks.len() < 8 {
            self.row.remarks.push(format!("day {:.3}: {}", now.as_secs_f64() / DAY, event.what));
        }
    }

    fn fits(&self, class: ResolutionClass) -> bool {
        match self.case.expect.resolution {
            Some(resolution) => resolution_for(class) == Some(resolution_of(resolution)),
            None => matches!(class, ResolutionClass::Unresolvable | ResolutionClass::InsufficientData),
        }
    }
}
