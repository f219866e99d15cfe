//! `watch --replay`: saved windows in, the events that a watch would have raised out, one line of JSON each.

use std::path::Path;

use policies::Policy;
use policies::watch::{Pace, Watcher};

use crate::console::Console;
use crate::exit::Exit;
use crate::input;

/// Replays.
///
/// # Errors
/// The output cannot be written.
pub(super) fn run(from: &Path, policy: &Policy, pace: &Pace, console: &Console) -> anyhow::Result<Exit> {
    let (windows, problems) = input::windows(from);
    for problem in &problems {
        console.error(&problem.to_string());
        console.hint(&problem.hint);
    }
    let mut events = Vec::new();
    for mut window in windows {
        window.samples.sort_by_key(|sample| sample.at);
        let mut watcher = Watcher::new(window.host, window.record_type, window.sources, window.started_at);
        for sample in &window.samples {
            events.extend(watcher.record(sample, policy, pace));
        }
    }
    events.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
    for event in &events {
        console.json_line(event)?;
    }
    Ok(if problems.is_empty() { Exit::Clean } else { Exit::CouldNot })
}
