//! `lab up`: lab DNS, backends and Envoys stay up, with the addresses to curl and to steer, until Ctrl-C.

use std::time::Duration;

use anyhow::Context;
use probes::experiments::bench::{Bench, HOST, Plan, Setup};
use probes::experiments::evidence::EgressCell;
use probes::lab::envoy::bootstrap::{HttpVersion, Layer};
use probes::lab::scratch::Scratch;

use crate::args::UpArgs;
use crate::commands::envoy::chosen;
use crate::console::{Console, Tone};
use crate::exit::Exit;
use crate::report::Problem;

/// Starts a bench per resolution and path, prints how to reach them, and waits.
///
/// # Errors
/// When something cannot start.
pub(super) async fn run(args: &UpArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let wanted: Vec<_> = args.envoy.into_iter().collect();
    let binary = chosen(&wanted, console).await?.remove(0);
    let mut benches = Vec::new();
    for &resolution in &args.resolution {
        for path in [Layer::Passthrough, Layer::Http] {
            let cell = EgressCell {
                envoy: binary.version,
                old_dns: false,
                topology: args.topology.into(),
                path,
                http: HttpVersion::H1,
                resolution,
                variant: None,
                control: None,
            };
            // TTL 5 s, as in the guide's runs.
            let stream = Duration::from_secs(40);
            let plan = Plan::pair(stream);
            let setup =
                Setup { experiment: "up", question: "", cell, plan, stream, keep: None, publish: None };
            let bench = Bench::start(setup, &binary).await;
            benches.push(bench.map_err(Problem::from)?);
        }
    }
    let folder = Scratch::new("up").context("cannot make a folder for the CAs")?;
    let mut text = console.text();
    for (number, bench) in benches.iter().enumerate() {
        let ca = folder.path().join(format!("ca-{number}.pem"));
        std::fs::write(&ca, bench.ca_pem()).context("cannot write a CA")?;
        describe(bench, &ca.display().to_string(), &mut text);
    }
    let interrupted = crate::commands::interrupted();
    console.data(&text.finish())?;
    console.note("Ctrl-C ends the lab");
    interrupted.await;
    Ok(Exit::Clean)
}

fn describe(bench: &Bench, ca: &str, text: &mut crate::console::Text) {
    let cell = bench.cell();
    let (front, addrs) = (bench.front(), bench.addrs());
    text.add(Tone::Strong, format!("{cell}")).plain(format!("  (resolution: {})", cell.resolution)).end();
    let curl = match cell.path {
        Layer::Passthrough => format!("curl --cacert {ca} --connect-to {HOST}:443:{front} https://{HOST}/"),
        Layer::Http => format!("curl --connect-to {HOST}:80:{front} http://{HOST}/"),
    };
    text.plain("  request  ").plain(curl).end();
    if let Some(control) = bench.control() {
        text.plain(format!("  flip     egress-audit lab dns flip {HOST} {} --control {control}", addrs[1]))
            .end();
    }
    text.plain(format!("  admin    http://{}/clusters", bench.admin().addr())).end();
    text.plain(format!("  DNS      dig @{} -p {} {HOST}", bench.dns_addr().ip(), bench.dns_addr().port()))
        .end();
    let backends: Vec<String> = addrs.iter().map(ToString::to_string).collect();
    text.plain(format!(
        "  backends {} (a, b); pages /, /slow?seconds=, /sleep?seconds=, /stream?seconds=&interval=, /ws",
        backends.join(", ")
    ))
    .end();
}
