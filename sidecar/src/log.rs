//! The log: one event, one line of JSON on standard error, written in one call. Everything that is said goes through
//! here; text from the network is escaped by the encoder. A thread of its own writes, because a pipe that nobody reads
//! would hold up whoever writes into it; what does not fit into its queue is counted and dropped.

use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// Lines that wait for a reader; the oldest of a burst are the ones that tell.
const QUEUE: usize = 256;

static DROPPED: AtomicU64 = AtomicU64::new(0);
static WRITER: LazyLock<Option<SyncSender<Line>>> = LazyLock::new(|| {
    let (sender, lines) = sync_channel(QUEUE);
    let thread = std::thread::Builder::new().name("log".to_owned()).stack_size(64 * 1024);
    thread.spawn(move || write(&lines)).ok().map(|_| sender)
});

enum Line {
    Text(String),
    /// Whoever sent this wants to know that all before it is out.
    Flush(SyncSender<()>),
}

/// Writes one line: `ts_ms`, `level`, `event`, then `fields` (an object). Never waits.
pub(crate) fn log(level: &str, event: &str, fields: Value) {
    let text = line(level, event, fields);
    let sent = WRITER.as_ref().map(|writer| writer.try_send(Line::Text(text)));
    if !matches!(sent, Some(Ok(()))) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lines that nobody took.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Waits until everything is written, at most `limit`: before the process ends.
pub(crate) fn flush(limit: Duration) {
    let Some(writer) = WRITER.as_ref() else { return };
    let deadline = Instant::now() + limit;
    let (done, written) = sync_channel(1);
    let mut flush = Line::Flush(done);
    while let Err(TrySendError::Full(back)) = writer.try_send(flush) {
        if Instant::now() >= deadline {
            return;
        }
        flush = back;
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
}

fn write(lines: &Receiver<Line>) {
    let mut told = 0;
    while let Ok(next) = lines.recv() {
        let mut text = match next {
            Line::Text(text) => text,
            Line::Flush(done) => {
                let _ = done.send(());
                continue;
            }
        };
        let dropped = dropped();
        if dropped > told {
            text += &line("warn", "log_lines_dropped", json!({"lines": dropped - told}));
            told = dropped;
        }
        // A log that cannot be written must not stop a drain.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

fn line(level: &str, event: &str, fields: Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut line = Map::new();
    line.insert("ts_ms".to_owned(), u64::try_from(now.as_millis()).unwrap_or_default().into());
    line.insert("level".to_owned(), level.into());
    line.insert("event".to_owned(), event.into());
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    let mut text = Value::Object(line).to_string();
    text.push('\n');
    text
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
