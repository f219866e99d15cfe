//! What does a fixed set cost whose order changes with every answer?

use std::time::Duration;

use policies::platform::Behaviour;

use super::churn::{self, Measured, exhibits};
use super::{Axes, BOTH_RESOLUTIONS, Control, Experiment, H1, is_known, is_logical};
use crate::experiments::bench::{HOST, Plan, fixed, pool, ttl};
use crate::experiments::evidence::{EgressCell, Judgement};
use crate::lab::envoy::bootstrap::Layer;
use policies::Resolution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "order-churn",
    appendix: None,
    question: "When only the order of three fixed addresses changes, are connections closed?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: &[Layer::Http],
        http: H1,
        variants: &[],
        fits: |_| true,
    },
    controls: &[
        Control {
            name: FIXED_ORDER,
            what: "always the same order: LOGICAL_DNS keeps its host",
            applies: churns,
        },
        Control {
            name: SET_CHANGES,
            what: "the set changes too: STRICT_DNS must count it",
            applies: |cell| cell.resolution == Resolution::Dns,
        },
    ],
    plan,
    conduct: |mut bench| {
        Box::pin(async move {
            let result = churn::run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

const FIXED_ORDER: &str = "fixed-order";
const SET_CHANGES: &str = "set-changes";

fn churns(cell: &EgressCell) -> bool {
    cell.resolution == Resolution::DnsRoundRobin && is_known(cell, Behaviour::LogicalOrderChurns)
}

fn plan(cell: &EgressCell, stream: Duration) -> Plan {
    let ttl = ttl(stream);
    let records = match cell.control.as_deref() {
        Some(FIXED_ORDER) => fixed(&[0, 1, 2], ttl),
        // Two of three in turn.
        Some(_) => {
            format!("{{a: {{pool: [{}], answer: {{cyclic: {{take: 2}}}}, ttl: {ttl}}}}}", pool(&[0, 1, 2]))
        }
        None => format!("{{a: {{pool: [{}], order: shuffled, ttl: {ttl}}}}}", pool(&[0, 1, 2])),
    };
    Plan { backends: 3, records: vec![(HOST, records)], ..Plan::pair(stream) }
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let Measured { changed, membership_changes, opened, closed, failed, .. } = measured;
    let known = churns(cell);
    let mut checks = vec![
        ((*membership_changes > 0) == known, format!("membership_change +{membership_changes}")),
        ((*closed > 0) == known, format!("{closed} connections closed, {opened} opened")),
        (*failed == 0, format!("{failed} requests failed")),
    ];
    if cell.control.is_none() {
        checks.push((*changed > 0, format!("{changed} answers in another order")));
    }
    Judgement::of(&checks).showing(is_logical(cell), Behaviour::LogicalOrderChurns, *membership_changes > 0)
}
