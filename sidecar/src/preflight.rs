//! Whether a drain would work, found out before it is needed: [`check`] in the running sidecar, [`run`] as the
//! subcommand that prints it. A check that fails means requests would be cut or the drain would run to its limit; one
//! that warns means that a wait ends by time instead of by a word.

use std::io::Write;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client;
use crate::config::ClientArgs;
use crate::count::Reading;
use crate::drain::{Order, Third};
use crate::engine::Engine;
use crate::envoy::ServerInfo;
use crate::log::{chain, log};

/// All checks of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) passed: bool,
    checks: Vec<Check>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Check {
    name: String,
    verdict: Verdict,
    found: String,
    /// What to do, where something is to be done.
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// Asks Envoy now and looks at what the load balancers have sent so far.
pub(crate) async fn check(engine: &Rc<Engine>) -> Report {
    let reading = engine.read_now().await;
    let info = engine.envoy.server_info().await.ok();
    let checks = vec![
        gauges(&reading),
        drain_settings(info.as_ref(), engine.args.drain_timeout.as_secs()),
        load_balancer(engine),
        third_answer(engine),
        state_file(engine).await,
        settings(engine),
        control(engine),
    ];
    Report { passed: checks.iter().all(|check| check.verdict != Verdict::Fail), checks }
}

fn gauges(reading: &Reading) -> Check {
    let (verdict, found, hint) = match reading {
        Reading::Known(active) if active.unlinked => {
            return gauges(&Reading::Unknown(Reading::LISTENER_LINK_MISSING));
        }
        Reading::Known(active) => (Verdict::Ok, active.summed.join(" "), None),
        Reading::Unknown(why @ (Reading::STAT_MISSING | Reading::LISTENER_STAT_MISSING)) => (
            Verdict::Fail,
            (*why).to_owned(),
            Some(
                "let Envoy report downstream_rq_active and downstream_cx_active: in Istio the annotation \
                 proxy.istio.io/config with proxyStatsMatcher.inclusionRegexps; or --ignore-tcp",
            ),
        ),
        Reading::Unknown(why @ Reading::LISTENER_LINK_MISSING) => (
            Verdict::Fail,
            (*why).to_owned(),
            Some(
                "EXCLUDE_LISTENERS leaves out a listener whose HTTP connections cannot be told from TCP sessions: let \
                 Envoy report listener\\..*\\.http\\..*\\.downstream_rq_completed too",
            ),
        ),
        Reading::Unknown(why @ Reading::DATA_REFUSED) => (
            Verdict::Fail,
            (*why).to_owned(),
            Some("nobody listens at --data: has Envoy its listeners, and is it the right port?"),
        ),
        Reading::Unknown(why) => {
            (Verdict::Fail, (*why).to_owned(), Some("is --admin the address of this pod's Envoy admin?"))
        }
    };
    Check::new("envoy_gauges", verdict, found, hint)
}

fn drain_settings(info: Option<&ServerInfo>, timeout_s: u64) -> Check {
    let name = "envoy_drain_settings";
    let Some(info) = info else {
        return Check::new(name, Verdict::Fail, "no server_info".to_owned(), None);
    };
    let found = format!("drain_strategy {} drain_time {} s", info.drain_strategy, info.drain_time_s);
    if info.drains_within(timeout_s) {
        return Check::new(name, Verdict::Ok, found, None);
    }
    // Gradual means that an answer carries `Connection: close` with a chance of elapsed / drain time only.
    let hint =
        "start Envoy with --drain-strategy immediate and a --drain-time-s of at least the drain timeout";
    Check::new(name, Verdict::Warn, found, Some(hint))
}

fn load_balancer(engine: &Engine) -> Check {
    let drain = engine.drain();
    let seen: Vec<String> = drain
        .lb
        .probers
        .iter()
        .map(|prober| match prober.interval_ms {
            Some(interval) => format!("{} every {interval} ms", prober.ip),
            None => format!("{} once", prober.ip),
        })
        .collect();
    if drain.lb.silent(engine.now()) {
        let hint = "no load balancer checks /health_check.html; waits will end by --lb-buffer";
        return Check::new("load_balancer", Verdict::Warn, "not probing".to_owned(), Some(hint));
    }
    let late = drain.lb.probers.iter().filter(|prober| prober.slower_than(engine.rules.lb_buffer));
    let worst = late.max_by_key(|prober| prober.interval_ms);
    let Some(interval) = worst.and_then(|prober| prober.interval_ms) else {
        return Check::new("load_balancer", Verdict::Ok, seen.join(", "), None);
    };
    let found = format!(
        "checked every {interval} ms, but LB_BUFFER is {} ms: the pod ends before it is marked DOWN",
        engine.rules.lb_buffer
    );
    let hint = format!("run `drain-sidecar plan --inter {interval}ms` and set what it prints");
    Check::new("load_balancer", Verdict::Fail, found, Some(&hint))
}

/// Settings that undo the drain without a word.
fn settings(engine: &Engine) -> Check {
    let doubts = engine.args.doubts();
    if doubts.is_empty() {
        return Check::new("settings", Verdict::Ok, "none undoes the drain".to_owned(), None);
    }
    let (found, hints): (Vec<_>, Vec<_>) = doubts.into_iter().unzip();
    Check::new("settings", Verdict::Fail, found.join("; "), Some(&hints.join("; ")))
}

fn third_answer(engine: &Engine) -> Check {
    let name = "third_answer";
    let words: Vec<_> = engine.drain().lb.probers.iter().filter_map(|prober| prober.word).collect();
    let found =
        format!("order {}, load balancers that send their state: {}", engine.rules.order.name(), words.len());
    let hint = match (engine.rules.order, engine.rules.third) {
        (Order::FailFirst, _) => Some("fail-first cuts what runs; it is for comparison only"),
        (Order::WaitThenFail, _) | (_, Third::Off) => {
            Some("without a third answer new requests come until the 503, and some of them are cut")
        }
        (_, Third::SelfChecked) if words.is_empty() => Some(
            "no load balancer sends X-Haproxy-Server-State: add http-check send-state, or set --lb-drain-status",
        ),
        _ => None,
    };
    Check::new(name, if hint.is_some() { Verdict::Warn } else { Verdict::Ok }, found, hint)
}

async fn state_file(engine: &Rc<Engine>) -> Check {
    let name = "state_file";
    let failed = if engine.args.state_file.is_some() { engine.save_now().await } else { None };
    match (&engine.args.state_file, failed) {
        (None, _) => {
            let hint = "a restart of this container forgets a drain; set --state-file on an emptyDir volume";
            Check::new(name, Verdict::Warn, "off".to_owned(), Some(hint))
        }
        (Some(path), None) => Check::new(name, Verdict::Ok, path.display().to_string(), None),
        (Some(_), Some(error)) => {
            let hint = "is its folder there, writable and not full? A restart would forget the drain";
            Check::new(name, Verdict::Fail, error, Some(hint))
        }
    }
}

fn control(engine: &Engine) -> Check {
    if engine.args.control_on_public {
        let hint = "anyone who reaches the health port can drain this pod; leave out --control-on-public";
        return Check::new("control", Verdict::Warn, "on the public port".to_owned(), Some(hint));
    }
    Check::new("control", Verdict::Ok, "apart from the public port".to_owned(), None)
}

impl Check {
    fn new(name: &str, verdict: Verdict, found: String, hint: Option<&str>) -> Self {
        Self { name: name.to_owned(), verdict, found, hint: hint.map(str::to_owned) }
    }
}

/// The subcommand: a table on standard output, failure if a check failed.
pub(crate) async fn run(args: &ClientArgs) -> ExitCode {
    let asked = client::ask(&args.url, Method::GET, "/drain/preflight", Duration::from_secs(10)).await;
    let report = match asked {
        Ok((StatusCode::NOT_FOUND, _)) => Err("this is the public listener".to_owned()),
        Ok((_, body)) => serde_json::from_slice::<Report>(&body).map_err(|error| error.to_string()),
        Err(error) => Err(chain(&error)),
    };
    match report {
        Ok(report) => {
            // A reader that has gone needs no table.
            let _ = std::io::stdout().write_all(table(&report).as_bytes());
            ExitCode::from(u8::from(!report.passed))
        }
        Err(error) => {
            let hint = "is `drain-sidecar serve` running, and is --url its control listener?";
            log("error", "preflight_failed", json!({"error": error, "hint": hint}));
            ExitCode::from(2)
        }
    }
}

fn table(report: &Report) -> String {
    report.checks.iter().map(row).collect()
}

fn row(check: &Check) -> String {
    let verdict = match check.verdict {
        Verdict::Ok => "ok",
        Verdict::Warn => "warn",
        Verdict::Fail => "FAIL",
    };
    let hint = check.hint.as_ref().map_or_else(String::new, |hint| format!("      hint: {hint}\n"));
    format!("{verdict:<5} {:<21} {}\n{hint}", check.name, check.found)
}
