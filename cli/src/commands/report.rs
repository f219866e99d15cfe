//! `report`: a saved JSON report in, the same renderers as at its first printing out.

use std::io::Read;
use std::path::Path;

use anyhow::Context;

use crate::args::ReportArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::render;
use crate::report::{Problem, Report};

/// Largest report that is read, bytes.
const LARGEST: u64 = 256 << 20;

/// Renders a saved report.
///
/// # Errors
/// When the file cannot be read or is not a report of this version.
pub fn run(args: &ReportArgs, console: &Console) -> anyhow::Result<Exit> {
    let name = args.file.display();
    let mut text = String::new();
    let reader: Box<dyn Read> = if args.file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(&args.file).with_context(|| format!("cannot read {name}"))?)
    };
    let size =
        reader.take(LARGEST + 1).read_to_string(&mut text).with_context(|| format!("cannot read {name}"))?;
    if size as u64 > LARGEST {
        anyhow::bail!("{name} is larger than {} MiB", LARGEST >> 20);
    }
    let report = Report::read(&text).map_err(|error| Problem::about(name, &error))?;
    let format = report.body.kind().check(args.output)?;
    render::report(&report, format, console)?;
    Ok(report.exit())
}
