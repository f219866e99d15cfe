//! Whether Go's `regexp` reads a regular expression: text in, yes or no out. The two dialects are alike (RE2); what only
//! one of them has is told apart here.

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::hir::translate::TranslatorBuilder;

use super::Refusals;
use super::parts::REGEX;
use crate::manifest::node::{Node, Place};

/// Greatest length that istiod takes, bytes.
pub(super) const MAX_BYTES: usize = 1024;
/// Go's limit of a counted repetition.
const MAX_COUNT: u32 = 1000;

pub(super) fn is_readable(pattern: &str) -> bool {
    let Ok(ast) = ParserBuilder::new().nest_limit(1000).build().parse(pattern) else { return false };
    if counts(pattern).any(|count| count > MAX_COUNT) {
        return false;
    }
    TranslatorBuilder::new().utf8(false).build().translate(pattern, &ast).is_ok()
}

/// `regex` of a match, where there is one.
pub(super) fn regex(value: &Node, refusals: &mut Refusals<'_>) {
    let Some(node) = value.get("regex") else { return };
    let pattern = node.text().unwrap_or_default();
    refusals.unless(!pattern.is_empty(), node.at, &REGEX, || "the regular expression is empty".to_owned());
    expression(pattern, node.at, refusals);
}

/// A regular expression that RE2 has to read.
pub(super) fn expression(pattern: &str, at: Place, refusals: &mut Refusals<'_>) {
    let good = pattern.len() <= MAX_BYTES && is_readable(pattern);
    refusals
        .unless(good, at, &REGEX, || "the regular expression is none that RE2 reads, or too long".to_owned());
}

/// Numbers in braces.
fn counts(pattern: &str) -> impl Iterator<Item = u32> + '_ {
    let groups = pattern.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    groups.flat_map(|(inner, _)| inner.split(',')).filter_map(|count| count.parse().ok())
}
