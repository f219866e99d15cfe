//! Family EA2: outlier detection that cannot work, or works too well. The arithmetic is Envoy's: the k-th ejection out
//! of N needs 100*k/N <= `maxEjectionPercent` (10 where it is not set).

use super::Findings;
use super::mesh::{DestRule, Entry, Mesh};
use super::patch::{insert, replace, set};
use super::rule::Rule;
use crate::ejection::{DEFAULT_MAX_EJECTION_PERCENT, first_ejection_percent, max_ejection_percent};
use crate::finding::Severity;
use crate::manifest::node::Node;
use crate::{Behaviour, Citation, IstioBehaviour, Resolution, ResolutionClass};

const OUTLIER: Citation = Citation::docs(
    "https://istio.io/latest/docs/reference/config/networking/destination-rule/#OutlierDetection",
);
const DEAD_IP: Citation = Citation::lab("dead-ip");

/// What applies where the rule does not say (istio `cluster_traffic_policy.go`, envoy `outlier_detection.proto`).
const DEFAULT_LIMIT: i64 = DEFAULT_MAX_EJECTION_PERCENT.cast_signed();
const DEFAULT_FAILURES: u64 = 5;
const DEFAULT_CONNECT_TIMEOUT_MS: u64 = 10_000;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "EA201",
        name: "eject-impossible",
        severity: Severity::Error,
        what: "maxEjectionPercent allows less than one of the addresses to be ejected",
        why: "a failing address is detected and never ejected: its share of the requests goes on failing; Istio does \
              not set always_eject_one_host",
        fix: "set maxEjectionPercent to 100*(N-1)/N, rounded up",
        source: &[
            OUTLIER,
            Citation::thread("https://github.com/envoyproxy/gateway/issues/8140"),
            Citation::thread("https://github.com/envoyproxy/envoy/pull/27909"),
            DEAD_IP,
        ],
        examples: include_str!("examples/EA201.yaml"),
        check: eject_impossible,
    },
    Rule {
        code: "EA202",
        name: "eject-everything-on-round-robin",
        severity: Severity::Error,
        what: "DNS_ROUND_ROBIN with outlier detection that may eject the only host",
        why: "the cluster has one logical host; ejecting it answers every request with 503 UH for baseEjectionTime, up \
              to Envoy 1.38 even after DNS has moved on",
        fix: "remove outlierDetection: Envoy tries the next address of the answer by itself",
        source: &[
            Citation::thread("https://github.com/envoyproxy/envoy/issues/32088"),
            Citation::lab("ejection-memory"),
        ],
        examples: include_str!("examples/EA202.yaml"),
        check: eject_everything_on_round_robin,
    },
    Rule {
        code: "EA203",
        name: "outlier-without-effect-on-round-robin",
        severity: Severity::Info,
        what: "DNS_ROUND_ROBIN with outlier detection that can never eject",
        why: "one host, and a limit below 100 % of it",
        fix: "remove outlierDetection, or write `resolution: DNS` where the pool is small",
        source: &[Citation::thread("https://github.com/envoyproxy/envoy/issues/32088")],
        examples: include_str!("examples/EA203.yaml"),
        check: without_effect_on_round_robin,
    },
    Rule {
        code: "EA204",
        name: "outlier-for-a-single-address",
        severity: Severity::Warning,
        what: "outlier detection for a name that answers with one address at a time",
        why: "there is no other address to go to: at 100 % its ejection is an outage, below it nothing ever happens",
        fix: "remove outlierDetection; what decides a fail-over here is the DNS side and the TTL",
        source: &[OUTLIER, DEAD_IP],
        examples: include_str!("examples/EA204.yaml"),
        check: single_address,
    },
    Rule {
        code: "EA205",
        name: "eject-all-of-a-few",
        severity: Severity::Warning,
        what: "all of two or three addresses may be ejected at once",
        why: "an outlierDetection block switches Envoy's panic mode off (healthy_panic_threshold 0), so with all \
              addresses ejected requests get 503 UH instead of a try; a minHealthPercent switches it on again, and \
              from Istio 1.31 on also keeps unhealthy endpoints from being sent, which they are without it",
        fix: "set maxEjectionPercent to 100*(N-1)/N, rounded up, or minHealthPercent above 0 to fail open",
        source: &[
            Citation::thread("https://github.com/istio/istio/issues/20135"),
            Citation::thread("https://github.com/envoyproxy/envoy/issues/2671"),
        ],
        examples: include_str!("examples/EA205.yaml"),
        check: all_of_a_few,
    },
    Rule {
        code: "EA206",
        name: "split-flag-missing",
        severity: Severity::Error,
        what: "consecutiveLocalOriginFailures without splitExternalLocalOriginErrors",
        why: "Istio refuses it, and Envoy would ignore the count unless failures are counted apart; a request that its client gives up before Envoy's \
              connectTimeout counts nowhere",
        fix: "add `splitExternalLocalOriginErrors: true`",
        source: &[OUTLIER, Citation::thread("https://github.com/istio/istio/issues/32645")],
        examples: include_str!("examples/EA206.yaml"),
        check: split_flag_missing,
    },
    Rule {
        code: "EA207",
        name: "split-without-count",
        severity: Severity::Info,
        what: "splitExternalLocalOriginErrors without consecutiveLocalOriginFailures",
        why: "five failed connects in a row eject then, whatever the other counts say",
        fix: "add `consecutiveLocalOriginFailures` with the count that you want",
        source: &[OUTLIER, DEAD_IP],
        examples: include_str!("examples/EA207.yaml"),
        check: split_without_count,
    },
    Rule {
        code: "EA208",
        name: "answers-counted-on-passthrough",
        severity: Severity::Info,
        what: "outlier detection by HTTP answers on a port whose answers Envoy cannot read",
        why: "inside of TLS a 502 is invisible; only failed connects count, as 5xx and as gateway errors",
        fix: "count what is seen: `splitExternalLocalOriginErrors: true`, `consecutiveLocalOriginFailures: 3`",
        source: &[Citation::thread("https://github.com/istio/istio/issues/17521"), DEAD_IP],
        examples: include_str!("examples/EA208.yaml"),
        check: answers_on_passthrough,
    },
    Rule {
        code: "EA209",
        name: "connect-timeout-too-long",
        severity: Severity::Warning,
        what: "the connectTimeout makes the failures that lead to an ejection take too long",
        why: "a black-holed address is ejected after count x connectTimeout; Istio's default is 10 s each",
        fix: "set connectionPool.tcp.connectTimeout to 1s",
        source: &[Citation::thread("https://github.com/istio/istio/issues/46724"), DEAD_IP],
        examples: include_str!("examples/EA209.yaml"),
        check: connect_timeout,
    },
    Rule {
        code: "EA210",
        name: "locality-failover",
        severity: Severity::Info,
        what: "outlier detection over endpoints with a locality, without localityLbSetting",
        why: "outlierDetection switches locality fail-over on: all traffic goes to the closest locality",
        fix: "set trafficPolicy.loadBalancer.localityLbSetting, `enabled: false` where it is not wanted",
        source: &[Citation::thread("https://github.com/istio/istio/issues/23914")],
        examples: include_str!("examples/EA210.yaml"),
        check: locality_failover,
    },
    Rule {
        code: "EA211",
        name: "ejection-forgotten",
        severity: Severity::Warning,
        what: "outlier detection over the members of a rotating pool",
        why: "an address that leaves the answer takes its ejection along: at every return it fails anew until it is \
              ejected anew",
        fix: "write `resolution: DNS_ROUND_ROBIN` in the entry and remove outlierDetection",
        source: &[Citation::thread("https://github.com/istio/istio/issues/8673"), DEAD_IP],
        examples: include_str!("examples/EA211.yaml"),
        check: ejection_forgotten,
    },
    Rule {
        code: "EA212",
        name: "mesh-default-ejects-the-only-host",
        severity: Severity::Error,
        what: "meshConfig.defaultTrafficPolicy may eject the only host of an entry that no rule is about",
        why: "from Istio 1.31 on its outlierDetection applies wherever a rule does not say otherwise, so that no rule \
              is no longer no ejection: 503 UH for baseEjectionTime",
        fix: "give the hosts a DestinationRule with an outlierDetection of their own, or lower maxEjectionPercent",
        source: &[
            Citation::docs("https://istio.io/latest/docs/reference/config/istio.mesh.v1alpha1/"),
            Citation::thread("https://github.com/envoyproxy/envoy/issues/32088"),
        ],
        examples: include_str!("examples/EA212.yaml"),
        check: mesh_default,
    },
    Rule {
        code: "EA213",
        name: "consecutive-errors-ignored",
        severity: Severity::Warning,
        what: "outlierDetection.consecutiveErrors",
        why: "Istio has ignored the field since 1.6: without another count Envoy's default of 5 answers with 5xx applies",
        fix: "write `consecutive5xxErrors`, or `consecutiveGatewayErrors` for 502, 503 and 504 alone",
        source: &[Citation::docs(
            "https://istio.io/latest/docs/reference/config/networking/destination-rule/#OutlierDetection",
        )],
        examples: include_str!("examples/EA213.yaml"),
        check: consecutive_errors,
    },
    Rule {
        code: "EA214",
        name: "error-codes-too-early",
        severity: Severity::Warning,
        what: "outlierDetectionHttpErrorCodes on an Istio that does not know it",
        why: "the field is dropped without a word, and every 5xx counts",
        fix: "upgrade Istio, or count with consecutiveGatewayErrors",
        source: &[Citation::docs(
            "https://istio.io/latest/docs/reference/config/networking/destination-rule/#ConnectionPoolSettings-HTTPSettings",
        )],
        examples: include_str!("examples/EA214.yaml"),
        check: error_codes,
    },
];

