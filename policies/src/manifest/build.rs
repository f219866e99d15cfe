//! Recommendations into manifests: one `ServiceEntry` for each name or, grouped, for all names whose class and
//! settings agree; one `DestinationRule` for each name, since it takes a single host.

use std::collections::BTreeMap;

use super::name::joined;
use super::{
    ApiVersion, ClientTls, ConnectionPool, DestinationRule, DestinationRuleKind, DestinationRuleSpec,
    Manifest, Metadata, OutlierDetection, Resource, ServiceEntry, ServiceEntryKind, ServiceEntrySpec,
    ServicePort, TcpSettings, TrafficPolicy, resource_name,
};
use crate::recommend::TrafficAdvice;
use crate::{Citation, Protocol, Reason, Recommendation, Resolution, ResolutionClass, Settings, Trait};

/// The manifests of all names that something can be advised for, in the order of the names. With `group`, one
/// `ServiceEntry` carries all names of one class and the same settings; TCP entries stay apart, since Envoy cannot
/// tell two hosts of one TCP port from each other (istio/istio#30771).
#[must_use]
pub fn manifests_for(advice: &[Recommendation], group: bool) -> Vec<Manifest> {
    let advised: Vec<(&Recommendation, Resolution, TrafficAdvice)> =
        advice.iter().filter_map(|advice| Some((advice, advice.resolution?, advice.traffic?))).collect();
    let alone = advised.len() == 1;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_key: BTreeMap<(ResolutionClass, Resolution, &Settings), usize> = BTreeMap::new();
    for (index, (advice, resolution, _)) in advised.iter().enumerate() {
        if !group || advice.settings.has_tcp() {
            groups.push(vec![index]);
            continue;
        }
        let slot = *by_key.entry((advice.class, *resolution, &advice.settings)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[slot].push(index);
    }
    let mut manifests = Vec::new();
    let mut taken = BTreeMap::new();
    for members in groups {
        let members: Vec<_> = members.into_iter().map(|index| advised[index]).collect();
        let Some(&(first, resolution, _)) = members.first() else { continue };
        let name = match members.len() {
            1 => own_name(first, alone),
            _ => group_name(first, &mut taken),
        };
        let hosts: Vec<&Recommendation> = members.iter().map(|(advice, ..)| *advice).collect();
        manifests.push(service_entry(name, &hosts, resolution));
        for (advice, _, traffic) in &members {
            let name = own_name(advice, alone);
            manifests.push(destination_rule(name.clone(), advice, traffic));
            if let Some(gateway) = &advice.settings.gateway {
                manifests.extend(super::egress::way_out(&name, advice, gateway));
            }
        }
    }
    manifests
}

fn own_name(advice: &Recommendation, alone: bool) -> String {
    match &advice.settings.name {
        Some(name) if alone => name.clone(),
        Some(prefix) => joined(prefix, &advice.host),
        None => resource_name(&advice.host),
    }
}

/// `<name or egress>-<class>`, with a number where several groups of one class stand in one file.
fn group_name(advice: &Recommendation, taken: &mut BTreeMap<String, usize>) -> String {
    let class = match advice.class {
        ResolutionClass::SingleVip => "single-vip",
        ResolutionClass::FixedMultiIp => "fixed-multi-ip",
        _ => "rotating-pool",
    };
    let base = format!("{}-{class}", advice.settings.name.as_deref().unwrap_or("egress"));
    let used = taken.entry(base.clone()).or_default();
    *used += 1;
    if *used == 1 { base } else { format!("{base}-{used}") }
}

fn service_entry(name: String, members: &[&Recommendation], resolution: Resolution) -> Manifest {
    let settings = &members[0].settings;
    let spec = ServiceEntrySpec {
        hosts: members.iter().map(|advice| advice.host.to_string()).collect(),
        location: "MESH_EXTERNAL".to_owned(),
        resolution,
        ports: ports(settings),
        endpoints: Vec::new(),
        export_to: super::egress::export_to(settings),
        addresses: match (settings.has_tcp(), members) {
            (true, [advice]) => advice.addresses.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        },
    };
    Manifest {
        comment: members.iter().flat_map(|advice| summary(advice, members.len() == 1)).collect(),
        resource: Resource::ServiceEntry(ServiceEntry {
            api_version: ApiVersion::V1,
            kind: ServiceEntryKind::ServiceEntry,
            metadata: Metadata { name, namespace: settings.namespace.clone() },
            spec,
        }),
    }
}

/// Name and class, and the reasons with their evidence; in a group the first reason has to do. What moves from one
/// window to the next, as the figures of a rotating pool do, is left to the report, so that the same behaviour gives the
/// same file. What cannot be kept and what threatens the entry is said here too.
fn summary(advice: &Recommendation, alone: bool) -> Vec<String> {
    let mut lines = vec![format!("{}: {:?}; for Envoy {}", advice.host, advice.class, advice.envoy.version)];
    lines.extend(warnings(advice).into_iter().map(|warning| format!("- {warning}")));
    if advice.class == ResolutionClass::RotatingPool {
        lines.push(
            "- the pool rotates: an address that is missing was not withdrawn, and no list is to be kept"
                .to_owned(),
        );
    }
    let moves = |reason: &&Reason| {
        advice.class == ResolutionClass::RotatingPool && reason.evidence.contains(&Citation::Window)
    };
    let reasons = advice.reasons.iter().filter(|reason| !moves(reason));
    for reason in reasons.take(if alone { usize::MAX } else { 1 }) {
        let evidence: Vec<String> = reason.evidence.iter().map(ToString::to_string).collect();
        lines.push(format!("- {} [{}]", reason.text, evidence.join("; ")));
    }
    lines
}

/// What the manifests cannot give, or what was seen that the user should know of: for the file and for stderr.
#[must_use]
pub fn warnings(advice: &Recommendation) -> Vec<String> {
    let mut said = Vec::new();
    let target = advice.settings.failover_target.map(|target| target.as_secs());
    let worst = advice.costs.first().map(|cost| cost.worst_failover_s);
    match (target, worst) {
        (Some(target), Some(None)) => {
            said.push(format!("the fail-over target of {target} s cannot be kept: nothing bounds how long a connection lasts"));
        }
        (Some(target), Some(Some(worst))) if worst > target => {
            said.push(format!(
                "the fail-over target of {target} s cannot be kept: the worst case is {worst} s"
            ));
        }
        _ => {}
    }
    for seen in &advice.traits {
        match seen {
            Trait::EmptyAnswers => said.push(
                "NXDOMAIN or an empty answer came between good ones: under `resolution: DNS` each empties the cluster".to_owned(),
            ),
            Trait::Sinkhole => {
                said.push("one resolver answers with an address that leads nowhere".to_owned());
            }
            _ => {}
        }
    }
    if advice.settings.has_tcp() && advice.addresses.is_empty() {
        said.push(
            "no addresses are listed, since they change: DNS capture with address allocation has to tell this TCP port from \
             others"
                .to_owned(),
        );
    }
    if !advice.settings.more_ports.is_empty() && advice.settings.gateway.is_some() {
        said.push(format!("port {} alone is led through the gateway", advice.settings.port));
    }
    if advice.settings.protocol == Protocol::Tcp && advice.settings.gateway.is_some() {
        said.push("TCP is not led through the gateway: no name tells its connections apart there".to_owned());
    }
    said
}

/// The ports of the entry: the first one by its protocol's name, further ones with their number.
fn ports(settings: &Settings) -> Vec<ServicePort> {
    let first = port(settings.port, settings.protocol, settings.spelling.as_deref());
    let more = settings.more_ports.iter().map(|wanted| {
        let port = port(wanted.number, wanted.protocol, wanted.spelling.as_deref());
        ServicePort { name: format!("{}-{}", port.name, port.number), ..port }
    });
    std::iter::once(first).chain(more).collect()
}

fn port(number: u16, protocol: Protocol, spelling: Option<&str>) -> ServicePort {
    let (usual, target_port) = match protocol {
        Protocol::Tls => ("TLS", None),
        Protocol::Https => ("HTTPS", None),
        Protocol::Tcp => ("TCP", None),
        Protocol::Http => ("HTTP", None),
        Protocol::TlsOrigination => ("HTTP", Some(443)),
    };
    let protocol = spelling.unwrap_or(usual).to_owned();
    ServicePort { number, name: protocol.to_ascii_lowercase(), protocol, target_port }
}

fn destination_rule(name: String, advice: &Recommendation, traffic: &TrafficAdvice) -> Manifest {
    let seconds = |seconds: u64| format!("{seconds}s");
    let tcp = TcpSettings {
        connect_timeout: seconds(traffic.connect_timeout_s),
        max_connection_duration: traffic.max_connection_duration_s.map(seconds),
        idle_timeout: traffic.idle_timeout_s.map(seconds),
    };
    let outlier_detection = traffic.outlier_detection.map(|outlier| OutlierDetection {
        split_external_local_origin_errors: true,
        consecutive_local_origin_failures: outlier.consecutive_local_origin_failures,
        consecutive_gateway_errors: outlier.consecutive_gateway_errors,
        // A 500 speaks of the request, not of the address.
        consecutive_5xx_errors: outlier.consecutive_gateway_errors.map(|_| 0),
        interval: seconds(outlier.interval_s),
        base_ejection_time: seconds(outlier.base_ejection_time_s),
        max_ejection_percent: outlier.max_ejection_percent,
        min_health_percent: outlier.min_health_percent,
    });
    let originates = advice.settings.protocol == Protocol::TlsOrigination;
    let spec = DestinationRuleSpec {
        host: advice.host.to_string(),
        traffic_policy: TrafficPolicy {
            connection_pool: ConnectionPool { tcp },
            outlier_detection,
            tls: originates.then(|| ClientTls { mode: "SIMPLE".to_owned(), sni: advice.host.to_string() }),
        },
        export_to: advice.settings.export_to.clone(),
    };
    Manifest {
        comment: Vec::new(),
        resource: Resource::DestinationRule(DestinationRule {
            api_version: ApiVersion::V1,
            kind: DestinationRuleKind::DestinationRule,
            metadata: Metadata { name, namespace: advice.settings.namespace.clone() },
            spec,
        }),
    }
}
