//! Folders of one run: made beneath a parent, gone with their owner. A process that is killed cannot remove its own, so
//! the next one does: a folder whose lock nobody holds has no owner. Used by all that write files for a child.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

/// Each folder of the lab starts with it.
const OURS: &str = "egress-audit-";
/// Held by the owner for as long as it lives, whatever way that ends.
const LOCK: &str = "lock";

/// A folder and the proof that it has an owner.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    // Not inherited by children: it goes with this process.
    #[cfg_attr(not(test), expect(dead_code, reason = "held for its lock"))]
    lock: File,
}

impl Scratch {
    /// A folder for temporary files, by `what` it is for.
    ///
    /// # Errors
    /// `TMPDIR` cannot be written.
    pub fn new(what: &str) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), what)
    }

    /// The same beneath `parent`. What killed processes left there is removed first.
    ///
    /// # Errors
    /// `parent` cannot be written.
    pub fn new_in(parent: &Path, what: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(&format!("{OURS}{what}-")).tempdir_in(parent)?;
        // Nobody finds it under its name before it is held: a folder with a free lock counts as abandoned.
        let unseen = folder.path().join("lock.new");
        let lock = File::create_new(&unseen)?;
        lock.lock()?;
        fs::rename(unseen, folder.path().join(LOCK))?;
        let owner = fs::metadata(folder.path())?.uid();
        for entry in fs::read_dir(parent)?.flatten() {
            let ours = entry.file_name().to_string_lossy().starts_with(OURS);
            if ours && abandoned(&entry.path(), owner) {
                // Another process that starts just now may be faster.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(Self { folder, lock })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Whether this is a folder of the same user whose lock is free. One without a lock is just being made.
fn abandoned(folder: &Path, owner: u32) -> bool {
    let own = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == owner);
    own && File::open(folder.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_the_making_is_not_taken_for_abandoned() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    for _ in 0..200 {
                        let folder = Scratch::new_in(parent.path(), "made").unwrap();
                        assert!(folder.path().join(LOCK).exists());
                    }
                });
            }
        });
    }

    #[test]
    fn what_has_no_owner_goes_and_all_else_stays() {
        let parent = tempfile::tempdir().unwrap();
        let held = Scratch::new_in(parent.path(), "one").unwrap();
        let left = Scratch::new_in(parent.path(), "two").unwrap();
        // As a killed process leaves it: the folder stays, the lock goes.
        let Scratch { folder, lock } = left;
        let left = folder.keep();
        drop(lock);
        let foreign = parent.path().join("somebody-elses");
        let unlocked = parent.path().join("egress-audit-in-the-making");
        let linked = parent.path().join("egress-audit-link");
        let target = tempfile::tempdir().unwrap();
        fs::create_dir(&foreign).unwrap();
        fs::create_dir(&unlocked).unwrap();
        fs::write(target.path().join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(target.path(), &linked).unwrap();

        let next = Scratch::new_in(parent.path(), "three").unwrap();
        assert!(!left.exists());
        for stays in [held.path(), &foreign, &unlocked, &linked, &target.path().join(LOCK), next.path()] {
            assert!(stays.exists(), "{}", stays.display());
        }
    }
}
