//! An answer with a body of known length: short text, or JSON. Made by `public` and `control`.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

/// A body of known length.
pub(crate) type Reply = Response<Full<Bytes>>;

/// A short text.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}

/// A value as JSON.
pub(crate) fn json_reply(status: StatusCode, body: &impl Serialize) -> Reply {
    // These types have only string keys and finite numbers, so encoding them does not fail.
    let text = serde_json::to_vec(body).unwrap_or_default();
    let mut reply = Response::new(Full::new(Bytes::from(text)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}
