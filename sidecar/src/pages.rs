//! What is written about this program from its own definition: completion scripts, man pages and, by a test, the book's
//! reference page. Called by `main`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use crate::config::Cli;
use crate::log::{chain, log};

/// The script for `shell`, on standard output.
pub(crate) fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "drain-sidecar", &mut script);
    // A reader that has gone needs no script.
    let _ = std::io::stdout().write_all(&script);
    ExitCode::SUCCESS
}

/// One page for the program and one for each command.
pub(crate) fn man(dir: &Path) -> ExitCode {
    match std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let hint = "is the folder's parent there and writable?";
            log(
                "error",
                "man_failed",
                json!({"error": chain(&error), "hint": hint, "dir": dir.display().to_string()}),
            );
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::routes::ROUTES;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../book/src/reference/drain-sidecar.md");

    /// The page: what the commands say of themselves, the variables, the paths.
    fn page() -> String {
        let mut command = Cli::command().term_width(96);
        command.build();
        let mut page = "# drain-sidecar\n\nGenerated from the program itself.\n".to_owned();
        let _ = write!(page, "\n## Commands\n\n```text\n{}```\n", command.render_long_help());
        for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
            let name = sub.get_name().to_owned();
            let help = sub.render_long_help().to_string();
            let help: String = help.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n");
            let _ = write!(page, "\n### `drain-sidecar {name}`\n\n```text\n{help}```\n");
        }
        page += "\n## Environment\n\nA flag wins over its variable.\n\n| variable | flag | command |\n|---|---|---|\n";
        for sub in command.get_subcommands() {
            for arg in sub.get_arguments() {
                if let (Some(env), Some(flag)) = (arg.get_env(), arg.get_long()) {
                    let _ =
                        writeln!(page, "| `{}` | `--{flag}` | `{}` |", env.to_string_lossy(), sub.get_name());
                }
            }
        }
        page += "\n## HTTP\n\nThe health port serves what is public; the control listener serves everything; the listener for \
                 scrapers (`HC_METRICS_ADDR`) serves what is marked so and changes nothing. `/openapi.json` says it to \
                 programs.\n\n| path | methods | served on | what it does | answers |\n|---|---|---|---|---|\n";
        for route in ROUTES {
            let on = match (route.public, route.metrics) {
                (true, _) => "health, control",
                (false, true) => "control, metrics",
                (false, false) => "control",
            };
            let answers: Vec<_> = route
                .answers
                .iter()
                .map(|(status, text)| format!("{status}: {}", text.trim_end_matches('.')))
                .collect();
            let _ = writeln!(
                page,
                "| `{}` | {} | {on} | {} | {} |",
                route.path,
                route.methods.join(", "),
                route.summary,
                answers.join("; ")
            );
        }
        page
    }

    #[test]
    fn the_reference_page_is_what_the_program_says() {
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(PAGE, page()).unwrap();
            return;
        }
        let stored = std::fs::read_to_string(PAGE).unwrap();
        assert!(stored == page(), "UPDATE_REFERENCE=1 cargo test -p drain-sidecar writes it again");
    }

    #[test]
    fn every_shell_and_every_command_has_its_page() {
        for shell in clap::ValueEnum::value_variants() {
            let shell: &Shell = shell;
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "drain-sidecar", &mut script);
            assert!(String::from_utf8(script).unwrap().contains("prestop"), "{shell}");
        }
        let folder = tempfile::tempdir().unwrap();
        man(folder.path());
        let pages: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|page| page.unwrap().file_name()).collect();
        assert!(pages.iter().any(|page| page == "drain-sidecar-prestop.1") && pages.len() > 8, "{pages:?}");
    }
}
