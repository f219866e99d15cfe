//! The audit against its own table: every example that is to fire does, at a place in its file; every other is silent.
//! What the tool generates is clean, and what `--fix` writes mends what it was for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use policies::audit::{
    Audit, Baseline, Context, Example, ExampleDns, Known, RULES, Rule, apply, audit, rule,
};
use policies::finding::{Finding, Severity};
use policies::manifest::{Loaded, manifests_for, render, warnings};
use proptest::prelude::*;

use policies::{Host, LookupFamily, Platform, Protocol, ProxyKind, ResolutionClass, Settings};

use crate::mending::mends;
use crate::seen::Seen;

fn rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().copied().flatten()
}

/// A family that answers as the example says: `per_answer` addresses, the next ones of the pool each time.
fn seen(dns: &ExampleDns<'_>) -> Seen {
    let wrap = dns.pool.clamp(1, 250);
    let draws: Vec<Vec<u8>> = (0..if dns.per_answer == 0 { 0 } else { 8 })
        .map(|turn| {
            let mut set: Vec<u8> = (0..dns.per_answer)
                .map(|i| u8::try_from((turn * dns.per_answer + i) % wrap).unwrap())
                .collect();
            set.sort_unstable();
            set
        })
        .collect();
    let coverage = if dns.class == ResolutionClass::RotatingPool { 0.1 } else { 1.0 };
    Seen {
        class: dns.class,
        traits: dns.traits.clone(),
        draws,
        order_changes: 0,
        ttl: (dns.ttl, dns.ttl),
        pool: Some((dns.pool, coverage)),
    }
}

fn known(dns: &ExampleDns<'_>) -> Known {
    let family = |seen: Seen| (seen.observation(dns.host), seen.classification(dns.host));
    let v6 = Seen::new(ResolutionClass::SingleVip, &[&[6], &[6]]);
    Known { a: family(seen(dns)), aaaa: dns.aaaa_only.then(|| family(v6)) }
}

fn context(flags: &[&str]) -> Context {
    let mut context = Context::default();
    for pair in flags.chunks(2) {
        let [flag, value] = pair else { panic!("{flags:?}: a flag without a value") };
        match *flag {
            "--istio-version" => context.platform.istio_version = Some(value.parse().unwrap()),
            "--envoy-version" => context.platform.envoy_version = Some(value.parse().unwrap()),
            "--proxy" if *value == "sidecar" => context.platform.proxy_kind = ProxyKind::Sidecar,
            "--proxy" if *value == "ambient" => context.platform.proxy_kind = ProxyKind::Ambient,
            "--lookup-family" if *value == "all" => context.platform.lookup_family = LookupFamily::All,
            "--failover-target" => {
                context.failover_target =
                    Some(Duration::from_secs(value.trim_end_matches('s').parse().unwrap()));
            }
            "--proxies" => context.proxies = value.parse().unwrap(),
            "--root-namespace" => (*value).clone_into(&mut context.root_namespace),
            _ => panic!("{flag} {value}"),
        }
    }
    context
}

fn load(yaml: &str) -> Loaded {
    let mut loaded = Loaded::default();
    loaded.add("example.yaml", yaml.as_bytes());
    assert_eq!(loaded.problems, [], "{yaml}");
    loaded
}

fn run(yaml: &str, example: &Example<'_>) -> Audit {
    let known: BTreeMap<Host, Known> =
        example.dns.iter().map(|dns| (Host::parse(dns.host).unwrap(), known(dns))).collect();
    audit(&load(yaml), &known, &context(&example.flags), None)
}

