//! The small values of a scenario file: times, counts and TTLs, each read from the short form that a person writes.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A length of time: `200ms`, `60s`, `10m`, `1h 30m`, or a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "TimeText", into = "String")]
pub struct Interval(Duration);

/// A moment after the start, `60s`, or a span that it is drawn from once per run (by the seed), `20s..240s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TimeText", into = "String")]
pub struct Moment {
    /// Earliest.
    pub from: Interval,
    /// Latest; equal to `from` for an exact moment.
    pub to: Interval,
}

/// How many addresses an answer holds: a number, or a range `2..8` (ends included) drawn for each answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CountText", into = "String")]
pub struct Take {
    /// Fewest.
    pub min: usize,
    /// Most.
    pub max: usize,
}

/// Time to live in seconds: a number, or a list that is dealt out to the pool's members in turn (`[0, 60]`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TtlText", into = "TtlText")]
pub struct Ttl(Vec<u32>);

impl Interval {
    /// From a duration.
    #[must_use]
    pub const fn new(duration: Duration) -> Self {
        Self(duration)
    }

    /// As a duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    fn parse(text: &str) -> Result<Self, String> {
        let seconds = || text.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
        let written = || text.parse::<jiff::SignedDuration>().ok().and_then(|d| Duration::try_from(d).ok());
        seconds().or_else(written).filter(|d| *d <= Duration::from_secs(366 * 86_400)).map(Self).ok_or_else(
            || format!("{text:?} is not a length of time such as 200ms, 60s, 10m or 1h (a year at most)"),
        )
    }
}

impl Take {
    /// A fixed number.
    #[must_use]
    pub const fn exactly(n: usize) -> Self {
        Self { min: n, max: n }
    }
}

impl Default for Take {
    fn default() -> Self {
        Self::exactly(1)
    }
}

impl Ttl {
    /// The same for every record.
    #[must_use]
    pub fn seconds(ttl: u32) -> Self {
        Self(vec![ttl])
    }

    /// The TTL of the pool's member number `index`.
    #[must_use]
    pub fn of(&self, index: usize) -> u32 {
        self.0[index % self.0.len()]
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self::seconds(30)
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a length of time such as 200ms, 60s, 10m or 1h")]
enum TimeText {
    Number(f64),
    Text(String),
}

impl TimeText {
    fn into_text(self) -> String {
        match self {
            Self::Number(seconds) => seconds.to_string(),
            Self::Text(text) => text,
        }
    }
}

impl TryFrom<TimeText> for Interval {
    type Error = String;
    fn try_from(value: TimeText) -> Result<Self, String> {
        Self::parse(&value.into_text())
    }
}

impl From<Interval> for String {
    fn from(value: Interval) -> Self {
        value.to_string()
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::SignedDuration::try_from(self.0) {
            Ok(duration) => write!(f, "{duration:#}"),
            Err(_) => write!(f, "{}s", self.0.as_secs()),
        }
    }
}

impl TryFrom<TimeText> for Moment {
    type Error = String;
    fn try_from(value: TimeText) -> Result<Self, String> {
        let text = value.into_text();
        let (from, to) = text.split_once("..").unwrap_or((&text, &text));
        let (from, to) = (Interval::parse(from.trim())?, Interval::parse(to.trim())?);
        if from > to {
            return Err(format!("{text:?} ends before it starts"));
        }
        Ok(Self { from, to })
    }
}

impl From<Moment> for String {
    fn from(value: Moment) -> Self {
        if value.from == value.to { value.from.to_string() } else { format!("{}..{}", value.from, value.to) }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number such as 8 or a range such as 2..8")]
enum CountText {
    Number(usize),
    Text(String),
}

impl TryFrom<CountText> for Take {
    type Error = String;
    fn try_from(value: CountText) -> Result<Self, String> {
        let text = match value {
            CountText::Number(n) => n.to_string(),
            CountText::Text(text) => text,
        };
        let (min, max) = text.split_once("..").unwrap_or((&text, &text));
        match (min.trim().parse(), max.trim().parse()) {
            (Ok(min), Ok(max)) if 1 <= min && min <= max => Ok(Self { min, max }),
            _ => Err(format!("{text:?} is not a count such as 8 or 2..8 (1 at least)")),
        }
    }
}

impl From<Take> for String {
    fn from(value: Take) -> Self {
        if value.min == value.max { value.min.to_string() } else { format!("{}..{}", value.min, value.max) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a TTL in seconds such as 60, or a list of them")]
enum TtlText {
    One(u32),
    Each(Vec<u32>),
}

impl TryFrom<TtlText> for Ttl {
    type Error = &'static str;
    fn try_from(value: TtlText) -> Result<Self, &'static str> {
        let ttls = match value {
            TtlText::One(ttl) => vec![ttl],
            TtlText::Each(ttls) => ttls,
        };
        if ttls.is_empty() || ttls.iter().any(|ttl| *ttl > 0x7fff_ffff) {
            return Err("a TTL is 0 to 2147483647 seconds (RFC 2181), and a list of them is not empty");
        }
        Ok(Self(ttls))
    }
}

impl From<Ttl> for TtlText {
    fn from(value: Ttl) -> Self {
        match value.0.as_slice() {
            [ttl] => Self::One(*ttl),
            _ => Self::Each(value.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_read_and_written_back() {
        for (text, seconds) in [("\"200ms\"", 0.2), ("60", 60.0), ("\"1h 30m\"", 5400.0), ("\"10m\"", 600.0)]
        {
            let interval: Interval = serde_json::from_str(text).unwrap();
            assert!((interval.get().as_secs_f64() - seconds).abs() < 1e-9, "{text}");
            let back: Interval = serde_json::from_str(&serde_json::to_string(&interval).unwrap()).unwrap();
            assert_eq!(back, interval);
        }
        let moment: Moment = serde_json::from_str("\"20s..4m\"").unwrap();
        assert_eq!(moment.to.get().as_secs(), 240);
        let take: Take = serde_json::from_str("\"2..8\"").unwrap();
        assert_eq!((take.min, take.max), (2, 8));
        let ttl: Ttl = serde_json::from_str("[0, 60]").unwrap();
        assert_eq!((ttl.of(0), ttl.of(3)), (0, 60));
    }

    #[test]
    fn nonsense_is_refused_with_the_remedy() {
        let error = serde_json::from_str::<Interval>("\"soon\"").unwrap_err().to_string();
        assert!(error.contains("soon") && error.contains("60s"), "{error}");
        assert!(serde_json::from_str::<Moment>("\"9s..1s\"").is_err());
        assert!(serde_json::from_str::<Take>("0").is_err());
        assert!(serde_json::from_str::<Take>("\"8..2\"").is_err());
        assert!(serde_json::from_str::<Ttl>("[]").is_err());
    }
}
