//! `--fix`: the findings' edits as a patch on stdout, or written into the files.

use std::path::Path;

use anyhow::Context;
use policies::audit::apply;
use policies::finding::{Edit, Finding};
use similar::TextDiff;

use super::files::{Files, STDIN};
use crate::console::Console;

/// Whether a machine can mend it: standard input can only be printed.
pub(super) fn mends(finding: &Finding) -> bool {
    !finding.edits.is_empty() && finding.at.file != STDIN
}

/// The file's name as `patch -p1` and `git apply` take it: from the working folder on, and with a tab behind a name
/// that has spaces, as git writes it.
fn header(name: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = Path::new(name);
    let path = path.strip_prefix(&here).unwrap_or(path);
    let name = path.strip_prefix("/").unwrap_or(path).components().as_path().to_string_lossy();
    let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let name = name.trim_start_matches("./");
    if name.contains(' ') { format!("{name}\t") } else { name.to_owned() }
}

/// Prints or writes what a machine can mend.
///
/// # Errors
/// When stdout or a file cannot be written.
pub(super) fn run(files: &Files, findings: &[Finding], write: bool, console: &Console) -> anyhow::Result<()> {
    let mut mended = 0;
    for (name, text) in files.texts.iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
        let here = findings.iter().filter(|finding| finding.at.file == *name && !finding.edits.is_empty());
        let edits: Vec<Edit> = here.clone().flat_map(|finding| finding.edits.clone()).collect();
        let new = apply(text, &edits);
        if new == *text {
            continue;
        }
        mended += here.count();
        if write && name != STDIN {
            std::fs::write(Path::new(name), &new).with_context(|| format!("cannot write {name}"))?;
            console.note(&format!("{name} is mended"));
        } else {
            let name = header(name);
            let (old_name, new_name) = (format!("a/{name}"), format!("b/{name}"));
            let diff = TextDiff::from_lines(text, &new);
            console.file(&diff.unified_diff().header(&old_name, &new_name).to_string())?;
        }
    }
    let rest = findings.len() - mended;
    if rest > 0 {
        let are = if rest == 1 { "finding is" } else { "findings are" };
        console.note(&format!("{rest} {are} for a person to decide; `audit` without `--fix` lists them"));
    }
    Ok(())
}
