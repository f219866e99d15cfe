//! YAML as a tree in which every value and every key knows its place: made by `read`, walked by the audit's rules by
//! paths of keys.

/// A place in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1, in characters.
    pub column: u32,
    /// First byte and the byte after the last, where the text stands right here; absent for what an alias or a merge
    /// key brings in, and the last byte of a block collection is where its first item starts.
    pub bytes: Option<(u32, u32)>,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it stands.
    pub at: Place,
    /// What it is.
    pub value: Value,
}

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(Box<str>),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Its text.
    pub text: Box<str>,
    /// Where it stands.
    pub at: Place,
}

impl Node {
    /// The value under a path of keys, such as `spec.resolution`.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |node, key| node.entry(key).map(|(_, value)| value))
    }

    /// The value of one key, dots in it taken as they are.
    #[must_use]
    pub fn get_key(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|(_, value)| value)
    }

    /// Key and value of one key, else of its snake case, which Istio reads as the same field.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<(&Key, &Self)> {
        let entries = self.entries();
        let exact = entries.iter().find(|(found, _)| &*found.text == key);
        let found = exact.or_else(|| entries.iter().find(|(found, _)| is_snake_of(&found.text, key)));
        found.map(|(key, value)| (key, value))
    }

    /// The value of one key, to change it.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Value::Map(entries) = &mut self.value else { return None };
        entries.iter_mut().find(|(found, _)| &*found.text == key).map(|(_, value)| value)
    }

    /// Keys and values; empty for anything but a mapping.
    #[must_use]
    pub fn entries(&self) -> &[(Key, Self)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Items; empty for anything but a sequence.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Items under a path of keys.
    #[must_use]
    pub fn list(&self, path: &str) -> &[Self] {
        self.get(path).map_or(&[], Self::items)
    }

    /// The text of a text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text under a path of keys.
    #[must_use]
    pub fn text_at(&self, path: &str) -> Option<&str> {
        self.get(path).and_then(Self::text)
    }

    /// A whole number, also where it is written as text.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match &self.value {
            Value::Integer(number) => Some(*number),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The whole number under a path of keys.
    #[must_use]
    pub fn integer_at(&self, path: &str) -> Option<i64> {
        self.get(path).and_then(Self::integer)
    }

    /// `true` under a path of keys.
    #[must_use]
    pub fn is_true(&self, path: &str) -> bool {
        self.get(path).is_some_and(|node| node.value == Value::Bool(true))
    }

    /// An Istio duration such as `1m30s`, under a path of keys, in milliseconds.
    #[must_use]
    pub fn duration_ms(&self, path: &str) -> Option<u64> {
        duration_ms(self.text_at(path)?)
    }

    /// What comes in by an alias or a merge cannot be edited where it is used.
    pub(super) fn forget_bytes(&mut self) {
        self.each_place(&mut |at| at.bytes = None);
    }

    /// Moves the whole tree down by lines and bytes: from its document to its file.
    pub(super) fn shift(&mut self, lines: u32, bytes: u32) {
        self.each_place(&mut |at| at.shift(lines, bytes));
    }

    /// Moves the whole tree to the right.
    pub(super) fn indent(&mut self, columns: u32) {
        self.each_place(&mut |at| at.column += columns);
    }

    fn each_place(&mut self, change: &mut impl FnMut(&mut Place)) {
        change(&mut self.at);
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.each_place(change)),
            Value::Map(entries) => {
                for (key, value) in entries {
                    change(&mut key.at);
                    value.each_place(change);
                }
            }
            _ => {}
        }
    }
}

/// `sni_hosts` for `sniHosts`: the names of the fields in Istio's own definition, which its reader takes too.
fn is_snake_of(snake: &str, key: &str) -> bool {
    if !snake.contains('_') || !snake.starts_with(|c: char| c.is_ascii_lowercase()) {
        return false;
    }
    let mut wanted = key.chars();
    let mut raised = false;
    for c in snake.chars() {
        if c == '_' {
            raised = true;
        } else {
            let c = if raised { c.to_ascii_uppercase() } else { c };
            raised = false;
            if wanted.next() != Some(c) {
                return false;
            }
        }
    }
    wanted.next().is_none()
}

impl Place {
    fn shift(&mut self, lines: u32, bytes: u32) {
        self.line += lines;
        self.bytes = self.bytes.map(|(start, end)| (start + bytes, end + bytes));
    }
}

/// Go's `time.ParseDuration` as far as manifests use it: `1h30m`, `1.5s`, `100ms`. Milliseconds.
#[must_use]
pub fn duration_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let factor = match unit {
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1000.0,
            "ms" => 1.0,
            "us" | "µs" => 0.001,
            "ns" => 0.000_001,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: finite, at least 0"
    )]
    (!text.trim().is_empty() && total.is_finite()).then_some(total as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::read::read;
    use proptest::prelude::*;

    fn tree(text: &str) -> Node {
        read(text).unwrap().remove(0)
    }

    #[test]
    fn every_value_and_key_knows_its_place() {
        let text = "spec:\n  hosts: [\"ä.example\", b.example]\n  # note\n  resolution: 'DNS' # why\n";
        let spec = tree(text);
        let of = |node: &Node| node.at.bytes.map(|(start, end)| &text[start as usize..end as usize]);
        let resolution = spec.get("spec.resolution").unwrap();
        assert_eq!((resolution.at.line, resolution.at.column), (4, 15));
        assert_eq!(of(resolution), Some("'DNS'"));
        let hosts = spec.list("spec.hosts");
        assert_eq!(of(&hosts[1]), Some("b.example"));
        assert_eq!((hosts[1].at.line, hosts[1].at.column), (2, 24));
        let (key, _) = spec.get("spec").unwrap().entry("resolution").unwrap();
        assert_eq!((key.at.line, key.at.column), (4, 3));
    }

    #[test]
    fn aliases_and_merges_are_resolved_and_cannot_be_edited_in_place() {
        let text = "a: &a {number: 443, name: tls}\nb: *a\nc:\n  <<: *a\n  name: x\n";
        let spec = tree(text);
        assert_eq!(spec.integer_at("b.number"), Some(443));
        assert_eq!(spec.integer_at("c.number"), Some(443));
        assert_eq!(spec.text_at("c.name"), Some("x"));
        assert!(spec.get("a.number").unwrap().at.bytes.is_some());
        assert_eq!(spec.get("b.number").unwrap().at.bytes, None);
    }

    #[test]
    fn snake_case_is_the_same_field() {
        let spec = tree("sni_hosts: [a]\nexportTo: ['.']\nexport_to: ['*']\nconsecutive_5xx_errors: 3\n");
        assert_eq!(spec.list("sniHosts").len(), 1);
        assert_eq!(spec.list("exportTo")[0].text(), Some("."), "the exact name comes first");
        assert_eq!(spec.integer_at("consecutive5xxErrors"), Some(3));
        assert!(spec.get("snihosts").is_none() && spec.get("sni").is_none());
    }

    #[test]
    fn durations_are_go_s() {
        for (text, ms) in [
            ("1s", Some(1000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1500)),
            ("100ms", Some(100)),
            ("1h", Some(3_600_000)),
            ("", None),
            ("5", None),
            ("s", None),
            ("1d", None),
            ("1s!", None),
        ] {
            assert_eq!(duration_ms(text), ms, "{text}");
        }
    }

    proptest! {
        #[test]
        fn durations_never_panic(text in "\\PC{0,12}|[0-9.hmsu]{0,12}") {
            let _ = duration_ms(&text);
        }
    }
}
