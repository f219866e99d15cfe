//! Texts as Go and Istio read them: durations, addresses, host names, labels. Text comes in, a judgement goes out; the
//! schema's CEL rules and the audit's "Istio refuses this" call it.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Go's `time.ParseDuration`; negative ones are as wrong here as text that is none.
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if matches!(text, "0" | "-0") {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let scale: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 19 {
            return None;
        }
        nanos += if whole.is_empty() { 0 } else { whole.parse::<u128>().ok()? * scale };
        let fraction = &fraction[..fraction.len().min(18)];
        if !fraction.is_empty() {
            nanos +=
                fraction.parse::<u128>().ok()? * scale / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        }
        rest = tail;
    }
    let nanos = i64::try_from(nanos).ok().filter(|_| !text.is_empty())?;
    Some(Duration::from_nanos(nanos.unsigned_abs()))
}

/// Go's `netip.ParseAddr`: a zone is allowed behind an IPv6 address.
pub(crate) fn is_ip(text: &str) -> bool {
    match text.split_once('%') {
        Some((address, zone)) => !zone.is_empty() && address.parse::<Ipv6Addr>().is_ok(),
        None => text.parse::<IpAddr>().is_ok(),
    }
}

/// An address or a network.
pub(crate) fn is_ip_or_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return is_ip(text) };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    let plain = bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    plain && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// Istio's RFC 1123 label: upper case is allowed.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.len() <= 63
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
}

/// The first label of a host: `*`, a label, `*label` or `*-label`.
fn is_wildcard_label(text: &str) -> bool {
    let rest = text.strip_prefix('*').unwrap_or(text);
    let rest = if rest.len() < text.len() { rest.strip_prefix('-').unwrap_or(rest) } else { rest };
    text.len() <= 63 && (text == "*" || is_dns_label(rest))
}

fn is_labels(domain: &str) -> bool {
    let last = domain.rsplit('.').next().unwrap_or_default();
    if last.parse::<i64>().is_ok() {
        return false;
    }
    // A dot at the end is allowed, and nothing behind the first label is too.
    domain.is_empty() || domain.strip_suffix('.').unwrap_or(domain).split('.').all(is_dns_label)
}

/// A fully qualified name without a wildcard.
pub(crate) fn is_fqdn(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && is_labels(text)
}

/// A name whose first label may be a wildcard.
pub(crate) fn is_wildcard_domain(text: &str) -> bool {
    if text.is_empty() || text.len() > 255 {
        return false;
    }
    match text.split_once('.') {
        Some((first, rest)) => is_wildcard_label(first) && is_labels(rest),
        None => is_wildcard_label(text),
    }
}

/// One host covers the other: `*.example` and `a.example`, either way round.
pub(crate) fn overlap(one: &str, other: &str) -> bool {
    is_within(one, other) || is_within(other, one)
}

/// The first host is covered by the second.
pub(crate) fn is_within(inner: &str, outer: &str) -> bool {
    match (inner.strip_prefix('*'), outer.strip_prefix('*')) {
        (Some(inner), Some(outer)) => inner.len() >= outer.len() && inner.ends_with(outer),
        (Some(_), None) => false,
        (None, Some(outer)) => inner.ends_with(outer),
        (None, None) => inner == outer,
    }
}

/// A key of a label: an optional domain before `/`, then a name.
pub(crate) fn is_label_key(key: &str) -> bool {
    match key.rsplit_once('/') {
        Some((domain, name)) => {
            domain.len() <= 253 && domain.split('.').all(is_lax_label) && is_label_name(name)
        }
        None => is_label_name(key),
    }
}

/// A value of a label.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_qualified(value)
}

fn is_label_name(name: &str) -> bool {
    name.len() <= 63 && is_qualified(name)
}

/// Of any length.
fn is_lax_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
}

fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_go_s() {
        let ms = |text| go_duration(text).map(|time| time.as_millis());
        assert_eq!(
            [ms("1s"), ms("1m30s"), ms(".5s"), ms("1.5h"), ms("0"), ms("100us")],
            [Some(1000), Some(90_000), Some(500), Some(5_400_000), Some(0), Some(0)]
        );
        for wrong in ["", "5", "s", "1d", "-1s", "1 s", "1.2.3s", ".s", "9999999999h"] {
            assert_eq!(go_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hosts_are_read_as_istio_reads_them() {
        for good in [
            "a.example",
            "a.example.",
            "A-b.example",
            "*.example",
            "*",
            "*a.example",
            "*-a.example",
            "short",
            "short.",
        ] {
            assert!(is_wildcard_domain(good), "{good}");
        }
        for wrong in ["", "a..example", "a.*.example", "-a.example", "a_b.example", "a.443", "**.example"] {
            assert!(!is_wildcard_domain(wrong), "{wrong}");
        }
        assert!(is_ip("fe80::1%eth0") && !is_ip("010.0.0.1") && is_ip_or_network("10.0.0.0/8"));
        assert!(
            !is_ip_or_network("10.0.0.0/33") && !is_ip_or_network("10.0.0.0/08") && !is_ip_or_network("a/8")
        );
        assert!(
            overlap("*.example", "a.example") && overlap("*", "*.a") && !overlap("a.example", "b.example")
        );
    }
}
