//! What istiod refuses of header operations and of a CORS policy.

use super::Refusals;
use super::parts::{
    ADD_HEADER, AUTHORITY, CORS, CORS_HEADER, HEADER_VALUE, METHOD, ORIGINS, REMOVE_HEADER, duration, place,
    text,
};
use super::regex::regex;
use crate::manifest::node::{Key, Node};
use crate::manifest::spelled::go_duration;

/// `headers` of a route or of a destination.
pub(super) fn operations(node: &Node, refusals: &mut Refusals<'_>) {
    for (side, keeps_authority) in [("request", true), ("response", false)] {
        let Some(side) = node.get("headers").and_then(|headers| headers.get(side)) else { continue };
        for change in ["add", "set"] {
            for (key, value) in side.get(change).map_or(&[][..], Node::entries) {
                let (from, good) = if keeps_authority {
                    (
                        &ADD_HEADER,
                        !key.text.is_empty() && (!key.text.starts_with(':') || is_authority(&key.text)),
                    )
                } else {
                    (&REMOVE_HEADER, is_changeable(&key.text))
                };
                refusals.unless(good, key.at, from, || format!("the header {:?} cannot be set", key.text));
                let text = value.text().unwrap_or_default();
                refusals.unless(is_value(text), value.at, &HEADER_VALUE, || {
                    format!("{text:?} is no value of a header")
                });
            }
        }
        for name in side.list("remove") {
            let text = name.text().unwrap_or_default();
            refusals.unless(is_changeable(text), name.at, &REMOVE_HEADER, || {
                format!("the header {text:?} cannot be removed")
            });
        }
    }
}

fn is_changeable(name: &str) -> bool {
    !name.is_empty() && !name.eq_ignore_ascii_case("host") && !name.starts_with(':')
}

fn is_authority(name: &str) -> bool {
    name.eq_ignore_ascii_case(":authority") || name.eq_ignore_ascii_case("host")
}

/// The authority is set in one place only: `rewrite` or a header.
pub(super) fn authority(route: &Node, refusals: &mut Refusals<'_>) {
    let mut current = route.text_at("rewrite.authority").unwrap_or_default();
    let entries = |change: &str| -> &[(Key, Node)] {
        route.get("headers.request").and_then(|side| side.get(change)).map_or(&[][..], Node::entries)
    };
    let all = entries("set").iter().chain(entries("add")).filter(|(key, _)| is_authority(&key.text));
    for (key, value) in all {
        if !current.is_empty() {
            refusals.add(key.at, &AUTHORITY, "the authority is set in several places");
            return;
        }
        current = value.text().unwrap_or_default();
    }
}

/// A token of HTTP.
pub(super) fn is_name(name: &str) -> bool {
    let others = b"!#$%&'*+-.^_`|~";
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || others.contains(&b))
}

/// Envoy's format strings: `%NAME%`, `%NAME(arguments)%`, `%%`, and no control characters but the tab.
fn is_value(value: &str) -> bool {
    #[derive(Clone, Copy, PartialEq)]
    enum At {
        Literal,
        Name,
        Arguments,
        Item,
        String,
        AfterItem,
        AfterList,
        End,
    }
    if value.bytes().any(|b| (b < 0x20 && b != b'\t') || b == 0x7f) {
        return false;
    }
    let bytes = value.as_bytes();
    let (mut at, mut index) = (At::Literal, 0);
    while let Some(&byte) = bytes.get(index) {
        let next = bytes.get(index + 1).copied();
        at = match (at, byte) {
            (At::Literal, b'%') => match next {
                None => return false,
                Some(b'%') => {
                    index += 1;
                    At::Literal
                }
                Some(_) => At::Name,
            },
            (At::Name | At::End, b'%') => At::Literal,
            (At::Name, b'(') | (At::Arguments, b' ') => At::Arguments,
            (At::Arguments, b'[') | (At::AfterItem, b',') => At::Item,
            (At::Arguments, _) | (At::Item, b'"') => At::String,
            (At::AfterItem, b']') => At::AfterList,
            (At::String, b'\\') => {
                if next.is_none() {
                    return false;
                }
                index += 1;
                At::String
            }
            (At::String | At::AfterList, b')') => At::End,
            (At::String, b'"') => At::AfterItem,
            (At::Literal | At::Name | At::String, _)
            | (At::AfterItem | At::Item | At::AfterList | At::End, b' ') => at,
            _ => return false,
        };
        index += 1;
    }
    at == At::Literal
}

const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "*"];

pub(super) fn cors(policy: &Node, refusals: &mut Refusals<'_>) {
    for origin in policy.list("allowOrigins") {
        let given = ["exact", "prefix", "regex"].iter().any(|key| !text(origin, key).is_empty());
        refusals.unless(given, origin.at, &ORIGINS, || "the origin matches nothing".to_owned());
        if given {
            regex(origin, refusals);
        }
    }
    for method in policy.list("allowMethods") {
        let written = method.text().unwrap_or_default();
        refusals
            .unless(METHODS.contains(&written), method.at, &METHOD, || format!("{written:?} is no method"));
    }
    for key in ["allowHeaders", "exposeHeaders"] {
        for name in policy.list(key) {
            let written = name.text().unwrap_or_default();
            refusals.unless(is_name(written), name.at, &CORS_HEADER, || format!("{written:?} is no header"));
        }
    }
    duration(policy, "maxAge", refusals);
    if policy.text_at("maxAge").and_then(go_duration).is_some_and(|age| age.subsec_nanos() > 0) {
        refusals.add(place(policy, "maxAge"), &CORS, "`maxAge` has parts of a second");
    }
}

#[cfg(test)]
mod tests {
    use super::is_value;

    #[test]
    fn header_values_are_read_as_envoy_reads_them() {
        for good in ["foo", "%HOSTNAME%", "100%%", "a %REQ(X)% b", r#"%META(["a", "b"])%"#, "tab\t", "é"] {
            assert!(is_value(good), "{good}");
        }
        for wrong in ["abc%123", "%START_TIME%%", "%", "%A(", r#"%A(["b" "c"])%"#, "a\nb"] {
            assert!(!is_value(wrong), "{wrong}");
        }
    }
}
