//! The text of a document into a [`Node`]. Events of serde-saphyr's parser come in and the tree is built on a stack of
//! its own, not by recursion: the nesting that text can ask for is bounded, and so is what aliases can copy.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Span};

use super::node::{Key, Node, Place, Value};

/// Deeper than any manifest: the schema of a large CRD nests some 40 levels.
const MAX_DEPTH: usize = 128;
/// What anchors and aliases may copy in one document, nodes and bytes of text together.
const MAX_COPIED: usize = 2 << 20;

/// Why a document could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadError {
    /// Where, in the document.
    pub(crate) at: Place,
    /// What is wrong.
    pub(crate) message: String,
}

/// All documents of a text; more than one only where `...` divides them.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, ReadError> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| {
            let (mark, message) = (error.marker(), error.info());
            let message = if message.contains("recursion limit") { too_deep() } else { message };
            ReadError { at: place(&Span::new(*mark, *mark)), message }
        })?;
        builder.take(event, &span)?;
    }
    Ok(builder.roots)
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    copied: usize,
    roots: Vec<Node>,
}

/// A collection whose end has not come yet.
struct Open {
    at: Place,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, merged: Vec<Node>, key: Option<Key> },
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), ReadError> {
        let at = place(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let value = if plain { scalar(&text) } else { Value::Text(text.into()) };
                self.finish(Node { at, value }, anchor)
            }
            Event::Alias(anchor) => {
                let Some(found) = self.anchors.get(&anchor) else {
                    return Err(error(at, "an alias inside of what it stands for"));
                };
                self.copied += weight(found);
                if self.copied > MAX_COPIED {
                    return Err(error(at, "aliases and anchors that expand without measure"));
                }
                let mut copy = found.clone();
                copy.at = Place { bytes: None, ..at };
                self.finish(copy, 0)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(at, anchor, Content::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                let content = Content::Map { entries: Vec::new(), merged: Vec::new(), key: None };
                self.begin(at, anchor, content)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, at: Place, anchor: usize, content: Content) -> Result<(), ReadError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(error(at, &too_deep()));
        }
        self.open.push(Open { at, anchor, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), ReadError> {
        let Some(Open { at, anchor, content }) = self.open.pop() else { return Ok(()) };
        let value = match content {
            Content::List(mut items) => {
                items.shrink_to_fit();
                Value::List(items)
            }
            Content::Map { mut entries, merged, .. } => {
                no_duplicates(&entries)?;
                merge(&mut entries, merged);
                entries.shrink_to_fit();
                Value::Map(entries)
            }
        };
        self.finish(Node { at, value }, anchor)
    }

    /// Puts a complete node where it belongs.
    fn finish(&mut self, mut node: Node, anchor: usize) -> Result<(), ReadError> {
        if anchor > 0 {
            self.copied += weight(&node);
            if self.copied > MAX_COPIED {
                return Err(error(node.at, "aliases and anchors that expand without measure"));
            }
            let mut kept = node.clone();
            kept.forget_bytes();
            self.anchors.insert(anchor, kept);
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.roots.push(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map { entries, merged, key }) => match key.take() {
                None => *key = Some(Key { text: key_text(&node)?, at: node.at }),
                Some(found) if &*found.text == "<<" => {
                    node.forget_bytes();
                    match node.value {
                        Value::List(maps) => merged.extend(maps),
                        _ => merged.push(node),
                    }
                }
                Some(found) => entries.push((found, node)),
            },
        }
        Ok(())
    }
}

/// Adds what the mapping does not say itself; the first of several merged mappings wins.
fn merge(entries: &mut Vec<(Key, Node)>, merged: Vec<Node>) {
    for map in merged {
        if let Value::Map(more) = map.value {
            for (key, value) in more {
                if !entries.iter().any(|(found, _)| found.text == key.text) {
                    entries.push((key, value));
                }
            }
        }
    }
}

fn no_duplicates(entries: &[(Key, Node)]) -> Result<(), ReadError> {
    let mut keys: Vec<&Key> = entries.iter().map(|(key, _)| key).collect();
    keys.sort_unstable_by_key(|key| (&key.text, key.at));
    match keys.windows(2).find(|pair| pair[0].text == pair[1].text) {
        Some(pair) => Err(error(pair[1].at, &format!("key {:?} stands twice in one mapping", pair[1].text))),
        None => Ok(()),
    }
}

fn key_text(node: &Node) -> Result<Box<str>, ReadError> {
    match &node.value {
        Value::Text(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string().into()),
        Value::Float(number) => Ok(number.to_string().into()),
        Value::Bool(value) => Ok(value.to_string().into()),
        Value::Null => Ok("null".into()),
        Value::List(_) | Value::Map(_) => Err(error(node.at, "a key that is no text")),
    }
}

/// YAML 1.2's core schema, as far as manifests use it.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.trim_start_matches(['-', '+']);
    let numeric =
        digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && text.len() - digits.len() <= 1;
    if !numeric || (digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.")) {
        return Value::Text(text.into());
    }
    if let Ok(number) = text.parse() {
        return Value::Integer(number);
    }
    let float = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
    text.parse().ok().filter(|_| float).map_or_else(|| Value::Text(text.into()), Value::Float)
}

/// Nodes and bytes of text.
fn weight(node: &Node) -> usize {
    1 + match &node.value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(weight).sum(),
        Value::Map(entries) => entries.iter().map(|(key, value)| key.text.len() + weight(value)).sum(),
        _ => 0,
    }
}

fn place(span: &Span) -> Place {
    let number = |wide: usize| u32::try_from(wide).unwrap_or(u32::MAX);
    let bytes = match (span.start.byte_offset(), span.end.byte_offset()) {
        (Some(start), Some(end)) => Some((number(start), number(end))),
        _ => None,
    };
    Place { line: number(span.start.line()), column: number(span.start.col() + 1), bytes }
}

fn too_deep() -> String {
    format!("nested more than {MAX_DEPTH} levels deep")
}

fn error(at: Place, message: &str) -> ReadError {
    ReadError { at, message: message.to_owned() }
}
