//! Files of YAML into resources. Bytes of a file come in; resources of the kinds that the audit reads go out, with
//! what could not be read and a count of what was passed over. Every document is read by itself, so one that is broken
//! does not hide its neighbours. Pure; `cli` reads the files.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mesh_config;
use super::node::{Node, Place, Value};
use super::read::{ReadError, read};

/// Greatest file that is read, bytes: tens of thousands of manifests.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// What the files hold.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Resources of the kinds that the audit reads, in the order of the files.
    pub resources: Vec<Loadable>,
    /// What could not be read.
    pub problems: Vec<LoadProblem>,
    /// Other kinds, counted.
    pub passed_over: BTreeMap<String, usize>,
    /// Documents read, empty ones left out.
    pub documents: usize,
}

/// A resource as it stands in a file.
#[derive(Debug, Clone)]
pub struct Loadable {
    /// The file's name, as it is printed.
    pub file: Arc<str>,
    /// What it is.
    pub kind: Kind,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.namespace`; empty where the file leaves it to `kubectl`.
    pub namespace: Box<str>,
    /// The whole of it.
    pub root: Node,
}

/// Kinds that the audit reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Kind {
    /// networking.istio.io
    ServiceEntry,
    /// networking.istio.io
    DestinationRule,
    /// networking.istio.io
    VirtualService,
    /// networking.istio.io
    Gateway,
    /// networking.istio.io
    EnvoyFilter,
    /// networking.istio.io
    Sidecar,
    /// networking.istio.io
    WorkloadEntry,
    /// core
    Service,
    /// Not a resource of its own: in the `ConfigMap` that istiod reads, an `IstioOperator` or an `Istio`.
    MeshConfig,
}

/// A part of the input that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadProblem {
    /// The file's name.
    pub file: String,
    /// Counted from 1; 0 where it is the whole file.
    pub line: u32,
    /// Counted from 1; 0 where it is the whole line.
    pub column: u32,
    /// What is wrong: a fragment without a full stop.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// The line itself, clipped and escaped; empty where there is none.
    pub snippet: String,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::ServiceEntry,
        Self::DestinationRule,
        Self::VirtualService,
        Self::Gateway,
        Self::EnvoyFilter,
        Self::Sidecar,
        Self::WorkloadEntry,
        Self::Service,
        Self::MeshConfig,
    ];

    /// Those that an API server has as resources of their own.
    pub fn resources() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| *kind != Self::MeshConfig)
    }

    /// As it is written in a manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServiceEntry => "ServiceEntry",
            Self::DestinationRule => "DestinationRule",
            Self::VirtualService => "VirtualService",
            Self::Gateway => "Gateway",
            Self::EnvoyFilter => "EnvoyFilter",
            Self::Sidecar => "Sidecar",
            Self::WorkloadEntry => "WorkloadEntry",
            Self::Service => "Service",
            Self::MeshConfig => "MeshConfig",
        }
    }

    /// Istio serves its kinds as v1alpha3, v1beta1 and v1; other groups have kinds of the same name.
    fn of(api_version: &str, kind: &str) -> Option<Self> {
        let istio = api_version.starts_with("networking.istio.io/");
        Self::ALL.into_iter().find(|known| known.as_str() == kind).filter(|known| match known {
            Self::Service => api_version == "v1",
            Self::MeshConfig => false,
            _ => istio,
        })
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Loaded {
    /// Adds the documents of one file.
    pub fn add(&mut self, file: &str, bytes: &[u8]) {
        let name: Arc<str> = file.into();
        let whole = |message: String, hint: &str| LoadProblem {
            file: file.to_owned(),
            line: 0,
            column: 0,
            message,
            hint: hint.to_owned(),
            snippet: String::new(),
        };
        if bytes.len() > MAX_FILE_BYTES {
            let message = format!("more than {} MiB", MAX_FILE_BYTES >> 20);
            self.problems.push(whole(message, "split the file, or leave it out"));
            return;
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.strip_prefix('\u{feff}').map_or((text, 0), |rest| (rest, 3)),
            Err(error) => {
                let message = format!("not UTF-8 from byte {} on", error.valid_up_to());
                self.problems.push(whole(message, "save the file as UTF-8, or leave it out"));
                return;
            }
        };
        let (text, mark) = text;
        for document in documents(text) {
            self.add_document(&name, &document, mark);
        }
    }

    /// The same with another text of one file, in its place; none where that does not read, or holds another number of
    /// resources.
    #[must_use]
    pub(crate) fn with_file(mut self, file: &str, text: &str) -> Option<Self> {
        let mut new = Self::default();
        new.add(file, text.as_bytes());
        let same = |resource: &&Loadable| *resource.file == *file;
        let problems = self.problems.iter().filter(|problem| problem.file == file).count();
        if new.problems.len() != problems || new.resources.len() != self.resources.iter().filter(same).count()
        {
            return None;
        }
        let mut new = new.resources.into_iter();
        for resource in self.resources.iter_mut().filter(|resource| *resource.file == *file) {
            let namespace = std::mem::take(&mut resource.namespace);
            *resource = new.next()?;
            if resource.namespace.is_empty() {
                resource.namespace = namespace;
            }
        }
        Some(self)
    }

    /// Puts resources that leave their namespace to `kubectl` into this one.
    pub fn place_in(&mut self, namespace: &str) {
        for resource in self.resources.iter_mut().filter(|resource| resource.namespace.is_empty()) {
            resource.namespace = namespace.into();
        }
    }

    fn add_document(&mut self, file: &Arc<str>, document: &Document<'_>, mark: usize) {
        if document.is_empty() {
            return;
        }
        self.documents += 1;
        match read(document.text) {
            Ok(roots) => {
                let bytes = u32::try_from(document.byte + mark).unwrap_or(u32::MAX);
                for mut root in roots {
                    root.shift(document.line, bytes);
                    self.add_root(file, root);
                }
            }
            Err(error) => self.problems.push(problem(file, document, &error)),
        }
    }

    /// One resource, or the items of a list of them.
    fn add_root(&mut self, file: &Arc<str>, mut root: Node) {
        mesh_config::unfold(&mut root);
        let text = |path: &str| root.text_at(path).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if kind.ends_with("List") && root.get("items").is_some() {
            if let Value::Map(entries) = &mut root.value
                && let Some(index) = entries.iter().position(|(key, _)| &*key.text == "items")
                && let Value::List(items) = entries.swap_remove(index).1.value
            {
                for item in items {
                    self.add_root(file, item);
                }
            }
            return;
        }
        let found =
            Kind::of(api_version, kind).or_else(|| mesh_config::holds(&root).then_some(Kind::MeshConfig));
        let Some(kind) = found else {
            let kind = if kind.is_empty() { "without a kind" } else { kind };
            *self.passed_over.entry(clip(kind)).or_default() += 1;
            return;
        };
        if let Some(place) = template_in(mesh_config::of(&root).unwrap_or(&root)) {
            self.problems.push(LoadProblem {
                file: file.to_string(),
                line: place.line,
                column: place.column,
                message: format!("a template: {{{{ }}}} in {kind} {:?}", clip(text("metadata.name"))),
                hint: TEMPLATE_HINT.to_owned(),
                snippet: String::new(),
            });
            return;
        }
        if let Some((place, variable)) = variable_in(&root).filter(|_| kind != Kind::MeshConfig) {
            self.problems.push(LoadProblem {
                file: file.to_string(),
                line: place.line,
                column: place.column,
                message: format!(
                    "a template: {} in {kind} {:?}",
                    clip(variable),
                    clip(text("metadata.name"))
                ),
                hint: VARIABLE_HINT.to_owned(),
                snippet: String::new(),
            });
            return;
        }
        let (name, namespace) = (text("metadata.name").into(), text("metadata.namespace").into());
        self.resources.push(Loadable { file: Arc::clone(file), kind, name, namespace, root });
    }
}

const VARIABLE_HINT: &str = "fill the variables in first: envsubst < file.yaml | egress-audit audit -";
const TEMPLATE_HINT: &str = "render it first: helm template . | egress-audit audit -";

/// One document of a file.
struct Document<'a> {
    text: &'a str,
    /// Lines and bytes before it.
    line: u32,
    byte: usize,
}

impl Document<'_> {
    /// Nothing but comments, markers and directives.
    fn is_empty(&self) -> bool {
        self.text.lines().all(|line| {
            let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("...")).unwrap_or(line).trim();
            rest.is_empty() || rest.starts_with('#') || line.starts_with('%')
        })
    }
}

/// Cuts at the lines that start with `---`: YAML forbids them inside of a document, in any style of scalar (rule
/// c-forbidden of YAML 1.2.2).
fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let mut cuts = vec![(0, 0)];
    let mut byte = 0;
    for (line, content) in (0u32..).zip(text.split_inclusive('\n')) {
        let marker = content
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marker && byte > 0 {
            cuts.push((line, byte));
        }
        byte += content.len();
    }
    let ends: Vec<usize> = cuts.iter().skip(1).map(|(_, byte)| *byte).chain([text.len()]).collect();
    cuts.into_iter().zip(ends).map(|((line, byte), end)| Document { text: &text[byte..end], line, byte })
}

/// A place with `{{` in it. Annotations are spared: dashboards and filters carry such text for others.
fn template_in(node: &Node) -> Option<Place> {
    match &node.value {
        Value::Text(text) => text.contains("{{").then_some(node.at),
        Value::List(items) => items.iter().find_map(template_in),
        Value::Map(entries) => entries
            .iter()
            .filter(|(key, _)| !matches!(&*key.text, "annotations" | "patch"))
            .find_map(|(key, value)| if key.text.contains("{{") { Some(key.at) } else { template_in(value) }),
        _ => None,
    }
}

/// A place with a variable of `envsubst` in it: `${NAME}`, with or without a default, or `$NAME` and nothing else.
fn variable_in(node: &Node) -> Option<(Place, &str)> {
    match &node.value {
        Value::Text(text) => variable(text).map(|found| (node.at, found)),
        Value::List(items) => items.iter().find_map(variable_in),
        Value::Map(entries) => entries
            .iter()
            .filter(|(key, _)| !matches!(&*key.text, "annotations" | "patch" | "regex"))
            .find_map(|(key, value)| match variable(&key.text) {
                Some(found) => Some((key.at, found)),
                None => variable_in(value),
            }),
        _ => None,
    }
}

fn variable(text: &str) -> Option<&str> {
    let name = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        (!text.starts_with(|c: char| c.is_ascii_digit())).then_some(end).filter(|end| *end > 0)
    };
    for (at, _) in text.match_indices("${") {
        let inner = &text[at + 2..];
        let end = name(inner).filter(|end| inner[*end..].starts_with(['}', ':', '-', '=']));
        if let (Some(_), Some(close)) = (end, inner.find('}')) {
            return text.get(at..=at + 2 + close);
        }
    }
    let bare = text.strip_prefix('$')?;
    (name(bare) == Some(bare.len())).then_some(text)
}

fn problem(file: &str, document: &Document<'_>, error: &ReadError) -> LoadProblem {
    let template = document.text.lines().any(|line| {
        let code = line.split('#').next().unwrap_or_default();
        code.contains("{{") && code.contains("}}")
    });
    let (message, hint) = if template {
        ("a template: {{ }} is no YAML".to_owned(), TEMPLATE_HINT)
    } else {
        (clip(&error.message), "correct the line, or leave the file out")
    };
    let index = error.at.line.saturating_sub(1) as usize;
    LoadProblem {
        file: file.to_owned(),
        line: document.line + error.at.line,
        column: error.at.column,
        message,
        hint: hint.to_owned(),
        snippet: document.text.lines().nth(index).map(clip).unwrap_or_default(),
    }
}

/// At most 120 characters, none of them a control character.
pub(crate) fn clip(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    if text.chars().count() <= 120 { clean.collect() } else { clean.take(119).chain(['…']).collect() }
}
