//! How right is the classifier? Scenarios with their right verdicts come in; each is run many times in simulated time
//! through the same plan, observer and classifier that real lookups go through, and a [`Score`] goes out. Called by
//! `lab score`, the bench and the tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use labdns::Scenario;
use labdns::scenario::{Expect, ExpectedClass, ExpectedResolution, ScenarioError};
use policies::recommend::resolution_for;
use policies::{Policy, Resolution, ResolutionClass, Window};
use serde::Serialize;

mod calibration;
mod plot;
mod simulation;
mod table;
mod views;
pub mod watching;

pub use calibration::{Bin, Bins, Summary};
pub use plot::calibration_svg;
pub use table::{markdown, summary_markdown};
pub use views::{Scored, View, score_views};

/// Runs of one case that a thread takes at a time.
const CHUNK: usize = 25;

/// From where the simulation looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Through the scenario's resolvers; the zone's authority where it names none.
    Authority,
    /// Through the scenario's resolvers; one plain cache where it names none.
    CachesOnly,
    /// Through the scenario's resolvers or one plain cache, and the authority too.
    Both,
}

/// How to score.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Runs of each case.
    pub runs: usize,
    /// Same seed, same score.
    pub seed: u64,
    /// From where to look.
    pub access: Access,
    /// How long to look; simulated time costs nothing, so [`Settings::PATIENT`] waits for the decision.
    pub window: Window,
    /// Lookups at most, for one run.
    pub max_queries: usize,
    /// The classifier's settings.
    pub policy: Arc<Policy>,
}

impl Settings {
    /// Longest simulated window of a run that is decided when the test decides, seconds.
    pub const PATIENT: u32 = 4 * 3600;

    /// Runs until the test decides, however long that takes.
    #[must_use]
    pub fn patient(runs: usize, seed: u64, access: Access, policy: &Policy) -> Self {
        let mut policy = policy.clone();
        policy.sampling.max_window_s = Self::PATIENT;
        Self { runs, seed, access, window: Window::Auto, max_queries: 400, policy: Arc::new(policy) }
    }
}

/// One behaviour to score: a name of a scenario and its right verdict.
#[derive(Debug, Clone)]
pub struct Case {
    name: String,
    scenario: Scenario,
    host: String,
    expect: Expect,
}

impl Case {
    /// The judged names of a scenario file, each as a case; `name` is what the table calls it.
    ///
    /// # Errors
    /// The scenario does not parse.
    pub fn all_of(name: &str, yaml: &str) -> Result<Vec<Self>, ScenarioError> {
        let scenario = Scenario::from_yaml(yaml)?;
        let several = scenario.expectations().count() > 1;
        let case = |(host, expect): (&labdns::Name, Expect)| Self {
            name: if several { format!("{name} {host}") } else { name.to_owned() },
            scenario: scenario.clone(),
            host: host.to_string(),
            expect,
        };
        Ok(scenario.expectations().map(case).collect())
    }

    /// What the table calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The zoo that is shipped with the lab.
    ///
    /// # Errors
    /// A shipped scenario does not parse.
    pub fn zoo() -> Result<Vec<Self>, ScenarioError> {
        let zoo =
            labdns::scenarios::builtin().filter_map(|(name, yaml)| Some((name.strip_prefix("zoo/")?, yaml)));
        let cases: Result<Vec<_>, _> = zoo.map(|(name, yaml)| Self::all_of(name, yaml)).collect();
        Ok(cases?.concat())
    }
}

/// The outcome of all cases.
#[derive(Debug, Clone, Serialize)]
pub struct Score {
    /// The means over the cases, and how far stated confidences hold.
    pub summary: Summary,
    /// One row for each case, in their order.
    pub rows: Vec<Row>,
}

/// The outcome of one case. Shares are 0 to 1.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The case.
    pub name: String,
    /// The right class.
    pub class: ResolutionClass,
    /// The right `resolution`, if any.
    pub resolution: Option<ExpectedResolution>,
    /// Runs.
    pub runs: usize,
    /// Runs by the class that was found; all of [`CLASSES`] are there.
    pub found: BTreeMap<ResolutionClass, usize>,
    /// Lookups, over all runs.
    pub queries: usize,
    /// Length of the windows, over all runs, milliseconds.
    pub span_ms: u64,
    /// Runs in which the test decided.
    pub decided: usize,
    /// Sum of the confidences.
    pub confidence: f64,
    /// Runs with a verdict, by the confidence that was stated.
    pub bins: Bins,
}

/// The classes, in the order of the tables.
pub const CLASSES: [ResolutionClass; 5] = [
    ResolutionClass::SingleVip,
    ResolutionClass::FixedMultiIp,
    ResolutionClass::RotatingPool,
    ResolutionClass::Unresolvable,
    ResolutionClass::InsufficientData,
];

