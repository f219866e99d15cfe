//! `lab backend`: one backend of the lab until Ctrl-C or SIGTERM, for a lab whose parts are pods.

use std::net::SocketAddr;

use probes::experiments::bench::HOST;
use probes::lab::backend::{BackendError, Backends};
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
    let problem = |error: BackendError| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Problem::new("lab backend", format!("{error}{cause}"), error.hint())
    };
    let trust = Trust::generate(HOST)?;
    let backend = Backends::one(name, listen, &trust).await.map_err(problem)?;
    console.data(&format!("{name} {}:{}\n", listen.ip(), backend.port()))?;
    match control {
        None => crate::commands::interrupted().await,
        Some(control) => tokio::select! {
            served = backend.serve_control(control, trust.roots().pem().to_owned()) => served.map_err(problem)?,
            () = crate::commands::interrupted() => {}
        },
    }
    Ok(Exit::Clean)
}
