//! The folder that `--save` fills: one JSON file a name and record type. It is opened before anything is measured, so
//! that a wrong path costs no waiting.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use policies::ObservationWindow;

use crate::report::Problem;

/// Longest stem of a file name; file systems allow 255 bytes with the endings.
const LONGEST_STEM: usize = 200;

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder where it is missing, and checks that it can be written.
    pub(super) fn open(path: &Path) -> Result<Self, Problem> {
        let folder = Self(path.to_owned());
        let probe = path.join(".egress-audit");
        std::fs::create_dir_all(path)
            .and_then(|()| std::fs::write(&probe, b""))
            .and_then(|()| std::fs::remove_file(&probe))
            .map_err(|error| folder.problem(&error))?;
        Ok(folder)
    }

    /// Writes the windows of one name. A file is whole or not there.
    pub(super) fn save(&self, windows: &[ObservationWindow]) -> Result<(), Problem> {
        for window in windows {
            self.write(window).map_err(|error| self.problem(&error))?;
        }
        Ok(())
    }

    fn write(&self, window: &ObservationWindow) -> io::Result<()> {
        let target = self.0.join(file_name(window));
        let partial = target.with_extension("partial");
        let mut file = io::BufWriter::new(std::fs::File::create(&partial)?);
        serde_json::to_writer_pretty(&mut file, window).map_err(io::Error::other)?;
        file.write_all(b"\n")?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?;
        std::fs::rename(&partial, &target)
    }

    fn problem(&self, error: &io::Error) -> Problem {
        let hint = "name a folder with `--save` that can be written and has room";
        Problem::new(self.0.display(), format!("cannot be written: {error}"), hint)
    }
}

/// `api.partner.example.A.json`; a very long name is cut and told apart by a hash.
fn file_name(window: &ObservationWindow) -> String {
    let host = window.host.as_str();
    let stem = if host.len() <= LONGEST_STEM {
        host.to_owned()
    } else {
        let mut hasher = DefaultHasher::new();
        host.hash(&mut hasher);
        format!("{}-{:016x}", &host[..LONGEST_STEM], hasher.finish())
    };
    format!("{stem}.{}.json", window.record_type)
}
