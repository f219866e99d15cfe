//! A resource against the shape of its kind, as the API server does it: unknown fields are dropped, then types, bounds and
//! CEL rules are checked. Faults with their places go out, and the tree without what was dropped, which is what istiod's
//! webhook gets to see.

use std::borrow::Cow;

use super::fault::{Fault, What};
use super::{Schema, Shape, Type, cel, metadata};
use crate::manifest::clip;
use crate::manifest::node::{Key, Node, Place, Value};

/// What became of a resource.
pub(crate) struct Checked<'a> {
    /// Without unknown fields and nulls.
    pub(crate) kept: Cow<'a, Node>,
    /// In the order of the file.
    pub(crate) faults: Vec<Fault>,
}

/// Checks the whole of a resource.
pub(crate) fn check(root: &Node, shape: Shape) -> Checked<'_> {
    let mut walk = Walk { shape, faults: Vec::new(), path: Vec::new(), prunes: false };
    metadata::check(root, shape.served(), &mut walk.faults);
    if let Some(schema) = shape.node(shape.root) {
        walk.node(root, schema);
    }
    let kept = if walk.prunes {
        let mut kept = root.clone();
        prune(&mut kept, shape.root, shape, true);
        Cow::Owned(kept)
    } else {
        Cow::Borrowed(root)
    };
    Checked { kept, faults: walk.faults }
}

/// Fields of any object of the API server.
const OF_ALL: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

struct Walk {
    shape: Shape,
    faults: Vec<Fault>,
    path: Vec<Step>,
    prunes: bool,
}

enum Step {
    Field(Box<str>),
    /// A key of a map of any keys.
    Key(Box<str>),
    Item(usize),
}

