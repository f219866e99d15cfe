//! What does a rotating pool cost, 8 of 40 addresses per answer?

use std::time::Duration;

use super::churn::{self, Measured, exhibits};
use super::{Axes, BOTH_RESOLUTIONS, Control, Experiment, H1, flip_drains};
use crate::experiments::bench::{HOST, Plan, fixed, pool, ttl};
use crate::experiments::evidence::{EgressCell, Judgement};
use crate::lab::envoy::bootstrap::Layer;
use policies::Resolution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "rotation-churn",
    appendix: None,
    question: "When each answer holds 8 of 40 addresses, how many connections does that open and close?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: &[Layer::Http],
        http: H1,
        variants: &[],
        fits: |_| true,
    },
    controls: &[Control {
        name: FIXED_SET,
        what: "always the same 8 addresses: nothing is opened again or closed",
        applies: flip_drains,
    }],
    plan,
    conduct: |mut bench| {
        Box::pin(async move {
            let result = churn::run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

const FIXED_SET: &str = "fixed-set";

fn plan(cell: &EgressCell, stream: Duration) -> Plan {
    let ttl = ttl(stream);
    let all: Vec<usize> = (0..40).collect();
    let records = if cell.control.as_deref() == Some(FIXED_SET) {
        fixed(&all[..8], ttl)
    } else {
        format!("{{a: {{pool: [{}], answer: {{random: {{take: 8}}}}, ttl: {ttl}}}}}", pool(&all))
    };
    Plan { backends: all.len(), records: vec![(HOST, records)], ..Plan::pair(stream) }
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let Measured { changed, membership_changes, opened, closed, failed, used, .. } = measured;
    let churns = flip_drains(cell);
    let seen = format!("{closed} connections closed, {opened} opened over {changed} changed answers");
    let hosts = match cell.resolution {
        Resolution::Dns => *used > 1,
        // One host: one address between two answers.
        _ => *used <= changed + 1,
    };
    Judgement::of(&[
        ((*closed > 0) == churns, seen),
        ((*membership_changes > 0) == churns, format!("membership_change +{membership_changes}")),
        (hosts, format!("{used} addresses used")),
        (*failed == 0, format!("{failed} requests failed")),
    ])
}
