//! What a rule is, and the examples that document and test it. `--explain`, the book's reference and the tests read the
//! same table: [`RULES`](super::RULES).

use super::Findings;
use super::mesh::Mesh;
use crate::finding::Severity;
use crate::{Citation, ResolutionClass, Trait};

/// One row of the table.
#[derive(Debug)]
pub struct Rule {
    /// `EA` and three digits, the first of them the family, or four, the first two of them; never reused.
    pub code: &'static str,
    /// Short name in kebab case.
    pub name: &'static str,
    /// How bad a finding is, unless it says otherwise.
    pub severity: Severity,
    /// What is wrong, one line.
    pub what: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// How it is known.
    pub source: &'static [Citation],
    /// Inputs that fire and inputs that do not; see [`examples`].
    pub examples: &'static str,
    /// Finds it.
    pub(super) check: fn(&Mesh<'_>, &mut Findings<'_>),
}

/// An input of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Example<'a> {
    /// What it shows.
    pub title: &'a str,
    /// The rule finds something in it.
    pub fires: bool,
    /// What DNS is taken to answer.
    pub dns: Vec<ExampleDns<'a>>,
    /// Flags, such as `--istio-version 1.31`.
    pub flags: Vec<&'a str>,
    /// The manifests.
    pub yaml: &'a str,
}

/// What DNS is taken to answer for one host: `# dns: host class per_answer/pool ttl=S [trait ...] [aaaa]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExampleDns<'a> {
    /// The name.
    pub host: &'a str,
    /// How it answers.
    pub class: ResolutionClass,
    /// Addresses in an answer.
    pub per_answer: usize,
    /// Addresses in all.
    pub pool: usize,
    /// Seconds.
    pub ttl: u32,
    /// What else was seen.
    pub traits: Vec<Trait>,
    /// Only AAAA records exist.
    pub aaaa_only: bool,
}

impl Rule {
    /// It finds something, or more, where DNS was observed.
    #[must_use]
    pub fn depends_on_dns(&self) -> bool {
        self.examples().iter().any(|example| example.fires && !example.dns.is_empty())
    }

    /// The examples, fires and silent ones mixed.
    #[must_use]
    pub fn examples(&self) -> Vec<Example<'static>> {
        examples(self.examples)
    }
}

/// Reads examples: each starts with `# fires: title` or `# silent: title`, `# dns:` and `# flags:` lines may follow, then
/// the manifests.
#[must_use]
pub fn examples(text: &'static str) -> Vec<Example<'static>> {
    let starts = text.match_indices("# ").map(|(at, _)| at).filter(|&at| {
        let starts = ["# fires: ", "# silent: "].iter().any(|mark| text[at..].starts_with(mark));
        starts && (at == 0 || text[..at].ends_with('\n'))
    });
    let mut starts: Vec<usize> = starts.collect();
    starts.push(text.len());
    starts.windows(2).map(|pair| example(&text[pair[0]..pair[1]])).collect()
}

fn example(text: &'static str) -> Example<'static> {
    let mut example =
        Example { title: "", fires: false, dns: Vec::new(), flags: Vec::new(), yaml: text.trim_end() };
    while let Some((line, rest)) = example.yaml.split_once('\n') {
        if let Some(title) = line.strip_prefix("# fires: ") {
            (example.title, example.fires) = (title, true);
        } else if let Some(title) = line.strip_prefix("# silent: ") {
            example.title = title;
        } else if let Some(dns) = line.strip_prefix("# dns: ") {
            example.dns.extend(example_dns(dns));
        } else if let Some(flags) = line.strip_prefix("# flags: ") {
            example.flags = flags.split(' ').collect();
        } else {
            break;
        }
        example.yaml = rest;
    }
    example
}

fn example_dns(line: &'static str) -> Option<ExampleDns<'static>> {
    let mut words = line.split(' ');
    let (host, class, sizes, ttl) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (per_answer, pool) = sizes.split_once('/')?;
    let class = serde_json::from_value(class.into()).ok()?;
    let mut dns = ExampleDns {
        host,
        class,
        per_answer: per_answer.parse().ok()?,
        pool: pool.parse().ok()?,
        ttl: ttl.strip_prefix("ttl=")?.parse().ok()?,
        traits: Vec::new(),
        aaaa_only: false,
    };
    for word in words {
        match serde_json::from_value(word.into()) {
            Ok(seen) => dns.traits.push(seen),
            Err(_) => dns.aaaa_only |= word == "aaaa",
        }
    }
    Some(dns)
}