impl Walk {
    fn add(&mut self, at: Place, what: What, message: String) {
        self.faults.push(Fault { at, path: self.path(), what, message });
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) if path.is_empty() => path.push_str(name),
                Step::Field(name) => path.extend([".", name]),
                Step::Key(key) => path.extend(["[", key, "]"]),
                Step::Item(index) => path.extend(["[", &index.to_string(), "]"]),
            }
        }
        path
    }

    /// The name that a reader knows the place by.
    fn name(&self) -> String {
        let last = self.path.iter().rev().find_map(|step| match step {
            Step::Field(name) => Some(&**name),
            _ => None,
        });
        format!("`{}`", clip(last.unwrap_or("the resource")))
    }

    fn node(&mut self, node: &Node, schema: &'static Schema) {
        if node.value == Value::Null && (schema.nullable || schema.open) {
            return;
        }
        if let Some(wanted) = schema.kind.filter(|wanted| !wanted.takes(node)) {
            let text = format!("{} is {}, and has to be {}", self.name(), kind_of(node), wanted.words());
            self.add(node.at, What::Type, text);
            return;
        }
        self.scalar(node, schema);
        match &node.value {
            Value::Map(entries) => self.map(node, entries, schema),
            Value::List(items) => self.list(node, items, schema),
            _ => {}
        }
        if !holds(self.shape, node, schema) {
            let words = choices(self.shape, schema);
            let text = if words.is_empty() {
                format!("{} has fields of which one at most can be set", self.name())
            } else {
                format!("{} has to have one of {}, and not several", self.name(), words.join(", "))
            };
            self.add(node.at, What::Together, text);
        }
        for (rule, says) in &schema.rules {
            let Some(holds) = cel::find(rule) else { continue };
            if let Some(at) = holds(node) {
                let what = if at.1 { What::Together } else { What::Value };
                let text = format!("{}: {says}", self.name());
                self.add(at.0, what, text);
            }
        }
    }

    fn scalar(&mut self, node: &Node, schema: &Schema) {
        let name = self.name();
        if let Some(number) = number(node) {
            if schema.minimum.is_some_and(|least| number < least) {
                let least = schema.minimum.unwrap_or_default();
                self.add(node.at, What::Value, format!("{name} is {number}, and has to be {least} at least"));
            }
            if schema.maximum.is_some_and(|most| number > most) {
                let most = schema.maximum.unwrap_or_default();
                self.add(node.at, What::Value, format!("{name} is {number}, and has to be {most} at most"));
            }
            let wide = i32::try_from(node.integer().unwrap_or(i64::MAX)).is_err();
            if schema.format.as_deref() == Some("int32") && wide {
                self.add(node.at, What::Value, format!("{name} is {number}, which is no 32-bit number"));
            }
        }
        let Some(text) = node.text() else { return };
        if !schema.values.is_empty() && !schema.values.iter().any(|value| value == text) {
            let known = schema.values.join(", ");
            self.add(
                node.at,
                What::Value,
                format!("{name} is {:?}, and has to be one of {known}", clip(text)),
            );
        }
        let length = text.chars().count();
        if schema.min_length.is_some_and(|least| length < least) {
            self.add(node.at, What::Value, format!("{name} is too short"));
        }
        if let Some(most) = schema.max_length.filter(|most| length > *most) {
            self.add(node.at, What::Value, format!("{name} has {length} characters, and {most} are allowed"));
        }
        if schema.pattern.as_deref().is_some_and(|pattern| !matches(pattern, text)) {
            self.add(
                node.at,
                What::Value,
                format!("{name} is {:?}, which does not have the form of one", clip(text)),
            );
        }
        if matches!(schema.format.as_deref(), Some("byte" | "binary")) && !is_base64(text) {
            self.add(node.at, What::Value, format!("{name} is not base64"));
        }
    }

    fn map(&mut self, node: &Node, entries: &[(Key, Node)], schema: &'static Schema) {
        if let Some(most) = schema.max_properties.filter(|most| entries.len() > *most) {
            let text = format!("{} has {} entries, and {most} are allowed", self.name(), entries.len());
            self.add(node.at, What::Value, text);
        }
        for name in &schema.required {
            if node.get_key(name).is_none() {
                let text = format!("{} lacks `{name}`", self.name());
                self.path.push(Step::Field(name.as_str().into()));
                self.add(node.at, What::Missing, text);
                self.path.pop();
            }
        }
        if schema.open && schema.properties.is_empty() {
            return;
        }
        for (key, value) in entries {
            let of_all = self.path.is_empty() && OF_ALL.contains(&&*key.text);
            if of_all {
                continue;
            }
            let child = schema.properties.get(&*key.text).copied();
            let step =
                if child.is_some() { Step::Field(key.text.clone()) } else { Step::Key(key.text.clone()) };
            let Some(child) = child.or(schema.any).and_then(|child| self.shape.node(child)) else {
                self.unknown(key, schema);
                continue;
            };
            self.prunes |= value.value == Value::Null;
            self.path.push(step);
            self.node(value, child);
            self.path.pop();
        }
    }

    fn unknown(&mut self, key: &Key, schema: &'static Schema) {
        self.prunes = true;
        let mut instead: Vec<&'static str> = schema.properties.keys().map(String::as_str).collect();
        if self.path.is_empty() {
            instead.extend(OF_ALL);
        }
        self.path.push(Step::Field(key.text.clone()));
        let since = self.shape.later().find(|(_, later)| later.has(&self.path)).map(|(line, _)| line);
        let release = self.shape.release();
        let text = match since {
            Some(since) => {
                format!("`{}` is a field since Istio {since}, and {release} drops it", clip(&key.text))
            }
            None => format!("`{}` is no field", clip(&key.text)),
        };
        self.add(key.at, What::Unknown { instead, since }, text);
        self.path.pop();
    }

    fn list(&mut self, node: &Node, items: &[Node], schema: &'static Schema) {
        if schema.min_items.is_some_and(|least| items.len() < least) {
            self.add(node.at, What::Value, format!("{} is empty", self.name()));
        }
        if let Some(most) = schema.max_items.filter(|most| items.len() > *most) {
            let text = format!("{} has {} items, and {most} are allowed", self.name(), items.len());
            self.add(node.at, What::Value, text);
        }
        for (index, item) in items.iter().enumerate() {
            let keys = |item: &Node| -> Vec<Option<Value>> {
                schema
                    .unique_by
                    .iter()
                    .map(|key| item.get_key(key).map(|value| value.value.clone()))
                    .collect()
            };
            if !schema.unique_by.is_empty() && items[..index].iter().any(|other| keys(other) == keys(item)) {
                let text = format!("{} has two items of one {}", self.name(), schema.unique_by.join(", "));
                self.add(item.at, What::Value, text);
            }
            if let Some(child) = schema.items.and_then(|child| self.shape.node(child)) {
                self.path.push(Step::Item(index));
                self.node(item, child);
                self.path.pop();
            }
        }
    }
}

