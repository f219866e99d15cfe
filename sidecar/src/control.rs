//! The paths that only the pod may ask: the commands, the hook, status, preflight, metrics. Called by `public` with
//! the row of the route table.

use std::rc::Rc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, WARNING};
use hyper::{Response, StatusCode};
use serde_json::json;

use crate::drain::{Command, State};
use crate::engine::Engine;
use crate::log::log;
use crate::reply::{Reply, json_reply, plain};
use crate::routes::{Action, openapi};
use crate::status::Status;
use crate::{preflight, prestop};

/// Answers one control action.
pub(crate) async fn answer(action: Action, engine: &Rc<Engine>) -> Reply {
    match action {
        Action::Command(command) => run(command, engine).await,
        Action::Prestop => {
            let outcome = prestop::wait(engine).await;
            let status = match outcome.state {
                State::Closed => StatusCode::OK,
                State::Open | State::Fault => StatusCode::CONFLICT,
                State::Draining | State::Closing => StatusCode::GATEWAY_TIMEOUT,
            };
            json_reply(status, &outcome)
        }
        Action::Status => json_reply(StatusCode::OK, &Status::of(engine)),
        Action::Preflight => {
            let report = preflight::check(engine).await;
            let status = if report.passed { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            json_reply(status, &report)
        }
        Action::Metrics => metrics(engine),
        Action::OpenApi => json_reply(StatusCode::OK, &openapi()),
        Action::LbHealth | Action::Readiness | Action::Liveness => {
            plain(StatusCode::NOT_FOUND, "no such path\n")
        }
    }
}

async fn run(command: Command, engine: &Rc<Engine>) -> Reply {
    let from = engine.drain().state;
    if let Err(found) = engine.command(command, "command").await {
        log("warn", "command_refused", json!({"command": format!("{command:?}"), "state": found}));
        let body = json!({"error": "does not fit the state", "state": found, "hint": hint(command, found)});
        return json_reply(StatusCode::CONFLICT, &body);
    }
    let drain = engine.drain();
    let degraded = drain.listeners_drained.is_some();
    let body = json!({"from": from, "state": drain.state, "envoy_degraded": degraded});
    let mut reply = json_reply(StatusCode::OK, &body);
    if command == Command::Reopen {
        let headers = reply.headers_mut();
        if from == State::Closing {
            let text =
                r#"199 - "the load balancer may have marked this pod DOWN; it is back after rise x inter""#;
            headers.append(WARNING, HeaderValue::from_static(text));
        }
        if degraded {
            let text =
                r#"199 - "Envoy cannot undo a listener drain: it keeps closing connections until restarted""#;
            headers.append(WARNING, HeaderValue::from_static(text));
        }
    }
    reply
}

fn hint(command: Command, found: State) -> &'static str {
    match (command, found) {
        (_, State::Fault) => "FAULT is left by restarting the sidecar",
        (Command::Reopen, State::Closed) => "CLOSED cannot be undone; start a new pod",
        (Command::Drain | Command::Reopen, _) => "it is already there or on its way",
        (Command::CloseLb, _) => "POST /drain comes first",
        (Command::Close, _) => "POST /close-lb comes first",
        (Command::Fault, _) => "any state leads to FAULT",
    }
}

fn metrics(engine: &Engine) -> Reply {
    let (info, drain) = (engine.info.borrow(), engine.drain());
    let timeout_s = engine.args.drain_timeout.as_secs();
    let text = engine.metrics.borrow().render(&drain, info.as_ref(), timeout_s, engine.now());
    let mut reply = Response::new(Full::new(Bytes::from(text)));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"));
    reply
}
