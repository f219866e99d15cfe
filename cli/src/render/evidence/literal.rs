//! Text from anywhere in, text that HTML and SVG show literally out; the page and its drawings share it.

use crate::console::escape;

/// Text as HTML shows it literally, in elements and in quoted attributes.
pub(super) fn html(text: &str) -> String {
    escape(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
