//! The HTTP server of `watch`, read-only: probes, metrics, names, events, stored answers, a page. Requests are answered by
//! the watching loop ([`Ask`]) or out of the store. No CORS, no writes, and a `Host` that is a foreign name is refused,
//! so that a page on the web cannot read it through somebody's browser.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::Stream;
use jiff::{SignedDuration, Timestamp};
use policies::watch::Standing;
use policies::{Host, ObservationWindow};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use utoipa::OpenApi;

use crate::store::{Filter, Store, StoreError, Stored};

/// The page, self-contained.
const PAGE: &str = include_str!("serve/page.html");
/// Scripts and styles of the page itself only.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'";
/// Events of an answer, unless asked for fewer, and at most.
const EVENTS: (usize, usize) = (500, 10_000);
/// Names whose windows come in one answer.
const WINDOWS: usize = 100;
/// Events that a stream sends at a time.
const STREAMED: usize = 256;
/// Readers of the event stream at once.
const STREAMS: usize = 64;

/// A question to the watching loop.
#[derive(Debug)]
pub enum Ask {
    /// How all names stand.
    Names(oneshot::Sender<Vec<NameStatus>>),
    /// How one name stands, and what it answered last.
    Name(Host, oneshot::Sender<Option<(NameStatus, Vec<ObservationWindow>)>>),
    /// The metrics in the text form of `OpenMetrics`.
    Metrics(oneshot::Sender<String>),
}

/// How a name stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NameStatus {
    /// The name.
    pub host: Host,
    /// Of A and of AAAA.
    pub families: Vec<Standing>,
    /// The `resolution` of its entries, where manifests are watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<String>,
    /// Whether that is the right one; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
}

/// What the server needs.
#[derive(Clone)]
pub struct Shared {
    /// The store.
    pub store: Arc<Store>,
    /// The watching loop.
    pub asks: mpsc::Sender<Ask>,
    /// The newest stored event's sequence number.
    pub newest: watch::Receiver<u64>,
    /// The first round is done.
    pub ready: Arc<AtomicBool>,
    /// Names that a `Host` header may carry beside addresses and `localhost`.
    pub allowed: Arc<Vec<String>>,
    /// Streams that may still be opened.
    pub streams: Arc<tokio::sync::Semaphore>,
}

impl Shared {
    /// Room for the usual number of readers.
    #[must_use]
    pub fn streams() -> Arc<tokio::sync::Semaphore> {
        Arc::new(tokio::sync::Semaphore::new(STREAMS))
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "egress-audit watch",
        description = "What external names answer, and what happened to them."
    ),
    paths(livez, readyz, metrics, names, name, events, stream, windows)
)]
struct Api;

/// Serves until the task is dropped.
///
/// # Errors
/// The listener fails.
pub async fn serve(listener: TcpListener, shared: Shared) -> std::io::Result<()> {
    axum::serve(listener, router(shared)).await
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/livez", get(livez))
        .route("/healthz", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/v1/names", get(names))
        .route("/api/v1/names/{host}", get(name))
        .route("/api/v1/events", get(events))
        .route("/api/v1/events/stream", get(stream))
        .route("/api/v1/windows", get(windows))
        .route("/openapi.json", get(|| async { Json(Api::openapi()) }))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Refuses foreign names, and says to browsers what the page may do.
async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| is_own(host, &shared.allowed)) {
        let hint = "this host name is not served; name it with --allow-host\n";
        return (StatusCode::MISDIRECTED_REQUEST, hint).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// An address, `localhost` or an allowed name, with or without a port: only a name can be pointed elsewhere by a
/// foreign DNS.
fn is_own(host: &str, allowed: &[String]) -> bool {
    if host.parse::<SocketAddr>().is_ok() || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost") || allowed.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The process runs.
#[utoipa::path(get, path = "/livez", responses((status = 200, description = "The process runs")))]
async fn livez() -> &'static str {
    "ok\n"
}

/// The first round is done.
#[utoipa::path(get, path = "/readyz", responses(
    (status = 200, description = "Every name has been asked once"),
    (status = 503, description = "The first round is under way")
))]
async fn readyz(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    if shared.ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the first round is under way\n")
    }
}

/// Metrics for Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, description = "OpenMetrics", body = String)))]
async fn metrics(State(shared): State<Shared>) -> Result<Response, StatusCode> {
    let text = ask(&shared, Ask::Metrics).await?;
    let form = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, form)], text).into_response())
}

/// How all names stand.
#[utoipa::path(get, path = "/api/v1/names", responses((status = 200, description = "One object a name", body = Vec<Object>)))]
async fn names(State(shared): State<Shared>) -> Result<Json<Vec<NameStatus>>, StatusCode> {
    Ok(Json(ask(&shared, Ask::Names).await?))
}

/// One name, with what it answered last.
#[utoipa::path(get, path = "/api/v1/names/{host}", params(("host" = String, Path, description = "The name")),
    responses((status = 200, description = "How it stands, and its last answers", body = Object), (status = 404, description = "It is not watched")))]
async fn name(State(shared): State<Shared>, Path(host): Path<String>) -> Result<Response, StatusCode> {
    let host = Host::parse(&host).map_err(|_| StatusCode::NOT_FOUND)?;
    match ask(&shared, |reply| Ask::Name(host, reply)).await? {
        Some((status, windows)) => {
            Ok(Json(serde_json::json!({"name": status, "windows": windows})).into_response())
        }
        None => Err(StatusCode::NOT_FOUND),
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Not before this time: RFC 3339, or a span such as `24h`.
    since: Option<String>,
    /// Of this name only.
    host: Option<String>,
    /// Of these kinds only, separated by commas.
    kind: Option<String>,
    /// At most this many, the newest ones.
    limit: Option<usize>,
}

/// What happened, the oldest first.
#[utoipa::path(get, path = "/api/v1/events", params(Wanted),
    responses((status = 200, description = "Events with their sequence numbers", body = Vec<Object>), (status = 400, description = "A parameter cannot be read")))]
