//! The words that several renderers share: names of classes and traits, durations, address lists.

use std::fmt::Write as _;
use std::net::IpAddr;

use jiff::SignedDuration;
use policies::recommend::{Alternative, Cost};
use policies::{OutcomeKind, Reason, Recommendation, ResolutionClass, Trait, VersionBasis};
use serde::Serialize;

use crate::report::FamilyReport;

/// The class as reports name it.
pub(super) fn class(class: ResolutionClass) -> &'static str {
    match class {
        ResolutionClass::SingleVip => "SingleVip",
        ResolutionClass::FixedMultiIp => "FixedMultiIp",
        ResolutionClass::RotatingPool => "RotatingPool",
        ResolutionClass::Unresolvable => "Unresolvable",
        ResolutionClass::InsufficientData => "InsufficientData",
    }
}

/// What the class means, in half a sentence.
pub(super) fn meaning(class: ResolutionClass) -> &'static str {
    match class {
        ResolutionClass::SingleVip => "one address at a time out of a small pool",
        ResolutionClass::FixedMultiIp => "several addresses out of a small pool",
        ResolutionClass::RotatingPool => "a few addresses per answer out of a large pool",
        ResolutionClass::Unresolvable => "no address was ever answered",
        ResolutionClass::InsufficientData => "the window cannot tell",
    }
}

/// A trait as reports name it: its JSON name with blanks.
pub(super) fn trait_name(seen: Trait) -> String {
    json_name(&seen).replace('_', " ")
}

/// The name that a unit variant has in JSON.
pub(super) fn json_name<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Servers answered, and all that they said is that the name has no such record.
pub(super) fn absent(family: &FamilyReport) -> bool {
    let seen = &family.observation;
    let no_data = seen.count(|outcome| outcome == OutcomeKind::NoData) > 0;
    let denied = seen.count(|outcome| outcome == OutcomeKind::NxDomain) > 0;
    seen.addresses.is_empty() && no_data && !denied
}

/// `3 min 5 s`, `2 h`, `0.4 s`.
pub(super) fn span(length: SignedDuration) -> String {
    let seconds = length.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0..10) if length.subsec_nanos() != 0 => format!("{:.1} s", length.as_secs_f64()),
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// `1 query`, `2 queries`.
pub(super) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// The first addresses and how many more there are.
pub(super) fn addresses(all: impl ExactSizeIterator<Item = IpAddr>, shown: usize) -> String {
    let total = all.len();
    let mut text = all.take(shown).map(|addr| addr.to_string()).collect::<Vec<_>>().join(" ");
    if total > shown {
        let _ = write!(text, " and {} more", total - shown);
    }
    text
}

/// The platform that advice is for, and how sure its version is.
pub(super) fn platform(advice: &Recommendation) -> String {
    let basis = match advice.envoy.basis {
        VersionBasis::Given => "as given",
        VersionBasis::FromIstio => "which this Istio ships",
        VersionBasis::FromIstioThirdParty => "which this Istio ships according to vendors' notes",
        VersionBasis::FromIstioPattern => "which this Istio ships if the pattern of its releases holds",
        VersionBasis::Assumed => "assumed; name yours with `--istio-version` or `--envoy-version`",
    };
    let istio = advice.istio_version.map_or_else(String::new, |version| format!("Istio {version}, "));
    format!("{istio}Envoy {} ({basis}), {}", advice.envoy.version, json_name(&advice.proxy_kind))
}

/// A statement with its sources in brackets.
pub(super) fn reason(reason: &Reason) -> String {
    let evidence: Vec<_> = reason.evidence.iter().map(ToString::to_string).collect();
    format!("{} [{}]", reason.text, evidence.join("; "))
}

/// What a resolution costs, in one sentence.
pub(super) fn cost(cost: &Cost) -> String {
    let failover = cost.worst_failover_s.map_or_else(
        || "fail-over ends when the application closes its connections".to_owned(),
        |worst| format!("fail-over within {}", seconds(worst)),
    );
    format!(
        "{}: {} members replaced and {} reconnects an hour, lookup every {}, {failover}, flips {} in Envoy's counters",
        cost.resolution,
        rounded(cost.members_replaced_per_hour),
        rounded(cost.reconnects_per_hour),
        seconds(cost.refresh_s),
        if cost.failover_recorded { "recorded" } else { "not recorded" },
    )
}

/// The third way, in one sentence.
pub(super) fn alternative(alternative: &Alternative) -> String {
    format!(
        "resolution: {} with {} as endpoints, since every address has been seen",
        alternative.resolution,
        addresses(alternative.endpoints.iter().copied(), 16)
    )
}

pub(super) fn seconds(seconds: u64) -> String {
    span(SignedDuration::from_secs(seconds.try_into().unwrap_or(i64::MAX)))
}

fn rounded(value: f64) -> String {
    if value >= 10.0 || value == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}
