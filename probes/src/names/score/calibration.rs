//! Do stated confidences hold? Verdicts with their confidence and whether they were right come in; counts by bins of
//! confidence, the expected calibration error and the means over all cases go out. Part of a score.

use serde::Serialize;

use super::{Row, real};

/// Lower ends of the bins of confidence; each reaches to the next, the last to 1.
const FROM: [f64; 8] = [0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99];

/// Verdicts by stated confidence. A run without a verdict states none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Bins([Counts; FROM.len()]);

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Counts {
    verdicts: usize,
    right: usize,
    confidence: f64,
}

/// The verdicts whose stated confidence lies in one range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bin {
    /// Lower end of the range, included.
    pub from: f64,
    /// Upper end of the range; included in the last one alone.
    pub to: f64,
    /// Verdicts.
    pub verdicts: usize,
    /// Mean of the confidences stated; 0 without a verdict.
    pub confidence: f64,
    /// Share of the verdicts that were right; 0 without a verdict.
    pub right: f64,
}

/// The means over all cases, each case counting alike. Shares are 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Cases.
    pub behaviours: usize,
    /// Share of runs whose class leads to the right `resolution`.
    pub right: f64,
    /// Share of runs without a verdict.
    pub undecided: f64,
    /// Share of runs with a verdict that is not right.
    pub wrong: f64,
    /// Share of runs with the exact class.
    pub exact: f64,
    /// Expected calibration error: the mean distance between the confidence stated and the share right, over the
    /// bins, each weighted by its verdicts.
    pub ece: f64,
    /// Mean lookups of a run.
    pub queries: f64,
    /// Mean length of a run, seconds.
    pub seconds: f64,
    /// Verdicts by the confidence that was stated.
    pub bins: Vec<Bin>,
}

impl Bins {
    /// Counts a verdict.
    pub(super) fn add(&mut self, confidence: f64, right: bool) {
        let place = FROM.iter().rposition(|from| confidence >= *from).unwrap_or_default();
        let counts = &mut self.0[place];
        counts.verdicts += 1;
        counts.right += usize::from(right);
        counts.confidence += confidence;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (sum, part) in self.0.iter_mut().zip(&other.0) {
            sum.verdicts += part.verdicts;
            sum.right += part.right;
            sum.confidence += part.confidence;
        }
    }

    fn bins(&self) -> Vec<Bin> {
        let ends = FROM.iter().skip(1).copied().chain([1.0]);
        let bin = |((from, to), counts): ((&f64, f64), &Counts)| Bin {
            from: *from,
            to,
            verdicts: counts.verdicts,
            confidence: counts.confidence / real(counts.verdicts.max(1)),
            right: real(counts.right) / real(counts.verdicts.max(1)),
        };
        FROM.iter().zip(ends).zip(&self.0).map(bin).collect()
    }
}

impl Summary {
    pub(super) fn of(rows: &[Row]) -> Self {
        let mean = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>() / real(rows.len().max(1));
        let mut all = Bins::default();
        for row in rows {
            all.merge(&row.bins);
        }
        let bins = all.bins();
        let verdicts: usize = bins.iter().map(|bin| bin.verdicts).sum();
        let off: f64 = bins.iter().map(|bin| real(bin.verdicts) * (bin.confidence - bin.right).abs()).sum();
        Self {
            behaviours: rows.len(),
            right: mean(Row::right),
            undecided: mean(Row::undecided),
            wrong: mean(Row::wrong),
            exact: mean(Row::exact),
            ece: off / real(verdicts.max(1)),
            queries: mean(Row::mean_queries),
            seconds: mean(|row| row.mean_span().as_secs_f64()),
            bins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_that_says_more_than_it_holds_is_an_error_of_that_much() {
        let mut bins = Bins::default();
        (0..100).for_each(|i| bins.add(0.96, i < 86));
        let bin = bins.bins()[6];
        assert_eq!((bin.from, bin.to, bin.verdicts), (0.95, 0.99, 100));
        assert!((bin.confidence - bin.right - 0.1).abs() < 1e-9, "{bin:?}");
    }

    #[test]
    fn the_ends_of_the_range_have_a_bin() {
        let mut bins = Bins::default();
        bins.add(0.0, false);
        bins.add(1.0, true);
        let bins = bins.bins();
        assert_eq!((bins[0].verdicts, bins[7].verdicts), (1, 1));
    }
}
