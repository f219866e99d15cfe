//! `--fix`: the findings' edits as a patch on stdout, or written into the files.

use std::path::Path;

use anyhow::Context;
use policies::audit::Mended;
use policies::finding::Finding;
use similar::TextDiff;

use super::files::{Files, STDIN};
use crate::console::Console;

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

/// Prints or writes what a machine can mend. Returns what a person has to decide, or could not be written.
///
/// # Errors
/// When stdout or a file cannot be written.
pub(super) fn run(
    files: &Files,
    found: &[Finding],
    mended: &Mended,
    write: bool,
    console: &Console,
) -> anyhow::Result<Vec<Finding>> {
    for (name, new) in &mended.texts {
        let Some(Some(text)) = files.texts.get(name) else { continue };
        if write && name != STDIN {
            std::fs::write(Path::new(name), new).with_context(|| format!("cannot write {name}"))?;
            console.note(&format!("{name} is mended"));
        } else {
            let name = header(name);
            let (old_name, new_name) = (format!("a/{name}"), format!("b/{name}"));
            let diff = TextDiff::from_lines(text, new);
            console.file(&diff.unified_diff().header(&old_name, &new_name).to_string())?;
        }
    }
    let rest = mended.left.len();
    if rest > 0 {
        let are = if rest == 1 { "finding is" } else { "findings are" };
        console.note(&format!("{rest} {are} for a person to decide; `audit` without `--fix` lists them"));
    }
    // A patch that is merely printed changes nothing yet.
    let written = |finding: &&Finding| write && finding.at.file != STDIN;
    let printed = found.iter().filter(|finding| !written(finding));
    Ok(printed.chain(mended.left.iter().filter(written)).cloned().collect())
}
