//! Tier `deploy`: what users apply. The image's binary runs in the root that its Dockerfile describes, without an engine;
//! the manifests parse and agree with what the sidecar itself computes and accepts; Prometheus reads the alert rules.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod image;
mod manifests;
mod monitoring;
mod sidecar;

use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
