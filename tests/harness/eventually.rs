//! Waiting for a condition: a probe and a deadline come in, the probe's value goes out, or the last thing that it
//! said. The only place in the tests that sleeps.

use std::fmt::Display;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(10);

/// As [`eventually`], for a probe that waits itself.
///
/// # Errors
/// As [`eventually`].
pub async fn eventually_async<T, E: Display>(
    deadline: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> anyhow::Result<T> {
    let until = Instant::now() + deadline;
    loop {
        match probe().await {
            Ok(value) => return Ok(value),
            Err(last) if Instant::now() >= until => {
                anyhow::bail!("{what}: not within {deadline:?}; last: {last}")
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Asks `probe` until it succeeds.
///
/// # Errors
/// After `deadline`, with `what` was waited for and the probe's last error.
pub fn eventually<T, E: Display>(
    deadline: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<T, E>,
) -> anyhow::Result<T> {
    let until = Instant::now() + deadline;
    loop {
        match probe() {
            Ok(value) => return Ok(value),
            Err(last) if Instant::now() >= until => {
                anyhow::bail!("{what}: not within {deadline:?}; last: {last}")
            }
            Err(_) => sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_returns_the_first_success_and_reports_the_last_failure() {
        let mut calls = 0;
        let third = eventually(Duration::from_secs(5), "three calls", || {
            calls += 1;
            if calls == 3 { Ok(calls) } else { Err("too few") }
        });
        assert_eq!(third.unwrap(), 3);

        let mut calls = 0;
        let never = eventually(Duration::from_millis(50), "the end of days", || {
            calls += 1;
            Err::<(), _>(format!("call {calls}"))
        });
        let error = never.unwrap_err().to_string();
        assert!(error.starts_with("the end of days") && error.ends_with(&format!("call {calls}")), "{error}");
    }
}
