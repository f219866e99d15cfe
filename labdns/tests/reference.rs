//! The scenario reference of the book is what the types say about themselves: written out from the schemas, whose
//! texts are the doc comments. `UPDATE_REFERENCE=1 cargo test -p egress-audit-labdns --test reference` writes it anew.
#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use labdns::{Scenario, scenarios};
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, SchemaType};
use utoipa::openapi::{Object, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

const HEAD: &str = "\
# Scenario files

A scenario is a YAML file that says what the names of a zone answer, and what happens to them as time passes. It is
served by `egress-audit lab dns serve --scenario FILE` and scored by `egress-audit lab score`. Keys that are not listed
here are refused, with line, column and the nearest key. `egress-audit lab scenarios` prints the built-in ones, each of
which is a file to start from:

```yaml
";

const UPDATE: &str = "run: UPDATE_REFERENCE=1 cargo test -p egress-audit-labdns --test reference";

#[test]
fn the_chapter_in_the_book_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/reference/scenario.md");
    let chapter = chapter();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &chapter).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == chapter, "{} is out of date; {UPDATE}", path.display());
}

#[test]
fn every_key_and_value_has_a_text() {
    let chapter = chapter();
    let empty: Vec<_> =
        chapter.lines().filter(|line| line.starts_with('|') && line.ends_with("| |")).collect();
    assert!(empty.is_empty(), "{empty:#?}");
    for key in ["`flaps`", "`per_client`", "`serve_stale`", "`wrong_question`", "`zipf: {..}`"] {
        assert!(chapter.contains(key), "{key}");
    }
}

fn chapter() -> String {
    let mut parts = Vec::new();
    Scenario::schemas(&mut parts);
    let mut schemas: BTreeMap<String, RefOr<Schema>> = parts.into_iter().collect();
    schemas.insert("Scenario".to_owned(), Scenario::schema());
    let mut text = HEAD.to_owned() + scenarios::find("gslb").unwrap() + "```\n\n";
    let mut seen = vec!["Scenario".to_owned()];
    let mut place = 0;
    while let Some(name) = seen.get(place).cloned() {
        let section = Section { text: &mut text, seen: &mut seen };
        match &schemas[&name] {
            RefOr::T(schema) => section.write(&name, schema),
            RefOr::Ref(_) => unreachable!("a named schema is no reference"),
        }
        place += 1;
    }
    examples(&mut text);
    builtin(&mut text);
    text
}

fn examples(text: &mut String) {
    text.push_str("## Examples\n\nSome of the built-in scenarios in full.\n\n");
    for name in
        ["zoo/weighted", "zoo/six-regions", "zoo/4-per-slot-1-per-query", "zoo/scale-up", "zoo/two-cdns"]
    {
        writeln!(text, "`{name}`:\n\n```yaml\n{}```\n", scenarios::find(name).unwrap()).unwrap();
    }
}

/// Writes one type, and notes the types that it names.
struct Section<'a> {
    text: &'a mut String,
    seen: &'a mut Vec<String>,
}

