//! The class of a name over the years. Verdicts on the sliding window come in; a change goes out once the same verdict
//! has been final for a while. Used by the watcher.

use serde::{Deserialize, Serialize};

use crate::{Classification, DnsSample, Outcome, Policy, ResolutionClass};

/// Answers for which a verdict has to hold: the first one, and one against a class that has held.
const HOLDS: (u32, u32) = (24, 96);
/// A first verdict that never becomes final counts from this confidence on, after as many answers.
const LEANS: f64 = 0.85;
const LEANS_FOR: u32 = 240;
/// How long it has to hold at least: in times that a small pool has to be quiet for, and in TTLs.
const HOLDS_QUIET: i64 = 3;
const HOLDS_TTLS: i64 = 3;
/// Answers between two looks at a window with nothing new in it.
const LOOKS: u32 = 8;
/// Denials after which a name that never answered is looked at.
const FIRST: u32 = 8;

/// The class of a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ClassTrack {
    class: ResolutionClass,
    candidate: Option<Candidate>,
    /// Answers since the last look, and since the start.
    since: u32,
    answers: u32,
    denials: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Candidate {
    class: ResolutionClass,
    /// Since when it has been the verdict.
    leaning: Hold,
    /// Since when that has been final.
    decided: Option<Hold>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Hold {
    since_ms: i64,
    answers: u32,
}

impl Default for ClassTrack {
    fn default() -> Self {
        Self { class: ResolutionClass::InsufficientData, candidate: None, since: 0, answers: 0, denials: 0 }
    }
}

impl ClassTrack {
    /// The class that has held.
    pub(super) fn class(&self) -> ResolutionClass {
        self.class
    }

    /// Counts a sample; whether the window is worth a look.
    pub(super) fn due(&mut self, sample: &DnsSample, new_run: bool) -> bool {
        if !matches!(sample.outcome, Outcome::Answered { .. }) {
            // Losses say nothing about the class, nor do denials of a name that has answered.
            if !matches!(sample.outcome, Outcome::NoData | Outcome::NxDomain) {
                return false;
            }
            self.denials = self.denials.saturating_add(1);
            self.since += 1;
            return self.answers == 0 && self.denials >= FIRST && self.take();
        }
        self.answers = self.answers.saturating_add(1);
        self.since += 1;
        let news = new_run && self.candidate.is_some();
        let open = self.class == ResolutionClass::InsufficientData;
        (news || self.since >= LOOKS || open && self.since >= 2) && self.take()
    }

    fn take(&mut self) -> bool {
        self.since = 0;
        true
    }

    /// Adds a verdict; a change as (before, after, since when it has held).
    pub(super) fn push(
        &mut self,
        verdict: &Classification,
        at_ms: i64,
        ttl_s: u32,
        policy: &Policy,
    ) -> Option<(ResolutionClass, ResolutionClass, i64)> {
        let samples = self.answers.max(self.denials);
        if verdict.class == self.class {
            self.candidate = None;
            return None;
        }
        let first = self.class == ResolutionClass::InsufficientData;
        // Some names are never settled: one that replaces a member every few minutes always has a new one.
        let leans = first && verdict.confidence >= LEANS;
        if !(verdict.decided || leans) || verdict.class == ResolutionClass::InsufficientData {
            // An open verdict speaks against a candidate, as the class itself does.
            self.candidate = None;
            return None;
        }
        let now = Hold { since_ms: at_ms, answers: samples };
        let candidate = match &mut self.candidate {
            Some(candidate) if candidate.class == verdict.class => candidate,
            other => other.insert(Candidate { class: verdict.class, leaning: now, decided: None }),
        };
        if !verdict.decided {
            candidate.decided = None;
        } else if candidate.decided.is_none() {
            candidate.decided = Some(now);
        }
        let quiet_s = HOLDS_QUIET * i64::from(policy.test.quiet_s);
        let span = 1000 * quiet_s.max(HOLDS_TTLS * i64::from(ttl_s));
        let held = |hold: Hold, answers: u32| {
            samples.saturating_sub(hold.answers) >= answers && at_ms - hold.since_ms >= span
        };
        let answers = if first { HOLDS.0 } else { HOLDS.1 };
        let finally = candidate.decided.filter(|hold| held(*hold, answers));
        let settled =
            finally.or_else(|| Some(candidate.leaning).filter(|hold| first && held(*hold, LEANS_FOR)))?;
        let (from, since) = (self.class, settled.since_ms);
        self.class = verdict.class;
        self.candidate = None;
        Some((from, self.class, since))
    }
}
