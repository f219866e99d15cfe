//! `lab dns serve`: a scenario in service until Ctrl-C or SIGTERM.

use std::fmt::Write as _;
use std::net::SocketAddr;

use labdns::{LabDns, Options};
use tokio::signal::unix::{SignalKind, signal};

use super::scenarios;
use crate::args::ServeArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::report::Problem;

pub(super) async fn run(args: &ServeArgs, console: &Console) -> anyhow::Result<Exit> {
    let scenario = scenarios::open(&args.scenario)?;
    let at = |port| SocketAddr::new(args.listen, port);
    let options = Options {
        authority: vec![at(args.port)],
        resolver: at(args.resolver_port),
        control: Some(SocketAddr::new(args.control_listen, args.control_port)),
        seed: args.seed,
        ..Options::default()
    };
    let lab = LabDns::start(&scenario, &options)
        .await
        .map_err(|error| Problem::new("lab dns", chain(&error), error.hint()))?;
    console.data(&addresses(&lab, scenario.zone.as_str()))?;
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
    lab.shutdown().await;
    Ok(Exit::Clean)
}

/// What is served where, one `word address` a line, so that a script can read it.
fn addresses(lab: &LabDns, zone: &str) -> String {
    let mut lines = format!("zone {zone}\nauthority {}\n", lab.authority_addr());
    for resolver in lab.resolver_addrs() {
        let _ = writeln!(lines, "resolver {resolver}");
    }
    if let Some(control) = lab.control_addr() {
        let _ = writeln!(lines, "control http://{control}");
    }
    lines
}

fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
