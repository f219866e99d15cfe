//! Tier `cluster`: a real etcd, kube-apiserver and istiod on loopback, and real Envoys that get their clusters from
//! it. The control plane is built from Go modules on the first run and started once for all tests.

use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

mod commands;
mod control_plane;
mod flips;
mod image;
mod kubelet;
mod lab;
mod manifests;
mod objects;
mod proxies;
mod refusals;
mod translation;

use control_plane::ControlPlane;

/// A test and its name.
type Test = (&'static str, fn(&ControlPlane) -> anyhow::Result<()>);

const TESTS: &[&[Test]] = &[
    manifests::TESTS,
    refusals::TESTS,
    translation::TESTS,
    flips::TESTS,
    lab::TESTS,
    commands::TESTS,
    proxies::TESTS,
    image::TESTS,
];

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::from_args();
    if arguments.list {
        libtest_mimic::run(&arguments, trials(&Arc::new(None))).exit();
    }
    // Started by this thread, which lives as long as the tests: a child dies with the thread that started it.
    let plane = Arc::new(Some(ControlPlane::start()?));
    let conclusion = libtest_mimic::run(&arguments, trials(&plane));
    drop(plane);
    conclusion.exit();
}

fn trials(plane: &Arc<Option<ControlPlane>>) -> Vec<Trial> {
    let trial = |(name, test): &Test| {
        let (plane, test) = (Arc::clone(plane), *test);
        Trial::test(*name, move || {
            let plane = plane.as_ref().as_ref().ok_or("no control plane")?;
            test(plane).map_err(|error| Failed::from(format!("{error:#}")))
        })
    };
    TESTS.iter().copied().flatten().map(trial).collect()
}
