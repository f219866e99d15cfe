//! The control API of one backend that is a pod: its ledger and its CA come out, deaths and revivals go in. HTTP in
//! plain text, for whoever can reach the port; a lab's bench does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{BackendError, Backends};

/// A connection, by how long ago things happened: two machines' clocks need not agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lived {
    /// The other end (Envoy's socket).
    pub peer: SocketAddr,
    /// TCP accepted, ms ago.
    pub opened_ms_ago: u64,
    /// Closed by either side, ms ago.
    pub closed_ms_ago: Option<u64>,
    /// Requests that were begun on it.
    pub requests: u32,
}

struct Served {
    backends: Mutex<Backends>,
    start: Instant,
    ca_pem: String,
}

type Answer = Result<StatusCode, (StatusCode, String)>;

impl Backends {
    /// Serves the control API of a single backend for as long as the future is polled; `ca_pem` is what its clients
    /// must trust.
    ///
    /// # Errors
    /// The address cannot be bound, or the server ends.
    pub async fn serve_control(self, listen: SocketAddr, ca_pem: String) -> Result<(), BackendError> {
        let failed = |source| BackendError::Socket { addr: listen, what: "listen", source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let start = self.ledger().start;
        let served = Arc::new(Served { backends: Mutex::new(self), start, ca_pem });
        let app = Router::new()
            .route("/ca.pem", get(async |State(served): State<Arc<Served>>| served.ca_pem.clone()))
            .route("/ledger", get(ledger))
            .route("/refuse", post(refuse))
            .route("/black-hole", post(black_hole))
            .route("/revive", post(revive))
            .with_state(served);
        axum::serve(listener, app).await.map_err(failed)
    }
}

async fn ledger(State(served): State<Arc<Served>>) -> Json<Vec<Lived>> {
    let lives = served.backends.lock().await.ledger().lives();
    let now = served.start.elapsed();
    let ago = |at: Duration| u64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u64::MAX);
    let told = lives.into_iter().map(|life| Lived {
        peer: life.peer,
        opened_ms_ago: ago(life.opened),
        closed_ms_ago: life.closed.map(ago),
        requests: life.requests,
    });
    Json(told.collect())
}

async fn refuse(State(served): State<Arc<Served>>) -> Answer {
    done(served.backends.lock().await.refuse(0).await)
}

async fn black_hole(State(served): State<Arc<Served>>) -> Answer {
    done(served.backends.lock().await.black_hole(0).await)
}

async fn revive(State(served): State<Arc<Served>>) -> Answer {
    done(served.backends.lock().await.revive(0).await)
}

fn done(result: Result<(), BackendError>) -> Answer {
    let said =
        |error: BackendError| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error} ({})", error.hint()));
    result.map(|()| StatusCode::NO_CONTENT).map_err(said)
}
