//! What a scenario file may say, and how it is told what it may not.

use super::*;

fn error(yaml: &str) -> ScenarioError {
    Scenario::from_yaml(yaml).unwrap_err()
}

#[test]
fn a_typo_is_refused_with_its_place_and_the_nearest_key() {
    let e = error("names:\n  api.example:\n    a: {pool: [192.0.2.1], tll: 5}\n");
    assert_eq!((e.line, e.hint.as_str()), (3, "did you mean `ttl`?"), "{e}");
    assert!(e.to_string().starts_with("line 3, column ") && e.message.contains("tll"), "{e}");
    let e = error("names:\n  api.example:\n    a: {pool: [192.0.2.1], answer: {randm: {take: 2}}}\n");
    assert_eq!((e.line, e.hint.as_str()), (3, "did you mean `random`?"), "{e}");
}

#[test]
fn values_out_of_range_are_refused_where_they_stand() {
    for (line, word, yaml) in [
        (3, "not a length of time", "names: {}\nsteps:\n  - {at: soon, do: {clear: {}}}\n"),
        (2, "not a DNS name", "names:\n  'a b.example': {}\n"),
        (3, "outside the zone", "names:\n  api.partner.test:\n    a: {pool: [192.0.2.1]}\n"),
        (3, "not IPv4", "names:\n  api.example:\n    a: {pool: ['2001:db8::1']}\n"),
        (
            3,
            "2 weights for 1",
            "names:\n  x.example:\n    a: {pool: [192.0.2.1], answer: {weighted: {weights: [1, 2]}}}\n",
        ),
        (3, "2 members", "names:\n  x.example:\n    a: {pool: [192.0.2.1], members: 2}\n"),
        (3, "either `pool` or `groups`", "names:\n  x.example:\n    a: {}\n"),
        (2, "no such name", "steps:\n  - {at: 5s, do: {rotate: {name: x.example}}}\n"),
        (2, "1 to 1024", "resolvers:\n  - {caches: 0}\n"),
        (3, "contradicts", "names:\n  x.example:\n    expect: {class: RotatingPool, resolution: DNS}\n"),
    ] {
        let e = error(yaml);
        assert!(e.message.contains(word), "{word}: {e}");
        assert_eq!(e.line, line, "{e}");
        assert!(!e.hint.is_empty());
    }
}

#[test]
fn hostile_yaml_is_refused_early_and_escaped() {
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n".to_owned()
        + "c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\n"
        + "e: &e [*d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e]\n";
    error(&bomb);
    error(&format!("description: {}{}", "[".repeat(5_000), "]".repeat(5_000)));
    error(&format!("description: \"{}\"", "x".repeat(5 << 20)));
    let many = "  - n\n".repeat(600_000);
    error(&format!("description: [\n{many}]"));
    let e = error("\"na\\u001b[31mmes\": {}\n");
    assert!(!e.to_string().chars().any(char::is_control), "{e:?}");
}

#[test]
fn every_form_is_read_and_written_back_the_same() {
    let yaml = r"
zone: Partner.example
ns: [{name: ns1.partner.example, addresses: [127.0.0.53, '::1']}]
negative_ttl: 1
names:
  api.partner.example:
    a:
      pool: {from: 10.0.0.1, count: 400}
      answer: {random: {take: 2..8}}
      hold: {every: 60s, draw: 40}
      order: shuffled
      ttl: [0, 60]
    aaaa: {pool: ['2001:db8::1']}
    faults: [{kind: {delay: 200ms}, share: 0.5, only: aaaa}, {kind: drop, share: 0.1}]
    expect: {class: RotatingPool, resolution: DNS_ROUND_ROBIN}
  '*.wild.partner.example': {cname: {to: [API.partner.example], pick: random, hold: 1m, ttl: 5}}
steps:
  - {at: 10s..1m, do: {flip: {name: api.partner.example, to: [10.9.9.9]}}}
  - {at: 2m, every: 10s, times: 3, do: {fault: {fault: {kind: {truncate: closed}}}}}
resolvers:
  - {caches: 4, pick: sticky, countdown: false, loss: 0.3, sources: [10.1.0.1], serve_stale: {for: 1h}}
";
    let scenario = Scenario::from_yaml(yaml).unwrap();
    let text = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&text).unwrap(), scenario);
    let again = serde_saphyr::to_string(&scenario).unwrap();
    assert_eq!(Scenario::from_yaml(&again).unwrap(), scenario, "{again}");
    assert_eq!(scenario.expectations().count(), 1);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[-a-z0-9:{}\\[\\]&*!'\" .\n]{0,200}") {
        let _ = Scenario::from_yaml(&text);
    }
}
