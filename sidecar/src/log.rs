//! The log: one event, one line of JSON on standard error, written in one call. Everything that is said goes through
//! here; text from the network is escaped by the encoder.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

/// Writes one line: `ts_ms`, `level`, `event`, then `fields` (an object).
pub(crate) fn log(level: &str, event: &str, fields: Value) {
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
    // A log that cannot be written must not stop a drain.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
