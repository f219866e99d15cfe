//! `lab dns serve`: a scenario in service until Ctrl-C or SIGTERM.

use std::fmt::Write as _;
use std::net::SocketAddr;

use labdns::{LabDns, Options};

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
    // Listened for from here on: who reads that all is up may end it at once.
    let interrupted = crate::commands::interrupted();
    let lab = LabDns::start(&scenario, &options).await.map_err(Problem::from)?;
    console.data(&addresses(&lab, scenario.zone.as_str()))?;
    interrupted.await;
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
