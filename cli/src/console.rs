//! The only printer. Data goes to stdout or one file, talk (warnings, errors, hints, progress) to stderr. Every piece of text
//! passes [`escape`] on its way, so that a name or an answer from DNS cannot steer the terminal. Colour and progress
//! appear on a terminal only, and `NO_COLOR` is honoured.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Exit;
use crate::report::Problem;
use crate::write::Pending;

/// The two streams and how much may be said on them.
#[derive(Debug)]
pub struct Console {
    colour: bool,
    colour_talk: bool,
    quiet: bool,
    bar: ProgressBar,
    /// Instead of stdout: what is written so far, and what it will be called.
    file: Option<(Pending, PathBuf)>,
}

/// How a piece of text is meant; colour never carries a meaning that the words lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// A heading or a name.
    Strong,
    /// Supporting detail.
    Dim,
    /// A good verdict.
    Good,
    /// Something to look at.
    Warn,
    /// Something that failed.
    Bad,
}

/// Text under construction: every piece is escaped when it is added, styling comes from here alone.
#[derive(Debug, Default)]
pub struct Text {
    body: String,
    colour: bool,
}

impl Console {
    /// A console for this process. `quiet` leaves out progress and hints, never errors.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let allowed = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            colour: allowed && io::stdout().is_terminal(),
            colour_talk: allowed && io::stderr().is_terminal(),
            quiet,
            bar: ProgressBar::hidden(),
            file: None,
        }
    }

    /// Sends data to a file from now on. It is opened at once, so that a wrong path costs no waiting, and gets its name
    /// by [`Console::keep`].
    ///
    /// # Errors
    /// The folder is missing or cannot be written.
    pub fn send_to(&mut self, path: PathBuf) -> Result<(), Problem> {
        let file = Pending::open(&path).map_err(|error| unwritable(&path, &error))?;
        self.file = Some((file, path));
        self.colour = false;
        Ok(())
    }

    /// Gives the file of [`Console::send_to`] its name, where there is one, unless the run could not do its work and has
    /// nothing to show: then what is there under the name stays.
    ///
    /// # Errors
    /// The name is taken by something that is no file, or the disk is full.
    pub fn keep(&mut self, exit: Exit) -> Result<(), Problem> {
        let Some((file, path)) = self.file.take() else { return Ok(()) };
        if exit == Exit::CouldNot && file.is_empty() {
            return Ok(());
        }
        file.keep().map_err(|error| unwritable(&path, &error))
    }

    /// Empty text in this console's colours.
    #[must_use]
    pub fn text(&self) -> Text {
        Text { body: String::new(), colour: self.colour }
    }

    /// Writes data to stdout or the file. A reader that has gone away (`| head`) is no error.
    ///
    /// # Errors
    /// When it cannot be written for another reason, such as a full disk.
    pub fn data(&self, text: &str) -> io::Result<()> {
        self.write(|out| out.write_all(text.as_bytes()))
    }

    fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        if let Some((file, _)) = &self.file {
            let mut out = BufWriter::new(file.file());
            return write(&mut out).and_then(|()| out.flush());
        }
        let mut out = BufWriter::new(io::stdout().lock());
        match write(&mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Writes the text of a file to stdout: as it is where a program reads it, escaped on a terminal.
    ///
    /// # Errors
    /// As [`Console::data`].
    pub fn file(&self, text: &str) -> io::Result<()> {
        if self.file.is_none() && io::stdout().is_terminal() {
            self.data(&escape(text))
        } else {
            self.data(text)
        }
    }

    /// Writes a serialised value to stdout as JSON, indented, with every control character escaped.
    ///
    /// # Errors
    /// As [`Console::data`].
    pub fn json<T: serde::Serialize>(&self, value: &T) -> io::Result<()> {
        self.write(|out| {
            serde_json::to_writer_pretty(EscapedJson(out), value)?;
            out.write_all(b"\n")
        })
    }

    /// Writes a serialised value to stdout as one line of JSON.
    ///
    /// # Errors
    /// As [`Console::data`].
    pub fn json_line<T: serde::Serialize>(&self, value: &T) -> io::Result<()> {
        self.write(|out| {
            serde_json::to_writer(EscapedJson(out), value)?;
            out.write_all(b"\n")
        })
    }

    /// A sentence about the work, on stderr.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.say(&escape(text));
        }
    }

    /// Something that the user should look at but that does not stop the work.
    pub fn warn(&self, text: &str) {
        self.say(&format!("{}: {}", self.styled(Tone::Warn, "warning"), escape(text)));
    }

    /// Something that could not be done.
    pub fn error(&self, text: &str) {
        self.say(&format!("{}: {}", self.styled(Tone::Bad, "error"), escape(text)));
    }

    /// The remedy for the error or warning before it.
    pub fn hint(&self, text: &str) {
        self.say(&format!("  {}: {}", self.styled(Tone::Strong, "hint"), escape(text)));
    }

    /// Shows a progress bar of `total` steps, on a terminal only.
    pub fn start_progress(&mut self, total: u64) {
        if self.quiet || !io::stderr().is_terminal() {
            return;
        }
        let style = ProgressStyle::with_template("{elapsed:>4} {bar:24} {pos}/{len} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style);
        self.bar.enable_steady_tick(std::time::Duration::from_millis(200));
    }

    /// Moves the bar to `position` with a message.
    pub fn progress(&self, position: u64, message: &str) {
        self.bar.set_position(position);
        self.bar.set_message(escape(message));
    }

    /// Removes the bar.
    pub fn end_progress(&mut self) {
        std::mem::replace(&mut self.bar, ProgressBar::hidden()).finish_and_clear();
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| {
            // A closed stderr leaves nobody to tell.
            let _ = writeln!(io::stderr().lock(), "{line}");
        });
    }

    fn styled(&self, tone: Tone, word: &str) -> String {
        let mut text = Text { body: String::new(), colour: self.colour_talk };
        text.add(tone, word);
        text.body
    }
}

