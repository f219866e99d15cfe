//! The state file: written whole or not at all, on the disk before a command is answered. [`Saved`] in, [`Saved`]
//! out. Called by `engine`.

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
    #[error("cannot read it")]
    Read(#[source] io::Error),
    #[error("cannot write it")]
    Write(#[source] io::Error),
    #[error("it is not a state file")]
    Shape(#[source] serde_json::Error),
    #[error("it has version {0}, this binary knows {expected}", expected = Saved::VERSION)]
    Version(u32),
}

/// Reads and checks.
pub(crate) fn read(path: &Path) -> Result<Saved, StateFileError> {
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
    replace(path, &text).map_err(StateFileError::Write)
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
}
