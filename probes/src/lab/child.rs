//! A program run by the lab: a command comes in, a process with its log in a file goes out. It never outlives the
//! lab, and its own pid is known, so that it can be stopped, continued and ended like a container. Used by `envoy`,
//! `haproxy` and `ingress`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;

pub use rustix::process::Signal;

/// Runs `"$@"` until it ends or until the pipe on stdin closes, which it does however the lab ends, SIGKILL included.
/// Only then is the child killed: a process cannot ask its parent's death signal to outlive the parent without
/// `unsafe`, and macOS has no such signal.
const WATCHDOG: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- & child=$!
echo "$child" >"$CHILD_PID_FILE"
( exec >/dev/null 2>&1; read -r line <&3; kill -9 "$child" ) & watch=$!
exec 3<&-
wait "$child"; code=$?
kill "$watch" 2>/dev/null
exit "$code"
"#;

/// A running program.
#[derive(Debug)]
pub struct Child {
    watchdog: tokio::process::Child,
    // Closing it is the order to kill.
    pipe: Option<ChildStdin>,
    log: PathBuf,
    pid_file: PathBuf,
}

impl Child {
    /// Starts `program`; what it prints goes to `log`, which is appended to.
    ///
    /// # Errors
    /// The log cannot be written or the shell cannot be started. A program that cannot be run ends at once.
    pub fn start(
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        log: PathBuf,
    ) -> io::Result<Self> {
        let output = append(&log)?;
        Self::spawn(program, args, output, log)
    }

    /// [`Child::start`] with a file of its own for what it prints on stdout.
    ///
    /// # Errors
    /// As [`Child::start`].
    pub fn start_apart(
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        stdout: &Path,
        log: PathBuf,
    ) -> io::Result<Self> {
        Self::spawn(program, args, append(stdout)?, log)
    }

    fn spawn(
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        stdout: File,
        log: PathBuf,
    ) -> io::Result<Self> {
        let pid_file = log.with_extension("pid");
        let _ = std::fs::remove_file(&pid_file);
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "egress-audit-watchdog"])
            .arg(program)
            .args(args)
            .env("CHILD_PID_FILE", &pid_file)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(append(&log)?)
            // Ctrl-C in the terminal is for the lab, which tears down in its own order.
            .process_group(0)
            .spawn()?;
        let pipe = watchdog.stdin.take();
        Ok(Self { watchdog, pipe, log, pid_file })
    }

    /// The program's own process id, once the shell has started it.
    ///
    /// # Errors
    /// It is not known yet.
    pub fn pid(&self) -> io::Result<Pid> {
        let text = std::fs::read_to_string(&self.pid_file)?;
        Ok(text.trim().parse().ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?)
    }

    /// Sends a signal to the program itself.
    ///
    /// # Errors
    /// It is not there.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(self.pid()?, signal)?)
    }

    /// Whether it still runs.
    pub fn running(&mut self) -> bool {
        matches!(self.watchdog.try_wait(), Ok(None))
    }

    /// How it ended, or nothing while it runs. A signal is an exit code beyond 128, as shells have it.
    ///
    /// # Errors
    /// The system does not say.
    pub fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.watchdog.try_wait()
    }

    /// Waits until it has ended by itself; whether it did within `limit`.
    pub async fn ended(&mut self, limit: Duration) -> bool {
        timeout(limit, self.watchdog.wait()).await.is_ok()
    }

    /// Kills it and waits until it is gone.
    pub async fn kill(&mut self) {
        self.pipe = None;
        let _ = timeout(Duration::from_secs(5), self.watchdog.wait()).await;
    }

    /// Everything it has printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

impl Drop for Child {
    /// Dead when this returns, so that it writes nothing into a folder that is removed next.
    fn drop(&mut self) {
        if self.running() {
            let _ = self.signal(Signal::KILL);
        }
    }
}

/// A program that is started again goes on where it stopped.
fn append(log: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(log)
}
