//! The state machine of one name, record type and source. Samples come in; what happened at that source goes out, each
//! with when it began. Owned by the watcher of the name, which knows whether the pool rotates.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::event::{Trouble, What};
use super::members::Members;
use super::presence::Presence;
use super::runs::set_of;
use super::ttl::TtlTrack;
use crate::observe::unroutable;
use crate::{DnsSample, Outcome, Vantage};

/// Unroutable answers in a row that count, and routable ones that end it.
const SUNK: u32 = 2;
/// Failures in a row that count at least, even where none failed before.
const FEWEST_FAILURES: u32 = 3;

/// What is known of one source of a name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) members: Members,
    /// Whether lookups bring addresses, among those that bring addresses or a denial.
    addresses: Presence,
    /// Whether lookups bring addresses or a denial, among all.
    replies: Presence,
    vanished: bool,
    failing: bool,
    sunk: bool,
    /// Answers in a row that say the opposite of `sunk`.
    sinking: u32,
    ttl: TtlTrack,
    /// When the streak of what is unusual began, milliseconds: denials, failures, sinkholes.
    since: [i64; 3],
    last_ms: i64,
}

/// How the pool is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pool {
    /// Not known yet: draws are kept, nothing is told.
    Unknown,
    /// Absence means something.
    Small,
    /// Absence means nothing.
    Rotating,
}

type Found = Vec<(Timestamp, What)>;

impl Machine {
    /// Adds a sample.
    pub(super) fn push(&mut self, sample: &DnsSample, vantage: Vantage, pool: Pool) -> Found {
        let at = sample.at.as_millisecond();
        self.last_ms = at;
        let mut found = Vec::new();
        match &sample.outcome {
            Outcome::Answered { answers, cname_chain } => {
                self.reply(&mut found, sample);
                let set = set_of(answers);
                if set.iter().all(|addr| unroutable(*addr)) {
                    self.sink(true, &set, at, &mut found);
                    return found;
                }
                self.sink(false, &set, at, &mut found);
                self.addresses.push(true);
                if self.vanished && self.addresses.absent() == 0 {
                    self.vanished = false;
                    found.push((sample.at, What::Recovered { from: Trouble::Vanished }));
                }
                if let Some((from_s, to_s)) = self.ttl.push(answers, cname_chain, sample, vantage)
                    && pool != Pool::Rotating
                {
                    found.push((sample.at, What::TtlChanged { from_s, to_s }));
                }
                if pool == Pool::Rotating {
                    self.members = Members::default();
                } else {
                    self.members.push(&set, at);
                }
                if pool == Pool::Small {
                    found.extend(self.members.settle());
                }
            }
            Outcome::NoData | Outcome::NxDomain => {
                self.reply(&mut found, sample);
                if self.addresses.absent() == 0 {
                    self.since[0] = at;
                }
                self.addresses.push(false);
                if !self.vanished && self.addresses.gone() {
                    self.vanished = true;
                    let nx_domain = sample.outcome == Outcome::NxDomain;
                    found.push((moment(self.since[0]), What::Vanished { nx_domain }));
                }
            }
            failed => {
                if self.replies.absent() == 0 {
                    self.since[1] = at;
                }
                self.replies.push(false);
                // A source that has never answered fails too.
                let never = self.replies.seen() == 0 && self.replies.absent() >= 2 * FEWEST_FAILURES;
                if !self.failing && self.replies.absent() >= FEWEST_FAILURES && (self.replies.gone() || never)
                {
                    self.failing = true;
                    let outcome = failed.kind().to_string();
                    found.push((moment(self.since[1]), What::LookupsFailing { outcome }));
                }
            }
        }
        found
    }

    fn reply(&mut self, found: &mut Found, sample: &DnsSample) {
        self.replies.push(true);
        if self.failing {
            self.failing = false;
            found.push((sample.at, What::Recovered { from: Trouble::LookupsFailing }));
        }
    }

    fn sink(&mut self, sunk: bool, set: &[std::net::IpAddr], at: i64, found: &mut Found) {
        if sunk == self.sunk {
            self.sinking = 0;
            return;
        }
        if self.sinking == 0 {
            self.since[2] = at;
        }
        self.sinking += 1;
        if self.sinking >= SUNK {
            (self.sunk, self.sinking) = (sunk, 0);
            let what = if sunk {
                What::Unroutable { addresses: set.to_vec() }
            } else {
                What::Recovered { from: Trouble::Unroutable }
            };
            found.push((moment(self.since[2]), what));
        }
    }

    /// What is told once the pool is known.
    pub(super) fn settle(&mut self) -> Found {
        self.members.settle()
    }

    /// The pool is read in another way from now on.
    pub(super) fn forget_pool(&mut self) {
        self.members = Members::default();
    }

    /// Something unusual is going on that another look may settle.
    pub(super) fn surprising(&self, pool: Pool) -> bool {
        !self.vanished && self.addresses.surprising() && self.addresses.absent() < 8
            || !self.failing && self.replies.surprising() && self.replies.absent() < 8
            || self.sinking > 0
            || pool == Pool::Small && self.members.surprising()
    }

    pub(super) fn vanished(&self) -> bool {
        self.vanished
    }

    pub(super) fn failing(&self) -> bool {
        self.failing
    }

    pub(super) fn sunk(&self) -> bool {
        self.sunk
    }

    /// As published, seconds.
    pub(super) fn ttl_s(&self) -> Option<u32> {
        self.ttl.published()
    }

    /// It has answered with addresses.
    pub(super) fn answers(&self) -> bool {
        self.addresses.seen() > 0
    }
}

fn moment(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or_default()
}
