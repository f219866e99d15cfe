//! Events as text and as a page. The events of a store come in; sentences go out, the oldest first.

use std::fmt::Write as _;

use crate::console::{Console, Tone};
use crate::store::Stored;

/// One sentence a line.
#[must_use]
pub fn text(events: &[Stored], console: &Console) -> String {
    let mut text = console.text();
    for Stored { event, .. } in events {
        text.add(Tone::Dim, format!("{:.0}  ", event.at));
        text.add(Tone::Strong, event.host.as_str());
        if let Some(family) = event.record_type {
            text.plain(format!(" {family}"));
        }
        text.plain(format!(" {}", event.what));
        if let Some(source) = &event.source {
            text.add(Tone::Dim, format!("  (seen at {source})"));
        }
        text.end();
    }
    text.finish()
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>egress-audit events</title>\
<style>:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:1rem auto;padding:0 1rem}\
li{margin:.3rem 0;overflow-wrap:anywhere}time,small{opacity:.7}ol{padding-left:1.2rem}</style>\
<h1>Events</h1>";

/// A page of its own.
#[must_use]
pub fn html(events: &[Stored]) -> String {
    let mut page = String::from(HEAD);
    let _ = write!(page, "<p>{} events</p><ol>", events.len());
    for Stored { event, .. } in events {
        let family = event.record_type.map(|family| family.to_string()).unwrap_or_default();
        let source = event.source.as_deref().unwrap_or_default();
        let _ = write!(
            page,
            "<li id=\"{}\"><time>{:.0}</time> <b>{}</b> {} {} <small>{}</small></li>",
            event.id,
            event.at,
            escape(event.host.as_str()),
            family,
            escape(&event.what.to_string()),
            escape(source)
        );
    }
    page.push_str("</ol></html>\n");
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
