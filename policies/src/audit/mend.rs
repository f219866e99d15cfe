//! `--fix`, from findings to mended files. Edits do not know of each other, so at most one finding a resource is mended
//! at a time; the files are then read and audited again, and what does not read or does not make things better is taken
//! back. `cli audit --fix` calls [`mend`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Audit, Baseline, Context, Known, apply, audit};
use crate::Host;
use crate::finding::{Edit, Finding};
use crate::manifest::Loaded;

/// Rounds after which a resource is left as it is: more than any resource has findings with an edit.
const MAX_ROUNDS: usize = 64;

/// What `--fix` makes of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mended {
    /// The new texts of the files that changed.
    pub texts: BTreeMap<String, String>,
    /// The edits of each step by file, to be applied one step after the other.
    pub steps: Vec<BTreeMap<String, Vec<Edit>>>,
    /// What is found in the new files.
    pub left: Vec<Finding>,
}

/// Mends what a machine can. `texts` are the files as they are, by the name that findings carry; findings in other
/// files stay.
#[must_use]
pub fn mend(
    texts: &BTreeMap<String, String>,
    loaded: &Loaded,
    known: &BTreeMap<Host, Known>,
    context: &Context,
    baseline: Option<&Baseline>,
) -> Mended {
    let judge = |loaded: &Loaded| audit(loaded, known, context, baseline);
    let mut state = State {
        original: texts,
        mended: Mended::default(),
        loaded: loaded.clone(),
        findings: judge(loaded).findings,
    };
    let mut refused = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        let mut batch = state.batch(&refused);
        if batch.is_empty() {
            break;
        }
        // A batch that makes nothing worse is taken as a whole, any other is halved until the culprit stands alone.
        let mut queue = Vec::new();
        refused.extend(batch.iter().map(|(mark, ..)| mark.clone()));
        loop {
            if let Some(next) = state.with(&batch, &judge) {
                // The same edit may be due in another place, but not for ever to and fro.
                if next.findings.len() < state.findings.len() {
                    refused.retain(|mark| !batch.iter().any(|(mended, ..)| mended == mark));
                }
                state = next;
                // The places of the others are those of the text before.
                break;
            } else if batch.len() > 1 {
                queue.push(batch.split_off(batch.len().div_ceil(2)));
            } else if let Some(next) = queue.pop() {
                batch = next;
            } else {
                break;
            }
        }
        for (mark, ..) in queue.into_iter().flatten() {
            refused.remove(&mark);
        }
    }
    state.mended.left = state.findings;
    state.mended
}

/// What tells an edit from others whatever moves around it: the finding and the new text.
type Mark = (String, String);

struct State<'t> {
    original: &'t BTreeMap<String, String>,
    mended: Mended,
    loaded: Loaded,
    findings: Vec<Finding>,
}

impl State<'_> {
    fn text(&self, file: &str) -> Option<&str> {
        self.mended.texts.get(file).or_else(|| self.original.get(file)).map(String::as_str)
    }

    /// One finding of each resource, names of fields and values first: what is misspelled hides what it was meant to
    /// set.
    fn batch(&self, refused: &BTreeSet<Mark>) -> Vec<(Mark, String, Vec<Edit>)> {
        let mut open: Vec<&Finding> = self
            .findings
            .iter()
            .filter(|finding| !finding.edits.is_empty() && self.text(&finding.at.file).is_some())
            .filter(|finding| !refused.contains(&mark(finding)))
            .collect();
        open.sort_by_key(|finding| finding.code != super::spelling::MISSPELLED);
        let mut taken = BTreeSet::new();
        let one_each = open.into_iter().filter(|finding| {
            let at = &finding.at;
            taken.insert((&at.file, at.kind, &at.namespace, &at.name))
        });
        one_each.map(|found| (mark(found), found.at.file.clone(), found.edits.clone())).collect()
    }

    /// The state after a batch; none where a file no longer reads, a finding stays or there are more of them.
    fn with(&self, batch: &[(Mark, String, Vec<Edit>)], judge: &impl Fn(&Loaded) -> Audit) -> Option<Self> {
        let mut step: BTreeMap<String, Vec<Edit>> = BTreeMap::new();
        for (_, file, edits) in batch {
            step.entry(file.clone()).or_default().extend(edits.iter().cloned());
        }
        let mut loaded = self.loaded.clone();
        let mut texts = self.mended.texts.clone();
        for (file, edits) in &step {
            let text = apply(self.text(file)?, edits);
            loaded = loaded.with_file(file, &text)?;
            texts.insert(file.clone(), text);
        }
        let findings = judge(&loaded).findings;
        let (before, after) = (counts(&self.findings), counts(&findings));
        let less = |fingerprint: &String| {
            after.get(fingerprint).copied().unwrap_or(0) < before.get(fingerprint).copied().unwrap_or(0)
        };
        let better = findings.len() <= self.findings.len() && batch.iter().all(|((one, _), ..)| less(one));
        let steps = [self.mended.steps.as_slice(), &[step]].concat();
        let mended = Mended { texts, steps, left: Vec::new() };
        better.then_some(Self { original: self.original, mended, loaded, findings })
    }
}

fn mark(finding: &Finding) -> Mark {
    let new: Vec<&str> = finding.edits.iter().map(|edit| edit.text.as_str()).collect();
    (finding.fingerprint(), format!("{} {}", finding.at.file, new.join("\n")))
}

fn counts(findings: &[Finding]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for finding in findings {
        *counts.entry(finding.fingerprint()).or_default() += 1;
    }
    counts
}