#[test]
fn every_rule_fires_where_it_says_and_nowhere_else() {
    let mut wrong = Vec::new();
    for rule in rules() {
        for example in rule.examples() {
            let found = run(example.yaml, &example);
            let own = found.findings.iter().filter(|finding| finding.code == rule.code).count();
            if example.fires != (own > 0) {
                let others: Vec<&str> = found.findings.iter().map(|finding| finding.code.as_str()).collect();
                wrong.push(format!("{} {:?} fires: {own} times, with {others:?}", rule.code, example.title));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_finding_stands_at_its_place_with_all_that_it_needs() {
    for rule in rules() {
        for example in rule.examples().iter().filter(|example| example.fires) {
            let lines: Vec<&str> = example.yaml.lines().collect();
            for finding in run(example.yaml, example).findings {
                let Finding { at, message, hint, evidence, .. } = &finding;
                let line = lines.get(at.line as usize - 1).copied().unwrap_or_default();
                assert!(at.column as usize <= line.chars().count(), "{} {at}: {line:?}", finding.code);
                assert!(!message.ends_with('.') && !hint.is_empty() && !evidence.is_empty(), "{finding:?}");
                assert!(!format!("{message}{hint}").contains("  "), "{finding:?}");
                assert!(!at.name.is_empty());
            }
        }
    }
}

#[test]
fn the_table_is_in_order_and_complete() {
    let codes: Vec<&str> = rules().map(|rule| rule.code).collect();
    let by_number = codes.is_sorted_by_key(|code| (code.len(), *code));
    assert!(by_number && codes.iter().collect::<BTreeSet<_>>().len() == codes.len(), "{codes:?}");
    let names: BTreeSet<&str> = rules().map(|rule| rule.name).collect();
    assert_eq!(names.len(), codes.len());
    for rule in rules() {
        let count = |fires: bool| rule.examples().iter().filter(|example| example.fires == fires).count();
        assert!(count(true) >= 3 && count(false) >= 3, "{}: three of each", rule.code);
        assert!(!rule.source.is_empty() && !rule.why.contains("  "), "{}", rule.code);
        for (index, line) in rule.examples().iter().flat_map(|example| example.yaml.lines()).enumerate() {
            assert!(!line.starts_with("# dns") && !line.starts_with("# flags"), "{} line {index}", rule.code);
        }
    }
    assert!(rule("ea101").is_some() && rule("EA999").is_none());
}

#[test]
fn an_edit_parses_and_takes_its_finding_away() {
    let mut edited = BTreeSet::new();
    for rule in rules() {
        for example in rule.examples() {
            for finding in run(example.yaml, &example).findings.iter().filter(|found| !found.edits.is_empty())
            {
                let mended = apply(example.yaml, &finding.edits);
                assert_ne!(mended, example.yaml);
                let left = run(&mended, &example).findings;
                let same = |other: &Finding| other.fingerprint() == finding.fingerprint();
                assert!(!left.iter().any(same), "{} stays in:\n{mended}", finding.code);
                edited.insert(finding.code.clone());
            }
        }
    }
    assert!(edited.len() >= 10, "{edited:?}");
}

#[test]
fn comments_and_formatting_outlive_a_fix() {
    let yaml = "# ours\napiVersion: networking.istio.io/v1 # v1\nkind: ServiceEntry\nmetadata: {name: api}\nspec:\n  \
                hosts:   [api.partner.example]\n  resolution: 'strict_dns' # äöü, see wiki\n  ports: []\n";
    let found = run(yaml, &Example { title: "", fires: true, dns: Vec::new(), flags: Vec::new(), yaml });
    let edits: Vec<_> = found.findings.iter().flat_map(|finding| finding.edits.clone()).collect();
    assert_eq!(apply(yaml, &edits), yaml.replace("'strict_dns'", "DNS"));
}

#[test]
fn what_the_tool_generates_is_clean() {
    let classes = [
        ("one.partner.example", ResolutionClass::SingleVip, 1, 1),
        ("two.partner.example", ResolutionClass::FixedMultiIp, 2, 2),
        ("part.partner.example", ResolutionClass::FixedMultiIp, 2, 6),
        ("pool.partner.example", ResolutionClass::RotatingPool, 8, 400),
    ];
    let dns: Vec<ExampleDns<'_>> = classes
        .iter()
        .map(|&(host, class, per_answer, pool)| ExampleDns {
            host,
            class,
            per_answer,
            pool,
            ttl: 30,
            traits: Vec::new(),
            aaaa_only: false,
        })
        .collect();
    let versions = ["1.36.4", "1.38.3", "1.39.3", "1.40.0"];
    let proxies = [ProxyKind::Gateway, ProxyKind::Sidecar, ProxyKind::Ambient];
    for (version, proxy_kind) in versions.iter().flat_map(|version| proxies.map(|proxy| (version, proxy))) {
        let platform =
            Platform { envoy_version: Some(version.parse().unwrap()), proxy_kind, ..Platform::default() };
        for protocol in Protocol::ALL {
            for failover_target in [None, Some(Duration::from_secs(60))] {
                generated_is_clean(&dns, &platform, protocol, failover_target, None);
            }
            if proxy_kind == ProxyKind::Gateway {
                let gateway = Some("istio-system/istio-egressgateway".to_owned());
                generated_is_clean(&dns, &platform, protocol, None, gateway);
            }
        }
    }
}

const TCP_WITHOUT_ADDRESS: &str = "EA525";

fn generated_is_clean(
    dns: &[ExampleDns<'_>],
    platform: &Platform,
    protocol: Protocol,
    failover_target: Option<Duration>,
    gateway: Option<String>,
) {
    let settings = Settings {
        gateway,
        protocol,
        port: protocol.default_port().unwrap_or(5432),
        failover_target,
        ..Settings::default()
    };
    let advice: Vec<_> = dns.iter().map(|dns| seen(dns).advice(dns.host, platform, &settings)).collect();
    let known: BTreeMap<Host, Known> =
        dns.iter().map(|dns| (Host::parse(dns.host).unwrap(), known(dns))).collect();
    for group in [false, true] {
        // Two TCP entries on one port collide, as their caveat says: one at a time.
        let batches: Vec<&[_]> =
            if protocol == Protocol::Tcp { advice.chunks(1).collect() } else { vec![&advice] };
        for batch in batches {
            let yaml = render(&manifests_for(batch, group), "header").unwrap();
            let context = Context { platform: platform.clone(), failover_target, ..Context::default() };
            let mut found = audit(&load(&yaml), &known, &context, None).findings;
            // A TCP entry without addresses says so itself.
            let said = batch.iter().flat_map(warnings).any(|said| said.contains("no addresses are listed"));
            found.retain(|finding| !(said && finding.code == TCP_WITHOUT_ADDRESS));
            assert_eq!(found, [], "{platform:?} {protocol:?} {group}\n{yaml}");
        }
    }
}

#[test]
fn annotations_and_baselines_keep_known_findings_quiet() {
    let example = rule("EA501").unwrap().examples().remove(0);
    let before = run(example.yaml, &example);
    assert_eq!((before.findings.len(), before.suppressed), (1, 0));
    let baseline = Baseline::of(&before.findings);
    let moved = format!("# a line more\n\n{}", example.yaml);
    let again = audit(&load(&moved), &BTreeMap::new(), &Context::default(), Some(&baseline));
    assert_eq!((again.findings.len(), again.baselined), (0, 1), "lines may move");
    let twice = format!("{}\n---\n{}", example.yaml, example.yaml);
    let more = audit(&load(&twice), &BTreeMap::new(), &Context::default(), Some(&baseline));
    assert_eq!((more.findings.len(), more.baselined), (1, 1), "a second one of the kind is new");
    let mended = example.yaml.replace("TCP", "TLS");
    let gone = audit(&load(&mended), &BTreeMap::new(), &Context::default(), Some(&baseline));
    assert_eq!(gone.stale_baseline.len(), 1);
    let json = serde_json::to_string(&baseline).unwrap();
    assert_eq!(serde_json::from_str::<Baseline>(&json).unwrap(), baseline);
}

#[test]
fn severities_follow_the_case() {
    let of = |code: &str, title: &str| {
        let example = rule(code).unwrap().examples().into_iter().find(|found| found.title == title).unwrap();
        run(example.yaml, &example).findings.into_iter().find(|found| found.code == code).unwrap().severity
    };
    assert_eq!(of("EA204", "one VIP, 100 %"), Severity::Error);
    assert_eq!(of("EA204", "one VIP, 50 %"), Severity::Info);
    assert_eq!(of("EA301", "beside tcp settings"), Severity::Warning);
}

#[test]
fn the_shapes_of_istio_s_own_pages_give_no_error() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verbs/public");
    let mut pages = 0;
    for page in std::fs::read_dir(folder).unwrap() {
        let path = page.unwrap().path();
        let loaded = load(&std::fs::read_to_string(&path).unwrap());
        let found = audit(&loaded, &BTreeMap::new(), &Context::default(), None).findings;
        let loud = found.iter().filter(|finding| finding.severity > Severity::Info);
        let loud: Vec<(&str, Severity)> =
            loud.map(|finding| (finding.code.as_str(), finding.severity)).collect();
        // That page's route does name a gateway of another namespace without saying so.
        let known = if path.ends_with("entry-through-gateway.yaml") {
            vec![("EA807", Severity::Warning)]
        } else {
            Vec::new()
        };
        assert_eq!(loud, known, "{}", path.display());
        pages += 1;
    }
    assert!(pages >= 15, "{pages}");
}

#[test]
fn a_suppression_is_unused_only_where_its_rule_was_asked() {
    let annotated = |code: &str| {
        format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: api\n  annotations: \
             {{egress-audit/ignore: {code}}}\nspec: {{hosts: [api.partner.example], resolution: DNS}}\n"
        )
    };
    let unused = |code: &str, ignore: &[&str]| {
        let ignore = ignore.iter().map(ToString::to_string).collect();
        let context = Context { ignore, ..Context::default() };
        audit(&load(&annotated(code)), &BTreeMap::new(), &context, None).findings.len()
    };
    assert_eq!(unused("EA501", &[]), 1);
    assert_eq!(unused("EA101", &[]), 0, "nothing was observed, so nobody can tell");
    assert_eq!(unused("EA501", &["EA5*"]), 0, "left out by flag");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Examples with lines dropped, doubled, commented, spread, indented and quoted, as people and merges leave them.
    #[test]
    fn what_is_mended_reads_and_is_mended(
        pick in any::<proptest::sample::Index>(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), 0u8..9), 0..4),
    ) {
        let all: Vec<Example<'_>> = rules().flat_map(Rule::examples).filter(|found| found.yaml.len() < 3000).collect();
        let example = &all[pick.index(all.len())];
        let mut lines: Vec<String> = example.yaml.lines().map(str::to_owned).collect();
        for (line, change) in changes {
            let at = line.index(lines.len());
            match change {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, "# ä comment: [".to_owned()),
                2 => lines[at] += " # trailing",
                3 => lines[at] += "\r",
                4 => lines[at] = lines[at].replace(": ", ":   "),
                5 => lines.insert(at, lines[at].clone()),
                6 => lines[at] = format!("  {}", lines[at]),
                7 => lines[at] = lines[at].replace(": [", ": &list [").replace(": {", ": &map {"),
                _ => if let Some((key, value)) = lines[at].split_once(": ") {
                    lines[at] = format!("{key}: '{value}'");
                },
            }
            prop_assume!(!lines.is_empty());
        }
        let known: BTreeMap<Host, Known> =
            example.dns.iter().map(|dns| (Host::parse(dns.host).unwrap(), known(dns))).collect();
        mends(&lines.join("\n"), &known, &context(&example.flags)).map_err(TestCaseError::fail)?;
    }
}
