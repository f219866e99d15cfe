//! Manifests of public reports, with neutral names: the findings of each, in the order of the file. A row that expects
//! none is one that works.

use std::collections::BTreeMap;

use policies::ProxyKind;
use policies::audit::{Context, audit, mend};
use policies::finding::Finding;
use policies::manifest::Loaded;

fn text(file: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verbs/cases");
    std::fs::read_to_string(format!("{folder}/{file}.yaml")).unwrap()
}

fn load(file: &str, text: &str) -> Loaded {
    let mut loaded = Loaded::default();
    loaded.add(file, text.as_bytes());
    assert_eq!(loaded.problems, [], "{file}");
    loaded
}

/// File, whether it is for ambient mode, and code with line of each finding.
type Row = (&'static str, bool, &'static [(&'static str, u32)]);

const CASES: &[Row] = &[
    ("c01_mongo_many_hosts", false, &[("EA511", 9)]),
    ("c03_grpc_tls_no_targetport", false, &[("EA519", 19)]),
    ("c05_listen_port_8080", false, &[("EA809", 18), ("EA809", 20), ("EA809", 29)]),
    ("c06_sni_of_unlisted_host", false, &[("EA810", 20), ("EA803", 21)]),
    ("c07_wildcard_none_behind_gateway", false, &[("EA801", 6)]),
    ("c09_mtls_from_sidecar_https_only", false, &[("EA503", 21)]),
    ("c10_credential_without_selector", false, &[("EA520", 20)]),
    ("c11_smtp_starttls", false, &[("EA523", 9), ("EA1013", 18), ("EA516", 19)]),
    ("c13_mesh_h2_upgrade", false, &[("EA910", 17)]),
    ("c14_tls_without_ca", false, &[("EA521", 18)]),
    ("c19_http_route_to_tls_port", false, &[("EA812", 19), ("EA813", 19)]),
    ("c25_subset_missing", false, &[("EA525", 8), ("EA811", 29)]),
    ("c26_trailing_dot", false, &[("EA524", 6), ("EA701", 27)]),
    ("c28_gateway_origination_direct_https_breaks", false, &[("EA801", 6), ("EA522", 27)]),
    ("c30_statefulset_dns_grpc", false, &[("EA525", 9), ("EA1011", 11)]),
    ("c31_azure_sql_wildcard", false, &[("EA605", 8)]),
    ("c33_ambient_wildcard_dns", true, &[("EA601", 5), ("EA601", 5)]),
    ("c36_dynamic_dns_waypoint_ok", true, &[]),
    ("c39_none_with_endpoints", false, &[("EA1005", 8)]),
    ("c40_selector_and_endpoints", false, &[("EA1004", 8), ("EA1005", 10)]),
    ("c44_same_resource_twice", false, &[("EA408", 11)]),
    (
        "c45_rule_enum_and_removed_fields",
        false,
        &[("EA1004", 7), ("EA1004", 8), ("EA213", 9), ("EA516", 10), ("EA1004", 17)],
    ),
    ("c47_two_client_certs_by_selector_ok", false, &[]),
    ("c48_selector_rule_in_app_namespace_ok", false, &[]),
    ("n_base", false, &[]),
    ("n_sni", false, &[]),
    ("v_a3", false, &[("EA509", 8)]),
    ("v_b1", false, &[("EA525", 10), ("EA706", 17)]),
    ("v_d1", false, &[("EA519", 20)]),
    ("v_d3", false, &[("EA810", 20), ("EA809", 21)]),
    ("v_e1", false, &[("EA404", 18)]),
    ("v_f2", false, &[("EA523", 9), ("EA404", 18), ("EA523", 18)]),
    (
        "v_k1",
        false,
        &[
            ("EA516", 7),
            ("EA516", 7),
            ("EA516", 7),
            ("EA516", 7),
            ("EA213", 8),
            ("EA516", 8),
            ("EA516", 8),
            ("EA516", 9),
            ("EA516", 9),
            ("EA516", 9),
            ("EA516", 9),
            ("EA516", 10),
        ],
    ),
    ("v_m1", false, &[("EA507", 7), ("EA509", 15)]),
    ("v_m2", false, &[("EA305", 19)]),
];

fn found(file: &str, ambient: bool) -> Vec<Finding> {
    let mut context = Context::default();
    if ambient {
        context.platform.proxy_kind = ProxyKind::Ambient;
    }
    audit(&load(file, &text(file)), &BTreeMap::new(), &context, None).findings
}

#[test]
fn each_report_gets_its_findings_and_no_other() {
    let mut wrong = Vec::new();
    for (file, ambient, wanted) in CASES {
        let found = found(file, *ambient);
        let codes: Vec<(&str, u32)> =
            found.iter().map(|finding| (finding.code.as_str(), finding.at.line)).collect();
        if codes != *wanted {
            wrong.push(format!("{file}: {codes:?}, wanted {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verbs/cases");
    let files = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(files, CASES.len() + 1, "every file has a row, and fx_2 a test of its own");
}

#[test]
fn a_remedy_is_one_that_works() {
    // (file, what the hints say, what they do not say): a wildcard cannot be looked up, a lone TCP host has no SNI.
    for (file, says, never) in [
        ("c07_wildcard_none_behind_gateway", "list the names", "write `resolution: DNS`"),
        ("v_m1", "list the endpoints, or write `resolution: NONE`", "or write `resolution: DNS`"),
        ("c33_ambient_wildcard_dns", "DYNAMIC_DNS` and give the entry a waypoint", "NONE"),
        ("c01_mongo_many_hosts", "an entry and `addresses` of its own", "give each host an entry of its own"),
        ("v_e1", "switch DNS capture with address allocation on", "give each entry its `addresses`, or"),
        ("v_m2", "write `protocol: HTTP`", "sniHosts"),
        ("c31_azure_sql_wildcard", "`addresses` each", "or write `resolution: DNS`"),
    ] {
        let hints: Vec<String> =
            found(file, file.starts_with("c33")).into_iter().map(|finding| finding.hint).collect();
        let hints = hints.join("\n");
        assert!(hints.contains(says) && !hints.contains(never), "{file}: {hints}");
    }
}

#[test]
fn a_fix_renames_what_is_misspelled_and_keeps_what_was_meant() {
    let text = text("fx_2");
    let loaded = load("fx_2", &text);
    let texts = BTreeMap::from([("fx_2".to_owned(), text.clone())]);
    let mended = mend(&texts, &loaded, &BTreeMap::new(), &Context::default(), None);
    let new = &mended.texts["fx_2"];
    let wanted = text.replace("LocalOriginErors", "LocalOriginErrors").replace("maxEjecton", "maxEjection");
    assert_eq!(*new, wanted);
    assert_eq!(audit(&load("new", new), &BTreeMap::new(), &Context::default(), None).findings, []);
}
