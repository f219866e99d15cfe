//! How often does Envoy ask, by the TTLs of the answer?

use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{Axes, BOTH_RESOLUTIONS, Control, Experiment, H1};
use crate::experiments::bench::{Bench, HOST, LabError, Plan, fixed, pool};
use crate::experiments::evidence::{EgressCell, Exhibits, Judgement, Table};
use crate::lab::envoy::bootstrap::Layer;
use policies::Resolution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ttl-refresh",
    appendix: None,
    question: "How long does Envoy wait before it asks DNS again?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: &[Layer::Passthrough],
        http: H1,
        variants: &["ttl-0", "ttl-3", "ttl-3-and-1", "cname-1-a-3", "ttl-0-and-3"],
        fits: |_| true,
    },
    controls: &[Control {
        name: OTHER_TTL,
        what: "the records carry a TTL of 5 s instead: the gap must follow",
        applies: |_| true,
    }],
    plan,
    conduct: |mut bench| {
        Box::pin(async move {
            let result = run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

const OTHER_TTL: &str = "ttl-5";
/// `dnsRefreshRate`, apart from every TTL in use.
const REFRESH: u64 = 2;
/// Gaps measured.
const GAPS: usize = 2;

/// TTLs are whole seconds: these times do not follow the stream's.
fn plan(cell: &EgressCell, stream: Duration) -> Plan {
    let two = |ttls: &str| format!("{{a: {{pool: [{}], ttl: {ttls}}}}}", pool(&[0, 1]));
    let records = match (cell.control.as_deref(), cell.variant.as_deref()) {
        (Some(_), _) => vec![(HOST, fixed(&[0, 1], 5))],
        (_, Some("ttl-0")) => vec![(HOST, fixed(&[0, 1], 0))],
        (_, Some("ttl-3-and-1")) => vec![(HOST, two("[3, 1]"))],
        (_, Some("ttl-0-and-3")) => vec![(HOST, two("[0, 3]"))],
        (_, Some("cname-1-a-3")) => vec![
            (HOST, "{cname: {to: [real.partner.example], ttl: 1}}".to_owned()),
            ("real.partner.example", fixed(&[0, 1], 3)),
        ],
        _ => vec![(HOST, fixed(&[0, 1], 3))],
    };
    Plan { records, refresh: Duration::from_secs(REFRESH), ..Plan::pair(stream) }
}

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    // The last answer so far is the one that Envoy became ready with; `--mode validate` has asked before it.
    let (began, first) = (Instant::now(), bench.answers().await?.len().saturating_sub(1));
    while bench.answers().await?.len() <= first + GAPS {
        if began.elapsed() > Duration::from_secs(30) {
            let last = format!("{} queries", bench.answers().await?.len());
            let what = "Envoy to ask again".to_owned();
            return Err(LabError::Never { what, waited: began.elapsed(), last });
        }
        sleep(Duration::from_millis(50)).await;
    }
    let asked: Vec<u64> = bench.answers().await?[first..].iter().map(|answer| answer.at_ms).collect();
    let gaps = asked.windows(2).map(|pair| pair[1] - pair[0]);
    Ok(Measured { gaps_ms: gaps.take(GAPS).collect() })
}

/// Time between queries, from the lab DNS's log.
#[derive(Debug, Serialize)]
struct Measured {
    gaps_ms: Vec<u64>,
}

/// STRICT_DNS goes by the smallest TTL, LOGICAL_DNS by that of the first address; an alias lowers either; 0 anywhere
/// it counts means `dnsRefreshRate`.
fn known(cell: &EgressCell) -> u64 {
    match (cell.variant.as_deref(), cell.resolution) {
        (Some("ttl-0" | "ttl-0-and-3"), _) => REFRESH,
        (Some("ttl-3-and-1"), Resolution::Dns) | (Some("cname-1-a-3"), _) => 1,
        _ => 3,
    }
}

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let known = known(cell) * 1000;
    // Never early; late by the jitter of 100 ms, the way there and back, and a busy machine.
    let fits = measured.gaps_ms.iter().all(|gap| (known - 100..known + 800).contains(gap));
    let gaps: Vec<String> = measured.gaps_ms.iter().map(|gap| format!("{gap} ms")).collect();
    Judgement::of(&[(
        fits,
        format!("gaps of {} (known: {known} ms and up to 100 ms of jitter)", gaps.join(" and ")),
    )])
}

fn exhibits(measured: &Measured) -> Exhibits {
    let rows =
        measured.gaps_ms.iter().enumerate().map(|(n, gap)| vec![(n + 1).to_string(), format!("{gap} ms")]);
    vec![Table::new("Time between queries", &["query", "gap"], rows.collect())].into()
}
