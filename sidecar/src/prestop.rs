//! The preStop hook, both halves: [`wait`] in the running sidecar (starts or joins the drain, bounded) and [`run`],
//! the subcommand that asks for it from another container. The hook may be delivered twice or asked again after a
//! restart of the sidecar; all askers wait for the same drain.

use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::client;
use crate::config::ClientArgs;
use crate::drain::{Command, State};
use crate::engine::Engine;
use crate::log::{chain, log};

/// Beyond the drain's own deadline, for the answer to travel.
const SLACK: Duration = Duration::from_secs(2);

/// How long a sidecar that does not answer is given to come back.
const RESTART_PATIENCE: Duration = Duration::from_secs(15);

/// How long a sidecar may take to say where it stands.
const ANSWER: Duration = Duration::from_secs(5);

/// How the wait ended.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) state: State,
    waited_ms: u64,
    forced: bool,
    remaining: Option<u64>,
}

/// Starts the drain unless one runs, and returns when it is CLOSED, was undone, or its deadline has passed.
pub(crate) async fn wait(engine: &Rc<Engine>) -> Outcome {
    let asked = engine.now();
    // Refused means that a drain runs already: it is joined.
    let _ = engine.command(Command::Drain, "prestop").await;
    let left = engine.drain().deadline(&engine.rules).map_or(0, |end| end.saturating_sub(engine.now()));
    let mut state = engine.state.subscribe();
    let over = state.wait_for(|state| !matches!(state, State::Draining | State::Closing));
    let _ = tokio::time::timeout(Duration::from_millis(left) + SLACK, over).await;
    let drain = engine.drain();
    Outcome {
        state: drain.state,
        waited_ms: engine.now().saturating_sub(asked),
        forced: drain.forced,
        remaining: drain.remaining,
    }
}

/// The subcommand. Success only if the pod is out. It has an end of its own whatever listens at the other side: it
/// first asks how long a drain may take, and a sidecar that stays away is given up.
pub(crate) async fn run(args: &ClientArgs) -> ExitCode {
    let mut heard = Instant::now();
    let mut end: Option<Instant> = None;
    loop {
        let error = match longest(args).await {
            Ok(longest) => {
                heard = Instant::now();
                // A restarted sidecar takes up its drain, so the end does not start again.
                let end = *end.get_or_insert(heard + longest + SLACK);
                let left = end.saturating_duration_since(heard).max(SLACK) + SLACK;
                match client::ask(&args.url, Method::GET, "/prestop", left).await {
                    Ok((status, body)) => return finish(status, &body),
                    Err(error) => chain(&error),
                }
            }
            Err(Asked::NotHere(status)) => return finish(status, b""),
            Err(Asked::Failed(error)) => error,
        };
        if heard.elapsed() > RESTART_PATIENCE || end.is_some_and(|end| Instant::now() > end + SLACK) {
            let hint = "is `drain-sidecar serve` running, and is --url its control listener?";
            log("error", "prestop_failed", json!({"error": error, "hint": hint}));
            return ExitCode::from(2);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

enum Asked {
    NotHere(StatusCode),
    Failed(String),
}

/// The longest time that a drain of this sidecar takes from its beginning.
async fn longest(args: &ClientArgs) -> Result<Duration, Asked> {
    let asked = client::ask(&args.url, Method::GET, "/drain/status", ANSWER).await;
    match asked.map_err(|error| Asked::Failed(chain(&error)))? {
        (StatusCode::OK, body) => {
            let status: Value =
                serde_json::from_slice(&body).map_err(|error| Asked::Failed(error.to_string()))?;
            let longest = status["progress"]["longest_ms"].as_u64();
            longest.map(Duration::from_millis).ok_or_else(|| Asked::Failed("not a drain sidecar".to_owned()))
        }
        (status @ StatusCode::NOT_FOUND, _) => Err(Asked::NotHere(status)),
        (status, _) => Err(Asked::Failed(format!("status {status}"))),
    }
}

fn finish(status: StatusCode, body: &[u8]) -> ExitCode {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let (level, event, code) = match status {
        StatusCode::OK => ("info", "prestop_done", 0),
        StatusCode::NOT_FOUND => ("error", "prestop_not_served_here", 2),
        _ => ("error", "prestop_failed", 1),
    };
    let hint = (code == 2).then_some("--url must be the control listener, not the public one");
    log(level, event, json!({"status": status.as_u16(), "answer": answer, "hint": hint}));
    ExitCode::from(code)
}
