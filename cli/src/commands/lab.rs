//! `lab ...`: experiments on a real Envoy, the scripted DNS, its steering, the score of the classifier, the demo.

mod backend;
mod client;
mod demo;
mod dns;
mod drain;
mod experiments;
mod in_cluster;
mod outcome;
mod scenarios;
mod score;
mod up;
mod watch_score;

use probes::experiments::bench::agent::Agent;

use crate::args::LabCommand;
use crate::console::Console;
use crate::exit::Exit;
use crate::report::Problem;

/// Runs one of the lab's commands.
///
/// # Errors
/// When the command as a whole could not be done.
pub async fn run(command: LabCommand, console: &mut Console) -> anyhow::Result<Exit> {
    match command {
        LabCommand::Demo => demo::run(console).await,
        LabCommand::List => experiments::list(console),
        LabCommand::Run(args) if args.experiments == [probes::experiments::drain::ID] => {
            refuse(
                args.of_egress().next(),
                "`drain`",
                "looks nothing up, so this flag changes nothing there",
            )?;
            drain::run(&args, console).await
        }
        LabCommand::Run(args) => {
            let named = format!("`{}`", args.experiments.join(" "));
            refuse(
                args.of_drain().next(),
                &named,
                "does not drain a pod, so this flag changes nothing there",
            )?;
            experiments::run(&args, console).await
        }
        LabCommand::Matrix(args) => experiments::matrix(&args, console).await,
        LabCommand::Up(args) => up::run(&args, console).await,
        LabCommand::Backend { name, listen, control_listen } => {
            backend::run(&name, listen, control_listen, console).await
        }
        LabCommand::Client { listen, admin, front_tls, front_http } => {
            client::run(listen, Agent { admin, front_tls, front_http }, console).await
        }
        LabCommand::Dns(command) => dns::run(command, console).await,
        LabCommand::Score(args) => score::run(&args, console),
        LabCommand::WatchScore(args) => watch_score::run(&args, console),
        LabCommand::Scenarios { name } => scenarios::run(name.as_deref(), console),
    }
}

/// A flag that changes nothing in these experiments is an error, not a silence.
fn refuse(flag: Option<&str>, experiments: &str, why: &str) -> Result<(), Problem> {
    let Some(flag) = flag else { return Ok(()) };
    Err(Problem::new(format!("`{flag}`"), format!("{experiments} {why}"), "leave the flag out"))
}
