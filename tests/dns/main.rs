//! Real authoritative servers and caches, classified by the real binary. Each row of [`cases::CASES`] is one test;
//! the servers of [`servers::SERVERS`] run once for all of them. All rows run at once: they spend their time waiting
//! for answers to expire.

use std::sync::Arc;

use harness::Endpoint;
use libtest_mimic::{Arguments, Trial};

mod cases;
mod classify;
mod servers;

fn main() -> anyhow::Result<()> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(cases::CASES.len());
    // Started by this thread, which lives as long as the tests: a server dies with the thread that started it.
    let servers = if arguments.list { Vec::new() } else { servers::start()? };
    let endpoints: Arc<[Endpoint]> = servers.iter().map(|server| server.endpoint.clone()).collect();
    let trials = cases::CASES
        .iter()
        .map(|case| {
            let endpoints = Arc::clone(&endpoints);
            Trial::test(case.name, move || {
                Ok(classify::check(case, &endpoints).map_err(|e| format!("{e:#}"))?)
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(servers);
    conclusion.exit();
}
