//! `drain-sidecar plan`: from the longest requests and the load balancer's check, the grace period and the timeouts,
//! each with its reason. Pure arithmetic in [`plan`]; [`run`] reads the p99 (given, or out of Envoy's own histogram)
//! and prints the fields for the manifest.

mod access_log;
mod balancer;

use std::fmt::Write as _;
use std::fs;
use std::io::BufReader;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hyper::{Method, StatusCode};
use serde_json::json;

use crate::address::Target;
use crate::client;
use crate::duration::duration;
use crate::log::{chain, log};
use access_log::Times;
use balancer::Balancer;

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// 99th percentile of the request time.
    #[arg(long, value_parser = duration, required_unless_present_any = ["histogram", "admin", "access_log"])]
    p99: Option<Duration>,

    /// A saved answer of Envoy's `/stats?filter=downstream_rq_time`.
    #[arg(long, conflicts_with = "p99")]
    histogram: Option<PathBuf>,

    /// Ask this Envoy for its histogram.
    #[arg(long, conflicts_with_all = ["p99", "histogram"])]
    admin: Option<Target>,

    /// Read the request times out of an access log: Envoy's or Istio's default, text or JSON, or HAProxy's httplog.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["p99", "histogram", "admin"])]
    access_log: Option<PathBuf>,

    /// Kind of load balancer: its usual check, what has to be set there, and what it takes for "no new work".
    #[arg(long, value_enum, default_value_t = Balancer::Haproxy)]
    balancer: Balancer,

    /// Time between two checks of the load balancer; by default its usual one.
    #[arg(long, value_parser = duration)]
    inter: Option<Duration>,

    /// Failed checks until DOWN.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    fall: Option<u32>,

    /// Good checks until UP.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rise: Option<u32>,

    /// How many times the p99 the longest request may take.
    #[arg(long, default_value_t = 2.0, value_parser = factor)]
    factor: f64,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (1.0..=100.0).contains(&factor) => Ok(factor),
        _ => Err("a number from 1 to 100".to_owned()),
    }
}

/// The load balancer's check, as given or as usual.
#[derive(Debug, Clone, Copy)]
struct Check {
    inter: Duration,
    fall: u32,
    rise: u32,
}

impl PlanArgs {
    fn check(&self) -> Check {
        let usual = self.balancer.facts();
        Check {
            inter: self.inter.unwrap_or(usual.inter),
            fall: self.fall.unwrap_or(usual.fall),
            rise: self.rise.unwrap_or(usual.rise),
        }
    }
}

/// Whole seconds, as the manifest wants them.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    drain_timeout: u64,
    lb_buffer: u64,
    /// Shortest drain: until the load balancer has let go of a target, whatever it answers.
    min_drain: u64,
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
    #[error("cannot read the access log")]
    Log(#[source] std::io::Error),
    #[error("no request time in any of the {0} lines of the access log")]
    NoTimes(u64),
    #[error("no downstream_rq_time with recorded values in it")]
    NoValues,
}

fn plan(p99: Duration, args: &PlanArgs) -> Plan {
    let up = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let Check { inter, fall, rise } = args.check();
    // "No new work" is answered at the next check and acknowledged with the one after.
    let word = inter * 2;
    // Down after `fall` checks, of which the first may be one interval away; one more for a check that is late.
    let lb_buffer = up(inter * (fall + 1)).max(up(word));
    let min_drain = up(args.balancer.facts().deregistration);
    let drain_timeout = up(p99.mul_f64(args.factor) + word).max(min_drain);
    // The wait for "no new work" is part of the drain; the one for DOWN comes after it, then the hook's answer.
    Plan {
        drain_timeout,
        lb_buffer,
        min_drain,
        grace: drain_timeout + lb_buffer + 10,
        rise: up(inter * rise),
    }
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
        (None, None, None) if args.access_log.is_some() => return logged(args),
        (None, None, None) => return Err(PlanError::NoValues),
    };
    longest_p99(&text).ok_or(PlanError::NoValues)
}

