//! Whatever the text is: what `--fix` makes of it reads, and has no more findings than before. The property is the tests' own.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use policies::audit::Context;

#[path = "../../tests/verbs/mending.rs"]
mod mending;

fuzz_target!(|text: &str| {
    if let Err(fault) = mending::mends(text, &BTreeMap::new(), &Context::default()) {
        panic!("{fault}");
    }
});