/// An `outlierDetection` with its policy and one of the entries that it applies to.
struct Applied<'m, 'a> {
    rule: &'m DestRule<'a>,
    entry: &'m Entry<'a>,
    policy: &'a Node,
    outlier: &'a Node,
}

impl Applied<'_, '_> {
    fn limit(&self) -> i64 {
        self.outlier.integer_at("maxEjectionPercent").unwrap_or(DEFAULT_LIMIT)
    }

    fn has(&self, key: &str) -> bool {
        self.outlier.get(key).is_some()
    }

    /// Failed connects in a row that eject: counted apart, or as the 5xx and gateway errors that they are then.
    fn failures(&self) -> u64 {
        let set = |key| self.outlier.integer_at(key).map(|count| u64::try_from(count).unwrap_or_default());
        let counts = if self.outlier.is_true("splitExternalLocalOriginErrors") {
            [set("consecutiveLocalOriginFailures").or(Some(DEFAULT_FAILURES)), None]
        } else {
            [set("consecutive5xxErrors").or(Some(DEFAULT_FAILURES)), set("consecutiveGatewayErrors")]
        };
        counts.into_iter().flatten().filter(|count| *count > 0).min().unwrap_or(DEFAULT_FAILURES)
    }

    fn fails_open(&self) -> bool {
        self.outlier.integer_at("minHealthPercent").is_some_and(|percent| percent > 0)
    }