/// Scores the cases on all cores.
#[must_use]
pub fn score(cases: &[Case], settings: &Settings) -> Score {
    let chunks = settings.runs.div_ceil(CHUNK);
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(16);
    let parts: Vec<Vec<(usize, usize, Row)>> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let unit = next.fetch_add(1, Ordering::Relaxed);
                let (case, chunk) = (unit / chunks.max(1), unit % chunks.max(1));
                let Some(behaviour) = cases.get(case).filter(|_| chunks > 0) else { return done };
                let runs = chunk * CHUNK..settings.runs.min((chunk + 1) * CHUNK);
                done.push((case, chunk, score_runs(case, behaviour, runs, settings)));
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut parts: Vec<_> = parts.into_iter().flatten().collect();
    // In the order of the runs, so that sums of floating point do not depend on the threads.
    parts.sort_by_key(|(case, chunk, _)| (*case, *chunk));
    let mut rows: Vec<Row> = cases.iter().map(Row::empty).collect();
    for (case, _, part) in parts {
        rows[case].add(&part);
    }
    Score::of(rows)
}

fn score_runs(index: usize, case: &Case, runs: std::ops::Range<usize>, settings: &Settings) -> Row {
    let mut row = Row::empty(case);
    for run in runs {
        let seed = settings.seed ^ (index as u64) << 40 ^ run as u64;
        let outcome = simulation::run(case, seed, settings);
        let (class, confidence) = (outcome.verdict.class, outcome.verdict.confidence);
        row.runs += 1;
        row.queries += outcome.queries;
        row.span_ms += u64::try_from(outcome.span.as_millis()).unwrap_or(u64::MAX);
        row.decided += usize::from(outcome.verdict.decided);
        row.confidence += confidence;
        *row.found.entry(class).or_default() += 1;
        if class != ResolutionClass::InsufficientData {
            row.bins.add(confidence, row.fits(class));
        }
    }
    row
}

/// What a scenario calls that resolution.
const fn resolution_of(expected: ExpectedResolution) -> Resolution {
    match expected {
        ExpectedResolution::Dns => Resolution::Dns,
        ExpectedResolution::DnsRoundRobin => Resolution::DnsRoundRobin,
    }
}

impl Row {
    fn empty(case: &Case) -> Self {
        Self {
            name: case.name.clone(),
            class: match case.expect.class {
                ExpectedClass::SingleVip => ResolutionClass::SingleVip,
                ExpectedClass::FixedMultiIp => ResolutionClass::FixedMultiIp,
                ExpectedClass::RotatingPool => ResolutionClass::RotatingPool,
                ExpectedClass::Unresolvable => ResolutionClass::Unresolvable,
                ExpectedClass::InsufficientData => ResolutionClass::InsufficientData,
            },
            resolution: case.expect.resolution,
            runs: 0,
            found: CLASSES.map(|class| (class, 0)).into(),
            queries: 0,
            span_ms: 0,
            decided: 0,
            confidence: 0.0,
            bins: Bins::default(),
        }
    }

    fn add(&mut self, part: &Self) {
        self.runs += part.runs;
        self.queries += part.queries;
        self.span_ms += part.span_ms;
        self.decided += part.decided;
        self.confidence += part.confidence;
        self.bins.merge(&part.bins);
        for (class, count) in &part.found {
            *self.found.entry(*class).or_default() += count;
        }
    }

    /// Share of runs with the right `resolution`; where none is right, with the right class.
    #[must_use]
    pub fn right(&self) -> f64 {
        self.share(|class| self.fits(class))
    }

    /// Share of runs without a verdict, where one is right.
    #[must_use]
    pub fn undecided(&self) -> f64 {
        self.share(|class| class == ResolutionClass::InsufficientData && !self.fits(class))
    }

    /// Share of runs with a verdict that is not right.
    #[must_use]
    pub fn wrong(&self) -> f64 {
        self.share(|class| class != ResolutionClass::InsufficientData && !self.fits(class))
    }

    fn fits(&self, class: ResolutionClass) -> bool {
        match self.resolution {
            Some(resolution) => resolution_for(class) == Some(resolution_of(resolution)),
            None => class == self.class,
        }
    }

    /// Share of runs with the right class.
    #[must_use]
    pub fn exact(&self) -> f64 {
        self.share(|class| class == self.class)
    }

    /// Mean lookups of a run.
    #[must_use]
    pub fn mean_queries(&self) -> f64 {
        real(self.queries) / real(self.runs.max(1))
    }

    /// Mean length of a run's window.
    #[must_use]
    pub fn mean_span(&self) -> Duration {
        Duration::from_millis(self.span_ms / self.runs.max(1) as u64)
    }

    fn share(&self, of: impl Fn(ResolutionClass) -> bool) -> f64 {
        let runs: usize = self.found.iter().filter(|(class, _)| of(**class)).map(|(_, runs)| runs).sum();
        real(runs) / real(self.runs.max(1))
    }
}

impl Score {
    fn of(rows: Vec<Row>) -> Self {
        Self { summary: Summary::of(&rows), rows }
    }

    /// The case that is right least often.
    #[must_use]
    pub fn worst(&self) -> Option<&Row> {
        self.rows.iter().min_by(|a, b| a.right().total_cmp(&b.right()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of runs stay far below 2^52")]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}
