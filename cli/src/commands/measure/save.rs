//! The folder that `--save` fills: one JSON file a name and record type. It is opened before anything is measured, so
//! that a wrong path costs no waiting. Nothing in it is touched but the windows themselves.

use std::io;
use std::path::{Path, PathBuf};

use policies::ObservationWindow;
use policies::manifest::stable_hash;

use crate::report::Problem;
use crate::write;

/// Longest stem of a file name; file systems allow 255 bytes with the endings.
const LONGEST_STEM: usize = 200;

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder where it is missing, and checks that it can be written.
    pub(super) fn open(path: &Path) -> Result<Self, Problem> {
        let folder = Self(path.to_owned());
        // A file without a name: it takes nobody's place.
        std::fs::create_dir_all(path)
            .and_then(|()| tempfile::tempfile_in(path))
            .map(drop)
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
        let mut text = serde_json::to_vec_pretty(window).map_err(io::Error::other)?;
        text.push(b'\n');
        let path = self.0.join(file_name(window));
        // A link out of the folder is another's file.
        if path.is_symlink() {
            return Err(io::Error::other(format!("{} is a link", path.display())));
        }
        write::write(&path, &text)
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
        format!("{}-{:016x}", &host[..LONGEST_STEM], stable_hash(host.as_bytes()))
    };
    format!("{stem}.{}.json", window.record_type)
}