    fn at(&self, key: &str) -> crate::manifest::node::Place {
        self.outlier.entry(key).map_or(self.outlier.at, |(key, _)| key.at)
    }
}

/// Every `outlierDetection` of a rule: at the top level, of a port or of a subset.
fn outliers<'a>(rule: &DestRule<'a>) -> Vec<(&'a Node, &'a Node)> {
    super::connections::policies(rule)
        .filter_map(|(policy, _)| {
            let outlier = policy.get("outlierDetection").filter(|node| !node.entries().is_empty())?;
            Some((policy, outlier))
        })
        .collect()
}

fn applied<'m, 'a>(mesh: &'m Mesh<'a>) -> impl Iterator<Item = Applied<'m, 'a>> {
    mesh.rules.iter().flat_map(move |rule| {
        outliers(rule).into_iter().flat_map(move |(policy, outlier)| {
            mesh.entries_of(rule).map(move |entry| Applied { rule, entry, policy, outlier })
        })
    })
}

/// Rules by themselves, whether or not their entry is there.
fn alone<'m, 'a>(mesh: &'m Mesh<'a>) -> impl Iterator<Item = (&'m DestRule<'a>, &'a Node)> {
    mesh.rules.iter().flat_map(|rule| outliers(rule).into_iter().map(move |(_, outlier)| (rule, outlier)))
}

fn eject_impossible(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let binds = mesh.context.platform.behaves(Behaviour::EjectionLimitBindsFirst);
    for case in applied(mesh).filter(|_| binds) {
        let Some(members) = case.entry.members(case.rule.host).filter(|members| *members >= 2) else {
            continue;
        };
        let needed = first_ejection_percent(members).and_then(|needed| i64::try_from(needed).ok());
        if needed.is_none_or(|needed| case.limit() >= needed) {
            continue;
        }
        let advised = max_ejection_percent(members);
        let from = if case.has("maxEjectionPercent") { "" } else { ", the default," };
        let text = format!(
            "{} % of {members} addresses{from} is less than one: no ejection is ever allowed",
            case.limit()
        );
        found
            .add(case.rule.resource, case.at("maxEjectionPercent"), text)
            .hint(format!("set maxEjectionPercent: {advised}, which leaves one of {members}"))
            .with(case.entry.resource, case.entry.resolution_at())
            .edit(set(case.outlier, "maxEjectionPercent", &advised.to_string()));
    }
}

