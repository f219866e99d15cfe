//! Entry point: reads the arguments, runs the command, hands the exit code to the shell.

use std::process::ExitCode;

use clap::Parser;
use egress_audit::args::Cli;
use egress_audit::console::Console;
use egress_audit::exit::Exit;
use egress_audit::report::Problem;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut console = Console::new(cli.quiet);
    let exit = egress_audit::run(cli, &mut console).unwrap_or_else(|error| {
        console.end_progress();
        console.error(&format!("{error:#}"));
        if let Some(problem) = error.downcast_ref::<Problem>() {
            console.hint(&problem.hint);
        }
        Exit::CouldNot
    });
    exit.into()
}
