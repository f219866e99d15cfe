//! The client's pod of a lab whose parts are pods: an order comes in over HTTP, its cell runs here, where the client's
//! proxy is, and the evidence goes out. One cell at a time. Called through a port-forward by `lab run --in-cluster`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::{Instant, interval, sleep};

use super::{Around, Bench, HOST, LabError, SENT, Setup, Site, inconclusive, mesh_port};
use crate::experiments;
use crate::experiments::evidence::{EgressCell, Evidence};
use policies::Version;

use crate::lab::envoy::admin::Admin;
use crate::lab::envoy::bootstrap::{Layer, cluster_name_at};

/// Whatever lies between may take a silent connection for a dead one.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// A cell to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Id of the experiment.
    pub experiment: String,
    /// Its coordinates.
    pub cell: EgressCell,
    /// The stream time that all other times are derived from, ms.
    pub stream_ms: u64,
    /// The other pods.
    pub site: Site,
}

/// What the client's pod says about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// Version of its proxy.
    pub envoy: Version,
}

/// The pod's own surroundings.
#[derive(Debug, Clone, Copy)]
pub struct Agent {
    /// The proxy's admin port.
    pub admin: SocketAddr,
    /// Where the proxy takes TLS, for a pod whose connections are not captured.
    pub front_tls: Option<SocketAddr>,
    /// Where it takes plain HTTP.
    pub front_http: Option<SocketAddr>,
}

struct Served {
    agent: Agent,
    /// Held by the cell that runs.
    busy: Arc<Mutex<()>>,
}

type Refused = (StatusCode, String);

impl Agent {
    /// Takes orders for as long as the future is polled.
    ///
    /// # Errors
    /// The server ends.
    pub async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        let app = Router::new()
            .route("/greeting", post(greet))
            .route("/cells", post(run))
            .route("/gone", post(gone))
            .with_state(Arc::new(Served { agent: self, busy: Arc::default() }));
        axum::serve(listener, app).await
    }

    /// Where the application connects to. Any address is captured; that of the first backend is what the name's
    /// lookup would have given.
    fn front(&self, order: &Order) -> Option<SocketAddr> {
        let path = order.cell.path;
        let own = if path == Layer::Passthrough { self.front_tls } else { self.front_http };
        own.or_else(|| Some(SocketAddr::new(order.site.backends.first()?.addr, mesh_port(path))))
    }
}

async fn greet(State(served): State<Arc<Served>>) -> Result<Json<Greeting>, Refused> {
    let inspected = Admin::new(served.agent.admin).inspect(Some(HOST)).await;
    inspected
        .map(|seen| Json(Greeting { envoy: seen.envoy }))
        .map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))
}

/// A line feed every few seconds, and then the evidence as JSON.
async fn run(State(served): State<Arc<Served>>, Json(order): Json<Order>) -> Result<Body, Refused> {
    let Ok(busy) = Arc::clone(&served.busy).try_lock_owned() else {
        return Err((StatusCode::CONFLICT, "another cell is under way".to_owned()));
    };
    let known = experiments::find(&order.experiment);
    let experiment = known.ok_or((StatusCode::NOT_FOUND, format!("no experiment {:?}", order.experiment)))?;
    let front = served.agent.front(&order);
    let front = front.ok_or((StatusCode::BAD_REQUEST, "the site has no backend".to_owned()))?;
    let around = Around { front, admin: Admin::new(served.agent.admin) };
    let Order { cell, stream_ms, site, .. } = order;
    let stream = Duration::from_millis(stream_ms);
    let setup = Setup {
        experiment: experiment.id,
        question: experiment.question,
        plan: (experiment.plan)(&cell, stream),
        cell: cell.clone(),
        stream,
        keep: None,
        publish: None,
    };
    // Ends with the answer: whoever hangs up ends the cell.
    let result = Box::pin(async move {
        let evidence = match Bench::join(setup, &site, around).await {
            Ok(bench) => (experiment.conduct)(bench).await,
            Err(error) => inconclusive(experiment, cell, &error),
        };
        drop(busy);
        json(&evidence)
    });
    let signs = interval(SIGN_OF_LIFE);
    let body = stream::unfold(Some((result, signs)), async |state| {
        let (mut result, mut signs) = state?;
        tokio::select! {
            evidence = &mut result => Some((evidence, None)),
            _ = signs.tick() => Some((Bytes::from_static(b"\n"), Some((result, signs)))),
        }
    });
    Ok(Body::from_stream(body.map(Ok::<_, std::convert::Infallible>)))
}

fn json(evidence: &Evidence) -> Bytes {
    serde_json::to_vec(evidence).unwrap_or_default().into()
}

/// Waits until the proxy has let go of the name, so that the next cell begins with counters at zero.
async fn gone(State(served): State<Arc<Served>>) -> Result<StatusCode, Refused> {
    let admin = Admin::new(served.agent.admin);
    let began = Instant::now();
    while is_there(admin).await.map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))? {
        if began.elapsed() > SENT {
            let said = format!("the proxy still has a cluster of {HOST} after {SENT:?}");
            return Err((StatusCode::GATEWAY_TIMEOUT, said));
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn is_there(admin: Admin) -> Result<bool, LabError> {
    for path in [Layer::Passthrough, Layer::Http] {
        let cluster = cluster_name_at(mesh_port(path), HOST);
        // A cluster that is gone from the list keeps its counters until its last connection has ended.
        if !admin.hosts(&cluster).await?.is_empty() || !admin.cluster_stats(&cluster).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
