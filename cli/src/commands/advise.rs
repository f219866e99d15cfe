//! From observations to a report: classify and recommend for every name, and say which names have no answer.
//! `classify`, `generate` and the demo call it with what `measure` brought.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use policies::policy::Policy;
use policies::recommend::WantedPort;
use policies::{Family, LookupFamily, Observed, Platform, Protocol, ProxyKind, Settings, recommend};

use crate::args::{self, AdviceArgs, ManifestArgs, PlatformArgs};
use crate::commands::measure::{Measured, MeasuredFamily, MeasuredHost};
use crate::input;
use crate::report::{Body, FamilyReport, HostReport, Inputs, Problem, Report};

/// Largest policy, bytes.
const LARGEST_POLICY: u64 = 1 << 20;

/// What turns facts into advice, the same for every name of a run.
#[derive(Debug)]
pub struct Advisor {
    /// Thresholds of the classifier.
    pub policy: Policy,
    /// The proxy that the advice is for.
    pub platform: Platform,
    /// What the user wants of the manifests and of a fail-over.
    pub settings: Settings,
}

impl Advisor {
    /// Reads the flags.
    ///
    /// # Errors
    /// When a flag is missing that another one needs.
    pub fn new(policy: Policy, advice: &AdviceArgs, manifest: Option<&ManifestArgs>) -> anyhow::Result<Self> {
        let mut wanted = ports(advice)?.into_iter();
        let first = wanted.next().context("no port is named; write `--port`")?;
        let settings = Settings {
            namespace: manifest.and_then(|manifest| manifest.namespace.clone()),
            export_to: manifest.map(|manifest| manifest.export_to.clone()).unwrap_or_default(),
            name: manifest.and_then(|manifest| manifest.name.clone()),
            gateway: manifest
                .filter(|_| advice.platform.proxy == Some(args::Proxy::Gateway))
                .map(|manifest| manifest.gateway.clone()),
            max_ejection_percent: manifest.and_then(|manifest| manifest.max_ejection_percent),
            protocol: first.protocol,
            port: first.number,
            spelling: first.spelling,
            more_ports: wanted.collect(),
            failover_target: advice.platform.failover_target.map(whole_seconds),
            longest_stream: advice.platform.longest_stream.map(whole_seconds),
        };
        Ok(Self { policy, platform: platform(&advice.platform), settings })
    }

    /// The report on everything that was measured.
    #[must_use]
    pub fn report(&self, command: &str, measured: Measured, now: Timestamp) -> Report {
        let envoy = self.platform.envoy();
        let inputs = Inputs {
            command: command.to_owned(),
            names: measured.hosts.len(),
            resolvers: measured.resolvers,
            window: measured.window,
            platform: format!("Envoy {}", envoy.version),
        };
        let hosts: Vec<HostReport> = measured.hosts.into_iter().map(|host| self.host(host)).collect();
        let mut problems = measured.problems;
        problems.extend(hosts.iter().filter_map(dead));
        problems.extend(unasked(&hosts));
        Report { problems, ..Report::new(inputs, Body::Hosts(hosts), now) }
    }

    /// One name.
    fn host(&self, host: MeasuredHost) -> HostReport {
        let families = families(host.families, &self.policy);
        let [a, aaaa] = families.each_ref().map(|family| Family {
            observation: &family.observation,
            classification: &family.classification,
        });
        let recommendation = recommend(&Observed { a, aaaa: Some(aaaa) }, &self.platform, &self.settings);
        HostReport {
            unicode: host.host.unicode(),
            host: host.host,
            families: families.into(),
            recommendation,
            notes: host.notes,
        }
    }
}

/// Both record types of one name, with their verdicts.
pub(crate) fn families(families: [MeasuredFamily; 2], policy: &Policy) -> [FamilyReport; 2] {
    let verdicts = policies::classify_both(families.each_ref().map(|family| &family.observation), policy);
    let ([a, aaaa], [of_a, of_aaaa]) = (families, verdicts);
    [(a, of_a), (aaaa, of_aaaa)].map(|(family, classification)| FamilyReport {
        sources: family.sources,
        classification,
        observation: family.observation,
    })
}

/// Reads `--policy`, or the shipped one.
///
/// # Errors
/// When the file cannot be read or is no policy.
pub fn policy(file: Option<&Path>) -> anyhow::Result<Policy> {
    let Some(file) = file else { return Ok(Policy::default()) };
    let text = input::text(file, LARGEST_POLICY)?;
    Policy::from_yaml(&text).with_context(|| {
        format!("{} is no policy; `egress-audit policy` prints one to start from", file.display())
    })
}

