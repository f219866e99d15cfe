//! The advice as a user meets it: class x platform x protocol in, settings and YAML out, by the public API alone.
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use policies::manifest::{Resource, is_resource_name, manifests_for, parse, render};
use policies::recommend::WantedPort;
use policies::{
    ClusterType, Family, Host, LookupFamily, Observed, Platform, Protocol, ProxyKind, Recommendation,
    Resolution, ResolutionClass, Settings, Trait, recommend,
};
use proptest::prelude::*;

use crate::seen::Seen;

const HOST: &str = "api.partner.example";

fn single_vip() -> Seen {
    Seen::new(ResolutionClass::SingleVip, &[&[1], &[1], &[1], &[1]])
}

fn two_ips() -> Seen {
    Seen::new(ResolutionClass::FixedMultiIp, &[&[1, 2], &[1, 2], &[1, 2], &[1, 2]])
}

/// Answers of 8, half of each replaced by the next.
fn pool() -> Seen {
    let draws: Vec<Vec<u8>> = (0..9).map(|turn| (turn * 4..turn * 4 + 8).collect()).collect();
    let draws: Vec<&[u8]> = draws.iter().map(Vec::as_slice).collect();
    Seen { pool: Some((400, 0.1)), ttl: (60, 60), ..Seen::new(ResolutionClass::RotatingPool, &draws) }
}

fn envoy(version: &str) -> Platform {
    Platform { envoy_version: Some(version.parse().unwrap()), ..Platform::default() }
}

fn settings(protocol: Protocol) -> Settings {
    Settings { protocol, port: protocol.default_port().unwrap_or(5432), ..Settings::default() }
}

fn target(protocol: Protocol, target: u64, stream: Option<u64>) -> Settings {
    Settings {
        failover_target: Some(Duration::from_secs(target)),
        longest_stream: stream.map(Duration::from_secs),
        ..settings(protocol)
    }
}

fn says(advice: &Recommendation, text: &str) -> bool {
    advice.reasons.iter().chain(&advice.caveats).any(|reason| reason.text.contains(text))
}

#[test]
fn class_by_platform_by_protocol() {
    use Resolution::{Dns, DnsRoundRobin};
    for (seen, resolution, percent) in
        [(single_vip(), Dns, None), (two_ips(), Dns, Some(50)), (pool(), DnsRoundRobin, None)]
    {
        for (version, merged) in [("1.36.4", false), ("1.38.3", false), ("1.39.3", true), ("1.40.0", true)] {
            for protocol in Protocol::ALL {
                let advice = seen.advice(HOST, &envoy(version), &target(protocol, 120, None));
                let cell = format!("{:?} on {version}, {protocol:?}", seen.class);
                assert_eq!(advice.resolution, Some(resolution), "{cell}");
                let traffic = advice.traffic.unwrap();
                let outlier = traffic.outlier_detection;
                assert_eq!(outlier.map(|outlier| outlier.max_ejection_percent), percent, "{cell}");
                let counts_answers = outlier.and_then(|outlier| outlier.consecutive_gateway_errors);
                assert_eq!(counts_answers.is_some(), percent.is_some() && protocol.is_http(), "{cell}");
                // Only where a connection would otherwise stay on a removed address.
                let drains = resolution == Dns || merged;
                let lifetime = traffic.max_connection_duration_s;
                assert_eq!(lifetime.is_some(), !(protocol.is_http() && drains), "{cell}");
                let refresh = advice.refresh.unwrap().refresh_s;
                assert!(lifetime.is_none_or(|lifetime| lifetime + refresh == 120), "{cell}");
                assert!(advice.costs[0].worst_failover_s.is_some_and(|worst| worst <= 120), "{cell}");
            }
        }
    }
}

#[test]
fn nothing_is_advised_without_evidence_and_the_remedy_is_named() {
    for class in [ResolutionClass::Unresolvable, ResolutionClass::InsufficientData] {
        let advice = Seen::new(class, &[]).advice(HOST, &Platform::default(), &Settings::default());
        assert_eq!((advice.resolution, advice.traffic, advice.costs.len()), (None, None, 0));
        assert!(advice.remedy.is_some() && !advice.reasons.is_empty());
        assert!(manifests_for(&[advice], false).is_empty());
    }
}

