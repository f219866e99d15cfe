//! The state file: replaced in one step, on the disk before a command is answered. [`Saved`] in, [`Saved`] out. Only a
//! regular file is read or replaced. Called by `engine` and, for the check at the start, by `serve`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::drain::Saved;

/// A state file is about a kilobyte; one much larger is not ours.
const LARGEST: u64 = 1 << 20;

/// Why the state could not be kept or found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateFileError {
    #[error("there is none")]
    Absent,
    #[error("it is not a regular file")]
    NotRegular,
    #[error("cannot read it")]
    Read(#[source] io::Error),
    #[error("cannot write it")]
    Write(#[source] io::Error),
    #[error("it is not a state file")]
    Shape(#[source] serde_json::Error),
    #[error("it has version {0}, this binary knows {expected}", expected = Saved::VERSION)]
    Version(u32),
}

/// Whether it can be a state file: a regular file, or none yet. A device or a pipe would be replaced by the first
/// write, or hold up the start.
pub(crate) fn regular(path: &Path) -> Result<(), StateFileError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(StateFileError::NotRegular),
        // A link that leads nowhere is not a place for a file either.
        Err(_) if fs::symlink_metadata(path).is_ok() => Err(StateFileError::NotRegular),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Names this boot of the system, where it can be told. An emptyDir outlives a restart of its node.
pub(crate) fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// Reads and checks.
pub(crate) fn read(path: &Path) -> Result<Saved, StateFileError> {
    regular(path)?;
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StateFileError::Absent,
        _ => StateFileError::Read(error),
    })?;
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(StateFileError::Read)?;
    let saved: Saved = serde_json::from_str(&text).map_err(StateFileError::Shape)?;
    if saved.version == Saved::VERSION { Ok(saved) } else { Err(StateFileError::Version(saved.version)) }
}

/// New content beside the old, flushed, then renamed over it, then the folder flushed: after a crash at any point
/// there is one whole file.
pub(crate) fn write(path: &Path, saved: &Saved) -> Result<(), StateFileError> {
    let text = serde_json::to_vec(saved).map_err(StateFileError::Shape)?;
    regular(path)?;
    // A link stays: what it leads to is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match replace(path, &text) {
        Err(error) if full(&error) => overwrite(path, text).map_err(|_| StateFileError::Write(error)),
        replaced => replaced.map_err(StateFileError::Write),
    }
}

fn full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// On a disk that is full: into the blocks that the file has. A crash in the middle leaves a file that is not believed,
/// which is no worse than one that says OPEN in a drain.
fn overwrite(path: &Path, mut text: Vec<u8>) -> io::Result<()> {
    let _ = fs::remove_file(path.with_extension("new"));
    let mut file = File::options().write(true).open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or_default();
    text.resize(text.len().max(length), b' ');
    file.write_all(&text)?;
    file.sync_all()
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::{Drain, State};

    #[test]
    fn what_is_written_comes_back_and_leaves_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let saved = Saved { state: State::Draining, started_ms: Some(7), ..Saved::from(&Drain::new(5)) };
        write(&path, &saved).unwrap();
        write(&path, &saved).unwrap();
        assert_eq!(read(&path).unwrap(), saved);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_foreign_file_is_named_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        assert!(matches!(read(&path), Err(StateFileError::Absent)));
        fs::write(&path, "{\"state\":\"OPEN\"}").unwrap();
        assert!(matches!(read(&path), Err(StateFileError::Shape(_))));
        let saved = Saved { version: 9, ..Saved::from(&Drain::new(5)) };
        write(&path, &saved).unwrap();
        assert!(matches!(read(&path), Err(StateFileError::Version(9))));
    }

    /// The first write would replace a device or a link, and reading a pipe that nobody writes to never ends.
    #[test]
    fn only_a_regular_file_is_read_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let [file, link, lost] = ["file", "link", "lost"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &lost).unwrap();
        let saved = Saved::from(&Drain::new(5));
        for bad in [&pipe, &lost, Path::new("/dev/null"), folder.path()] {
            assert!(matches!(read(bad), Err(StateFileError::NotRegular)), "{}", bad.display());
            assert!(matches!(write(bad, &saved), Err(StateFileError::NotRegular)), "{}", bad.display());
        }
        write(&file, &saved).unwrap();
        write(&link, &Saved { forced: true, ..saved }).unwrap();
        assert!(read(&file).unwrap().forced, "the link leads to it still");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn what_is_overwritten_in_place_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let saved = Saved { remaining: Some(1_234_567), ..Saved::from(&Drain::new(5)) };
        write(&path, &saved).unwrap();
        for next in [Saved { remaining: None, ..saved.clone() }, Saved { state: State::Draining, ..saved }] {
            overwrite(&path, serde_json::to_vec(&next).unwrap()).unwrap();
            assert_eq!(read(&path).unwrap(), next);
        }
    }
}
