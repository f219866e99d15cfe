//! `kill -9` at many moments, while a name flips: no event is lost and none is doubled.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::eventually;

use crate::running::PATIENCE;
use crate::{Running, lab};

/// How often it is killed: `KILLS=100` for the figure in the book.
fn kills() -> u64 {
    std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

#[test]
fn no_event_is_lost_or_doubled_by_kills() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let watch = Running::start(&lab, dir.path(), &["vip.lab.example"]);
    watch.settled(&["vip.lab.example"]);
    let (mut watch, done) = (watch, AtomicBool::new(false));
    let mut printed = Vec::new();
    std::thread::scope(|scope| {
        // Flips for as long as it is killed, with pauses in which each is noticed.
        scope.spawn(|| {
            let mut last = 1;
            while !done.load(Ordering::Relaxed) {
                last = 3 - last;
                lab.flip("vip.lab.example", &[[192, 0, 2, last]]);
                pause(Duration::from_millis(2500), &done);
            }
        });
        for round in 0..kills() {
            // Moments that have nothing to do with the flips.
            pause(Duration::from_millis(300 + round * 379 % 2900), &done);
            watch.child.signal(rustix::process::Signal::KILL).unwrap();
            eventually(PATIENCE, "the end", || watch.child.exited().unwrap().ok_or("it runs")).unwrap();
            printed.extend(watch.printed());
            watch = Running::start(&lab, dir.path(), &["vip.lab.example"]);
        }
        done.store(true, Ordering::Relaxed);
    });
    lab.flip("vip.lab.example", &[[192, 0, 2, 9]]);
    eventually(PATIENCE, "the last flip", || {
        let flips = watch.events("vip.lab.example", "flip");
        let last = flips.last().map(|flip| flip["event"]["what"]["flip"]["to"][0].to_string());
        if last.as_deref() == Some("\"192.0.2.9\"") { Ok(()) } else { Err(format!("{last:?}")) }
    })
    .unwrap();
    printed.extend(watch.printed());

    // Each source tells its own; of each, a flip begins where the one before it ended.
    let flips = watch.events("vip.lab.example", "flip");
    let mut sources: Vec<_> = flips.iter().map(|flip| flip["event"]["source"].clone()).collect();
    sources.sort_by_key(ToString::to_string);
    sources.dedup();
    for source in sources {
        let own = flips.iter().filter(|flip| flip["event"]["source"] == source);
        let own: Vec<_> = own.map(|flip| &flip["event"]["what"]["flip"]).collect();
        for pair in own.windows(2) {
            assert_eq!(pair[0]["to"], pair[1]["from"], "{source}: {own:?}");
        }
    }
    let ids: HashSet<_> = flips.iter().map(|flip| flip["event"]["id"].to_string()).collect();
    assert_eq!(ids.len(), flips.len());
    let told = printed.iter().filter(|event| event["what"]["flip"].is_object());
    let told: Vec<_> = told.map(|event| event["id"].to_string()).collect();
    assert_eq!(told.iter().collect::<HashSet<_>>().len(), told.len(), "printed twice");
    assert!(told.iter().all(|id| ids.contains(id)), "printed and not stored");
    assert!(!watch.events("vip.lab.example", "class_changed").is_empty());
    assert!(flips.len() >= 2, "{flips:?}");
}

fn pause(length: Duration, done: &AtomicBool) {
    let until = Instant::now() + length;
    let _ = eventually(length + PATIENCE, "a pause", || {
        if Instant::now() >= until || done.load(Ordering::Relaxed) { Ok(()) } else { Err("not yet") }
    });
}
