//! What is generated from the code: the policy with its defaults, the report's JSON schema, completions, man pages.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::console::Console;
use crate::exit::Exit;
use crate::report::Report;

/// Prints the shipped policy file.
///
/// # Errors
/// When stdout cannot be written.
pub fn policy(console: &Console) -> anyhow::Result<Exit> {
    console.data(policies::policy::DEFAULT_YAML)?;
    Ok(Exit::Clean)
}

/// Prints the report's JSON schema (draft 2020-12).
///
/// # Errors
/// When stdout cannot be written.
pub fn schema(console: &Console) -> anyhow::Result<Exit> {
    console.json(&schemars::schema_for!(Report))?;
    Ok(Exit::Clean)
}

/// Prints a completion script.
///
/// # Errors
/// When stdout cannot be written.
pub fn completions(shell: Shell, console: &Console) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "egress-audit", &mut script);
    console.data(&String::from_utf8(script).context("the completion script is not UTF-8")?)?;
    Ok(Exit::Clean)
}

/// Writes one man page for the program and one for each command into `dir`.
///
/// # Errors
/// When the folder or a file in it cannot be written.
pub fn man(dir: &Path, console: &Console) -> anyhow::Result<Exit> {
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .with_context(|| format!("cannot write man pages into {}", dir.display()))?;
    console.note(&format!("man pages are in {}", dir.display()));
    Ok(Exit::Clean)
}
