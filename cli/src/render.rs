//! A finished report in, words out. Renderers choose words; what they print was counted and judged before, and the
//! formats that a report has are looked up in `format`.

mod audit;
pub mod events;
mod evidence;
mod markdown;
pub(crate) mod markup;
mod proxy;
pub(crate) mod table;
mod text;
mod words;

use std::io;

use crate::console::Console;
use crate::format::Format;
use crate::report::{Body, FleetReport, HostReport, LabReport, Report};

/// Most names that are explained one by one where a table was not asked for.
const EXPLAINED: usize = 5;

/// Prints a report in a form that it has, and its problems on stderr.
///
/// # Errors
/// When the report does not have that form, or stdout cannot be written.
pub fn report(report: &Report, format: Format, console: &Console) -> anyhow::Result<()> {
    let format = report.body.kind().check(format)?;
    if format == Format::Json {
        console.json(report)?;
    } else {
        match &report.body {
            Body::Hosts(hosts) => self::hosts(report, hosts, format, console)?,
            Body::Audit(found) => audit::audit(report, found, format, console)?,
            Body::Lab(run) => lab(report, run, format, console)?,
            Body::Fleet(fleet) => proxies(fleet, format, console)?,
        }
    }
    problems(report, console);
    if format == Format::Text && report.body.hosts().len() > EXPLAINED {
        console.note("name fewer hosts, or use `-o markdown` or `-o json`, for the reasons behind each row");
    }
    Ok(())
}

/// Prints classified names.
fn hosts(report: &Report, hosts: &[HostReport], format: Format, console: &Console) -> io::Result<()> {
    match format {
        Format::Text if hosts.len() <= EXPLAINED => console.data(&text::report(hosts, console.text())),
        Format::Jsonl => hosts.iter().try_for_each(|host| console.json_line(host)),
        Format::Markdown => console.data(&markdown::report(report, hosts)),
        _ => console.data(&table::report(hosts)),
    }
}

/// Prints what proxies do.
fn proxies(fleet: &FleetReport, format: Format, console: &Console) -> io::Result<()> {
    match format {
        Format::Jsonl => fleet.proxies.iter().try_for_each(|proxy| console.json_line(proxy)),
        Format::Markdown => console.data(&proxy::markdown(fleet)),
        Format::Table => console.data(&proxy::table(fleet)),
        _ => console.data(&proxy::text(fleet, console.text())),
    }
}

/// Prints the evidence of a lab run.
fn lab(report: &Report, run: &LabReport, format: Format, console: &Console) -> io::Result<()> {
    match format {
        Format::Table => console.data(&evidence::table(run)),
        Format::Jsonl => run.evidence.iter().try_for_each(|cell| console.json_line(cell)),
        Format::Markdown => console.data(&evidence::markdown(report, run)),
        Format::Html => console.data(&evidence::html(report, run)),
        _ => {
            console.data(&evidence::text(run, console.text()))?;
            if evidence::is_summary(run) {
                console.note("`-o markdown` and `-o html` have the tables of every cell");
            }
            Ok(())
        }
    }
}

/// The page of a run of the lab; empty for what is something else.
pub(crate) fn html(report: &Report) -> String {
    if let Body::Lab(run) = &report.body { evidence::html(report, run) } else { String::new() }
}

/// Prints what could not be done, with its remedies, on stderr.
pub fn problems(report: &Report, console: &Console) {
    for problem in &report.problems {
        console.error(&format!("{}: {}", problem.subject, problem.message));
        console.hint(&problem.hint);
    }
}
