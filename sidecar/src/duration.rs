//! Times as people write them, and as the drain counts them. Called by everything that reads a flag or a clock.

use std::time::Duration;

use crate::drain::Millis;

/// More is a slip of the pen, and sums of such times stay far from the end of their type.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `120` (seconds), `120s`, `2m`, `1500ms`, `0.5s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[number.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("unit `{unit}` is not one of ms, s, m, h")),
    };
    let number: f64 =
        number.parse().map_err(|_| format!("`{text}` is not a time such as 120, 2m or 500ms"))?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err(format!("`{text}` is not between 0 and a year")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_their_unit_and_seconds_need_none() {
        let read = |text| duration(text).map(millis);
        for (text, expected) in
            [("120", 120_000), ("0.5", 500), ("1500ms", 1_500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "1d", "-1", "1e400", "18446744073709551s", "366000h", "soon", "5 s"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