fn logged(args: &PlanArgs) -> Result<Duration, PlanError> {
    let file = fs::File::open(args.access_log.as_deref().unwrap_or(Path::new(""))).map_err(PlanError::Log)?;
    let times = Times::read(BufReader::new(file)).map_err(PlanError::Log)?;
    let p99 = times.p99().ok_or(PlanError::NoTimes(times.unread))?;
    log(
        "info",
        "access_log_read",
        json!({"requests": times.len(), "p99_ms": p99, "lines_without_a_time": times.unread}),
    );
    Ok(Duration::from_millis(p99.into()))
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
    let Plan { drain_timeout, lb_buffer, min_drain, grace, rise } = plan;
    let (check, facts) = (args.check(), args.balancer.facts());
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
        format!("{} x p99 of {p99:?}, and two checks until the load balancer's word", args.factor),
    );
    row(
        &format!("LB_BUFFER: \"{lb_buffer}\""),
        format!("fall {} x inter {:?}, and one interval more", check.fall, check.inter),
    );
    row(
        &format!("envoy --drain-time-s {drain_timeout} --drain-strategy immediate"),
        "gradual puts Connection: close on few answers".to_owned(),
    );
    if *min_drain > 0 {
        row(
            &format!("MIN_DRAIN: \"{min_drain}\""),
            "until nothing arrives after a deregistration".to_owned(),
        );
    }
    if facts.drain_status != "auto" {
        row(
            &format!("LB_DRAIN_STATUS: \"{}\"", facts.drain_status),
            "\"no new work\" to this load balancer".to_owned(),
        );
    }
    let source = if facts.documented {
        " (figures as the vendor documents them, to be checked against the current page; not measured here)"
    } else {
        ""
    };
    let _ = writeln!(text, "# on the load balancer{source}:");
    for setting in args.balancer.settings() {
        let _ = writeln!(text, "#   {setting}");
    }
    let _ = writeln!(text, "# a reopened pod is back in service after rise {} x inter: {rise} s", check.rise);
    if check.fall < 2 {
        let _ = writeln!(
            text,
            "# fall 1: a load balancer that does not know the third answer goes DOWN on the first one"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn args() -> PlanArgs {
        PlanArgs {
            p99: None,
            histogram: None,
            admin: None,
            access_log: None,
            balancer: Balancer::Haproxy,
            inter: None,
            fall: None,
            rise: None,
            factor: 2.0,
        }
    }

    #[test]
    fn sixty_seconds_behind_inter_2_fall_2() {
        let plan = plan(Duration::from_secs(60), &args());
        assert_eq!(plan, Plan { drain_timeout: 124, lb_buffer: 6, min_drain: 0, grace: 140, rise: 4 });
    }

    /// Whatever the flags take is computed without a panic, and the pod's own time covers what it waits for.
    #[test]
    fn the_largest_values_of_every_flag_fit() {
        let year = duration("8760h").unwrap();
        for &balancer in Balancer::value_variants() {
            let extreme = PlanArgs {
                balancer,
                inter: Some(year),
                fall: Some(1_000),
                rise: Some(1_000),
                factor: 100.0,
                ..args()
            };
            for args in [PlanArgs { balancer, ..args() }, extreme] {
                for p99 in [Duration::ZERO, Duration::from_millis(1), year] {
                    let plan = plan(p99, &args);
                    assert!(
                        plan.grace > plan.drain_timeout + plan.lb_buffer
                            && plan.drain_timeout >= plan.min_drain
                    );
                    assert!(print(&plan, p99, &args).contains("terminationGracePeriodSeconds"));
                }
            }
        }
        for bad in ["nan", "inf", "0.5", "101", "x"] {
            assert!(factor(bad).is_err(), "{bad}");
        }
    }

    /// A network load balancer goes on for two minutes and more whatever is set.
    #[test]
    fn a_balancer_that_lets_go_slowly_has_the_shortest_drain_in_the_plan() {
        let nlb = PlanArgs { balancer: Balancer::Nlb, ..args() };
        let plan = plan(Duration::from_secs(1), &nlb);
        assert_eq!((plan.min_drain, plan.drain_timeout), (180, 180));
        let text = print(&plan, Duration::from_secs(1), &nlb);
        assert!(text.contains("MIN_DRAIN: \"180\"") && text.contains("not measured here"), "{text}");
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
