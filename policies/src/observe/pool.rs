//! The size of the pool behind the draws. Counts of draws and addresses come in; the likelihood of a size, and an
//! estimate with an interval, go out. Used by the summary and by the sequential test.
//!
//! If each draw takes k of N addresses at random, the chance that x of them are new after D seen is hypergeometric,
//! C(N-D, x) C(D, k-x) / C(N, k). Over a series of draws the factors with N telescope to N! / (N-D)! for all
//! addresses seen, divided by N! / (N-k)! for each draw, so the series needs no history.

use super::PoolEstimate;

/// Half of the 95 % quantile of chi-squared with one degree of freedom: how far the log-likelihood may fall within
/// the interval (Wilks).
const INTERVAL_DROP: f64 = 1.92;
/// Sizes beyond this are "unbounded".
const GREATEST: usize = 1 << 20;

/// Sufficient statistics of a series of draws.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    /// Distinct addresses seen.
    pub(crate) seen: usize,
    /// Draws by their number of addresses.
    draws: Vec<(usize, u32)>,
    /// Addresses that were met without a draw that counts: (seen before, new).
    given: Vec<(usize, usize)>,
    /// Logarithm of the number of ways in which the draws' known and new addresses can be arranged.
    pub(crate) arrangements: f64,
}

impl Series {
    /// A draw of `size` addresses, `new` of them for the first time.
    pub(crate) fn draw(&mut self, size: usize, new: usize) {
        self.seen += new;
        self.arrangements += ln_falling(size, size.saturating_sub(new));
        match self.draws.iter_mut().find(|(known, _)| *known == size) {
            Some((_, count)) => *count += 1,
            None => self.draws.push((size, 1)),
        }
    }

    /// Draws that count.
    pub(crate) fn draws(&self) -> u32 {
        self.draws.iter().map(|(_, count)| count).sum()
    }

    /// Addresses that say nothing about the size, such as the first answer of a further source.
    pub(crate) fn given(&mut self, new: usize) {
        if new > 0 {
            self.given.push((self.seen, new));
            self.seen += new;
        }
    }

    /// Log-likelihood of a pool of `size`, where a series of nothing but new addresses out of an endless pool has 0;
    /// minus infinity below the number of addresses seen.
    pub(crate) fn log_likelihood(&self, size: usize) -> f64 {
        if size < self.seen {
            return f64::NEG_INFINITY;
        }
        let given: f64 = self.given.iter().map(|&(seen, new)| ln_falling(size - seen, new)).sum();
        let drawn: f64 = self.draws.iter().map(|&(k, count)| f64::from(count) * ln_falling(size, k)).sum();
        ln_falling(size, self.seen) - given - drawn
    }

    /// The most likely size and its 95 % interval; `None` where it has no upper end.
    fn interval(&self) -> (usize, usize, Option<usize>) {
        let likelihood = |size: usize| self.log_likelihood(size);
        // Nothing but new addresses: no size is the most likely one.
        let endless = likelihood(GREATEST - 1) < likelihood(GREATEST);
        let best = if endless { GREATEST } else { peak(self.seen.max(1), GREATEST, &likelihood) };
        let floor = likelihood(best) - INTERVAL_DROP;
        let low = first_where(self.seen.max(1), best, |size| likelihood(size) >= floor);
        let high = (likelihood(GREATEST) < floor).then(|| {
            first_where(best, GREATEST, |size| likelihood(size) < floor).saturating_sub(1).max(best)
        });
        (best, low, high)
    }
}

/// Size of the pool from the series, and from how many addresses were met once and twice.
pub(super) fn estimate(
    series: &Series,
    incidences: usize,
    once: usize,
    twice: usize,
) -> Option<PoolEstimate> {
    if series.seen == 0 {
        return None;
    }
    let (best, low, high) = series.interval();
    // Chao1, a lower bound whatever the shares are; the likelihood takes them as equal.
    let chao = series.seen + once * once.saturating_sub(1) / (2 * (twice + 1));
    // Without an upper end no size is the most likely one: the lower end is what is known.
    let estimate = if best == GREATEST { low.max(chao) } else { best.max(chao) };
    let coverage = 1.0 - ratio(once, incidences);
    Some(PoolEstimate { seen: series.seen, estimate, low, high: high.map(|h| h.max(estimate)), coverage })
}

/// ln(n (n-1) ... (n-k+1)), in chunks that stay within a double.
fn ln_falling(n: usize, k: usize) -> f64 {
    let (mut sum, mut product) = (0.0, 1.0);
    for i in 0..k {
        product *= real(n.saturating_sub(i));
        if product > 1e250 {
            sum += f64::ln(product);
            product = 1.0;
        }
    }
    sum + f64::ln(product)
}

/// ln C(n, k).
pub(crate) fn ln_choose(n: usize, k: usize) -> f64 {
    ln_falling(n, k) - ln_falling(k, k)
}

/// Where a function with one peak is greatest.
fn peak(low: usize, high: usize, f: &impl Fn(usize) -> f64) -> usize {
    first_where(low, high, |size| f(size) >= f(size + 1))
}

/// The first of a range for which a test that turns true holds; the end if none does. Most lie near the low end, so
/// steps from there double.
fn first_where(mut low: usize, end: usize, test: impl Fn(usize) -> bool) -> usize {
    let mut high = low;
    while high < end && !test(high) {
        (low, high) = (high + 1, (2 * high + 1).min(end));
    }
    while low < high {
        let middle = low.midpoint(high);
        if test(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Numbers that two sorted lists share.
pub(crate) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().filter(|id| b.binary_search(id).is_ok()).count()
}

/// A count as a real number.
#[expect(clippy::cast_precision_loss, reason = "counts of addresses and lookups stay far below 2^52")]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

/// A share; 0 of nothing is 0.
pub(crate) fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { real(part) / real(whole) }
}
