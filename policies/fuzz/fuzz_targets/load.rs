//! Any bytes are read or named: no panic, no endless loop, no memory without measure, and places that lie in the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policies::manifest::Loaded;

fuzz_target!(|bytes: &[u8]| {
    let mut loaded = Loaded::default();
    loaded.add("m.yaml", bytes);
    for resource in &loaded.resources {
        let (start, end) = resource.root.at.bytes.unwrap_or_default();
        assert!(start <= end && end as usize <= bytes.len(), "{:?}", resource.root.at);
    }
    for problem in &loaded.problems {
        assert!(!problem.hint.is_empty() && !problem.message.contains(char::is_control), "{problem:?}");
    }
});