/// A name without any address is a problem of the user's, not a class to pass over in silence.
fn dead(host: &HostReport) -> Option<Problem> {
    let outcomes = |family: &FamilyReport| {
        let seen = family.observation.outcomes.iter();
        seen.map(|seen| format!("{} {}", seen.count, seen.outcome)).collect::<Vec<_>>().join(", ")
    };
    let silent = host.families.iter().all(|family| family.observation.addresses.is_empty());
    (silent && was_asked(host)).then(|| {
        let asked = host.families.iter().filter(|family| family.observation.queries > 0);
        let seen: Vec<_> =
            asked.map(|family| format!("{}: {}", family.observation.record_type, outcomes(family))).collect();
        let hint =
            host.recommendation.remedy.clone().unwrap_or_else(|| "check the spelling of the name".to_owned());
        Problem::new(&host.host, format!("has no address ({})", seen.join("; ")), hint)
    })
}

/// Names whose turn did not come before the run was interrupted: one problem, however many they are.
fn unasked(hosts: &[HostReport]) -> Option<Problem> {
    let mut unasked = hosts.iter().filter(|host| !was_asked(host));
    let first = unasked.next()?;
    let message = match unasked.count() {
        0 => "was not asked for".to_owned(),
        1 => "was not asked for, nor was one other".to_owned(),
        others => format!("was not asked for, nor were {others} others"),
    };
    Some(Problem::new(&first.host, message, "run again for the names without a verdict"))
}

fn was_asked(host: &HostReport) -> bool {
    host.families.iter().any(|family| family.observation.queries > 0)
}

/// The proxies that the flags describe.
pub(crate) fn platform(advice: &PlatformArgs) -> Platform {
    Platform {
        istio_version: advice.istio_version,
        envoy_version: advice.envoy_version,
        proxy_kind: match advice.proxy {
            Some(args::Proxy::Sidecar) => ProxyKind::Sidecar,
            Some(args::Proxy::Gateway) | None => ProxyKind::Gateway,
            Some(args::Proxy::Ambient) => ProxyKind::Ambient,
        },
        lookup_family: match advice.lookup_family {
            args::Family::V4 => LookupFamily::V4Only,
            args::Family::V6 => LookupFamily::V6Only,
            args::Family::All => LookupFamily::All,
        },
        dns_refresh_rate: advice.dns_refresh_rate.map(whole_seconds),
        ..Platform::default()
    }
}

/// The ports that the flags name, or the customary one of the protocol.
fn ports(advice: &AdviceArgs) -> anyhow::Result<Vec<WantedPort>> {
    let wanted = |number: Option<u16>, word: args::Protocol| {
        let (protocol, spelling, customary) = protocol(word);
        let number = number.or(customary).or(protocol.default_port());
        let spelling = spelling.map(str::to_owned);
        number.map(|number| WantedPort { number, protocol, spelling })
    };
    if advice.port.is_empty() {
        let port = wanted(None, advice.protocol);
        return Ok(vec![port.context("`--protocol tcp` has no customary port; name it with `--port`")?]);
    }
    let ports: Vec<WantedPort> = advice
        .port
        .iter()
        .filter_map(|(number, word)| wanted(Some(*number), word.unwrap_or(advice.protocol)))
        .collect();
    let originates = ports.iter().any(|port| port.protocol == Protocol::TlsOrigination);
    if originates && ports.len() > 1 {
        anyhow::bail!("tls-origination starts TLS for every port of the name; write it by itself");
    }
    let numbers: BTreeSet<u16> = ports.iter().map(|port| port.number).collect();
    if numbers.len() < ports.len() {
        anyhow::bail!("`--port` names a port twice; an entry has one protocol a port");
    }
    Ok(ports)
}

/// What it is to the proxy, Istio's name where it says more, and a port of its own.
fn protocol(protocol: args::Protocol) -> (Protocol, Option<&'static str>, Option<u16>) {
    match protocol {
        args::Protocol::Tls => (Protocol::Tls, None, None),
        args::Protocol::Https => (Protocol::Https, None, None),
        args::Protocol::Tcp => (Protocol::Tcp, None, None),
        args::Protocol::Http => (Protocol::Http, None, None),
        args::Protocol::TlsOrigination => (Protocol::TlsOrigination, None, None),
        args::Protocol::Http2 => (Protocol::Http, Some("HTTP2"), None),
        args::Protocol::Grpc => (Protocol::Http, Some("GRPC"), None),
        args::Protocol::Mongo => (Protocol::Tcp, Some("MONGO"), Some(27017)),
        args::Protocol::Mysql => (Protocol::Tcp, Some("MYSQL"), Some(3306)),
        args::Protocol::Redis => (Protocol::Tcp, Some("REDIS"), Some(6379)),
    }
}

/// Istio's durations are written in whole seconds here; a fraction is rounded up.
pub(crate) fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
}
