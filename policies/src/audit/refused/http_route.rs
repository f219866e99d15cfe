//! What istiod refuses of an HTTP route.

use super::Refusals;
use super::destination::{destination, gateway_names, weights};
use super::headers::{self, is_name};
use super::parts::{
    ABORT, CONFLICT, DELAY, DIRECT, FAULT, GRPC, HTTP_MATCH, HTTP_ROUTE, HTTP_WEIGHTS, MATCH_HEADER, MIRRORS,
    PERCENTAGE, REDIRECT, RETRY, REWRITE, ROUTES, STATUS, STRING_MATCH, duration, labels, optional_port,
    place, text,
};
use super::regex::{expression, regex};
use crate::manifest::node::{Node, Place, Value};
use crate::manifest::spelled::is_dns_label;

pub(super) fn check(route: &Node, delegate: bool, refusals: &mut Refusals<'_>) {
    conflicts(route, delegate, refusals);
    for found in route.list("match") {
        matched(found, refusals);
    }
    headers::operations(route, refusals);
    if let Some(policy) = route.get("corsPolicy") {
        headers::cors(policy, refusals);
    }
    if let Some(fault) = route.get("fault") {
        injected(fault, refusals);
    }
    if route.get("mirrorPercent").and_then(Node::integer).is_some_and(|percent| percent > 100) {
        refusals.add(place(route, "mirrorPercent"), &HTTP_ROUTE, "`mirrorPercent` is above 100");
    }
    percent(route.get("mirrorPercentage"), &HTTP_ROUTE, refusals);
    if let Some(mirror) = route.get("mirror") {
        destination(mirror, refusals);
    }
    for mirror in route.list("mirrors") {
        match mirror.get("destination") {
            Some(found) => {
                destination(found, refusals);
                percent(mirror.get("percentage"), &MIRRORS, refusals);
            }
            None => refusals.add(mirror.at, &MIRRORS, "the mirror lacks a destination"),
        }
    }
    if let Some(redirect) = route.get("redirect") {
        redirected(redirect, route.list("match"), refusals);
    }
    if let Some(direct) = route.get("directResponse") {
        direct_response(direct, refusals);
    }
    if let Some(retries) = route.get("retries") {
        retried(retries, refusals);
    }
    if let Some(rewrite) = route.get("rewrite") {
        rewritten(rewrite, refusals);
    }
    headers::authority(route, refusals);
    for one in route.list("route") {
        headers::operations(one, refusals);
        match one.get("destination") {
            Some(found) => destination(found, refusals),
            None => refusals.add(one.at, &HTTP_WEIGHTS, "the route lacks a destination"),
        }
    }
    weights(route.list("route"), &HTTP_WEIGHTS, refusals);
    duration(route, "timeout", refusals);
}

fn conflicts(route: &Node, delegate: bool, refusals: &mut Refusals<'_>) {
    let has = |key: &str| route.get(key).is_some();
    let routes = !route.list("route").is_empty();
    let mut tell = |key: &str, message: &str| refusals.add(place(route, key), &CONFLICT, message);
    if !delegate && has("delegate") {
        if has("redirect") || routes {
            tell("delegate", "a route that delegates has a `route` or a `redirect` too");
        }
        return;
    }
    if delegate && has("delegate") {
        tell("delegate", "a delegate delegates");
    }
    let alone = ["redirect", "directResponse"].into_iter().find(|key| has(key));
    if let Some(key) = alone {
        let others = [("route", routes), ("fault", has("fault")), ("rewrite", has("rewrite"))];
        let direct = [("directResponse", key == "redirect" && has("directResponse"))];
        for (other, _) in others.into_iter().chain(direct).filter(|(_, set)| *set) {
            tell(other, &format!("`{key}` beside `{other}`"));
        }
    } else if !routes {
        refusals.add(route.at, &CONFLICT, "the HTTP route leads nowhere");
    }
    if has("mirror") && !route.list("mirrors").is_empty() {
        refusals.add(place(route, "mirror"), &CONFLICT, "`mirror` beside `mirrors`");
    }
}

/// Routing by claims of a token works at gateways only.
pub(super) fn claims(spec: &Node, refusals: &mut Refusals<'_>) {
    for found in spec.list("http").iter().flat_map(|route| route.list("match")) {
        for map in ["headers", "withoutHeaders"] {
            for (key, _) in found.get(map).map_or(&[][..], Node::entries) {
                if is_claim(&key.text) {
                    refusals.add(key.at, &ROUTES, "routing by a token's claims works at gateways only");
                }
            }
        }
    }
}

