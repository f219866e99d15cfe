//! `lab client`: the client's side of a lab whose parts are pods, until Ctrl-C or SIGTERM. It waits for the orders of
//! `lab run --in-cluster`.

use std::net::SocketAddr;

use probes::experiments::bench::agent::Agent;
use tokio::net::TcpListener;

use crate::console::Console;
use crate::exit::Exit;
use crate::report::Problem;

pub(super) async fn run(listen: SocketAddr, agent: Agent, console: &Console) -> anyhow::Result<Exit> {
    let hint = "name an address of this pod and a port that is free";
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| Problem::new("lab client", format!("cannot listen on {listen}: {error}"), hint))?;
    console.data(&format!("waiting for orders on {}\n", listener.local_addr()?))?;
    tokio::select! {
        served = agent.serve(listener) => served?,
        () = crate::commands::interrupted() => {}
    }
    Ok(Exit::Clean)
}
