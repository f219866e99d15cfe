//! `--fix`: the findings' edits as a patch on stdout, or written into the files.

use std::collections::BTreeSet;
use std::path::Path;

use policies::audit::Mended;
use policies::finding::Finding;
use similar::TextDiff;

use super::files::{Files, STDIN};
use crate::console::Console;
use crate::report::Problem;
use crate::write;

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

/// How files are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    /// Also those that a link reaches outside of the folder given.
    pub(super) follow_links: bool,
}

/// What is left to do.
pub(super) struct Fixed {
    /// For a person to decide, or not written.
    pub(super) left: Vec<Finding>,
    /// Files that could not be written.
    pub(super) problems: Vec<Problem>,
}

/// Prints or writes what a machine can mend. A file that cannot be written does not stop the others.
///
/// # Errors
/// When stdout cannot be written.
pub(super) fn run(
    files: &Files,
    found: &[Finding],
    mended: &Mended,
    write: Option<Write>,
    console: &Console,
) -> anyhow::Result<Fixed> {
    let (mut written, mut problems) = (BTreeSet::new(), Vec::new());
    for (name, new) in &mended.texts {
        let Some(Some(text)) = files.texts.get(name) else { continue };
        if let Some(how) = write.filter(|_| name != STDIN) {
            if files.outside.contains(name) && !how.follow_links {
                let hint = "name the file itself, or give `--follow-links`";
                problems.push(Problem::new(
                    name,
                    "a link out of the folder leads to it: it is not written",
                    hint,
                ));
                continue;
            }
            match write::replace(Path::new(name), text.as_bytes(), new.as_bytes()) {
                Ok(()) => {
                    written.insert(name.clone());
                    console.note(&format!("{name} is mended"));
                }
                Err(error) => problems.push(unwritten(name, &error)),
            }
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
    // A patch that is merely printed, or could not be written, changes nothing yet.
    let unchanged = |name: &str| mended.texts.contains_key(name) && !written.contains(name);
    let changes =
        |finding: &&Finding| write.is_some() && finding.at.file != STDIN && !unchanged(&finding.at.file);
    let printed = found.iter().filter(|finding| !changes(finding));
    let left = printed.chain(mended.left.iter().filter(changes)).cloned().collect();
    Ok(Fixed { left, problems })
}

fn unwritten(name: &str, error: &std::io::Error) -> Problem {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "check the permissions of the file and its folder",
        std::io::ErrorKind::StorageFull => "free space there: the file is as it was",
        _ => "run again; the file is as it was",
    };
    Problem::new(name, format!("cannot be written: {error}"), hint)
}
