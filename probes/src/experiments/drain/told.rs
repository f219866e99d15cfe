//! What one act brings home, and what both kinds of act need for it: the patience of a run, a hook's answer, the
//! requests' lengths and the clock. Used by `scene` and `signals`.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;

use super::{Options, Said};
use crate::lab::ingress::{Shot, Stage};

/// What one act brings home.
pub(super) struct Told {
    pub(super) deleted_ms: u64,
    pub(super) hook: Value,
    pub(super) resumed: Option<String>,
    pub(super) said: Option<Said>,
    pub(super) shots: Vec<Shot>,
    /// The log of the sidecar that left first.
    pub(super) log: Vec<Value>,
}

pub(super) fn grace(options: &Options) -> Duration {
    options.seconds(180.0) + Duration::from_secs(20)
}

pub(super) fn answered((status, mut answer): (StatusCode, Value)) -> Value {
    answer["status"] = status.as_u16().into();
    answer
}

/// 300 to 1,500 ms.
pub(super) fn mixed(number: u64) -> String {
    format!("/sleep?ms={}", 300 + (number * 7919) % 1200)
}

pub(super) fn since_start(stage: &Stage) -> u64 {
    u64::try_from(stage.start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