#[test]
fn yaml_of_the_whole_way_out() {
    let through = Settings {
        gateway: Some("istio-system/istio-egressgateway".to_owned()),
        namespace: Some("egress".to_owned()),
        ..settings(Protocol::Tls)
    };
    let manifests = manifests_for(&[two_ips().advice(HOST, &envoy("1.39.3"), &through)], false);
    let text = render(&manifests, "header").unwrap();
    let written: Vec<Resource> = manifests.into_iter().map(|manifest| manifest.resource).collect();
    assert_eq!(parse(&text).unwrap(), written, "reads back equal");
    insta::assert_snapshot!(text);
}

#[test]
fn several_ports_stand_in_one_entry_under_istio_s_names() {
    let more = |number, protocol, spelling: Option<&str>| WantedPort {
        number,
        protocol,
        spelling: spelling.map(str::to_owned),
    };
    let wanted = Settings {
        more_ports: vec![more(8443, Protocol::Https, None), more(27017, Protocol::Tcp, Some("MONGO"))],
        ..settings(Protocol::Tls)
    };
    let manifests = manifests_for(&[two_ips().advice(HOST, &envoy("1.39.3"), &wanted)], false);
    let Resource::ServiceEntry(entry) = &manifests[0].resource else { panic!("{manifests:?}") };
    let ports: Vec<_> = entry
        .spec
        .ports
        .iter()
        .map(|port| (port.number, port.name.as_str(), port.protocol.as_str()))
        .collect();
    assert_eq!(ports, [(443, "tls", "TLS"), (8443, "https-8443", "HTTPS"), (27017, "mongo-27017", "MONGO")]);
    assert_eq!(entry.spec.addresses.len(), 2, "what tells its TCP port apart");
}

#[test]
fn costs_are_the_measured_ones_by_version() {
    let of = |version: &str, protocol| pool().advice(HOST, &envoy(version), &settings(protocol)).costs;
    // 60 refreshes an hour, 4 of 8 addresses replaced by each.
    let old = of("1.38.3", Protocol::TlsOrigination);
    assert_eq!((old[0].resolution, old[0].reconnects_per_hour), (Resolution::DnsRoundRobin, 0.0));
    assert_eq!((old[1].resolution, old[1].reconnects_per_hour), (Resolution::Dns, 240.0));
    assert!(!old[0].failover_recorded && old[1].failover_recorded);
    assert_eq!(old[0].worst_failover_s, None, "a pooled connection stays on the old address");
    let new = of("1.39.3", Protocol::TlsOrigination);
    assert_eq!(new[0].reconnects_per_hour, 60.0, "one host, replaced by every answer");
    assert_eq!(new[0].worst_failover_s, Some(60));
    assert!(new[0].failover_recorded);
    let passthrough = of("1.39.3", Protocol::Tls);
    assert_eq!(passthrough[1].reconnects_per_hour, 0.0, "passed-through connections stay");
    assert_eq!(passthrough[1].members_replaced_per_hour, 240.0);
    assert_eq!(passthrough[0].dns_queries_per_hour, 60.0);
}

#[test]
fn a_failover_in_the_window_is_not_what_every_refresh_does() {
    let seen = Seen::new(ResolutionClass::SingleVip, &[&[1], &[1], &[2], &[2], &[2]]);
    let mut observation = seen.observation(HOST);
    observation.flips = vec![policies::observe::Flip {
        at: Timestamp::UNIX_EPOCH,
        from: vec![IpAddr::from([192, 0, 2, 1])],
        to: vec![IpAddr::from([192, 0, 2, 2])],
    }];
    let classification = seen.classification(HOST);
    let a = Family { observation: &observation, classification: &classification };
    let advice = recommend(&Observed { a, aaaa: None }, &Platform::default(), &Settings::default());
    assert!(advice.costs[0].members_replaced_per_hour.abs() < 1e-9, "{:?}", advice.costs);
}

