//! A finished report in, words out. Renderers choose words; what they print was counted and judged before.

mod audit;
pub mod events;
pub(crate) mod evidence;
mod markdown;
mod proxy;
pub(crate) mod table;
mod text;
mod words;

use std::io;

pub use audit::audit;

use crate::args::{AuditFormat, Format};
use crate::console::Console;
use crate::exit::Exit;
use crate::report::Report;

/// Most names that are explained one by one where a table was not asked for.
const EXPLAINED: usize = 5;

/// Prints a report in the form asked for, and its problems on stderr.
///
/// # Errors
/// When stdout cannot be written.
pub fn report(report: &Report, format: Format, console: &Console) -> io::Result<()> {
    if report.audit.is_some() {
        return audit(report, audit_form(format), console);
    }
    if !report.evidence.is_empty() {
        return lab(report, format, console);
    }
    if !report.proxies.is_empty() {
        return proxies(report, format, console);
    }
    match format {
        Format::Text if report.hosts.len() <= EXPLAINED => {
            console.data(&text::report(report, console.text()))?;
        }
        Format::Text | Format::Table => console.data(&table::report(report))?,
        Format::Json => console.json(report)?,
        Format::Jsonl => report.hosts.iter().try_for_each(|host| console.json_line(host))?,
        Format::Markdown | Format::Html => console.data(&markdown::report(report))?,
    }
    if format == Format::Html {
        console.note("only runs of the lab have a page; this is Markdown");
    }
    problems(report, console);
    if format == Format::Text && report.hosts.len() > EXPLAINED {
        console.note("name fewer hosts, or use `-o markdown` or `-o json`, for the reasons behind each row");
    }
    Ok(())
}

/// The form of an audit that comes closest.
fn audit_form(format: Format) -> AuditFormat {
    match format {
        Format::Json | Format::Jsonl => AuditFormat::Json,
        Format::Markdown | Format::Html => AuditFormat::Markdown,
        Format::Text | Format::Table => AuditFormat::Text,
    }
}

/// Prints what proxies do.
fn proxies(report: &Report, format: Format, console: &Console) -> io::Result<()> {
    match format {
        Format::Text => console.data(&proxy::text(report, console.text()))?,
        Format::Json => console.json(report)?,
        Format::Jsonl => report.proxies.iter().try_for_each(|proxy| console.json_line(proxy))?,
        Format::Table | Format::Markdown | Format::Html => console.data(&proxy::fleet(report))?,
    }
    problems(report, console);
    Ok(())
}

/// Prints the evidence of a lab run.
fn lab(report: &Report, format: Format, console: &Console) -> io::Result<()> {
    match format {
        Format::Text | Format::Table => {
            console.data(&evidence::text(report, console.text()))?;
            if evidence::is_summary(report) {
                console.note("`-o markdown` and `-o html` have the tables of every cell");
            }
        }
        Format::Json => console.json(report)?,
        Format::Jsonl => report.evidence.iter().try_for_each(|cell| console.json_line(cell))?,
        Format::Markdown => console.data(&evidence::markdown(report))?,
        Format::Html => console.data(&evidence::html(report))?,
    }
    Ok(())
}

/// Prints what could not be done, with its remedies, on stderr.
pub fn problems(report: &Report, console: &Console) {
    for problem in &report.problems {
        console.error(&format!("{}: {}", problem.subject, problem.message));
        console.hint(&problem.hint);
    }
}

/// The exit code that a report stands for.
#[must_use]
pub fn exit(report: &Report) -> Exit {
    let done = if report.problems.is_empty() { Exit::Clean } else { Exit::CouldNot };
    done.and(evidence::exit(report))
}
