//! The preStop hook, both halves: [`wait`] in the running sidecar (starts or joins the drain, bounded) and [`run`],
//! the subcommand that asks for it from another container. The hook may be delivered twice or asked again after a
//! restart of the sidecar; all askers wait for the same drain.

use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::client::{self, ClientError};
use crate::config::ClientArgs;
use crate::drain::{Command, State};
use crate::engine::Engine;
use crate::log::{chain, log};

/// Beyond the drain's own deadline, for the answer to travel.
const SLACK: Duration = Duration::from_secs(2);

/// How long a sidecar that does not answer is given to come back.
const RESTART_PATIENCE: Duration = Duration::from_secs(15);

/// No drain is longer; the subcommand does not know the sidecar's settings.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

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

/// The subcommand. Success only if the pod is out.
pub(crate) async fn run(args: &ClientArgs) -> ExitCode {
    let mut missed: Option<Instant> = None;
    loop {
        let error = match client::ask(&args.url, Method::GET, "/prestop", LONGEST).await {
            Ok((status, body)) => return finish(status, &body),
            Err(error) => error,
        };
        let since = *missed.get_or_insert_with(Instant::now);
        // A connection that broke is a sidecar that was restarted: its patience begins anew.
        if !matches!(error, ClientError::Refused) {
            missed = Some(Instant::now());
        }
        if since.elapsed() > RESTART_PATIENCE {
            let hint = "is `drain-sidecar serve` running, and is --url its control listener?";
            log("error", "prestop_failed", json!({"error": chain(&error), "hint": hint}));
            return ExitCode::from(2);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
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
