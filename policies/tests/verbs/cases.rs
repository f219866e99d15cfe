//! Manifests of public reports, with neutral names: the findings of each, in the order of the file. A row that expects
//! none is one that works.

use std::collections::BTreeMap;

use policies::audit::{Context, audit, mend};
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
