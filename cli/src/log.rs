//! Log events of all members, on stderr: `-v`, `-vv` or `EGRESS_AUDIT_LOG` in, one line an event out. Warnings and errors
//! are shown without any of them. Called once by `main`, before the command.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::console::escape;
use crate::problem::Problem;

/// The variable that sets levels by module, as `info` or `labdns=debug,probes::names=trace`.
pub const VARIABLE: &str = "EGRESS_AUDIT_LOG";

/// Begins to show events; the variable goes before the flags.
///
/// # Errors
/// The variable cannot be read.
pub fn start(verbose: u8, quiet: bool) -> Result<(), Problem> {
    let given = std::env::var(VARIABLE).ok();
    let shown = levels(given.as_deref(), verbose, quiet).map_err(|error| {
        let hint =
            "write a level (error, warn, info, debug, trace), or levels by module such as `labdns=debug`";
        Problem::new(VARIABLE, error, hint)
    })?;
    let lines = layer().with_ansi(false).with_writer(|| Scrubbed(io::stderr()));
    // A process that calls commands in a row, as tests do, has one already.
    let _ = tracing_subscriber::registry().with(lines).with(shown).try_init();
    Ok(())
}

fn levels(given: Option<&str>, verbose: u8, quiet: bool) -> Result<Targets, ParseError> {
    if let Some(given) = given.filter(|given| !given.trim().is_empty()) {
        return given.parse();
    }
    let level = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, 2) => LevelFilter::DEBUG,
        (false, _) => LevelFilter::TRACE,
    };
    // What libraries say is for those who ask for it by name.
    let own = ["egress_audit", "labdns", "policies", "probes"].map(|member| (member, level));
    Ok(Targets::new().with_default(LevelFilter::ERROR.min(level)).with_targets(own))
}

/// Events hold text from DNS and from files: it is escaped on its way to a terminal.
struct Scrubbed<W>(W);

impl<W: Write> Write for Scrubbed<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(escape(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn flags_raise_the_level_of_own_modules_and_the_variable_goes_before_them() {
        let enabled = |given, verbose, target, level| {
            levels(given, verbose, false).unwrap().would_enable(target, &level)
        };
        assert!(enabled(None, 0, "labdns::zone", Level::WARN));
        assert!(!enabled(None, 0, "labdns::zone", Level::INFO));
        assert!(enabled(None, 1, "probes::names", Level::INFO));
        assert!(enabled(None, 2, "probes::names", Level::DEBUG));
        assert!(!enabled(None, 2, "hyper", Level::DEBUG));
        assert!(enabled(Some("hyper=debug"), 0, "hyper", Level::DEBUG));
        assert!(!enabled(Some("hyper=debug"), 2, "labdns", Level::INFO));
        assert!(levels(Some("labdns=loud"), 0, false).is_err());
        let quiet = levels(None, 2, true).unwrap();
        assert!(!quiet.would_enable("labdns", &Level::WARN) && quiet.would_enable("labdns", &Level::ERROR));
    }

    #[test]
    fn an_event_does_not_steer_the_terminal() {
        let mut written = Vec::new();
        Scrubbed(&mut written).write_all("WARN a\u{1b}[31m\u{202e}b\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "WARN a\\u{1b}[31m\\u{202e}b\n");
    }
}
