//! The shipped behaviours and the held-out ones through the classifier, a few runs each: far from the noise, so that a
//! fall is a fault. `cargo bench -p egress-audit-probes --bench score` gives the figures.

use std::path::Path;

use policies::Policy;
use probes::names::score::{Access, Case, Score, Settings, score};

fn scored(cases: &[Case], access: Access, policy: &Policy) -> Score {
    score(cases, &Settings::patient(4, 7, access, policy))
}

#[test]
fn the_zoo_is_told_apart_from_either_vantage() {
    let zoo = Case::zoo().unwrap();
    for access in [Access::Authority, Access::CachesOnly] {
        let score = scored(&zoo, access, &Policy::default());
        assert!(score.mean_right() > 0.97, "{access:?}: {:.3}, {:?}", score.mean_right(), score.worst());
        assert!(score.mean_queries() < 13.0, "{access:?}: {:.1}", score.mean_queries());
    }
}

#[test]
fn behaviours_that_the_policy_was_not_tuned_on_are_told_apart_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/holdout");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        cases.extend(Case::all_of(&name, &std::fs::read_to_string(&path).unwrap()).unwrap());
    }
    assert!(cases.len() >= 30, "{}", cases.len());
    let score = scored(&cases, Access::Authority, &Policy::default());
    assert!(score.mean_right() > 0.95, "{:.3}, {:?}", score.mean_right(), score.worst());
}

#[test]
fn a_wrong_expectation_is_never_met() {
    let yaml = labdns::scenarios::find("zoo/8-of-400").unwrap();
    let wrong = yaml.replace("RotatingPool", "FixedMultiIp").replace("DNS_ROUND_ROBIN", "DNS");
    assert_ne!(wrong, yaml);
    let cases = Case::all_of("wrong", &wrong).unwrap();
    assert!(scored(&cases, Access::Authority, &Policy::default()).mean_right() < 0.01);
}

#[test]
fn the_same_seed_gives_the_same_score() {
    let zoo = &Case::zoo().unwrap()[..6];
    let [one, two] = [0, 1].map(|_| scored(zoo, Access::CachesOnly, &Policy::default()));
    assert_eq!(serde_json::to_value(&one).unwrap(), serde_json::to_value(&two).unwrap());
}
