//! From observations to a report: classify and recommend for every name, and say which names have no answer.
//! `classify`, `generate` and the demo call it with what `measure` brought.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use policies::policy::Policy;
use policies::{Family, LookupFamily, Observed, Platform, Protocol, ProxyKind, Settings, recommend};

use crate::args::{self, AdviceArgs, ManifestArgs, PlatformArgs};
use crate::commands::measure::{Measured, MeasuredFamily, MeasuredHost};
use crate::report::{Body, FamilyReport, HostReport, Inputs, Problem, Report};

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
        let protocol = protocol(advice.protocol);
        let port = advice
            .port
            .or(protocol.default_port())
            .context("`--protocol tcp` has no customary port; name it with `--port`")?;
        let settings = Settings {
            namespace: manifest.and_then(|manifest| manifest.namespace.clone()),
            export_to: manifest.map(|manifest| manifest.export_to.clone()).unwrap_or_default(),
            name: manifest.and_then(|manifest| manifest.name.clone()),
            protocol,
            port,
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
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read policy {}", file.display()))?;
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
            args::Proxy::Sidecar => ProxyKind::Sidecar,
            args::Proxy::Gateway => ProxyKind::Gateway,
            args::Proxy::Ambient => ProxyKind::Ambient,
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

fn protocol(protocol: args::Protocol) -> Protocol {
    match protocol {
        args::Protocol::Tls => Protocol::Tls,
        args::Protocol::Https => Protocol::Https,
        args::Protocol::Tcp => Protocol::Tcp,
        args::Protocol::Http => Protocol::Http,
        args::Protocol::TlsOrigination => Protocol::TlsOrigination,
    }
}

/// Istio's durations are written in whole seconds here; a fraction is rounded up.
pub(crate) fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
}
