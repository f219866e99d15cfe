//! The forms that other programs read, held against what those programs expect: SARIF against its published schema,
//! `JUnit` by an XML parser, workflow commands by the rules of the runner.

use serde_json::Value;

use crate::{CLEAN, ENTRY, Outcome, audit, every_fault};

/// The schema that OASIS publishes, as `@microsoft/sarif-multitool` 5.7.0 carries it.
const SCHEMA: &str = include_str!("../fixtures/sarif-2.1.0.json");

fn sarif(found: &Outcome) -> Value {
    let log: Value = serde_json::from_str(&found.out).unwrap();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = validator.iter_errors(&log).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    log
}

#[test]
fn sarif_has_what_code_scanning_needs() {
    let (_dir, found) = audit(&[("my files/api.yaml", ENTRY)], &[".", "--offline", "-o", "sarif"]);
    let log = sarif(&found);
    let run = &log["runs"][0];
    assert_eq!(
        (&log["version"], &run["invocations"][0]["executionSuccessful"]),
        (&"2.1.0".into(), &true.into())
    );
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "my%20files/api.yaml");
        assert!(place["region"]["startLine"].as_u64().unwrap() > 1);
    }
    let fixes: Vec<&Value> = results.iter().filter_map(|result| result.get("fixes")).collect();
    assert_eq!(fixes.len(), 3);
    let change = &fixes[0][0]["artifactChanges"][0]["replacements"][0];
    assert!(change["insertedContent"]["text"].is_string() && change["deletedRegion"]["byteOffset"].is_u64());
}

#[test]
fn sarif_is_valid_whatever_is_found() {
    let faults = every_fault();
    let files: Vec<(&str, &str)> = faults.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let (_dir, all) = audit(&files, &[".", "--offline", "-o", "sarif"]);
    let log = sarif(&all);
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap().len();
    assert!(rules >= 50, "{rules} rules");
    let (_dir, none) = audit(&[("a.yaml", CLEAN)], &["a.yaml", "--offline", "-o", "sarif"]);
    assert_eq!(sarif(&none)["runs"][0]["results"], Value::Array(Vec::new()));
    let (_dir, broken) = audit(&[("a.yaml", "spec: [\n")], &["a.yaml", "--offline", "-o", "sarif"]);
    let invocation = &sarif(&broken)["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], Value::Bool(false));
    assert!(
        invocation["toolExecutionNotifications"][0]["message"]["text"].as_str().unwrap().contains("a.yaml:")
    );
}

#[test]
fn the_schema_refuses_what_is_no_sarif() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let (_dir, found) = audit(&[("a.yaml", ENTRY)], &["a.yaml", "--offline", "-o", "sarif"]);
    let mut log = sarif(&found);
    log["runs"][0]["results"][0]["level"] = "fatal".into();
    assert!(!validator.is_valid(&log));
}

#[test]
fn junit_counts_what_it_holds() {
    let faults = every_fault();
    let files: Vec<(&str, &str)> = faults.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    for files in [&files[..], &[("a.yaml", CLEAN)]] {
        let (_dir, found) = audit(files, &[".", "--offline", "-o", "junit"]);
        let document = roxmltree::Document::parse(&found.out).unwrap();
        let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
        let count = |tag: &str| suite.descendants().filter(|node| node.has_tag_name(tag)).count().to_string();
        assert_eq!(suite.attribute("tests").unwrap(), count("testcase"));
        assert_eq!(suite.attribute("failures").unwrap(), count("failure"));
        for case in suite.children().filter(|node| node.has_tag_name("testcase")) {
            assert!(
                !case.attribute("name").unwrap().is_empty()
                    && !case.attribute("classname").unwrap().is_empty()
            );
        }
    }
}

#[test]
fn workflow_commands_are_one_line_each() {
    let faults = every_fault();
    let files: Vec<(&str, &str)> = faults.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let (_dir, found) = audit(&files, &[".", "--offline", "-o", "github"]);
    let lines: Vec<&str> = found.out.lines().collect();
    let (summary, commands) = lines.split_last().unwrap();
    assert!(summary.contains(" resources of ") && !summary.starts_with("::"), "{summary}");
    assert!(commands.len() > 70, "{}", commands.len());
    for command in commands {
        let (head, text) = command.strip_prefix("::").unwrap().split_once("::").unwrap();
        let (level, properties) = head.split_once(' ').unwrap();
        assert!(["error", "warning", "notice"].contains(&level) && !text.is_empty(), "{command}");
        let keys: Vec<&str> =
            properties.split(',').map(|property| property.split_once('=').unwrap().0).collect();
        assert_eq!(keys, ["file", "line", "col", "title"], "{command}");
    }
}