impl Text {
    /// Adds a piece in a tone.
    pub fn add(&mut self, tone: Tone, piece: impl std::fmt::Display) -> &mut Self {
        let piece = escape(&piece.to_string());
        let code = match tone {
            Tone::Plain => "",
            Tone::Strong => "1",
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
        };
        if self.colour && !code.is_empty() {
            let _ = write!(self.body, "\x1b[{code}m{piece}\x1b[0m");
        } else {
            self.body.push_str(&piece);
        }
        self
    }

    /// Adds a piece as it is.
    pub fn plain(&mut self, piece: impl std::fmt::Display) -> &mut Self {
        self.add(Tone::Plain, piece)
    }

    /// Ends the line.
    pub fn end(&mut self) -> &mut Self {
        self.body.truncate(self.body.trim_end_matches(' ').len());
        self.body.push('\n');
        self
    }

    /// Adds text whose lines may be long: wrapped at `width` columns, continued under its first character, which
    /// stands at column `indent`.
    pub fn wrapped(&mut self, piece: impl std::fmt::Display, indent: usize, width: usize) -> &mut Self {
        let piece = escape(&piece.to_string()).replace('\n', " ");
        let mut column = indent;
        for word in piece.split(' ').filter(|word| !word.is_empty()) {
            let length = word.chars().count();
            if column > indent && column + 1 + length > width {
                let _ = write!(self.body, "\n{:indent$}", "");
                column = indent;
            } else if column > indent {
                self.body.push(' ');
                column += 1;
            }
            self.body.push_str(word);
            column += length;
        }
        self.end()
    }

    /// The finished text.
    #[must_use]
    pub fn finish(self) -> String {
        self.body
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Problem {
    let hint = "name a file with `--output-file` in a folder that is there, can be written and has room";
    Problem::new(path.display(), format!("cannot be written: {error}"), hint)
}

/// Makes every character visible that could steer a terminal or reorder text: C0 and C1 controls other than a line
/// feed, DEL, and the bidirectional overrides (`Bidi_Control` of Unicode).
#[must_use]
pub fn escape(text: &str) -> String {
    escape_with(text, |c| c != '\n' && steers(c), |c| c.escape_default().to_string()).into_owned()
}

/// Escapes what `serde_json` leaves raw in strings: DEL, C1 controls and the bidirectional overrides. A report may be
/// long, so it is not held as a text.
struct EscapedJson<'a>(&'a mut dyn Write);

impl Write for EscapedJson<'_> {
    /// `serde_json` writes whole characters.
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if piece.iter().all(|byte| byte.is_ascii() && *byte != 0x7f) {
            return self.0.write(piece);
        }
        let text = str::from_utf8(piece).map_err(io::Error::other)?;
        let escaped = escape_with(text, |c| c > ' ' && steers(c), |c| format!("\\u{:04x}", c as u32));
        self.0.write_all(escaped.as_bytes())?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn escape_with(
    text: &str,
    unsafe_char: impl Fn(char) -> bool,
    replace: impl Fn(char) -> String,
) -> Cow<'_, str> {
    if !text.chars().any(&unsafe_char) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().fold(String::with_capacity(text.len() + 8), |mut out, c| {
        if unsafe_char(c) {
            out.push_str(&replace(c));
        } else {
            out.push(c);
        }
        out
    });
    Cow::Owned(escaped)
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        let hostile = "a\u{1b}[31mred\r\u{9b}2J\u{7f}\u{202e}b\nc";
        assert_eq!(escape(hostile), "a\\u{1b}[31mred\\r\\u{9b}2J\\u{7f}\\u{202e}b\nc");
        let mut json = Vec::new();
        serde_json::to_writer(EscapedJson(&mut json), hostile).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(json.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
    }

    #[test]
    fn long_sentences_continue_under_their_first_word() {
        let mut text = Text::default();
        text.plain("why   ").wrapped("one two three four", 6, 14);
        assert_eq!(text.finish(), "why   one two\n      three\n      four\n");
    }

    #[test]
    fn colour_comes_from_tones_alone() {
        let mut text = Text { body: String::new(), colour: true };
        text.add(Tone::Good, "DNS\u{1b}[0m").end();
        assert_eq!(text.finish(), "\x1b[32mDNS\\u{1b}[0m\x1b[0m\n");
    }
}
