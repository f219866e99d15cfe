//! `drain-sidecar plan`: from the longest requests and the load balancer's check, the grace period and the timeouts,
//! each with its reason. Pure arithmetic in [`plan`]; [`run`] reads the p99 (given, or out of Envoy's own histogram)
//! and prints the fields for the manifest.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hyper::{Method, StatusCode};
use serde_json::json;

use crate::address::Target;
use crate::client;
use crate::config::duration;
use crate::log::{chain, log};

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// 99th percentile of the request time.
    #[arg(long, value_parser = duration, required_unless_present_any = ["histogram", "admin"])]
    p99: Option<Duration>,

    /// A saved answer of Envoy's `/stats?filter=downstream_rq_time`.
    #[arg(long, conflicts_with = "p99")]
    histogram: Option<PathBuf>,

    /// Ask this Envoy for its histogram.
    #[arg(long, conflicts_with_all = ["p99", "histogram"])]
    admin: Option<Target>,

    /// Time between two checks of the load balancer.
    #[arg(long, default_value = "2s", value_parser = duration)]
    inter: Duration,

    /// Failed checks until DOWN.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    fall: u32,

    /// Good checks until UP.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    rise: u32,

    /// How many times the p99 the longest request may take.
    #[arg(long, default_value_t = 2.0)]
    factor: f64,
}

/// Whole seconds, as the manifest wants them.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    drain_timeout: u64,
    lb_buffer: u64,
    grace: u64,
    /// Until a reopened pod gets traffic again.
    rise: u64,
}

/// Why there is no p99.
#[derive(Debug, thiserror::Error)]
enum PlanError {
    #[error("cannot read the histogram file")]
    File(#[source] std::io::Error),
    #[error("Envoy's admin does not answer")]
    Admin(#[source] client::ClientError),
    #[error("Envoy's admin answered {0}")]
    Status(StatusCode),
    #[error("no downstream_rq_time with recorded values in it")]
    NoValues,
}

fn plan(p99: Duration, args: &PlanArgs) -> Plan {
    let up = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
    // "No new work" is answered at the next check and acknowledged with the one after.
    let word = args.inter * 2;
    // Down after `fall` checks, of which the first may be one interval away; one more for a check that is late.
    let lb_buffer = up(args.inter * (args.fall + 1)).max(up(word));
    let drain_timeout = up(p99.mul_f64(args.factor.max(1.0)) + word);
    // The wait for "no new work" is part of the drain; the one for DOWN comes after it, then the hook's answer.
    Plan { drain_timeout, lb_buffer, grace: drain_timeout + lb_buffer + 10, rise: up(args.inter * args.rise) }
}

/// The subcommand.
pub(crate) async fn run(args: &PlanArgs) -> ExitCode {
    match p99(args).await {
        Ok(p99) => {
            let _ = std::io::stdout().write_all(print(&plan(p99, args), p99, args).as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let hint = "give --p99 from your own measurements (access log, APM)";
            log("error", "plan_failed", json!({"error": chain(&error), "hint": hint}));
            ExitCode::from(2)
        }
    }
}

async fn p99(args: &PlanArgs) -> Result<Duration, PlanError> {
    let text = match (args.p99, &args.histogram, &args.admin) {
        (Some(p99), _, _) => return Ok(p99),
        (None, Some(path), _) => fs::read_to_string(path).map_err(PlanError::File)?,
        (None, None, Some(admin)) => {
            let path = "/stats?filter=downstream_rq_time%24";
            match client::ask(admin, Method::GET, path, Duration::from_secs(5))
                .await
                .map_err(PlanError::Admin)?
            {
                (StatusCode::OK, body) => String::from_utf8_lossy(&body).into_owned(),
                (status, _) => return Err(PlanError::Status(status)),
            }
        }
        (None, None, None) => return Err(PlanError::NoValues),
    };
    longest_p99(&text).ok_or(PlanError::NoValues)
}

/// The largest P99 of all HTTP managers but the admin: `http.x.downstream_rq_time: P0(nan,1) ... P99(nan,60.5) ...`,
/// of each pair the second, which is over Envoy's life, in milliseconds.
fn longest_p99(text: &str) -> Option<Duration> {
    text.lines()
        .filter(|line| line.contains(".downstream_rq_time: ") && !line.starts_with("http.admin."))
        .filter_map(|line| line.split_once(" P99(")?.1.split_once(')')?.0.split_once(',')?.1.parse().ok())
        .filter(|millis: &f64| millis.is_finite())
        .max_by(f64::total_cmp)
        .and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok())
}

fn print(plan: &Plan, p99: Duration, args: &PlanArgs) -> String {
    let Plan { drain_timeout, lb_buffer, grace, rise } = plan;
    let mut text = String::new();
    let mut row = |field: &str, why: String| {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{field:<44} # {why}");
    };
    row(
        &format!("terminationGracePeriodSeconds: {grace}"),
        "DRAIN_TIMEOUT + LB_BUFFER + 10 s for the hook's answer and SIGTERM".to_owned(),
    );
    row(
        &format!("DRAIN_TIMEOUT: \"{drain_timeout}\""),
        format!("{} x p99 of {p99:?}, and two checks until the load balancer's word", args.factor.max(1.0)),
    );
    row(
        &format!("LB_BUFFER: \"{lb_buffer}\""),
        format!("fall {} x inter {:?}, and one interval more", args.fall, args.inter),
    );
    row(
        &format!("envoy --drain-time-s {drain_timeout} --drain-strategy immediate"),
        "gradual puts Connection: close on few answers".to_owned(),
    );
    let _ = writeln!(text, "# a reopened pod is back in service after rise {} x inter: {rise} s", args.rise);
    if args.fall < 2 {
        let _ = writeln!(
            text,
            "# fall 1: a load balancer that does not know the third answer goes DOWN on the first one"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> PlanArgs {
        PlanArgs {
            p99: None,
            histogram: None,
            admin: None,
            inter: Duration::from_secs(2),
            fall: 2,
            rise: 2,
            factor: 2.0,
        }
    }

    #[test]
    fn sixty_seconds_behind_inter_2_fall_2() {
        let plan = plan(Duration::from_secs(60), &args());
        assert_eq!(plan, Plan { drain_timeout: 124, lb_buffer: 6, grace: 140, rise: 4 });
    }

    #[test]
    fn the_slowest_manager_decides_and_the_admin_does_not() {
        let text = "http.admin.downstream_rq_time: P0(nan,1) P99(nan,99000) P100(nan,99000)\n\
                    http.a.downstream_rq_time: P0(0,1) P99(2,1500.5) P99.5(3,9000) P100(3,9000)\n\
                    http.b.downstream_rq_time: No recorded values\n\
                    http.c.downstream_rq_time: P0(nan,1) P99(nan,20) P100(nan,30)\n";
        assert_eq!(longest_p99(text), Some(Duration::from_secs_f64(1.5005)));
        assert_eq!(longest_p99("http.b.downstream_rq_time: No recorded values\n"), None);
    }
}
