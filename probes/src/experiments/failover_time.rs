//! How long does a failover take, part by part?

use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{Axes, BOTH_PATHS, BOTH_RESOLUTIONS, Control, Experiment, H1, flip_drains};
use crate::experiments::bench::{Bench, LabError, Plan, is_l4, ttl};
use crate::experiments::evidence::{EgressCell, Exhibits, Judgement, Table};
use crate::lab::client::{Client, Connection, Exchange};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "failover-time",
    appendix: None,
    question: "From the old VIP's end to the first answer of the new one: where does the time go?",
    axes: Axes {
        resolutions: BOTH_RESOLUTIONS,
        paths: BOTH_PATHS,
        http: H1,
        variants: &["dies", "drains", "drains+lifetime"],
        fits: |_| true,
    },
    controls: &[Control { name: NO_FLIP, what: "DNS does not change: traffic never moves", applies: moves }],
    plan,
    conduct: |mut bench| {
        Box::pin(async move {
            let result = run(&mut bench).await;
            bench.conclude(result, judge, exhibits).await
        })
    },
};

const NO_FLIP: &str = "no-flip";

fn dies(cell: &EgressCell) -> bool {
    cell.variant.as_deref() == Some("dies")
}

fn capped(cell: &EgressCell) -> bool {
    cell.variant.as_deref() == Some("drains+lifetime")
}

fn lifetime(stream: Duration) -> Duration {
    stream / 4
}

/// Whether a client that keeps its connection is known to move at all.
fn moves(cell: &EgressCell) -> bool {
    dies(cell) || capped(cell) || (!is_l4(cell) && flip_drains(cell))
}

fn plan(cell: &EgressCell, stream: Duration) -> Plan {
    Plan { max_connection_duration: capped(cell).then(|| lifetime(stream)), ..Plan::pair(stream) }
}

async fn run(bench: &mut Bench) -> Result<Measured, LabError> {
    let stream = bench.stream();
    let (began, client) = (Instant::now(), bench.client()?);
    // Long enough for detection, TTL and lifetime, twice over.
    let traffic = Traffic::start(client, began, stream + Duration::from_secs(u64::from(ttl(stream)) * 2 + 2));
    bench.at(began, 0.1).await;
    if dies(bench.cell()) {
        bench.backends().refuse(0).await?;
        bench.mark("backend-a dies");
    }
    let ended = began.elapsed();
    if dies(bench.cell()) {
        // The time that a GSLB takes to notice.
        bench.at(began, 0.225).await;
    }
    let (flipped, mut listed) = (began.elapsed(), None);
    if !bench.is_control(NO_FLIP) {
        bench.flip(&[1]).await?;
        let new = bench.addrs()[1];
        bench.until("Envoy's list to show the new VIP", stream, |seen| seen.listed_addrs() == [new]).await?;
        listed = Some(ms(began.elapsed()));
    }
    let exchanges = traffic.end().await;
    bench.record(&exchanges);
    bench.snapshot("AFTER").await?;
    let offset = ms(began - bench.clock());
    let first_on_new = exchanges.iter().find(|exchange| exchange.backend.as_deref() == Some("backend-b"));
    let failed = exchanges.iter().filter(|exchange| !exchange.ok()).count();
    Ok(Measured {
        ended_ms: ms(ended),
        flipped_ms: ms(flipped),
        listed_ms: listed,
        first_on_new_ms: first_on_new.map(|exchange| exchange.at_ms + exchange.took_ms - offset),
        requests: exchanges.len(),
        failed,
        ttl_ms: u64::from(ttl(stream)) * 1000,
        lifetime_ms: ms(lifetime(stream)),
    })
}

/// A client that keeps its connection and sends a request every now and then, until it is answered by the new VIP.
struct Traffic {
    task: JoinHandle<Vec<Exchange>>,
}

impl Traffic {
    fn start(client: Client, began: Instant, time: Duration) -> Self {
        Self {
            task: tokio::spawn(async move {
                let (mut connection, mut done): (Option<Connection>, Vec<Exchange>) = (None, Vec::new());
                while began.elapsed() < time {
                    if connection.as_ref().is_none_or(Connection::is_closed) {
                        connection = client.open().await.ok();
                    }
                    let exchange = match &mut connection {
                        Some(open) => open.get("", "/", Duration::from_secs(5)).await,
                        None => client.once("", "/", Duration::from_secs(5)).await,
                    };
                    let moved = exchange.backend.as_deref() == Some("backend-b");
                    if exchange.failure.is_some() {
                        connection = None;
                    }
                    done.push(exchange);
                    if moved {
                        break;
                    }
                    sleep((time / 200).min(Duration::from_millis(50))).await;
                }
                done
            }),
        }
    }

    async fn end(self) -> Vec<Exchange> {
        self.task.await.unwrap_or_default()
    }
}

/// Moments from the start of the traffic.
#[derive(Debug, Serialize)]
struct Measured {
    /// The old VIP died, or was taken out of DNS.
    ended_ms: u64,
    flipped_ms: u64,
    listed_ms: Option<u64>,
    first_on_new_ms: Option<u64>,
    requests: usize,
    failed: usize,
    ttl_ms: u64,
    lifetime_ms: u64,
}

/// What a busy machine may add to each part, ms.
const SLACK_MS: u64 = 1500;

fn judge(cell: &EgressCell, measured: &Measured) -> Judgement {
    let Measured { flipped_ms, listed_ms, first_on_new_ms, ttl_ms, lifetime_ms, .. } = measured;
    let listed = listed_ms.is_some_and(|listed| listed <= flipped_ms + ttl_ms + SLACK_MS);
    let shown = |ms: &Option<u64>| {
        ms.map_or_else(
            || "never".to_owned(),
            |ms| format!("{} ms after the flip", ms.saturating_sub(*flipped_ms)),
        )
    };
    let allowed = flipped_ms + ttl_ms + SLACK_MS + if capped(cell) { *lifetime_ms } else { 0 };
    let moved = match first_on_new_ms {
        Some(at) => moves(cell) && at >= flipped_ms && *at <= allowed,
        None => !moves(cell),
    };
    Judgement::of(&[
        (listed, format!("listed {}", shown(listed_ms))),
        (moved, format!("first answer of the new VIP {}", shown(first_on_new_ms))),
    ])
}

fn exhibits(measured: &Measured) -> Exhibits {
    let between = |from: Option<u64>, to: Option<u64>| match (from, to) {
        (Some(from), Some(to)) => format!("{} ms", to.saturating_sub(from)),
        _ => "-".to_owned(),
    };
    let Measured { ended_ms, flipped_ms, listed_ms, first_on_new_ms, .. } = measured;
    let rows = vec![
        vec!["old VIP ends -> DNS flips".to_owned(), between(Some(*ended_ms), Some(*flipped_ms))],
        vec!["DNS flips -> Envoy lists the new VIP".to_owned(), between(Some(*flipped_ms), *listed_ms)],
        vec!["listed -> first answer of the new VIP".to_owned(), between(*listed_ms, *first_on_new_ms)],
        vec!["in all".to_owned(), between(Some(*ended_ms), *first_on_new_ms)],
        vec!["requests".to_owned(), measured.requests.to_string()],
        vec!["failed".to_owned(), measured.failed.to_string()],
    ];
    vec![Table::new("Parts of the failover", &["", "time"], rows)].into()
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
