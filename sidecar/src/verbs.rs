//! `drain-sidecar status | drain | reopen | close`: the runbook's steps as commands, over the control listener. Each
//! prints what the sidecar says, as text or as its JSON. Exit code 1 means that the command does not fit the state.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client;
use crate::config::{Output, VerbArgs};
use crate::log::{chain, log};

const LIMIT: Duration = Duration::from_secs(10);

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Drain,
    Reopen,
    Close,
}

impl Verb {
    /// The paths to try, the next one where the one before does not fit the state.
    fn paths(self) -> &'static [&'static str] {
        match self {
            Self::Drain => &["/drain"],
            Self::Reopen => &["/reopen"],
            Self::Close => &["/close-lb", "/close"],
        }
    }
}

/// `status`.
pub(crate) async fn status(args: &VerbArgs) -> ExitCode {
    match ask(args, Method::GET, "/drain/status").await {
        Ok((StatusCode::OK, body)) => {
            print(args, &body, text);
            ExitCode::SUCCESS
        }
        Ok((status, _)) => failed(&format!("the sidecar answered {status}")),
        Err(error) => failed(&error),
    }
}

/// The others.
pub(crate) async fn command(verb: Verb, args: &VerbArgs) -> ExitCode {
    let mut last = None;
    for path in verb.paths() {
        match ask(args, Method::POST, path).await {
            Ok((StatusCode::OK, body)) => {
                print(args, &body, moved);
                return ExitCode::SUCCESS;
            }
            Ok((StatusCode::CONFLICT, body)) => last = Some(body),
            Ok((status, _)) => return failed(&format!("the sidecar answered {status}")),
            Err(error) => return failed(&error),
        }
    }
    print(args, &last.unwrap_or_default(), refused);
    ExitCode::FAILURE
}

async fn ask(args: &VerbArgs, method: Method, path: &str) -> Result<(StatusCode, Bytes), String> {
    match client::ask(&args.client.url, method, path, LIMIT).await {
        Ok((StatusCode::NOT_FOUND, _)) => Err("this is not the control listener".to_owned()),
        Ok(answer) => Ok(answer),
        Err(error) => Err(chain(&error)),
    }
}

fn failed(error: &str) -> ExitCode {
    let hint = "is `drain-sidecar serve` running, and is --url its control listener?";
    log("error", "not_answered", json!({"error": error, "hint": hint}));
    ExitCode::from(2)
}

fn print(args: &VerbArgs, body: &[u8], words: fn(&Value) -> String) {
    let out = match args.output {
        Output::Json => format!("{}\n", String::from_utf8_lossy(body)),
        Output::Text => words(&serde_json::from_slice(body).unwrap_or_default()),
    };
    // A reader that has gone needs no answer.
    let _ = std::io::stdout().write_all(out.as_bytes());
}

fn moved(answer: &Value) -> String {
    let note = if answer["envoy_degraded"] == true {
        "Envoy's listeners are drained: it goes on closing connections until it is restarted\n"
    } else {
        ""
    };
    format!("{} -> {}\n{note}", word(&answer["from"]), word(&answer["state"]))
}

fn refused(answer: &Value) -> String {
    format!("does not fit the state {}: {}\n", word(&answer["state"]), word(&answer["hint"]))
}

/// The status, a line for each thing that is known.
fn text(status: &Value) -> String {
    let mut text = String::new();
    // Writing to a String does not fail, here and below.
    let mut row = |name: &str, said: String| {
        let _ = writeln!(text, "{name:<10} {said}");
    };
    let (progress, active, lb) = (&status["progress"], &status["active"], &status["lb"]);
    let ready = if status["ready"] == true { "ready" } else { "not ready" };
    row("state", format!("{}, {ready}, order {}", word(&status["state"]), word(&progress["order"])));
    let counts: Vec<String> = ["http", "h2", "websocket", "tcp"]
        .into_iter()
        .filter_map(|kind| Some(format!("{kind} {}", active[kind].as_u64()?)))
        .collect();
    let read = match (active["error"].as_str(), active["age_ms"].as_u64()) {
        (Some(error), _) => format!("{} ({error})", word(&active["stats"])),
        (None, Some(age)) => format!("read {age} ms ago"),
        (None, None) => word(&active["stats"]).to_owned(),
    };
    row("requests", format!("{}{}{read}", counts.join(", "), if counts.is_empty() { "" } else { "; " }));
    for prober in lb["probers"].as_array().into_iter().flatten() {
        let interval =
            prober["interval_ms"].as_u64().map_or_else(String::new, |ms| format!(", every {ms} ms"));
        let said = prober["word"].as_str().unwrap_or("sends no state");
        let taken_back = if prober["refused"] == true { ", took \"no new work\" for a failure" } else { "" };
        let name = format!("{} {} {}", word(&prober["ip"]), word(&prober["node"]), word(&prober["server"]));
        row("balancer", format!("{}: {said}{interval}{taken_back}", escaped(name.trim())));
    }
    if lb["lb_probe_seen"] != true {
        row("balancer", "none checks the health port; waits end by LB_BUFFER".to_owned());
    }
    if let (Some(started), Some(deadline)) =
        (progress["started_ms"].as_u64(), progress["deadline_ms"].as_u64())
    {
        row("deadline", format!("{} s after the drain began", deadline.saturating_sub(started) / 1000));
    }
    if progress["forced"] == true {
        row("forced", "the time limit ended the drain".to_owned());
    }
    if let Some(left) = progress["remaining"].as_u64() {
        row("left", format!("{left} requests when the 503 went out"));
    }
    if status["envoy"]["reversible"] == false {
        row("envoy", "its listeners are drained, which it cannot undo".to_owned());
    }
    row("state file", word(&progress["state_file"]).to_owned());
    text
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Names come from the network.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_is_waited_for_and_cannot_move_a_terminal() {
        let status = json!({
            "ready": true, "state": "DRAINING",
            "progress": {"order": "no-new-work", "started_ms": 1_000, "deadline_ms": 131_000, "state_file": "ok"},
            "active": {"stats": "ok", "http": 3, "h2": 0, "websocket": 1, "tcp": null, "age_ms": 40},
            "lb": {"lb_probe_seen": true, "probers": [
                {"ip": "10.0.0.1", "node": "lb\u{1b}[2J", "server": "igw/a", "word": "nolb", "interval_ms": 2_000},
            ]},
            "envoy": {"reversible": false},
        });
        let text = text(&status);
        for line in [
            "state      DRAINING, ready, order no-new-work\n",
            "requests   http 3, h2 0, websocket 1; read 40 ms ago\n",
            "balancer   10.0.0.1 lb\\u{1b}[2J igw/a: nolb, every 2000 ms\n",
            "deadline   130 s after the drain began\n",
            "envoy      its listeners are drained, which it cannot undo\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert!(!text.contains("forced") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn answers_of_another_server_are_no_panic() {
        for odd in [json!(null), json!([1]), json!({"lb": {"probers": [1, null]}})] {
            let _ = (text(&odd), moved(&odd), refused(&odd));
        }
    }
}