async fn events(State(shared): State<Shared>, Query(wanted): Query<Wanted>) -> Response {
    let filter = match filter(&wanted) {
        Ok(filter) => filter,
        Err(what) => return (StatusCode::BAD_REQUEST, format!("{what}\n")).into_response(),
    };
    from_store(&shared, move |store| store.events(&filter)).await
}

fn filter(wanted: &Wanted) -> Result<Filter, &'static str> {
    let since = wanted.since.as_deref().map(|text| since(text).ok_or("since: write a time or a span"));
    let host = wanted.host.as_deref().map(|text| Host::parse(text).map_err(|_| "host: not a host name"));
    let kinds = wanted.kind.as_deref().unwrap_or_default().split(',').filter(|kind| !kind.is_empty());
    Ok(Filter {
        since: since.transpose()?,
        host: host.transpose()?,
        kinds: kinds.map(str::to_owned).collect(),
        limit: wanted.limit.unwrap_or(EVENTS.0).min(EVENTS.1),
    })
}

/// A time, or a span back from now.
pub(crate) fn since(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    let span = match text.strip_suffix('d').and_then(|days| days.parse::<i64>().ok()) {
        Some(days) => SignedDuration::from_hours(days.checked_mul(24)?),
        None => text.parse().ok()?,
    };
    if span.is_negative() { None } else { Timestamp::now().checked_sub(span).ok() }
}

/// What happens from now on, as server-sent events; `Last-Event-ID` goes on after that one.
#[utoipa::path(get, path = "/api/v1/events/stream",
    responses((status = 200, description = "text/event-stream; one event a message, its id is the sequence number"), (status = 503, description = "Too many readers")))]
async fn stream(
    State(shared): State<Shared>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Message, Infallible>>>, StatusCode> {
    let permit =
        Arc::clone(&shared.streams).try_acquire_owned().map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    let at = last.unwrap_or_else(|| *shared.newest.borrow());
    let state = (shared, at, Vec::<Stored>::new().into_iter(), permit);
    let messages =
        futures_util::stream::unfold(state, |(mut shared, mut at, mut ready, permit)| async move {
            loop {
                if let Some(stored) = ready.next() {
                    at = stored.seq;
                    let message = Message::default().id(at.to_string()).json_data(&stored).ok()?;
                    return Some((Ok(message), (shared, at, ready, permit)));
                }
                let store = Arc::clone(&shared.store);
                let more = tokio::task::spawn_blocking(move || store.after(at, STREAMED)).await.ok()?;
                ready = more.unwrap_or_default().into_iter();
                if ready.len() == 0 {
                    shared.newest.changed().await.ok()?;
                }
            }
        });
    Ok(Sse::new(messages).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Names after this one, in order.
    after: Option<String>,
    /// Of this name only.
    host: Option<String>,
}

/// Stored answers, as `classify --save` writes windows.
#[utoipa::path(get, path = "/api/v1/windows", params(Page),
    responses((status = 200, description = "Windows, and the name to go on after", body = Object)))]
async fn windows(State(shared): State<Shared>, Query(page): Query<Page>) -> Response {
    from_store(&shared, move |store| {
        let hosts = match page.host.as_deref().map(Host::parse) {
            Some(Ok(host)) => vec![host],
            Some(Err(_)) => Vec::new(),
            None => store.answered(page.after.as_deref().unwrap_or_default(), WINDOWS)?,
        };
        let mut windows = Vec::new();
        for host in &hosts {
            windows.extend(store.windows(host)?);
        }
        let after = hosts.last().filter(|_| hosts.len() == WINDOWS).map(Host::to_string);
        Ok(serde_json::json!({"windows": windows, "after": after}))
    })
    .await
}

async fn from_store<T: Serialize + Send + 'static>(
    shared: &Shared,
    read: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Response {
    let store = Arc::clone(&shared.store);
    match tokio::task::spawn_blocking(move || read(&store)).await {
        Ok(Ok(found)) => Json(found).into_response(),
        Ok(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn ask<T>(shared: &Shared, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, StatusCode> {
    let (reply, answer) = oneshot::channel();
    let gone = |_| StatusCode::SERVICE_UNAVAILABLE;
    shared.asks.send(ask(reply)).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    answer.await.map_err(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_else_can_point_here_are_served() {
        let allowed = ["watch.example".to_owned()];
        for own in
            ["127.0.0.1", "127.0.0.1:9476", "10.1.2.3:80", "[::1]:9476", "[::1]", "localhost", "LOCALHOST:1"]
        {
            assert!(is_own(own, &allowed), "{own}");
        }
        assert!(is_own("watch.example:9476", &allowed));
        for foreign in ["attacker.example", "attacker.example:9476", "", "127.0.0.1.attacker.example", "x:y"]
        {
            assert!(!is_own(foreign, &allowed), "{foreign}");
        }
    }

    #[test]
    fn a_time_or_a_span_back() {
        let day = since("24h").unwrap();
        let ago = Timestamp::now().duration_since(day).as_hours();
        assert!((23..=24).contains(&ago), "{ago}");
        assert_eq!(since("2026-07-01T00:00:00Z").unwrap().to_string(), "2026-07-01T00:00:00Z");
        for wrong in ["", "soon", "-24h"] {
            assert!(since(wrong).is_none(), "{wrong}");
        }
    }
}
