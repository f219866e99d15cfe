//! What is generated from the code is checked in and current: the report's JSON schema and the command reference of
//! the book. `UPDATE_REFERENCE=1 cargo test -p egress-audit --test reference` writes them anew.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use egress_audit::args::Cli;
use egress_audit::report::Report;

fn checked_in(path: &str, current: &str) {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&file, current).expect("the file can be written");
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == current, "{path} is not what the code says: run with UPDATE_REFERENCE=1 and commit it");
}

#[test]
fn the_schema_of_the_report_is_current() {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Report)).unwrap();
    checked_in("schema/report.json", &(schema + "\n"));
}

#[test]
fn the_command_reference_is_current() {
    let mut page = String::from("# Commands\n\nGenerated from the program's own `--help`.\n");
    let mut program = Cli::command();
    program.build();
    chapter(&program, &mut page);
    checked_in("../book/src/reference/commands.md", &page);
}

fn chapter(command: &Command, page: &mut String) {
    let mut command = command.clone().term_width(96);
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    let help = lines.join("\n");
    page.extend(["\n## `", &name, "`\n\n```text\n", help.trim_end(), "\n```\n"]);
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        chapter(sub, page);
    }
}

#[test]
fn the_arguments_are_sound() {
    Cli::command().debug_assert();
}
