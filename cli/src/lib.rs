//! The program `egress-audit`: arguments in, a [`report::Report`] built by one command, rendered in the form asked
//! for. `main.rs` is a thin shell over this, so that tests can call commands in process.

pub mod args;
pub mod cluster;
pub mod commands;
pub mod console;
pub mod exit;
pub mod format;
pub mod hint;
pub mod input;
pub mod log;
pub mod problem;
pub mod render;
pub mod report;
pub mod serve;
pub mod store;
pub mod write;

use anyhow::Context;

use crate::args::{Cli, Command};
use crate::console::Console;
use crate::exit::Exit;

/// Runs one command to its end.
///
/// # Errors
/// When the command as a whole could not be done; what failed for single names is in its report instead.
pub fn run(cli: Cli, console: &mut Console) -> anyhow::Result<Exit> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    runtime.block_on(async {
        match cli.command {
            Command::Classify(args) => commands::classify::run(&args, console).await,
            Command::Generate(args) => commands::generate::run(&args, console).await,
            Command::Audit(args) => commands::audit::run(&args, console).await,
            Command::Watch(args) => commands::watch::run(&args, console).await,
            Command::Events(args) => commands::events::run(&args, console).await,
            Command::Proxy(command) => commands::proxy::run(command, console).await,
            Command::Lab(command) => commands::lab::run(command, console).await,
            Command::Envoy(command) => commands::envoy::run(command, console).await,
            Command::Report(args) => commands::report::run(&args, console),
            Command::Policy => commands::reference::policy(console),
            Command::Schema => commands::reference::schema(console),
            Command::Completions { shell } => commands::reference::completions(shell, console),
            Command::Man { dir } => commands::reference::man(&dir, console),
        }
    })
}
