//! A real server as a child process: a command comes in, a running process with its log goes out. It never outlives
//! the test: dropping it kills its process group, and the kernel kills it when the test itself is killed.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::find;

/// A child in a process group of its own, its output in a file.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts `program`. The thread that calls must live as long as the child (Linux ties the parent's death to it).
    ///
    /// # Errors
    /// When the program or the log cannot be opened.
    pub fn spawn(
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let process = Command::new(find("setpriv", "util-linux")?)
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .process_group(0)
            .spawn()
            .with_context(|| program.display().to_string())?;
        Ok(Self { process, log })
    }

    /// How the child ended, or nothing while it runs.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn exited(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal to it and to what it started.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        let group = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        group.map_or(Err(rustix::io::Errno::SRCH), |group| kill_process_group(group, signal))
    }

    /// The last lines that the child printed.
    #[must_use]
    pub fn log(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].iter().fold(String::new(), |mut shown, line| {
            let _ = writeln!(shown, "  {line}");
            shown
        })
    }
}

impl Drop for Child {
    #[expect(
        clippy::print_stderr,
        reason = "the log of a child belongs to the output of the test that failed"
    )]
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("log of {}:\n{}", self.log.display(), self.log());
        }
    }
}