impl Shape {
    /// Whether there is a field at the end of a path.
    fn has(self, path: &[Step]) -> bool {
        let mut schema = self.node(self.root);
        for step in path {
            let child = schema.and_then(|schema| match step {
                Step::Field(name) => schema.properties.get(&**name).copied().or(schema.any),
                Step::Key(_) => schema.any,
                Step::Item(_) => schema.items,
            });
            schema = child.and_then(|child| self.node(child));
        }
        schema.is_some()
    }
}

impl Type {
    fn takes(self, node: &Node) -> bool {
        match (self, &node.value) {
            (Self::Object, Value::Map(_))
            | (Self::Array, Value::List(_))
            | (Self::String, Value::Text(_))
            | (Self::Integer | Self::Number, Value::Integer(_))
            | (Self::Number, Value::Float(_))
            | (Self::Boolean, Value::Bool(_)) => true,
            (Self::Integer, Value::Float(number)) => number.fract() == 0.0,
            _ => false,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Object => "a mapping",
            Self::Array => "a list",
            Self::String => "text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
        }
    }
}

fn kind_of(node: &Node) -> &'static str {
    match node.value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Text(_) => "text",
        Value::List(_) => "a list",
        Value::Map(_) => "a mapping",
    }
}

#[expect(clippy::cast_precision_loss, reason = "bounds are far below what is lost")]
fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Integer(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

/// `oneOf`, `anyOf`, `allOf` and `not`: which fields are set, and nothing else.
fn holds(shape: Shape, node: &Node, schema: &Schema) -> bool {
    let of = |number: &usize| shape.node(*number).is_none_or(|schema| allows(shape, node, schema));
    (schema.one_of.is_empty() || schema.one_of.iter().filter(|one| of(one)).count() == 1)
        && (schema.any_of.is_empty() || schema.any_of.iter().any(&of))
        && schema.all_of.iter().all(&of)
        && schema.not.as_ref().is_none_or(|not| !of(not))
}

fn allows(shape: Shape, node: &Node, schema: &Schema) -> bool {
    schema.required.iter().all(|name| node.get_key(name).is_some()) && holds(shape, node, schema)
}

/// Fields that a `oneOf` chooses from.
fn choices(shape: Shape, schema: &Schema) -> Vec<String> {
    let inner = [&schema.one_of, &schema.all_of].into_iter().flatten().filter_map(|one| shape.node(*one));
    let mut names: Vec<String> = Vec::new();
    for one in inner {
        names.extend(one.required.iter().map(|name| format!("`{name}`")));
        names.extend(choices(shape, one));
    }
    names
}

/// The forms that the CRDs ask for, by the text of their patterns: a resource's name and a kind's.
fn matches(pattern: &str, text: &str) -> bool {
    let label = |label: &str, first: fn(&u8) -> bool, inner: fn(&u8) -> bool| {
        let bytes = label.as_bytes();
        let ends = bytes.first().is_some_and(first) && bytes.last().is_some_and(inner);
        ends && bytes.iter().all(|b| inner(b) || *b == b'-')
    };
    if pattern.starts_with("^$|") {
        let lower = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        return text.is_empty() || text.split('.').all(|part| label(part, lower, lower));
    }
    label(text, u8::is_ascii_alphabetic, u8::is_ascii_alphanumeric)
}

fn is_base64(text: &str) -> bool {
    let bytes: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    let data = bytes.iter().rposition(|b| *b != b'=').map_or(0, |last| last + 1);
    bytes.len().is_multiple_of(4)
        && bytes.len() - data <= 2
        && bytes[..data].iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// Takes out what the API server drops, and nulls, which mean the same as nothing.
fn prune(node: &mut Node, schema: usize, shape: Shape, whole: bool) {
    let Some(schema) = shape.node(schema) else { return };
    match &mut node.value {
        Value::Map(entries) if !(schema.open && schema.properties.is_empty()) => {
            entries.retain_mut(|(key, value)| {
                if whole && OF_ALL.contains(&&*key.text) {
                    return true;
                }
                let Some(child) = schema.properties.get(&*key.text).copied().or(schema.any) else {
                    return false;
                };
                prune(value, child, shape, false);
                value.value != Value::Null
            });
        }
        Value::List(items) => {
            if let Some(child) = schema.items {
                for item in items {
                    prune(item, child, shape, false);
                }
            }
        }
        _ => {}
    }
}
