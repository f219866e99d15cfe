//! The one way in which a file is written: beside its place, flushed, then renamed over it, with the mode and owner that
//! were there. A path and bytes come in; after a crash, a full disk or a second writer there is one whole file. Links
//! are followed to a regular file; a device or a pipe is written to and never replaced. Called by the console, by
//! `--save`, `--fix --write` and `--write-baseline`.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Links in a row, as the kernel has it.
const MOST_LINKS: usize = 40;

/// A file that is being written and does not have its name yet.
#[derive(Debug)]
pub struct Pending(Place);

#[derive(Debug)]
enum Place {
    Beside { file: NamedTempFile, path: PathBuf },
    Stream(File),
}

impl Pending {
    /// Opens at once, so that a wrong path costs no waiting.
    ///
    /// # Errors
    /// The folder is missing or cannot be written, or the path leads to what cannot be replaced.
    pub fn open(path: &Path) -> io::Result<Self> {
        let Resolved { path, found, stream } = resolve(path)?;
        if stream {
            // Behind `/dev/stdout` may be a file that others write to as well.
            let regular = found.as_ref().is_some_and(Metadata::is_file);
            return Ok(Self(Place::Stream(OpenOptions::new().write(true).append(regular).open(path)?)));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".egress-audit-").suffix(".partial").permissions(Permissions::from_mode(0o666));
        let file = match &found {
            None => builder.tempfile_in(folder)?,
            Some(found) => {
                replaceable(&path, found)?;
                let file = builder.permissions(Permissions::from_mode(0o600)).tempfile_in(folder)?;
                let made = file.as_file().metadata()?;
                if (made.uid(), made.gid()) != (found.uid(), found.gid()) {
                    fchown(file.as_file(), Some(found.uid()), Some(found.gid())).map_err(|error| {
                        io::Error::new(error.kind(), format!("its owner cannot be kept: {error}"))
                    })?;
                }
                file.as_file().set_permissions(Permissions::from_mode(found.mode() & 0o7777))?;
                file
            }
        };
        Ok(Self(Place::Beside { file, path }))
    }

    /// Where the bytes go.
    #[must_use]
    pub fn file(&self) -> &File {
        match &self.0 {
            Place::Beside { file, .. } => file.as_file(),
            Place::Stream(file) => file,
        }
    }

    /// Nothing has been written to a file that was to be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Place::Beside { file, .. } => file.as_file().metadata().is_ok_and(|found| found.len() == 0),
            Place::Stream(_) => false,
        }
    }

    /// Gives the file its name, once it is on the disk.
    ///
    /// # Errors
    /// The disk is full, or something else has taken the name.
    pub fn keep(self) -> io::Result<()> {
        let Place::Beside { file, path } = self.0 else { return Ok(()) };
        file.as_file().sync_all()?;
        // What came there meanwhile is not for us to replace.
        if std::fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("it is not a regular file any more"));
        }
        let folder = path.parent().map(Path::to_owned);
        file.persist(&path).map_err(|error| error.error)?;
        // Some file systems cannot flush a folder; the file itself is whole all the same.
        let _ = folder.and_then(|folder| File::open(folder).ok()).map(|folder| folder.sync_all());
        Ok(())
    }
}

/// Writes a file.
///
/// # Errors
/// As [`Pending::open`] and [`Pending::keep`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let pending = Pending::open(path)?;
    pending.file().write_all(bytes)?;
    pending.keep()
}

/// Writes a file that was read before, unless another has changed it since.
///
/// # Errors
/// As [`write()`]; the file does not hold `old` any more.
pub fn replace(path: &Path, old: &[u8], new: &[u8]) -> io::Result<()> {
    let pending = Pending::open(path)?;
    pending.file().write_all(new)?;
    let mut now = Vec::with_capacity(old.len());
    File::open(path)?.take(old.len() as u64 + 1).read_to_end(&mut now)?;
    if now != old {
        return Err(io::Error::other("it has changed since it was read"));
    }
    pending.keep()
}

/// Where a path leads.
struct Resolved {
    path: PathBuf,
    found: Option<Metadata>,
    /// A device, a pipe, or what the system shows as one.
    stream: bool,
}

fn resolve(path: &Path) -> io::Result<Resolved> {
    let mut path = path.to_owned();
    for links in 0..MOST_LINKS {
        let name = path.file_name().ok_or_else(not_regular)?.to_owned();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize()?;
        path = folder.join(name);
        if ["/dev", "/proc"].iter().any(|system| path.starts_with(system)) {
            let found = std::fs::metadata(&path)?;
            return if found.is_dir() {
                Err(not_regular())
            } else {
                Ok(Resolved { path, found: Some(found), stream: true })
            };
        }
        let found = match std::fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound && links == 0 => {
                return Ok(Resolved { path, found: None, stream: false });
            }
            Err(error) => return Err(error),
        };
        let kind = found.file_type();
        if kind.is_symlink() {
            path = folder.join(std::fs::read_link(&path)?);
            continue;
        }
        let stream = kind.is_char_device() || kind.is_fifo();
        return if stream || kind.is_file() {
            Ok(Resolved { path, found: Some(found), stream })
        } else {
            Err(not_regular())
        };
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// A new file takes the place of the old one: what only the old one has would be lost.
fn replaceable(path: &Path, found: &Metadata) -> io::Result<()> {
    if found.nlink() > 1 {
        return Err(io::Error::other("it has other names (hard links), which would keep the old text"));
    }
    OpenOptions::new().write(true).open(path).map(drop)
}

fn not_regular() -> io::Error {
    io::Error::other("it is not a regular file")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_link_and_the_mode_stay_and_nothing_is_left_beside() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        write(&link, b"new").unwrap();
        assert_eq!(text(&file), "new");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_changed_by_another_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "old and more").unwrap();
        assert!(replace(&file, b"old", b"new").unwrap_err().to_string().contains("has changed"));
        assert_eq!(text(&file), "old and more");
        replace(&file, b"old and more", b"new").unwrap();
        assert_eq!(text(&file), "new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_not_a_regular_file_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        write(Path::new("/dev/null"), b"x").unwrap();
        assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert!(write(dir.path(), b"x").is_err());
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        symlink(&two, &one).unwrap();
        symlink(&one, &two).unwrap();
        assert!(write(&one, b"x").unwrap_err().to_string().contains("circle"));
        let file = dir.path().join("file");
        std::fs::write(&file, "old").unwrap();
        std::fs::hard_link(&file, dir.path().join("other")).unwrap();
        assert!(write(&file, b"x").unwrap_err().to_string().contains("hard links"));
        assert_eq!(text(&file), "old");
    }

    #[test]
    fn a_descriptor_by_its_path_is_written_to() {
        use std::os::fd::AsRawFd;
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("file")).unwrap();
        (&file).write_all(b"before ").unwrap();
        let inode = file.metadata().unwrap().ino();
        write(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), b"after").unwrap();
        assert_eq!(text(&dir.path().join("file")), "before after");
        assert_eq!(std::fs::metadata(dir.path().join("file")).unwrap().ino(), inode);
    }
}
