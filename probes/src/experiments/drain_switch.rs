//! Does `close_connections_on_host_set_change` cut streams?

use std::time::Duration;

use super::{Axes, BOTH_HTTP, BOTH_PATHS, BOTH_RESOLUTIONS, Control, Experiment, in_flight_flip};
use crate::experiments::bench::Plan;
use crate::experiments::evidence::EgressCell;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "drain-switch",
    appendix: None,
    question: "With close_connections_on_host_set_change on, is a response in flight cut by a flip?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: BOTH_PATHS,
        http: BOTH_HTTP,
        variants: &[],
        fits: |_| true,
    },
    controls: &[Control {
        name: in_flight_flip::BACKEND_DIES,
        what: "the backend dies mid-stream: the response must break",
        applies: |_| true,
    }],
    plan,
    // The same steps and the same judgement as without the switch: that nothing differs is the finding.
    conduct: in_flight_flip::EXPERIMENT.conduct,
};

fn plan(_: &EgressCell, stream: Duration) -> Plan {
    Plan { close_on_host_set_change: true, ..Plan::pair(stream) }
}
