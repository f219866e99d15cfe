//! `lab backend`: one backend of the lab until Ctrl-C or SIGTERM, for a lab whose parts are pods.

use std::net::SocketAddr;

use probes::experiments::bench::HOST;
use probes::lab::backend::Backends;
use probes::lab::ca::Trust;

use crate::console::Console;
use crate::exit::Exit;
use crate::report::Problem;

pub(super) async fn run(
    name: &str,
    listen: SocketAddr,
    control: Option<SocketAddr>,
    console: &Console,
) -> anyhow::Result<Exit> {
    let trust = Trust::generate(HOST)?;
    let backend = Backends::one(name, listen, &trust).await.map_err(Problem::from)?;
    console.data(&format!("{name} {}:{}\n", listen.ip(), backend.port()))?;
    match control {
        None => crate::commands::interrupted().await,
        Some(control) => tokio::select! {
            served = backend.serve_control(control, trust.roots().pem().to_owned()) => served.map_err(Problem::from)?,
            () = crate::commands::interrupted() => {}
        },
    }
    Ok(Exit::Clean)
}