fn on_round_robin<'m, 'a>(mesh: &'m Mesh<'a>, ejects: bool) -> impl Iterator<Item = Applied<'m, 'a>> {
    applied(mesh)
        .filter(|case| case.entry.resolution == Some(Resolution::DnsRoundRobin))
        .filter(move |case| (case.limit() >= 100) == ejects)
}

fn eject_everything_on_round_robin(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    let forgets = mesh.context.platform.behaves(Behaviour::LogicalForgetsEjection);
    for case in on_round_robin(mesh, true) {
        let until =
            if forgets { "until the answer changes" } else { "even after DNS has moved to another address" };
        let text = format!("the only host of {} may be ejected, {until}", case.rule.host);
        found
            .add(case.rule.resource, case.at("maxEjectionPercent"), text)
            .with(case.entry.resource, case.entry.resolution_at());
    }
}

fn without_effect_on_round_robin(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for case in on_round_robin(mesh, false) {
        let text = format!("{} % of the one host of {} is no host", case.limit(), case.rule.host);
        found
            .add(case.rule.resource, case.outlier.at, text)
            .with(case.entry.resource, case.entry.resolution_at());
    }
}

fn single_address(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for case in applied(mesh).filter(|case| case.entry.members(case.rule.host) == Some(1)) {
        let (text, severity) = if case.limit() >= 100 && !case.fails_open() {
            (
                format!("the only address of {} may be ejected: 503 UH for all requests", case.rule.host),
                Severity::Error,
            )
        } else {
            (format!("{} has one address at a time, and it is never ejected", case.rule.host), Severity::Info)
        };
        found
            .add(case.rule.resource, case.outlier.at, text)
            .severity(severity)
            .with(case.entry.resource, case.entry.resolution_at());
    }
}

fn all_of_a_few(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for case in applied(mesh).filter(|case| case.limit() >= 100 && !case.fails_open()) {
        let Some(members @ 2..=3) = case.entry.members(case.rule.host) else { continue };
        let advised = max_ejection_percent(members);
        let text = format!("all {members} addresses of {} may be ejected at once", case.rule.host);
        found
            .add(case.rule.resource, case.at("maxEjectionPercent"), text)
            .hint(format!("set maxEjectionPercent: {advised}, or minHealthPercent above 0 to fail open"))
            .with(case.entry.resource, case.entry.resolution_at())
            .edit(set(case.outlier, "maxEjectionPercent", &advised.to_string()));
    }
}

fn split_flag_missing(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (rule, outlier) in alone(mesh) {
        let Some((key, _)) = outlier.entry("consecutiveLocalOriginFailures") else { continue };
        if !outlier.is_true("splitExternalLocalOriginErrors") {
            let text = "the count of failed connects is ignored: failures are not counted apart";
            found.add(rule.resource, key.at, text).edit(set(
                outlier,
                "splitExternalLocalOriginErrors",
                "true",
            ));
        }
    }
}

fn split_without_count(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (rule, outlier) in alone(mesh) {
        let counted = outlier.get("consecutiveLocalOriginFailures").is_some();
        if outlier.is_true("splitExternalLocalOriginErrors") && !counted {
            let text = format!("{DEFAULT_FAILURES} failed connects in a row eject, by default");
            found.add(rule.resource, outlier.at, text).edit(insert(
                outlier,
                "consecutiveLocalOriginFailures",
                "5",
            ));
        }
    }
}

fn answers_on_passthrough(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    const COUNTS: [&str; 2] = ["consecutive5xxErrors", "consecutiveGatewayErrors"];
    for case in applied(mesh).filter(|case| case.entry.is_passthrough()) {
        let split = case.outlier.is_true("splitExternalLocalOriginErrors");
        let counted =
            COUNTS.into_iter().find(|key| case.outlier.integer_at(key).is_some_and(|count| count > 0));
        if let (Some(key), false) = (counted, split) {
            let text = format!("{key} counts failed connects only: {} passes TLS on", case.rule.host);
            found.add(case.rule.resource, case.at(key), text).with(case.entry.resource, case.entry.spec.at);
        }
    }
}

fn consecutive_errors(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for (rule, outlier) in alone(mesh) {
        let Some((key, _)) = outlier.entry("consecutiveErrors") else { continue };
        let edit =
            replace(key.at, "consecutive5xxErrors").filter(|_| outlier.get("consecutive5xxErrors").is_none());
        found.add(rule.resource, key.at, "consecutiveErrors is ignored by Istio").edit(edit);
    }
}

