//! `egress-audit watch` from outside: the built binary against a lab DNS in process, and the real Prometheus, promtool
//! and Alertmanager of Debian.
#![expect(clippy::unwrap_used, reason = "a run that cannot be set up fails the test at once")]

use std::path::{Path, PathBuf};

mod alerts;
mod deployment;
mod names;
mod running;
mod webhooks;

use running::{Running, lab};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
