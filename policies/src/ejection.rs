//! The arithmetic of outlier detection: how many members come in, the limits that let Envoy eject some of them go out.
//! Used by `recommend`, by the audit and by what a proxy's counters mean.

/// `max_ejection_percent` where none is set (envoy, `cluster/v3/outlier_detection.proto`).
pub const DEFAULT_MAX_EJECTION_PERCENT: u64 = 10;

/// The least `max_ejection_percent` that allows one of `members` to be ejected: Envoy allows the k-th ejection when
/// 100 * k / N <= the limit. `None` without members.
#[must_use]
pub fn first_ejection_percent(members: usize) -> Option<u64> {
    Some(100_u64.div_ceil(u64::try_from(members).ok().filter(|members| *members > 0)?))
}

/// The greatest useful `max_ejection_percent`: all but one of `members` may go, ceil(100 * (N-1) / N), at most 99 so
/// that one always stays.
#[must_use]
pub fn max_ejection_percent(members: usize) -> u32 {
    let percent = (100 * members.saturating_sub(1)).div_ceil(members.max(1)).min(99);
    u32::try_from(percent).unwrap_or(99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_limit_spares_one_and_allows_the_first() {
        for members in 2..200 {
            let limit = u64::from(max_ejection_percent(members));
            assert!(limit >= first_ejection_percent(members).unwrap() && limit < 100, "{members}");
        }
        assert_eq!(first_ejection_percent(0), None);
        assert_eq!(first_ejection_percent(3), Some(34));
    }
}
