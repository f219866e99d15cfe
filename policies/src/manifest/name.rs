//! Kubernetes names out of host names: valid for any host, and different for different hosts.

use crate::Host;

/// RFC 1123 label.
const MAX: usize = 63;

/// A valid name for `host`: a dot becomes `-` and a hyphen `--`, which reads back in one way only, since a label
/// neither starts nor ends with a hyphen: `a.b.example` and `a-b.example` differ. What exceeds 63 bytes is cut and
/// ends in `---` and a hash, as does one with an underscore; no other name holds three hyphens in a row.
#[must_use]
pub fn resource_name(host: &Host) -> String {
    let whole = host.as_str().replace('-', "--").replace(['.', '_'], "-");
    if whole.len() <= MAX && !host.as_str().contains('_') {
        return whole;
    }
    let hash = format!("---{:016x}", stable_hash(host.as_str().as_bytes()));
    let head = whole.get(..whole.len().min(MAX - hash.len())).unwrap_or(&whole).trim_end_matches('-');
    format!("{head}{hash}")
}

/// FNV-1a, 64 bits: stable over releases, which the standard library's hashers do not promise.
#[must_use]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Whether a text can name a resource or a namespace (RFC 1123 label): what `--name` and `--namespace` must be.
#[must_use]
pub fn is_resource_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    !name.is_empty()
        && name.len() <= MAX
        && name.bytes().all(|b| inner(b) || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// A prefix and a name, cut and hashed like a host where they are too long together.
pub(super) fn joined(prefix: &str, host: &Host) -> String {
    let name = format!("{prefix}-{}", resource_name(host));
    if name.len() <= MAX {
        return name;
    }
    let hash = format!("---{:016x}", stable_hash(format!("{prefix}/{host}").as_bytes()));
    let head = name.get(..MAX - hash.len()).unwrap_or(&name).trim_end_matches('-');
    format!("{head}{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(host: &str) -> String {
        resource_name(&Host::parse(host).unwrap())
    }

    #[test]
    fn names_read_like_their_hosts() {
        assert_eq!(name("api.partner.example"), "api-partner-example");
        assert_eq!(name("a-b.example"), "a--b-example");
        assert_eq!(name("a.b.example"), "a-b-example");
        assert_eq!(name("xn--mnchen-3ya.example"), "xn----mnchen--3ya-example");
    }

    #[test]
    fn long_hosts_that_start_alike_keep_apart() {
        let long = "region.".repeat(12);
        let (one, two) = (name(&format!("{long}one.example")), name(&format!("{long}two.example")));
        assert_ne!(one, two);
        assert!(one.len() <= 63 && one.contains("---"), "{one}");
    }

    fn host() -> impl Strategy<Value = Host> {
        "[a-c]{1,2}(-{1,3}[a-c0-9]{1,2}){0,2}(\\.[a-c]{1,2}(-{1,3}[a-c0-9]){0,1}){0,12}"
            .prop_map(|text| Host::parse(&text).unwrap())
    }

    proptest! {
        #[test]
        fn different_hosts_have_different_valid_names(one in host(), two in host()) {
            let (a, b) = (resource_name(&one), resource_name(&two));
            prop_assert!(is_resource_name(&a), "{a}");
            prop_assert!(is_resource_name(&joined("partner", &one)));
            prop_assert_eq!(one == two, a == b);
        }
    }
}
