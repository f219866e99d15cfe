//! `lab backend`: one backend of the lab until Ctrl-C or SIGTERM, for a lab whose parts are pods.

use std::net::SocketAddr;

use probes::backend::Backends;
use probes::lab::HOST;
use probes::trust::Trust;

use crate::console::Console;
use crate::exit::Exit;
use crate::report::Problem;

pub(super) async fn run(name: &str, listen: SocketAddr, console: &Console) -> anyhow::Result<Exit> {
    let trust = Trust::generate(HOST)?;
    let backend = Backends::one(name, listen, &trust).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Problem::new("lab backend", format!("{error}{cause}"), error.hint())
    })?;
    console.data(&format!("{name} {}:{}\n", listen.ip(), backend.port()))?;
    crate::commands::interrupted().await;
    Ok(Exit::Clean)
}
