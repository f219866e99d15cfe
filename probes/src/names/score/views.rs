//! The windows in which people use the classifier: until the test decides, as `classify` looks by default, and a quick
//! look; each with the zone's own server within reach and through caches alone. Cases come in, a score for each goes
//! out. Called by `lab score --windows all`.

use std::sync::Arc;

use policies::{Policy, Window};
use serde::Serialize;

use super::{Access, Case, Score, Settings, score};

/// How long to look, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// What it is called: `decided`, `default` or `quick`.
    pub window: &'static str,
    /// From where to look.
    pub access: Access,
}

/// The score in one view.
#[derive(Debug, Clone, Serialize)]
pub struct Scored {
    /// What the window is called: `decided`, `default`, `quick`, or its length.
    pub window: String,
    /// From where it was looked.
    pub access: Access,
    /// What came of it.
    #[serde(flatten)]
    pub score: Score,
}

impl View {
    /// All of them, in the order of the book.
    pub const ALL: [Self; 6] = [
        Self { window: "decided", access: Access::Authority },
        Self { window: "decided", access: Access::CachesOnly },
        Self { window: "default", access: Access::Authority },
        Self { window: "default", access: Access::CachesOnly },
        Self { window: "quick", access: Access::Authority },
        Self { window: "quick", access: Access::CachesOnly },
    ];

    /// How it is scored.
    #[must_use]
    pub fn settings(self, runs: usize, seed: u64, policy: &Policy) -> Settings {
        let patient = Settings::patient(runs, seed, self.access, policy);
        let window = match self.window {
            "decided" => return patient,
            "quick" => Window::Quick,
            _ => Window::Auto,
        };
        Settings { window, policy: Arc::new(policy.clone()), ..patient }
    }
}

/// Scores the cases in each view.
#[must_use]
pub fn score_views(cases: &[Case], views: &[View], runs: usize, seed: u64, policy: &Policy) -> Vec<Scored> {
    let scored = |view: &View| Scored {
        window: view.window.to_owned(),
        access: view.access,
        score: score(cases, &view.settings(runs, seed, policy)),
    };
    views.iter().map(scored).collect()
}