#[test]
fn a_stream_longer_than_the_target_is_not_cut_and_the_conflict_is_named() {
    let advice = single_vip().advice(HOST, &envoy("1.40.0"), &target(Protocol::Tls, 60, Some(600)));
    let traffic = advice.traffic.unwrap();
    assert_eq!(traffic.max_connection_duration_s, Some(600));
    assert_eq!(traffic.idle_timeout_s, Some(30), "idle connections still move within the target");
    assert_eq!(advice.costs[0].worst_failover_s, Some(630));
    assert!(says(&advice, "target of 60 s cannot be kept"));
    assert!(!advice.checks[1].settled && advice.checks[2].settled);
    let http = single_vip().advice(HOST, &envoy("1.40.0"), &target(Protocol::TlsOrigination, 60, Some(600)));
    assert_eq!(http.traffic.unwrap().max_connection_duration_s, None, "requests are finished first");
}

#[test]
fn a_ttl_beyond_the_target_is_said_to_be_the_cause() {
    let seen = Seen { ttl: (300, 300), ..single_vip() };
    let advice = seen.advice(HOST, &envoy("1.40.0"), &target(Protocol::Tls, 60, None));
    assert!(says(&advice, "the refresh alone takes 300 s"));
    assert!(!advice.checks[1].settled);
}

#[test]
fn the_refresh_follows_the_resolution_and_ttl_0_falls_back_loudly() {
    let mixed = |class| Seen { class, ttl: (0, 6), ..two_ips() };
    let refresh = |seen: Seen| {
        let advice = seen.advice(HOST, &Platform::default(), &Settings::default());
        (
            advice.refresh.unwrap().refresh_s,
            advice.refresh.unwrap().fallback,
            says(&advice, "TTL 0 does not mean"),
        )
    };
    assert_eq!(refresh(mixed(ResolutionClass::FixedMultiIp)), (60, true, true));
    assert_eq!(refresh(mixed(ResolutionClass::RotatingPool)), (6, false, false));
    assert_eq!(refresh(Seen { ttl: (5, 5), ..single_vip() }), (5, false, false));
}

#[test]
fn traits_change_the_caveats() {
    let with = |seen: Seen, traits: &[Trait]| Seen { traits: traits.to_vec(), ..seen };
    let advice = |seen: Seen, version| seen.advice(HOST, &envoy(version), &Settings::default());
    assert!(says(&advice(with(two_ips(), &[Trait::EmptyAnswers]), "1.40.0"), "empties a DNS cluster"));
    assert!(says(&advice(with(pool(), &[Trait::EmptyAnswers]), "1.40.0"), "keeps its last address"));
    let shuffled = Seen { order_changes: 3, ..with(two_ips(), &[Trait::OrderShuffled]) };
    assert!(says(&advice(shuffled.clone(), "1.39.0"), "do not switch to DNS_ROUND_ROBIN"));
    assert!(says(&advice(shuffled.clone(), "1.39.0"), "120 times an hour"));
    assert!(!says(&advice(shuffled, "1.38.3"), "do not switch to DNS_ROUND_ROBIN"));
}

#[test]
fn a_partly_shown_pool_that_is_fully_known_has_a_third_way() {
    let seen = Seen {
        traits: vec![Trait::PartialAnswers],
        pool: Some((4, 0.995)),
        ..Seen::new(ResolutionClass::FixedMultiIp, &[&[1, 2], &[3, 4], &[2, 3], &[1, 4]])
    };
    let alternative = |seen: &Seen| seen.advice(HOST, &Platform::default(), &Settings::default()).alternative;
    let endpoints = alternative(&seen).unwrap().endpoints;
    assert_eq!(endpoints.len(), 4);
    assert_eq!(alternative(&Seen { pool: Some((4, 0.9)), ..seen.clone() }), None, "not fully known");
    let standby = Seen { traits: vec![Trait::Failover], ..seen };
    assert_eq!(alternative(&standby), None, "a standby address may not serve");
    assert_eq!(alternative(&two_ips()), None, "nothing is missing from the answers");
}