fn error_codes(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    const FIELD: &str = "outlierDetectionHttpErrorCodes";
    if mesh.context.platform.istio_does(IstioBehaviour::OutlierHttpErrorCodes) {
        return;
    }
    let (istio, since) = (mesh.context.platform.istio(), IstioBehaviour::OutlierHttpErrorCodes.row().since);
    for rule in &mesh.rules {
        for (policy, _) in super::connections::policies(rule) {
            let http = policy.get("connectionPool.http");
            if let Some((key, _)) = http.and_then(|http| http.entry(FIELD)) {
                let text = format!("Istio {istio} drops {FIELD}: that takes {since}");
                found.add(rule.resource, key.at, text);
            }
        }
    }
}

fn connect_timeout(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    /// Longer than most clients wait for an answer.
    const TOO_LONG_MS: u64 = 10_000;
    let round_robin = Some(Resolution::DnsRoundRobin);
    for case in
        applied(mesh).filter(|case| case.entry.resolution != round_robin && case.entry.is_passthrough())
    {
        let count = case.failures();
        let pool = case.policy.get("connectionPool.tcp");
        let each = case
            .policy
            .duration_ms("connectionPool.tcp.connectTimeout")
            .unwrap_or(DEFAULT_CONNECT_TIMEOUT_MS);
        if count.saturating_mul(each) <= TOO_LONG_MS {
            continue;
        }
        let at =
            case.policy.get("connectionPool.tcp.connectTimeout").map_or(case.outlier.at, |value| value.at);
        let text = format!(
            "{count} failures of {} s each: an address that swallows connects is ejected after {} s",
            each / 1000,
            count * each / 1000
        );
        let edit =
            pool.filter(|pool| !pool.entries().is_empty()).and_then(|pool| set(pool, "connectTimeout", "1s"));
        found.add(case.rule.resource, at, text).edit(edit);
    }
}

fn locality_failover(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for case in applied(mesh) {
        let placed = case.entry.endpoints.iter().any(|endpoint| endpoint.get("locality").is_some());
        if placed && case.policy.get("loadBalancer.localityLbSetting").is_none() {
            let text = format!("all traffic of {} goes to the locality that is closest", case.rule.host);
            found
                .add(case.rule.resource, case.outlier.at, text)
                .with(case.entry.resource, case.entry.spec.at);
        }
    }
}

fn ejection_forgotten(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    for case in applied(mesh).filter(|case| case.entry.resolution == Some(Resolution::Dns)) {
        let rotates = |class| class == ResolutionClass::RotatingPool;
        let about = case.entry.observed().find(|(host, _)| host.name == case.rule.host);
        if about.is_some_and(|(_, advice)| rotates(advice.class)) {
            let text = format!("ejections of {} end when the address leaves the answer", case.rule.host);
            found
                .add(case.rule.resource, case.outlier.at, text)
                .observed()
                .with(case.entry.resource, case.entry.resolution_at());
        }
    }
}

fn mesh_default(mesh: &Mesh<'_>, found: &mut Findings<'_>) {
    if !mesh.context.platform.istio_does(IstioBehaviour::DefaultTrafficPolicy) {
        return;
    }
    for config in &mesh.configs {
        let Some(outlier) = config.node.get("defaultTrafficPolicy.outlierDetection") else { continue };
        let fails_open = outlier.integer_at("minHealthPercent").is_some_and(|percent| percent > 0);
        if outlier.integer_at("maxEjectionPercent").unwrap_or(DEFAULT_LIMIT) < 100 || fails_open {
            continue;
        }
        let alone = |entry: &Entry<'_>, host: &str| {
            entry.resolution == Some(Resolution::DnsRoundRobin) || entry.members(host) == Some(1)
        };
        let ruled = |host: &str| mesh.rules_for(host).any(|rule| !outliers(rule).is_empty());
        let all = mesh.entries.iter().flat_map(|entry| entry.hosts.iter().map(move |host| (entry, host)));
        let mut hit = all.filter(|(entry, host)| alone(entry, host.name) && !ruled(host.name)).peekable();
        let Some((entry, host)) = hit.peek().copied() else { continue };
        let text = format!("{} and {} more may lose their only host", host.name, hit.skip(1).count());
        found
            .add(config.resource, outlier.at, text.replace(" and 0 more may lose their", " may lose its"))
            .with(entry.resource, host.at);
    }
}
