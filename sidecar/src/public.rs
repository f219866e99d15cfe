//! The listener that the load balancer and the kubelet see: three health answers and nothing else. Also finds the row
//! of the route table for `control`, which answers the rest.

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::{Request, Response, StatusCode};

use crate::control;
use crate::drain::{Answer, Seen};
use crate::engine::Engine;
use crate::reply::{Reply, plain};
use crate::routes::{Action, Audience, find};

/// HAProxy's `http-check send-state`.
const SERVER_STATE: &str = "x-haproxy-server-state";

/// Answers one request of any listener; `audience` says which paths it has.
pub(crate) async fn answer(
    request: Request<Incoming>,
    peer: IpAddr,
    audience: Audience,
    engine: Rc<Engine>,
) -> Result<Reply, Infallible> {
    let Some(route) = find(request.uri().path(), audience) else {
        return Ok(plain(StatusCode::NOT_FOUND, "no such path\n"));
    };
    if !route.methods.contains(&request.method().as_str()) {
        let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        if let Ok(allow) = HeaderValue::from_str(&route.methods.join(", ")) {
            reply.headers_mut().insert(ALLOW, allow);
        }
        return Ok(reply);
    }
    Ok(match route.action {
        Action::LbHealth => lb_health(&request, peer, &engine),
        Action::Readiness => readiness(&request, &engine),
        Action::Liveness => liveness(&request, &engine),
        action => control::answer(action, &engine).await,
    })
}

fn lb_health(request: &Request<Incoming>, ip: IpAddr, engine: &Rc<Engine>) -> Reply {
    let header = request.headers().get(SERVER_STATE).and_then(|value| value.to_str().ok());
    match engine.probe(Seen { ip, header: header.map(str::to_owned) }) {
        Answer::Ok => health(request, StatusCode::OK, Bytes::from_static(b"OK"), "\"ok\""),
        Answer::Down => {
            health(request, StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(b"DRAIN"), "\"down\"")
        }
        Answer::NoNewWork => {
            // The code was checked when the flag was read.
            let code = StatusCode::from_u16(engine.drain_status().code).unwrap_or(StatusCode::NOT_FOUND);
            health(request, code, engine.args.lb_drain_body.clone().into(), "\"no-new-work\"")
        }
    }
}

fn readiness(request: &Request<Incoming>, engine: &Engine) -> Reply {
    if engine.drain().ready() {
        health(request, StatusCode::OK, Bytes::from_static(b"OK"), "\"ready\"")
    } else {
        health(request, StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(b"NOT READY"), "\"not-ready\"")
    }
}

fn liveness(request: &Request<Incoming>, engine: &Engine) -> Reply {
    if engine.drain().live() {
        health(request, StatusCode::OK, Bytes::from_static(b"OK"), "\"live\"")
    } else {
        health(request, StatusCode::INTERNAL_SERVER_ERROR, Bytes::from_static(b"FAULT"), "\"fault\"")
    }
}

/// A health answer may be reused for a second, and is not sent again to one who has it. Only success is ever turned
/// into 304: a cached failure must stay a failure in the eyes of whoever counts statuses.
fn health(request: &Request<Incoming>, status: StatusCode, body: Bytes, etag: &'static str) -> Reply {
    let known = request.headers().get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let mut reply = if known && status == StatusCode::OK {
        Response::new(Full::default())
    } else {
        Response::new(Full::new(body))
    };
    *reply.status_mut() = if known && status == StatusCode::OK { StatusCode::NOT_MODIFIED } else { status };
    let headers = reply.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=1"));
    headers.insert(ETAG, HeaderValue::from_static(etag));
    reply
}
