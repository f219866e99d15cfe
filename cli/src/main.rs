//! Entry point: reads the arguments, runs the command, hands the exit code to the shell.

use std::process::ExitCode;

use clap::Parser;
use egress_audit::args::Cli;
use egress_audit::console::Console;
use egress_audit::exit::Exit;
use egress_audit::report::Problem;

/// A sweep holds the state of thousands of names, allocated bit by bit.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    let mut console = Console::new(cli.quiet);
    let logged = egress_audit::log::start(cli.verbose, cli.quiet);
    let opened = cli.output_file.take().map_or(Ok(()), |path| console.send_to(path));
    let exit = logged.and(opened).map_err(Into::into).and_then(|()| egress_audit::run(cli, &mut console));
    let exit = exit.and_then(|exit| Ok(console.keep(exit).map(|()| exit)?)).unwrap_or_else(|error| {
        console.end_progress();
        console.error(&format!("{error:#}"));
        if let Some(problem) = error.downcast_ref::<Problem>() {
            console.hint(&problem.hint);
        }
        Exit::CouldNot
    });
    exit.into()
}