impl Section<'_> {
    fn write(mut self, name: &str, schema: &Schema) {
        writeln!(self.text, "## {name}\n").unwrap();
        match schema {
            Schema::Object(object) => {
                writeln!(self.text, "{}\n", line(object.description.as_ref())).unwrap();
                self.object(object);
            }
            Schema::OneOf(one_of) => {
                writeln!(self.text, "{} One of:\n", line(one_of.description.as_ref())).unwrap();
                writeln!(self.text, "| value | meaning |\n|---|---|").unwrap();
                for item in &one_of.items {
                    let RefOr::T(Schema::Object(variant)) = item else { panic!("a value that is no object") };
                    self.variant(variant);
                }
                writeln!(self.text).unwrap();
            }
            _ => panic!("{name} is neither an object nor a choice"),
        }
    }

    fn object(&mut self, object: &Object) {
        if object.properties.is_empty() {
            let values: Vec<_> =
                object.enum_values.iter().flatten().map(|value| format!("`{}`", bare(value))).collect();
            let example = object.examples.first().map(|example| format!("Example: `{example}`\n"));
            let values = (!values.is_empty()).then(|| format!("Values: {}\n", values.join(", ")));
            if let Some(more) = values.or(example) {
                writeln!(self.text, "{more}").unwrap();
            }
            return;
        }
        writeln!(self.text, "| key | type | meaning |\n|---|---|---|").unwrap();
        for (key, schema) in &object.properties {
            let required = if object.required.contains(key) { ", required" } else { "" };
            let (kind, meaning) = self.describe(schema);
            writeln!(self.text, "| `{key}` | {kind}{required} | {meaning} |").unwrap();
        }
        writeln!(self.text).unwrap();
    }

    /// A row for a value, and rows for the keys that it has.
    fn variant(&mut self, variant: &Object) {
        let meaning = line(variant.description.as_ref());
        for value in variant.enum_values.iter().flatten() {
            writeln!(self.text, "| `{}` | {meaning} |", bare(value)).unwrap();
        }
        for (key, schema) in &variant.properties {
            match schema {
                RefOr::T(Schema::Object(inner)) if !inner.properties.is_empty() => {
                    writeln!(self.text, "| `{key}: {{..}}` | {meaning} |").unwrap();
                    for (inner_key, schema) in &inner.properties {
                        let (kind, meaning) = self.describe(schema);
                        writeln!(self.text, "| &emsp;`{inner_key}` | {kind}: {meaning} |").unwrap();
                    }
                }
                schema => {
                    let (kind, _) = self.describe(schema);
                    writeln!(self.text, "| `{key}: ..` | {kind}: {meaning} |").unwrap();
                }
            }
        }
    }

    /// Type and meaning of a property.
    fn describe(&mut self, schema: &RefOr<Schema>) -> (String, String) {
        match schema {
            RefOr::Ref(reference) => (self.link(reference), line(Some(&reference.description))),
            RefOr::T(Schema::OneOf(optional)) => {
                let inner = optional.items.iter().find(|item| !matches!(item, RefOr::T(Schema::Object(_))));
                self.describe(inner.unwrap())
            }
            RefOr::T(Schema::Array(array)) => {
                let ArrayItems::RefOrSchema(items) = &array.items else { panic!("an array without items") };
                let (inner, _) = self.describe(items);
                (format!("list of {inner}"), line(array.description.as_ref()))
            }
            RefOr::T(Schema::Object(object)) => {
                let kind = match object.additional_properties.as_deref() {
                    Some(AdditionalProperties::RefOr(value)) => format!("name: {}", self.describe(value).0),
                    _ => plain(&object.schema_type),
                };
                (kind, line(object.description.as_ref()))
            }
            RefOr::T(_) => panic!("a property of an unknown kind"),
        }
    }

    fn link(&mut self, reference: &Ref) -> String {
        let name = reference.ref_location.rsplit('/').next().unwrap().to_owned();
        if !self.seen.contains(&name) {
            self.seen.push(name.clone());
        }
        format!("[{name}](#{})", name.to_lowercase())
    }
}

fn builtin(text: &mut String) {
    text.push_str("## Built-in scenarios\n\n| name | what it shows | right verdict |\n|---|---|---|\n");
    for (name, yaml) in scenarios::builtin() {
        let scenario = Scenario::from_yaml(yaml).unwrap();
        let mut verdicts: Vec<_> =
            scenario.expectations().map(|(_, expect)| format!("{:?}", expect.class)).collect();
        verdicts.dedup();
        let shows = scenario.description.clone().unwrap();
        writeln!(text, "| `{name}` | {shows} | {} |", verdicts.join(", ")).unwrap();
    }
}

/// A text on one line of a table.
fn line(text: Option<&String>) -> String {
    text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"))
        .unwrap_or_default()
}

fn bare(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn plain(schema_type: &SchemaType) -> String {
    let name = |t: &utoipa::openapi::Type| serde_json::to_value(t).unwrap().as_str().unwrap().to_owned();
    match schema_type {
        SchemaType::Type(one) => name(one),
        SchemaType::Array(several) => {
            several.iter().map(name).filter(|name| name != "null").collect::<Vec<_>>().join(" or ")
        }
        SchemaType::AnyValue => "any".to_owned(),
    }
}