fn is_claim(name: &str) -> bool {
    let prefix = "@request.auth.claims";
    let Some(rest) = name.get(prefix.len()..) else { return false };
    let is = name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    is && ((rest.starts_with('.') && rest.len() > 1)
        || (rest.starts_with('[') && rest.ends_with(']') && rest.len() > 2))
}

fn matched(found: &Node, refusals: &mut Refusals<'_>) {
    let pseudo = [":method", ":scheme", ":authority", ":path", ":status"];
    for map in ["headers", "withoutHeaders"] {
        for (key, value) in found.get(map).map_or(&[][..], Node::entries) {
            let name = &*key.text;
            let good = is_claim(name) || pseudo.contains(&name) || is_name(name);
            refusals.unless(good, key.at, &MATCH_HEADER, || format!("{name:?} is no header"));
            if map == "headers" || value.text_at("regex") != Some("*") {
                string(value, refusals);
            }
        }
    }
    if let Some(uri) = found.get("uri") {
        regex(uri, refusals);
    }
    for key in ["scheme", "method", "authority"] {
        if let Some(value) = found.get(key) {
            string(value, refusals);
        }
    }
    for (_, value) in found.get("queryParams").map_or(&[][..], Node::entries) {
        string(value, refusals);
    }
    optional_port(found.get("port"), refusals);
    labels(found, "sourceLabels", &HTTP_MATCH, refusals);
    gateway_names(found.list("gateways"), refusals);
    let namespace = text(found, "sourceNamespace");
    let good = namespace.is_empty() || is_dns_label(namespace);
    refusals.unless(good, place(found, "sourceNamespace"), &HTTP_MATCH, || {
        format!("{namespace:?} is no namespace")
    });
}

/// A match of a text; an empty prefix is none.
fn string(value: &Node, refusals: &mut Refusals<'_>) {
    if value.text_at("prefix") == Some("") {
        refusals.add(value.at, &STRING_MATCH, "the prefix is empty");
    }
    regex(value, refusals);
}

