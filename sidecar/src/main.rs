//! Entry point of the drain sidecar: picks the subcommand and starts the one thread that runs it.

mod address;
mod agent;
mod client;
mod config;
mod connections;
mod control;
mod count;
mod drain;
mod duration;
mod engine;
mod envoy;
mod link;
mod log;
mod metrics;
mod pages;
mod plan;
mod preflight;
mod prestop;
mod public;
mod reply;
mod routes;
mod serve;
mod state_file;
mod status;
mod verbs;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde_json::json;

use crate::config::{Cli, Cmd};
use crate::log::{chain, log};
use crate::verbs::Verb;

/// Exit codes: 0 done; 1 a check failed or the pod is not out; 2 the work could not be done.
fn main() -> ExitCode {
    let cli = Cli::parse();
    let code = run(cli);
    // The last lines say how it ended, if anyone reads them.
    log::flush(Duration::from_millis(500));
    code
}

fn run(cli: Cli) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed("runtime_failed", &error, "are file descriptors exhausted?"),
    };
    runtime.block_on(async {
        match cli.command {
            Cmd::Serve(args) => match serve::run(*args).await {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    failed("serve_failed", &error, "choose another port with --public or --control")
                }
            },
            Cmd::Status(args) => verbs::status(&args).await,
            Cmd::Drain(args) => verbs::command(Verb::Drain, &args).await,
            Cmd::Reopen(args) => verbs::command(Verb::Reopen, &args).await,
            Cmd::Close(args) => verbs::command(Verb::Close, &args).await,
            Cmd::Prestop(args) => prestop::run(&args).await,
            Cmd::Preflight(args) => preflight::run(&args).await,
            Cmd::Plan(args) => plan::run(&args).await,
            Cmd::Completions { shell } => pages::completions(shell),
            Cmd::Man { dir } => pages::man(&dir),
            Cmd::Install { to } => install(&to),
        }
    })
}

/// Copies the running binary with its mode. Through `/proc`, because the path it was started by may be relative.
fn install(to: &Path) -> ExitCode {
    match std::fs::copy("/proc/self/exe", to) {
        Ok(bytes) => {
            log("info", "installed", json!({"to": to.display().to_string(), "bytes": bytes}));
            ExitCode::SUCCESS
        }
        Err(error) => failed("install_failed", &error, "is the target folder a mounted, writable volume?"),
    }
}

fn failed(event: &str, error: &dyn std::error::Error, hint: &str) -> ExitCode {
    log("error", event, json!({"error": chain(error), "hint": hint}));
    ExitCode::from(2)
}
