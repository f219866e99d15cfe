//! The manifests that the user names: files as they are, folders with all their YAML and JSON, standard input. What
//! cannot be read becomes a problem, and the rest is read all the same. Reading stops at the loader's size limit, so
//! that a device or an endless pipe costs no memory; links to folders are not followed, so that none leads in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use policies::manifest::{Loaded, MAX_FILE_BYTES};

use crate::report::Problem;

/// The name that findings in standard input carry.
pub(super) const STDIN: &str = "stdin";
/// Folders inside of each other.
const DEEPEST: usize = 64;

/// Everything that was read.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The resources.
    pub(super) loaded: Loaded,
    /// The files as they are, by the name that findings carry; none where they are no text.
    pub(super) texts: BTreeMap<String, Option<String>>,
    /// Those that a link reaches outside of the folder that was given, or of the file's own.
    pub(super) outside: BTreeSet<String>,
}

impl Files {
    pub(super) fn read(paths: &[PathBuf]) -> (Self, Vec<Problem>) {
        let (mut files, mut problems) = (Self::default(), Vec::new());
        for path in paths {
            let (before, documents) = (files.texts.len(), files.loaded.documents);
            let told = problems.len() + files.loaded.problems.len();
            files.path(path, DEEPEST, &mut problems);
            files.note_links(path);
            let read =
                files.loaded.documents > documents || problems.len() + files.loaded.problems.len() > told;
            if files.texts.len() == before && path.is_dir() {
                let hint = "name a folder that holds manifests, or the files themselves";
                problems.push(Problem::new(path.display(), "holds no .yaml, .yml or .json", hint));
            } else if !read && files.texts.len() > before {
                let subject = if path == Path::new("-") { STDIN.to_owned() } else { name(path) };
                let hint = "check the command or the path that the manifests come from";
                problems.push(Problem::new(subject, "holds no document", hint));
            }
        }
        (files, problems)
    }

    /// Marks what lies outside of `given`, once all links are followed.
    fn note_links(&mut self, given: &Path) {
        let folder = if given.is_dir() { Some(given) } else { given.parent() };
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(folder) = folder.canonicalize() else { return };
        let beneath = |name: &str| {
            given == Path::new("-")
                || Path::new(name).canonicalize().is_ok_and(|real| real.starts_with(&folder))
        };
        let here = |name: &&String| Path::new(name.as_str()).starts_with(self::name(given));
        let outside: Vec<_> = self.texts.keys().filter(here).filter(|name| !beneath(name)).cloned().collect();
        self.outside.extend(outside);
    }

    fn path(&mut self, path: &Path, depth: usize, problems: &mut Vec<Problem>) {
        let read = if path == Path::new("-") {
            self.bytes(STDIN, io::stdin())
        } else if path.is_dir() {
            self.folder(path, depth, problems)
        } else {
            File::open(path).and_then(|file| self.bytes(&name(path), file))
        };
        if let Err(error) = read {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "check the path",
                io::ErrorKind::PermissionDenied => "check the permissions of the file and its folders",
                _ if path.is_symlink() => "the link leads in a circle: correct or remove it",
                _ => "check that it is a readable file",
            };
            problems.push(Problem::new(name(path), format!("cannot be read: {error}"), hint));
        }
    }

    fn folder(&mut self, folder: &Path, depth: usize, problems: &mut Vec<Problem>) -> io::Result<()> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(io::Error::other(format!("more than {DEEPEST} folders inside of each other")));
        };
        let mut entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let known =
                path.extension().is_some_and(|ext| ["yaml", "yml", "json"].iter().any(|known| ext == *known));
            // A link may lead to a file, as Kubernetes' own volumes do, but not back up; one that leads nowhere is told.
            let lost = kind.is_symlink() && !path.exists();
            if kind.is_dir() || (known && (path.is_file() || lost)) {
                self.path(&path, depth, problems);
            }
        }
        Ok(())
    }

    fn bytes(&mut self, name: &str, reader: impl Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        reader.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        self.loaded.add(name, &bytes);
        self.texts.insert(name.to_owned(), String::from_utf8(bytes).ok());
        Ok(())
    }
}

/// The path as findings carry it; `.` at its head says nothing.
fn name(path: &Path) -> String {
    path.strip_prefix("./").unwrap_or(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str =
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: api}\nspec: {}\n";

    #[test]
    fn folders_are_read_in_order_and_other_files_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("b")).unwrap();
        for (name, text) in [("b/two.yml", ENTRY), ("a.yaml", ENTRY), ("notes.txt", "x: ["), ("c.json", "{}")]
        {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let (files, problems) = Files::read(&[dir.path().to_owned()]);
        assert_eq!(problems, []);
        let names: Vec<_> =
            files.loaded.resources.iter().map(|found| found.file.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["a.yaml", "two.yml"]);
    }

    #[test]
    fn what_cannot_be_read_is_named_and_the_rest_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let good = dir.path().join("good.yaml");
        std::fs::write(&good, ENTRY).unwrap();
        let empty = dir.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        let (files, problems) = Files::read(&[dir.path().join("missing.yaml"), empty, good]);
        assert_eq!(files.loaded.resources.len(), 1);
        assert_eq!(problems.len(), 2);
        assert!(problems.iter().all(|problem| !problem.hint.is_empty()), "{problems:?}");
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_circle_and_endless_files_come_to_an_end() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("again")).unwrap();
        std::fs::write(dir.path().join("a.yaml"), ENTRY).unwrap();
        let (files, problems) = Files::read(&[dir.path().to_owned(), PathBuf::from("/dev/zero")]);
        assert_eq!((files.loaded.resources.len(), problems.len()), (1, 0));
        assert!(files.loaded.problems[0].message.contains("MiB"), "{:?}", files.loaded.problems);
    }
}