#[test]
fn families_are_those_that_the_proxy_asks_for() {
    let (a, none) = (two_ips(), Seen::new(ResolutionClass::Unresolvable, &[]));
    let advise = |a: &Seen, aaaa: &Seen, lookup_family| {
        let (seen_a, class_a) = (a.observation(HOST), a.classification(HOST));
        let (seen_aaaa, class_aaaa) = (aaaa.observation(HOST), aaaa.classification(HOST));
        let observed = Observed {
            a: Family { observation: &seen_a, classification: &class_a },
            aaaa: Some(Family { observation: &seen_aaaa, classification: &class_aaaa }),
        };
        let platform = Platform { lookup_family, ..Platform::default() };
        recommend(&observed, &platform, &Settings::default())
    };
    let only_v6 = advise(&none, &a, LookupFamily::V4Only);
    assert_eq!(only_v6.resolution, None);
    assert!(says(&only_v6, "only AAAA records exist") && only_v6.remedy.unwrap().contains("dual stack"));
    assert_eq!(advise(&none, &a, LookupFamily::V6Only).resolution, Some(Resolution::Dns));
    let both = advise(&a, &a, LookupFamily::All);
    assert_eq!(both.traffic.unwrap().outlier_detection.unwrap().max_ejection_percent, 50, "half of 2 + 2");
    assert_eq!(both.costs[0].dns_queries_per_hour, 240.0);
    assert_eq!(
        advise(&a, &pool(), LookupFamily::V4Only).resolution,
        Some(Resolution::Dns),
        "AAAA is not asked for"
    );
    assert_eq!(advise(&a, &pool(), LookupFamily::All).resolution, Some(Resolution::DnsRoundRobin));
}

#[test]
fn the_proxy_decides_the_cluster_type() {
    let of = |proxy_kind| {
        let platform = Platform { proxy_kind, ..Platform::default() };
        let advice = pool().advice(HOST, &platform, &Settings::default());
        (advice.cluster_type, says(&advice, "ztunnel"))
    };
    assert_eq!(of(ProxyKind::Gateway), (Some(ClusterType::LogicalDns), false));
    assert_eq!(of(ProxyKind::Ambient), (None, true));
}

#[test]
fn every_statement_has_evidence_and_is_one_clean_line() {
    for seen in [single_vip(), two_ips(), pool(), Seen::new(ResolutionClass::InsufficientData, &[])] {
        for protocol in Protocol::ALL {
            let advice = seen.advice(HOST, &Platform::default(), &target(protocol, 60, Some(900)));
            for reason in advice.reasons.iter().chain(&advice.caveats) {
                assert!(!reason.evidence.is_empty(), "{}", reason.text);
                assert!(!reason.text.contains("  ") && !reason.text.ends_with('.'), "{}", reason.text);
            }
        }
    }
}

#[test]
fn a_saved_recommendation_reads_back() {
    let advice = two_ips().advice(HOST, &envoy("1.39.3"), &target(Protocol::Tls, 60, Some(5)));
    let json = serde_json::to_string(&advice).unwrap();
    assert_eq!(serde_json::from_str::<Recommendation>(&json).unwrap(), advice);
}

fn yaml(seen: &Seen, settings: &Settings) -> String {
    let advice = seen.advice(HOST, &envoy("1.39.3"), settings);
    render(&manifests_for(&[advice], false), "egress-audit generate, 2026-01-02").unwrap()
}

#[test]
fn yaml_of_a_single_vip() {
    insta::assert_snapshot!(yaml(&single_vip(), &target(Protocol::Tls, 60, None)));
}

#[test]
fn yaml_of_two_addresses() {
    insta::assert_snapshot!(yaml(&two_ips(), &settings(Protocol::Tls)));
}

#[test]
fn yaml_of_a_rotating_pool() {
    insta::assert_snapshot!(yaml(&pool(), &settings(Protocol::Tls)));
}

#[test]
fn yaml_of_tls_origination() {
    let settings = Settings {
        namespace: Some("egress".to_owned()),
        export_to: vec![".".to_owned(), "apps".to_owned()],
        ..settings(Protocol::TlsOrigination)
    };
    insta::assert_snapshot!(yaml(&two_ips(), &settings));
}