fn number(node: Option<&Node>) -> Option<f64> {
    match node?.value {
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        Value::Integer(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

fn percent(node: Option<&Node>, from: &'static super::GoCheck, refusals: &mut Refusals<'_>) {
    let value = number(node.and_then(|node| node.get("value")));
    if let (Some(node), Some(value)) = (node, value) {
        refusals
            .unless((0.0..=100.0).contains(&value), node.at, from, || format!("{value} is no percentage"));
    }
}

fn injected(fault: &Node, refusals: &mut Refusals<'_>) {
    let (abort, delay) = (fault.get("abort"), fault.get("delay"));
    if abort.is_none() && delay.is_none() {
        refusals.add(fault.at, &FAULT, "the fault has neither `abort` nor `delay`");
    }
    for part in [abort, delay].into_iter().flatten() {
        if let Some(value) = number(part.get("percentage.value")) {
            let good = value == 0.0 || (0.0001..=100.0).contains(&value);
            refusals
                .unless(good, place(part, "percentage"), &PERCENTAGE, || format!("{value} is no percentage"));
        }
    }
    if let Some(abort) = abort {
        if let Some(status) = abort.get("grpcStatus") {
            let known = status.text().is_some_and(|status| GRPC_STATUSES.contains(&status));
            refusals.unless(known, status.at, &GRPC, || "the gRPC status is none".to_owned());
        }
        if let Some(status) = abort.get("httpStatus") {
            http_status(status.integer(), status.at, refusals);
        }
        if let Some(error) = abort.get("http2Error") {
            refusals.add(error.at, &ABORT, "`http2Error` is not supported");
        }
    }
    if let Some(delay) = delay {
        duration(delay, "fixedDelay", refusals);
        if let Some(node) = delay.get("exponentialDelay") {
            refusals.add(node.at, &DELAY, "`exponentialDelay` is not supported");
        }
    }
}

const GRPC_STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

fn http_status(status: Option<i64>, at: Place, refusals: &mut Refusals<'_>) {
    let good = status.is_some_and(|status| (200..=600).contains(&status));
    refusals.unless(good, at, &STATUS, || "the status is not within 200 to 600".to_owned());
}

fn redirected(redirect: &Node, matches: &[Node], refusals: &mut Refusals<'_>) {
    let set = |key: &str| !text(redirect, key).is_empty();
    let prefix = set("prefixRewrite");
    if set("uri") && prefix {
        refusals.add(redirect.at, &REDIRECT, "`uri` beside `prefixRewrite`");
    }
    let other = |found: &Node| found.get("uri").is_some_and(|uri| uri.get("prefix").is_none());
    if prefix && matches.iter().any(other) {
        refusals.add(redirect.at, &REDIRECT, "`prefixRewrite` behind a match that is no prefix");
    }
    let has_port = redirect.get("port").is_some() || redirect.get("derivePort").is_some();
    if !["uri", "prefixRewrite", "authority", "scheme"].iter().any(|key| set(key)) && !has_port {
        refusals.add(redirect.at, &REDIRECT, "the redirect changes nothing");
    }
    let code = redirect.integer_at("redirectCode").unwrap_or(0);
    refusals.unless(code == 0 || (300..=399).contains(&code), redirect.at, &REDIRECT, || {
        format!("{code} is no code of a redirect")
    });
    let scheme = text(redirect, "scheme");
    refusals.unless(matches!(scheme, "" | "http" | "https"), redirect.at, &REDIRECT, || {
        format!("{scheme:?} is neither http nor https")
    });
    optional_port(redirect.get("port"), refusals);
}

fn direct_response(direct: &Node, refusals: &mut Refusals<'_>) {
    let text = direct.get("body").map_or("", |body| text(body, "string"));
    let bytes = direct.get("body").map_or(0, |body| super::parts::text(body, "bytes").len() / 4 * 3);
    let size = text.len().max(bytes);
    refusals.unless(size <= 1 << 20, place(direct, "body"), &DIRECT, || "the body exceeds 1 MB".to_owned());
    let status = direct.integer_at("status").and_then(|status| i32::try_from(status).ok());
    http_status(status.map(i64::from).or(Some(0)), place(direct, "status"), refusals);
}

fn retried(retries: &Node, refusals: &mut Refusals<'_>) {
    let attempts = retries.integer_at("attempts").unwrap_or(0);
    refusals
        .unless(attempts >= 0, place(retries, "attempts"), &RETRY, || "`attempts` is negative".to_owned());
    let on = text(retries, "retryOn");
    let more = ["perTryTimeout", "retryRemoteLocalities"].iter().any(|key| retries.get(key).is_some());
    if attempts == 0 && (more || !on.is_empty()) {
        refusals.add(retries.at, &RETRY, "retries are configured, and `attempts` is 0");
    }
    duration(retries, "perTryTimeout", refusals);
    duration(retries, "backoff", refusals);
    for condition in on.split(',').filter(|_| !on.is_empty()) {
        let digits = condition.strip_prefix('+').unwrap_or(condition);
        let status = digits.parse::<u16>().is_ok_and(|status| HTTP_STATUSES.contains(&status));
        let known = status || RETRY_ON.contains(&condition);
        refusals.unless(known, place(retries, "retryOn"), &RETRY, || {
            format!("{condition:?} is no condition to retry on")
        });
    }
}

const RETRY_ON: [&str; 16] = [
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "retriable-headers",
    "envoy-ratelimited",
    "http3-post-connect-failure",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
];

/// Those that Go's `net/http` has a text for.
const HTTP_STATUSES: [u16; 62] = [
    100, 101, 102, 103, 200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 307,
    308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421,
    422, 423, 424, 425, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
];

fn rewritten(rewrite: &Node, refusals: &mut Refusals<'_>) {
    let uri = !text(rewrite, "uri").is_empty();
    let by_regex = rewrite.get("uriRegexRewrite");
    if uri && by_regex.is_some() {
        refusals.add(rewrite.at, &REWRITE, "`uri` beside `uriRegexRewrite`");
    }
    if !uri && by_regex.is_none() && text(rewrite, "authority").is_empty() {
        refusals.add(rewrite.at, &REWRITE, "the rewrite changes nothing");
    }
    if let Some(found) = by_regex {
        let pattern = text(found, "match");
        if pattern.is_empty() || text(found, "rewrite").is_empty() {
            refusals.add(found.at, &REWRITE, "`uriRegexRewrite` lacks `match` or `rewrite`");
        } else {
            expression(pattern, place(found, "match"), refusals);
        }
    }
}
