//! `lab scenarios`: lists the built-in scenarios or prints one; and reads a scenario by name or from a file for the
//! other commands of the lab.

use std::path::Path;

use labdns::{Scenario, scenarios};

use crate::console::Console;
use crate::exit::Exit;
use crate::input;
use crate::render::table::columns;
use crate::report::Problem;

/// Largest scenario, bytes.
pub(super) const LARGEST: u64 = 16 << 20;

/// Lists the scenarios, or prints the named one.
pub(super) fn run(name: Option<&str>, console: &Console) -> anyhow::Result<Exit> {
    match name {
        Some(name) => console.data(builtin(name)?)?,
        None => console.data(&list()?)?,
    }
    Ok(Exit::Clean)
}

/// A scenario file, or a built-in one by its name.
pub(super) fn open(name: &str) -> Result<Scenario, Problem> {
    let path = Path::new(name);
    if !path.exists() {
        return parse(name, builtin(name)?);
    }
    let text = input::text(path, LARGEST)?;
    parse(name, &text)
}

/// The problem of a file that cannot be read.
pub(super) fn unusable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(path.display(), format!("cannot be read: {error}"), "name a readable scenario file")
}

fn parse(name: &str, text: &str) -> Result<Scenario, Problem> {
    Scenario::from_yaml(text).map_err(|error| Problem::about(name, &error))
}

fn builtin(name: &str) -> Result<&'static str, Problem> {
    scenarios::find(name).ok_or_else(|| {
        Problem::new(
            name,
            "is neither a file nor a built-in scenario",
            "`egress-audit lab scenarios` lists the built-in ones",
        )
    })
}

fn list() -> Result<String, Problem> {
    let rows = scenarios::builtin().map(|(name, text)| {
        let scenario = parse(name, text)?;
        let expected: Vec<_> =
            scenario.expectations().map(|(_, expect)| format!("{:?}", expect.class)).collect();
        let expected =
            if expected.len() == 1 { expected.concat() } else { format!("{} names", expected.len()) };
        Ok::<_, Problem>([name.to_owned(), expected, scenario.description.unwrap_or_default()])
    });
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    Ok(columns(["NAME", "EXPECTED", "SHOWS"], rows))
}
