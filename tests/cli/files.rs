//! Files in and out: name lists, scenarios, saved windows, manifests.

use policies::manifest::{Resource, parse};

use crate::responder::{Responder, zone};
use crate::{POLICY, Run, classify, generate};

#[test]
fn files_without_names_are_named() {
    let server = Responder::start(zone);
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.txt");
    std::fs::write(&empty, "# nothing yet\n").unwrap();
    let missing = dir.path().join("missing.txt");
    for (file, fault) in
        [(empty.as_path(), "no names"), (&missing, "No such file"), (dir.path(), "directory")]
    {
        let run =
            Run::of(classify(&server, &["good.fixed.example"]).arg("-f").arg(file).args(["-o", "json"]));
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains(&*file.to_string_lossy()) && run.stderr.contains(fault), "{run}");
        assert_eq!(run.class("good.fixed.example"), "SingleVip", "{run}");
    }
}

#[test]
fn a_batch_names_the_line_of_a_bad_name() {
    let server = Responder::start(zone);
    let dir = tempfile::tempdir().unwrap();
    let names = dir.path().join("names.txt");
    std::fs::write(&names, "a.fixed.example\n\nb..fixed.example # typo\nc.fixed.example\n").unwrap();
    let run = Run::of(classify(&server, &[]).arg("-f").arg(&names).args(["-o", "json"]));
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("names.txt:3"), "{run}");
    assert_eq!(run.report()["hosts"].as_array().unwrap().len(), 2, "{run}");
}

#[test]
fn a_typo_in_a_scenario_is_placed() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("typo.yaml");
    std::fs::write(&scenario, "zone: lab.example\nrecrods: []\n").unwrap();
    let mut command = harness::egress_audit();
    command.args(["lab", "dns", "serve", "--port", "0", "--control-port", "0", "--scenario"]).arg(&scenario);
    let run = Run::of(&mut command);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("typo.yaml") && run.stderr.contains("recrods"), "{run}");
}

#[test]
fn saved_windows_replay_to_the_same_report() {
    let server = Responder::start(zone);
    let dir = tempfile::tempdir().unwrap();
    let names = ["a.fixed.example", "b.fixed.example"];
    let live = Run::of(classify(&server, &names).args(["-o", "json", "--save"]).arg(dir.path()));
    assert_eq!(live.code, Some(0), "{live}");
    drop(server);
    let mut replay = harness::egress_audit();
    replay.args(["classify", "-o", "json"]).args(POLICY).arg("--from").arg(dir.path());
    let replay = Run::of(&mut replay);
    assert_eq!(replay.code, Some(0), "{replay}");
    assert_eq!(live.report()["hosts"], replay.report()["hosts"]);
}

#[test]
fn generated_yaml_reads_back() {
    let server = Responder::start(zone);
    let names = ["a.fixed.example", "b.fixed.example"];
    let run = Run::of(generate(&server, &names).args(["--namespace", "egress"]));
    assert_eq!(run.code, Some(0), "{run}");
    let resources = parse(&run.stdout).unwrap_or_else(|error| panic!("{error}\n{run}"));
    let entries = resources.iter().filter(|resource| matches!(resource, Resource::ServiceEntry(_)));
    assert_eq!(entries.count(), 2, "{run}");
}
