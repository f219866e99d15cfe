//! The addresses behind a name, written out or as a range: a pool of thousands costs nothing until it is drawn from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A list of addresses (duplicates are kept), or `{from: 10.0.0.1, count: 400}` for consecutive ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PoolText", into = "PoolText")]
pub struct Pool(Members);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Members {
    List(Vec<IpAddr>),
    Range { from: IpAddr, count: usize },
}

impl Pool {
    /// Greatest size of a range. The answers' indices are 32 bits wide in the sampler.
    pub const MAX: usize = 1 << 24;

    /// A pool of these addresses; must not be empty.
    #[must_use]
    pub fn list(addresses: Vec<IpAddr>) -> Self {
        Self(Members::List(addresses))
    }

    /// Number of members, duplicates counted.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a pool is never empty")]
    pub fn len(&self) -> usize {
        match &self.0 {
            Members::List(addresses) => addresses.len(),
            Members::Range { count, .. } => *count,
        }
    }

    /// Member number `index`, which must be less than [`Pool::len`].
    #[must_use]
    pub fn get(&self, index: usize) -> IpAddr {
        match &self.0 {
            Members::List(addresses) => addresses[index],
            Members::Range { from: IpAddr::V4(first), .. } => {
                // `MAX` is far below 2^32, and the range was checked not to overflow.
                IpAddr::V4(Ipv4Addr::from_bits(first.to_bits() + u32::try_from(index).unwrap_or(0)))
            }
            Members::Range { from: IpAddr::V6(first), .. } => {
                IpAddr::V6(Ipv6Addr::from_bits(first.to_bits() + index as u128))
            }
        }
    }

    /// Position of an address in the pool.
    #[must_use]
    pub fn position(&self, addr: IpAddr) -> Option<usize> {
        match (&self.0, addr) {
            (Members::List(addresses), _) => addresses.iter().position(|a| *a == addr),
            (Members::Range { from: IpAddr::V4(first), count }, IpAddr::V4(addr)) => {
                let index = addr.to_bits().checked_sub(first.to_bits())? as usize;
                (index < *count).then_some(index)
            }
            (Members::Range { from: IpAddr::V6(first), count }, IpAddr::V6(addr)) => {
                let index = usize::try_from(addr.to_bits().checked_sub(first.to_bits())?).ok()?;
                (index < *count).then_some(index)
            }
            _ => None,
        }
    }

    /// Whether every member is of IPv4 (`true`) or of IPv6 (`false`).
    #[must_use]
    pub fn is_family(&self, v4: bool) -> bool {
        match &self.0 {
            Members::List(addresses) => addresses.iter().all(|a| a.is_ipv4() == v4),
            Members::Range { from, .. } => from.is_ipv4() == v4,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a list of addresses or {from: address, count: number}")]
enum PoolText {
    List(Vec<IpAddr>),
    Range(RangeText),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeText {
    from: IpAddr,
    count: usize,
}

impl TryFrom<PoolText> for Pool {
    type Error = String;
    fn try_from(text: PoolText) -> Result<Self, String> {
        match text {
            PoolText::List(addresses) if addresses.is_empty() => {
                Err("a pool needs an address; for a name without one leave the record set out".into())
            }
            PoolText::List(addresses) => Ok(Self::list(addresses)),
            PoolText::Range(RangeText { from, count }) => {
                let fits = match from {
                    IpAddr::V4(first) => {
                        first.to_bits().checked_add(u32::try_from(count).unwrap_or(u32::MAX)).is_some()
                    }
                    IpAddr::V6(first) => first.to_bits().checked_add(count as u128).is_some(),
                };
                if count == 0 || count > Self::MAX || !fits {
                    return Err(format!(
                        "a range holds 1 to {} addresses and ends before the last one",
                        Self::MAX
                    ));
                }
                Ok(Self(Members::Range { from, count }))
            }
        }
    }
}

impl From<Pool> for PoolText {
    fn from(pool: Pool) -> Self {
        match pool.0 {
            Members::List(addresses) => Self::List(addresses),
            Members::Range { from, count } => Self::Range(RangeText { from, count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(json: &str) -> Result<Pool, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    #[test]
    fn a_range_counts_across_octets() {
        let range = pool(r#"{"from": "10.0.0.250", "count": 400}"#).unwrap();
        assert_eq!(range.len(), 400);
        assert_eq!(range.get(6), "10.0.1.0".parse::<IpAddr>().unwrap());
        assert_eq!(range.position("10.0.1.0".parse().unwrap()), Some(6));
        assert_eq!(range.position("10.0.2.250".parse().unwrap()), None);
        let v6 = pool(r#"{"from": "2001:db8::ffff", "count": 2}"#).unwrap();
        assert_eq!(v6.get(1), "2001:db8::1:0".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn empty_and_overflowing_pools_are_refused() {
        assert!(pool("[]").is_err());
        assert!(pool(r#"{"from": "255.255.255.250", "count": 40}"#).is_err());
        assert!(pool(r#"{"from": "10.0.0.1", "count": 0}"#).is_err());
        assert!(pool(r#"{"from": "10.0.0.1", "count": 4294967295}"#).is_err());
    }
}
