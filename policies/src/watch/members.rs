//! The pool of one source: which addresses belong to it, which have left, which are new. Answers with addresses come
//! in, one draw each; changes of the pool go out once they are no chance any more. Used by the machine of a source, for
//! names that do not rotate.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::event::What;
use super::presence::{Presence, is_new};

/// Addresses that are remembered, those that have left included.
const REMEMBERED: usize = 128;

/// The addresses of one source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Members {
    known: Vec<Member>,
    /// Whether an answer has any address of the pool: where it has none, the pool was replaced, however rarely each of
    /// its addresses is drawn.
    pool: Presence,
    /// Draws so far.
    draws: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Member {
    addr: IpAddr,
    presence: Presence,
    standing: Standing,
    /// Draws before it was first seen, or seen again.
    before: u32,
    /// When it was first seen or seen again, milliseconds.
    came_ms: i64,
    /// When it was last seen, milliseconds.
    seen_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Standing {
    /// Seen, and not settled whether it is new or was there before.
    Met,
    /// Seen after it had left, and not settled.
    Back,
    Member,
    Left,
}

impl Members {
    /// Adds a draw (sorted).
    pub(super) fn push(&mut self, set: &[IpAddr], at_ms: i64) {
        let mut members = self.known.iter().filter(|m| m.standing == Standing::Member).peekable();
        if members.peek().is_some() {
            let shared = members.any(|m| set.binary_search(&m.addr).is_ok());
            self.pool.push(shared);
        }
        for member in &mut self.known {
            let present = set.binary_search(&member.addr).is_ok();
            if member.standing == Standing::Left && present {
                member.standing = Standing::Back;
                member.before = member.presence.absent();
                member.came_ms = at_ms;
            }
            member.presence.push(present);
            if present {
                member.seen_ms = at_ms;
            }
        }
        for addr in set {
            if self.known.iter().all(|member| member.addr != *addr) {
                let mut presence = Presence::default();
                presence.push(true);
                let (before, came_ms) = (self.draws, at_ms);
                self.known.push(Member {
                    addr: *addr,
                    presence,
                    standing: Standing::Met,
                    before,
                    came_ms,
                    seen_ms: at_ms,
                });
            }
        }
        self.draws = self.draws.saturating_add(1);
        self.forget();
    }

    /// Makes room: what has left goes first, the longest gone of it.
    fn forget(&mut self) {
        while self.known.len() > REMEMBERED {
            let oldest = self
                .known
                .iter()
                .enumerate()
                .min_by_key(|(_, m)| (!matches!(m.standing, Standing::Left | Standing::Met), m.seen_ms));
            let Some((place, _)) = oldest else { return };
            self.known.swap_remove(place);
        }
    }

    /// Something came or went that may be a change of the pool: worth another look.
    pub(super) fn surprising(&self) -> bool {
        self.known.iter().any(|m| match m.standing {
            Standing::Met | Standing::Back => m.presence.absent() == 0 && m.presence.seen() < 4,
            Standing::Member => m.presence.surprising() && m.presence.absent() < 8,
            Standing::Left => false,
        }) || self.pool.surprising() && self.pool.absent() < 8
    }

    /// The addresses in the pool, sorted.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.of(|m| matches!(m.standing, Standing::Member | Standing::Back))
    }

    /// Draws so far.
    pub(super) fn draws(&self) -> u32 {
        self.draws
    }

    /// Changes of the pool that are no chance any more, each with when it began.
    pub(super) fn settle(&mut self) -> Vec<(Timestamp, What)> {
        self.found_pool();
        let before = self.of(|m| m.standing == Standing::Member);
        let replaced = self.pool.gone();
        let gone = |m: &Member| {
            m.standing == Standing::Member && m.presence.absent() > 0 && (replaced || m.presence.gone())
        };
        let absent = |m: &Member| m.standing == Standing::Member && m.presence.absent() > 0;
        let all_gone =
            !before.is_empty() && self.known.iter().filter(|m| m.standing == Standing::Member).all(gone);
        // Where all are absent at once, they are told as one change.
        if self.pool.absent() > 0 && !all_gone {
            return Vec::new();
        }
        let left: Vec<IpAddr> = self.of(gone);
        let left_ms = self.known.iter().filter(|m| gone(m)).map(|m| m.seen_ms).max().unwrap_or_default();
        // A new address that came when another went waits for what becomes of that one.
        let waits = |m: &Member| {
            self.known
                .iter()
                .any(|o| absent(o) && !gone(o) && o.seen_ms < m.came_ms && o.presence.surprising())
        };
        let came: Vec<(IpAddr, Standing, bool)> = self
            .known
            .iter()
            .filter(|m| matches!(m.standing, Standing::Met | Standing::Back) && !waits(m))
            .filter_map(|m| {
                let new = is_new(&m.presence, m.before);
                let came_at_once = all_gone && m.presence.absent() == 0;
                let settled = new || came_at_once || m.presence.seen() >= 2;
                settled.then_some((m.addr, m.standing, new || came_at_once))
            })
            .collect();
        let came_ms = self
            .known
            .iter()
            .filter(|m| came.iter().any(|c| c.0 == m.addr && c.2))
            .map(|m| m.came_ms)
            .min()
            .unwrap_or(left_ms);
        for member in &mut self.known {
            if left.binary_search(&member.addr).is_ok() {
                member.standing = Standing::Left;
            } else if came.iter().any(|(addr, ..)| *addr == member.addr) {
                member.standing = Standing::Member;
            }
        }
        if all_gone {
            self.pool = Presence::default();
        }
        self.tell(&before, left, left_ms, &came, came_ms)
    }

    /// The first pool: what was there from the start, or is drawn so rarely that it may have been.
    fn found_pool(&mut self) {
        if self.known.iter().any(|m| m.standing == Standing::Member) {
            return;
        }
        for member in self.known.iter_mut().filter(|m| m.standing == Standing::Met) {
            let whole = member.before == 0 || member.presence.seen() >= 2;
            if whole && !is_new(&member.presence, member.before) {
                member.standing = Standing::Member;
            }
        }
    }

    fn tell(
        &self,
        before: &[IpAddr],
        left: Vec<IpAddr>,
        left_ms: i64,
        came: &[(IpAddr, Standing, bool)],
        came_ms: i64,
    ) -> Vec<(Timestamp, What)> {
        let time = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
        let now = self.of(|m| m.standing == Standing::Member);
        if !before.is_empty() && left.len() == before.len() && !now.is_empty() {
            return vec![(time(came_ms), What::Flip { from: before.to_vec(), to: now })];
        }
        let chosen = |wanted: Standing| {
            let mut found: Vec<_> =
                came.iter().filter(|(_, s, new)| *s == wanted && *new).map(|c| c.0).collect();
            found.sort_unstable();
            found
        };
        let mut events = Vec::new();
        if !left.is_empty() {
            let remaining = now.len();
            events.push((time(left_ms), What::Withdrawn { addresses: left, left: remaining }));
        }
        let (returned, added) = (chosen(Standing::Back), chosen(Standing::Met));
        if !returned.is_empty() {
            events.push((time(came_ms), What::Returned { addresses: returned }));
        }
        if !added.is_empty() && !before.is_empty() {
            events.push((time(came_ms), What::Added { addresses: added }));
        }
        events
    }

    fn of(&self, keep: impl Fn(&Member) -> bool) -> Vec<IpAddr> {
        let mut found: Vec<_> = self.known.iter().filter(|m| keep(m)).map(|m| m.addr).collect();
        found.sort_unstable();
        found
    }
}
