//! The lab's HTTP API, on loopback unless told otherwise: commands come in as the same [`Command`] that a timed step
//! holds, the names, the query log and the addresses of the servers go out, all as JSON. `/openapi.json` describes
//! it. Called by the `lab dns` commands and by hand with curl.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use utoipa::{OpenApi, ToSchema};

use crate::command::Command;
use crate::log::{Entry, Filter};
use crate::name::Name;
use crate::server::service::{Shared, lock};
use crate::zone::NameView;

/// What is served where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Info {
    /// Apex of the zone.
    pub zone: Name,
    /// Seed of every draw.
    pub seed: u64,
    /// The zone's own server.
    #[schema(value_type = Vec<String>)]
    pub authority: Vec<SocketAddr>,
    /// The resolvers, in the order of the scenario.
    #[schema(value_type = Vec<String>)]
    pub resolvers: Vec<SocketAddr>,
}

/// What is served where, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// What is served where.
    #[serde(flatten)]
    pub info: Info,
    /// Seconds since the start: the clock that timed steps go by.
    pub uptime_s: f64,
    /// Queries since the start, over all servers.
    pub queries: u64,
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What is wrong.
    pub error: String,
    /// What to do instead.
    pub hint: String,
}

/// The HTTP server; dropping it closes the socket.
pub(crate) struct Control {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Lab DNS control",
        description = "Changes the lab's zone while it is served, and lists what was asked."
    ),
    paths(status, names, command, log)
)]
struct Api;

#[derive(Clone)]
struct Served {
    shared: Arc<Shared>,
    info: Arc<Info>,
}

impl Control {
    pub(crate) async fn start(addr: SocketAddr, shared: Arc<Shared>, info: Info) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let app = Router::new()
            .route("/", get(status))
            .route("/names", get(names))
            .route("/commands", post(command))
            .route("/log", get(log))
            .route("/openapi.json", get(async || Json(Api::openapi())))
            .with_state(Served { shared, info: Arc::new(info) });
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!(%error, "the control API ended");
            }
        });
        Ok(Self { addr, task })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) async fn shutdown(mut self) {
        self.task.abort();
        // An error here says that the task was cancelled, as asked for.
        let _cancelled = (&mut self.task).await;
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is served where, and for how long.
#[utoipa::path(get, path = "/", responses((status = 200, body = Status)))]
async fn status(State(served): State<Served>) -> Json<Status> {
    let uptime_s = served.shared.now().as_secs_f64();
    let queries = lock(&served.shared.log).seen();
    Json(Status { info: (*served.info).clone(), uptime_s, queries })
}

/// The names in service and what they answer at the moment.
#[utoipa::path(get, path = "/names", responses((status = 200, body = Vec<NameView>)))]
async fn names(State(served): State<Served>) -> Json<Vec<NameView>> {
    let now = served.shared.now();
    Json(lock(&served.shared.zone).names(now).collect())
}

/// Carries out one command. The next query sees it.
#[utoipa::path(
    post,
    path = "/commands",
    request_body = Command,
    responses(
        (status = 204, description = "done"),
        (status = 400, description = "not a command", body = Problem),
        (status = 422, description = "a command that does not fit the zone", body = Problem),
    )
)]
async fn command(State(served): State<Served>, body: Bytes) -> Response {
    let command: Command = match serde_json::from_slice(&body) {
        Ok(command) => command,
        Err(error) => {
            let hint = "send one of set, flip, rotate, weight, fault, clear: {\"flip\": {\"name\": .., \"to\": [..]}}";
            return problem(StatusCode::BAD_REQUEST, error.to_string(), hint);
        }
    };
    let done = lock(&served.shared.zone).apply(command, served.shared.now());
    match done {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => problem(StatusCode::UNPROCESSABLE_ENTITY, error.to_string(), error.hint()),
    }
}

/// The queries that pass the filter, oldest first.
#[utoipa::path(get, path = "/log", params(Filter), responses((status = 200, body = Vec<Entry>)))]
async fn log(State(served): State<Served>, Query(filter): Query<Filter>) -> Json<Vec<Entry>> {
    Json(lock(&served.shared.log).select(&filter))
}

fn problem(status: StatusCode, error: String, hint: &str) -> Response {
    (status, Json(Problem { error, hint: hint.to_owned() })).into_response()
}