#[test]
fn names_of_one_class_share_an_entry_when_grouped() {
    let of = |host: &str, seen: Seen| seen.advice(host, &envoy("1.39.3"), &Settings::default());
    let advice = [
        of("a-b.example", two_ips()),
        of("a.b.example", two_ips()),
        of("cdn.example", pool()),
        of("vip.example", single_vip()),
    ];
    let grouped = manifests_for(&advice, true);
    insta::assert_snapshot!(render(&grouped, "grouped").unwrap());
    let apart = manifests_for(&advice, false);
    assert_eq!((grouped.len(), apart.len()), (3 + 4, 4 + 4));
    for manifests in [grouped, apart] {
        let names: BTreeSet<_> = manifests.iter().map(|manifest| manifest.resource.identity()).collect();
        assert_eq!(names.len(), manifests.len());
    }
    let tcp = |host: &str| two_ips().advice(host, &envoy("1.39.3"), &settings(Protocol::Tcp));
    assert_eq!(manifests_for(&[tcp("a.example"), tcp("b.example")], true).len(), 4, "TCP stays apart");
}

fn host() -> impl Strategy<Value = String> {
    // Hosts that YAML would read as something else: numbers, booleans, null, dates, octals.
    prop_oneof![
        "(true|no|null|1e3|0x1f|012|2026-01-02|on)\\.(y|no|1e2|example)",
        "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?){0,6}",
    ]
    .prop_filter("a host", |text| Host::parse(text).is_ok())
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_equal(
        hosts in proptest::collection::btree_set(host(), 1..4),
        namespace in proptest::option::of("\\PC{0,20}|true|null|~|[ -~]{0,12}"),
        export_to in proptest::collection::vec("\\PC{0,12}|\\.|\\*|~|- x", 0..3),
        group: bool,
        header in "(\\PC|\n|\r|\u{85}|\u{2028}){0,60}",
        protocol in proptest::sample::select(Protocol::ALL.to_vec()),
    ) {
        let settings = Settings { namespace, export_to, ..settings(protocol) };
        let advice: Vec<Recommendation> = hosts
            .iter()
            .zip([two_ips(), pool(), single_vip(), two_ips()])
            .map(|(host, seen)| seen.advice(host, &Platform::default(), &settings))
            .collect();
        let mut manifests = manifests_for(&advice, group);
        for manifest in &mut manifests {
            manifest.comment.push(header.clone());
        }
        let text = render(&manifests, &header).unwrap();
        let resources: Vec<Resource> = manifests.into_iter().map(|manifest| manifest.resource).collect();
        for resource in &resources {
            prop_assert!(is_resource_name(resource.identity().2), "{:?}", resource.identity());
        }
        prop_assert_eq!(parse(&text).unwrap(), resources);
    }

    #[test]
    fn every_input_gives_an_advice(
        class in proptest::sample::select(vec![
            ResolutionClass::SingleVip, ResolutionClass::FixedMultiIp, ResolutionClass::RotatingPool,
            ResolutionClass::Unresolvable, ResolutionClass::InsufficientData,
        ]),
        draws in proptest::collection::vec(proptest::collection::vec(0u8..30, 0..6), 0..8),
        ttl in (0u32..500, 0u32..500),
        target in proptest::option::of(0u64..400),
        stream in proptest::option::of(0u64..400),
        protocol in proptest::sample::select(Protocol::ALL.to_vec()),
        version in proptest::sample::select(vec!["1.20", "1.38.3", "1.39.0", "1.41"]),
    ) {
        let draws: Vec<&[u8]> = draws.iter().map(Vec::as_slice).collect();
        let seen = Seen { ttl, ..Seen::new(class, &draws) };
        let wanted = Settings {
            failover_target: target.map(Duration::from_secs),
            longest_stream: stream.map(Duration::from_secs),
            ..settings(protocol)
        };
        let advice = seen.advice(HOST, &envoy(version), &wanted);
        for cost in &advice.costs {
            prop_assert!(cost.members_replaced_per_hour.is_finite() && cost.members_replaced_per_hour >= 0.0);
            prop_assert!(cost.refresh_s > 0);
        }
        if let Some(traffic) = advice.traffic {
            if let Some(outlier) = traffic.outlier_detection {
                prop_assert_eq!(advice.resolution, Some(Resolution::Dns));
                prop_assert!(outlier.members >= 2 && outlier.max_ejection_percent < 100);
            }
            if let (Some(lifetime), Some(stream), false) = (traffic.max_connection_duration_s, stream, protocol.is_http()) {
                prop_assert!(lifetime >= stream, "no stream is cut");
            }
        }
        render(&manifests_for(&[advice], false), "").unwrap();
    }
}
