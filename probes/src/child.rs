//! A program run by the lab: a command comes in, a process with its log in a file goes out. It never outlives the
//! lab, and its own pid is known, so that it can be stopped, continued and ended like a container. Used by `haproxy`
//! and `ingress`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;

pub use rustix::process::Signal;

/// Runs `"$@"` until it ends or until the pipe on stdin closes, which it does however the lab ends.
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
    /// Starts `program`; what it prints goes to `log`.
    ///
    /// # Errors
    /// The log cannot be written or the shell cannot be started. A program that cannot be run ends at once.
    pub fn start(
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
        log: PathBuf,
    ) -> io::Result<Self> {
        // Appended: a program that is started again goes on where it stopped.
        let output = File::options().create(true).append(true).open(&log)?;
        let pid_file = log.with_extension("pid");
        let _ = std::fs::remove_file(&pid_file);
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "egress-audit-watchdog"])
            .arg(program)
            .args(args)
            .env("CHILD_PID_FILE", &pid_file)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C in the terminal is for the lab, which tears down in its own order.
            .process_group(0)
            .spawn()?;
        let pipe = watchdog.stdin.take();
        Ok(Self { watchdog, pipe, log, pid_file })
    }

    /// Sends a signal to the program itself.
    ///
    /// # Errors
    /// It is not there.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let text = std::fs::read_to_string(&self.pid_file)?;
        let pid = text.trim().parse().ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        Ok(kill_process(pid, signal)?)
    }

    /// Whether it still runs.
    pub fn running(&mut self) -> bool {
        matches!(self.watchdog.try_wait(), Ok(None))
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
