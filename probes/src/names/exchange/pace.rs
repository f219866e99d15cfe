//! How fast one server may be asked: a burst, then evenly spaced. Kept per server address, over all lookups of a
//! process. Asked by `lane` before each query.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The most that one server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Queries per second once the burst is used up.
    pub per_second: u32,
    /// Queries at once after a quiet spell.
    pub burst: u32,
}

impl Default for Rate {
    /// A burst of 14, then 100 a second: a tenth of what cloud resolvers grant one client (1,024 a second in a VPC).
    fn default() -> Self {
        Self { per_second: 100, burst: 14 }
    }
}

/// A token bucket in the form of the generic cell rate algorithm: one instant says all.
pub(super) struct Pace {
    rate: Option<Rate>,
    /// When the bucket is full again.
    full_at: Mutex<Option<Instant>>,
}

impl Pace {
    pub(super) fn new(rate: Option<Rate>) -> Self {
        Self { rate, full_at: Mutex::new(None) }
    }

    /// Takes a token, or says when the next one is there.
    pub(super) fn take(&self, now: Instant) -> Result<(), Instant> {
        let Some(rate) = self.rate else { return Ok(()) };
        let interval = Duration::from_secs(1) / rate.per_second.max(1);
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let next = full_at.map_or(now, |at| at.max(now)) + interval;
        let earliest = next.checked_sub(interval * rate.burst.max(1)).unwrap_or(now);
        if earliest > now {
            return Err(earliest);
        }
        *full_at = Some(next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_evenly_spaced() {
        let pace = Pace::new(Some(Rate { per_second: 10, burst: 3 }));
        let start = Instant::now();
        let mut now = start;
        let mut sent = Vec::new();
        while sent.len() < 6 {
            match pace.take(now) {
                Ok(()) => sent.push((now - start).as_millis()),
                Err(at) => now = at,
            }
        }
        assert_eq!(sent, [0, 0, 0, 100, 200, 300]);
        let later = now + Duration::from_secs(10);
        assert!((0..3).all(|_| pace.take(later).is_ok()) && pace.take(later).is_err());
    }

    #[test]
    fn no_rate_never_waits() {
        let pace = Pace::new(None);
        let now = Instant::now();
        assert!((0..1000).all(|_| pace.take(now).is_ok()));
    }
}
