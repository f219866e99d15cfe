//! How many addresses of an answer carry traffic? (The guide's appendix C.)

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{Axes, BOTH_PATHS, BOTH_RESOLUTIONS, Control, Experiment, H1};
use crate::experiments::bench::{Bench, HOST, LabError, Plan, fixed, ttl};
use crate::experiments::evidence::{Bars, EgressCell, Exhibits, Judgement, Table};
use crate::lab::client::Exchange;
use policies::Resolution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "multi-a-spread",
    appendix: Some('C'),
    question: "With two addresses in the answer, which of them get traffic?",
    axes: Axes { resolutions: BOTH_RESOLUTIONS, paths: BOTH_PATHS, http: H1, variants: &[], fits: |_| true },
    controls: &[
        Control {
            name: ALL_TO_ONE,
            what: "DNS gives all weight to one address: there is nothing to spread",
            applies: |cell| cell.resolution == Resolution::Dns,
        },
        Control {
            name: TURNED_ROUND,
            what: "the answer is turned round: LOGICAL_DNS must follow its first address",
            applies: |cell| cell.resolution == Resolution::DnsRoundRobin,
        },
    ],
    plan,
    conduct: |mut bench| {
        Box::pin(async move {
            let result = run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

const ALL_TO_ONE: &str = "all-to-one";
const TURNED_ROUND: &str = "turned-round";
/// Twice the guide's twelve: that an even choice between two misses one of them has a chance of 1 in 8 million.
const REQUESTS: usize = 24;

fn plan(cell: &EgressCell, stream: Duration) -> Plan {
    let answer: &[usize] = match cell.control.as_deref() {
        Some(ALL_TO_ONE) => &[0],
        Some(TURNED_ROUND) => &[1, 0],
        _ => &[0, 1],
    };
    Plan { records: vec![(HOST, fixed(answer, ttl(stream)))], ..Plan::pair(stream) }
}

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    let client = bench.client()?;
    let listed = bench.snapshot("BEFORE").await?.listed.len();
    let mut requests = Vec::with_capacity(REQUESTS);
    for n in 1..=REQUESTS {
        requests.push(client.once(&format!("#{n}"), "/", Duration::from_secs(5)).await);
    }
    bench.record(&requests);
    let mut by_backend = BTreeMap::from([("backend-a".to_owned(), 0), ("backend-b".to_owned(), 0)]);
    for backend in requests.iter().filter_map(|request| request.backend.clone()) {
        *by_backend.entry(backend).or_default() += 1;
    }
    Ok(Measured {
        by_backend,
        listed,
        failed: requests.iter().filter(|request| !request.ok()).count(),
        requests,
    })
}

/// Requests on connections of their own, by the backend that answered.
#[derive(Debug, Serialize)]
struct Measured {
    by_backend: BTreeMap<String, usize>,
    listed: usize,
    failed: usize,
    requests: Vec<Exchange>,
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let [a, b] = ["backend-a", "backend-b"].map(|name| measured.by_backend[name]);
    let seen = format!("{a} requests to the first address, {b} to the second");
    let (spread, hosts) = match cell.resolution {
        Resolution::Dns => (a > 0 && b > 0, 2),
        _ => (a > 0 && b == 0, 1),
    };
    Judgement::of(&[
        (spread, seen),
        (measured.listed == hosts, format!("Envoy lists {} hosts", measured.listed)),
        (measured.failed == 0, format!("{} requests failed", measured.failed)),
    ])
}

fn exhibits(measured: &Measured) -> Exhibits {
    #[expect(clippy::cast_precision_loss, reason = "a handful of requests")]
    let bars = measured.by_backend.iter().map(|(name, count)| (name.clone(), *count as f64)).collect();
    Exhibits {
        tables: vec![Table::of_exchanges("Requests, each on a new connection", &measured.requests)],
        bars: vec![Bars { title: "requests by backend".to_owned(), bars }],
    }
}
