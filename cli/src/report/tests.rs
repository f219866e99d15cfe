//! Exit codes of reports, and what is taken for one.

use super::*;

fn report(body: Body) -> Report {
    let inputs = Inputs {
        command: "lab run".to_owned(),
        names: 0,
        resolvers: Vec::new(),
        window: "stream 4s".to_owned(),
        platform: "Envoy 1.40.0".to_owned(),
    };
    Report::new(inputs, body, Timestamp::UNIX_EPOCH)
}

fn audit(fail_on: FailOn) -> AuditReport {
    AuditReport {
        files: 1,
        file_names: vec!["a.yaml".to_owned()],
        documents: 1,
        passed_over: BTreeMap::new(),
        fail_on,
        counts: Counts::default(),
        result: Audit::default(),
    }
}

#[test]
fn a_report_has_one_body_and_keeps_its_name_in_json() {
    let hosts = report(Body::Hosts(Vec::new()));
    let text = serde_json::to_string(&hosts).unwrap();
    assert!(text.contains("\"hosts\":[]"), "{text}");
    assert_eq!(Report::read(&text).unwrap(), hosts);
    let lab = report(Body::Lab(LabReport { evidence: Vec::new(), matrix: None }));
    assert_eq!(Report::read(&serde_json::to_string(&lab).unwrap()).unwrap(), lab);
    for wrong in [
        text.replace("\"hosts\":[]", "\"hosts\":[],\"more\":1"),
        text.replace("\"hosts\":[],", ""),
        "{}".to_owned(),
        "not JSON".to_owned(),
    ] {
        let error = Report::read(&wrong).unwrap_err();
        assert!(matches!(error, Unreadable::NoReport(_)), "{wrong}: {error:?}");
    }
}

#[test]
fn a_report_of_another_schema_is_named_with_who_wrote_it() {
    let old = r#"{"schema": 1, "tool_version": "0.0.9", "hosts": [], "matrix": null}"#;
    let error = Report::read(old).unwrap_err();
    assert!(error.to_string().contains("schema 1") && error.to_string().contains("schema 2"), "{error}");
    assert!(error.hint().contains("0.0.9"), "{}", error.hint());
}

#[test]
fn problems_are_worse_than_findings() {
    let mut found = report(Body::Audit(audit(FailOn::Info)));
    assert_eq!(found.exit(), Exit::Clean);
    found.problems.push(Problem::new("a.yaml", "cannot be read", "check the path"));
    assert_eq!(found.exit(), Exit::CouldNot);
}
