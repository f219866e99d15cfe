//! What the user names: host names from the command line and from files, saved windows. Good entries come out in
//! order and without repeats; bad ones come out as [`Problem`]s that name the place and the remedy, so that one
//! typing error never costs the rest of a batch.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use policies::{Host, ObservationWindow};

use crate::report::Problem;

/// Longest line that a names file may hold: far more than any host name.
const LONGEST_LINE: u64 = 4096;
/// Largest file of a saved window, bytes.
const LARGEST_WINDOW: u64 = 64 << 20;

/// Reads the names given as arguments, then those of each file (`-` is standard input): one name a line, blank lines
/// and `#` comments skipped. What people paste is understood: of a URL or `host:port` the host is taken, a comma divides
/// names, and a note says so.
#[must_use]
pub fn hosts(names: &[String], files: &[PathBuf]) -> (Vec<Host>, Vec<Problem>, Vec<String>) {
    let mut found = Found::default();
    for name in names {
        found.add(name, || None);
    }
    for file in files {
        let before = found.seen;
        if let Err(error) = found.read_file(file) {
            found.problems.push(unreadable(file, &error));
        } else if found.seen == before {
            found.problems.push(Problem::new(
                file.display(),
                "holds no names",
                "write one host name a line; `#` starts a comment",
            ));
        }
    }
    (found.hosts, found.problems, found.notes)
}

/// The host in what was pasted, where it is more than a host: a URL, `user@host`, `host:port`, `host/path`.
fn host_in(text: &str) -> Option<&str> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = match rest.split_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => rest,
    };
    (host != text && !host.is_empty()).then_some(host)
}

#[derive(Default)]
struct Found {
    notes: Vec<String>,
    hosts: Vec<Host>,
    known: HashSet<Host>,
    problems: Vec<Problem>,
    seen: usize,
}

impl Found {
    fn add(&mut self, text: &str, place: impl Fn() -> Option<String>) {
        let one_each = text.split([',', ';']).map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<&str> = one_each.collect();
        if names.len() < 2 {
            self.add_one(names.first().copied().unwrap_or(text), place);
            return;
        }
        for name in names {
            self.add_one(name, &place);
        }
    }

    fn add_one(&mut self, text: &str, place: impl Fn() -> Option<String>) {
        self.seen += 1;
        // As `dig` takes it.
        if let Some(resolver) = text.strip_prefix('@') {
            let resolver = resolver.escape_default();
            self.notes
                .push(format!("@{resolver} is passed over: name a resolver with `--resolver {resolver}`"));
            return;
        }
        let mut text = text;
        if let Some(host) = host_in(text).filter(|host| Host::parse(host).is_ok()) {
            // What stands before the host may be a password.
            let around = text.replace(text.split_once(host).map_or("", |(before, _)| before), "");
            self.notes.push(format!("of {} the host is taken: {host}", around.escape_default()));
            text = host;
        }
        match Host::parse(text) {
            Ok(host) => {
                if self.known.insert(host.clone()) {
                    self.hosts.push(host);
                }
            }
            Err(error) => {
                let subject = place().unwrap_or_else(|| "name".to_owned());
                self.problems.push(Problem::about(subject, &error));
            }
        }
    }

    fn read_file(&mut self, file: &Path) -> io::Result<()> {
        let reader: Box<dyn Read> =
            if file == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(file)?) };
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let place = || Some(format!("{}:{number}", file.display()));
            if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
                let message =
                    format!("line of more than {LONGEST_LINE} bytes, the rest of the file is not read");
                let subject = place().unwrap_or_default();
                self.problems.push(Problem::new(subject, message, "write one host name a line"));
                self.seen += 1;
                break;
            }
            let text = String::from_utf8_lossy(&line);
            let name = text.split('#').next().unwrap_or_default().trim();
            if !name.is_empty() {
                self.add(name, place);
            }
        }
        Ok(())
    }
}

/// Reads a text file of at most `most` bytes.
///
/// # Errors
/// It cannot be read, or is larger.
pub fn text(path: &Path, most: u64) -> Result<String, Problem> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text));
    let size = read.map_err(|error| unreadable(path, &error))? as u64;
    if size > most {
        let message = format!("is larger than {} MiB", most >> 20);
        return Err(Problem::new(path.display(), message, "check the path"));
    }
    Ok(text)
}

/// Reads the saved windows of a folder (every `.json` in it, by name) or of one file.
#[must_use]
pub fn windows(path: &Path) -> (Vec<ObservationWindow>, Vec<Problem>) {
    let files = match window_files(path) {
        Ok(files) if files.is_empty() => {
            let hint = "name a folder that `classify --save` wrote";
            return (Vec::new(), vec![Problem::new(path.display(), "holds no saved windows (*.json)", hint)]);
        }
        Ok(files) => files,
        Err(error) => return (Vec::new(), vec![unreadable(path, &error)]),
    };
    let mut windows = Vec::with_capacity(files.len());
    let mut problems = Vec::new();
    for file in files {
        match read_window(&file) {
            Ok(window) => windows.push(window),
            Err(problem) => problems.push(problem),
        }
    }
    (windows, problems)
}

fn window_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return File::open(path).map(|_| vec![path.to_owned()]);
    }
    let mut files = std::fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

fn read_window(file: &Path) -> Result<ObservationWindow, Problem> {
    let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    let mut text = String::new();
    let size =
        opened.take(LARGEST_WINDOW + 1).read_to_string(&mut text).map_err(|error| unreadable(file, &error))?
            as u64;
    if size > LARGEST_WINDOW {
        let message = format!("is larger than {} MiB", LARGEST_WINDOW >> 20);
        return Err(Problem::new(
            file.display(),
            message,
            "this is no saved window; name the files one by one",
        ));
    }
    let window: ObservationWindow = serde_json::from_str(&text).map_err(|error| {
        Problem::new(
            file.display(),
            format!("is no saved window: {error}"),
            "save it anew with `classify --save`",
        )
    })?;
    if let Some(at) = window.samples.iter().position(|sample| sample.source >= window.sources.len()) {
        let message = format!("sample {at} names a source that the window does not list");
        return Err(Problem::new(file.display(), message, "save it anew with `classify --save`"));
    }
    Ok(window)
}

fn unreadable(file: &Path, error: &io::Error) -> Problem {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check the permissions of the file and its folders",
        io::ErrorKind::IsADirectory => "name a file, or use `--from` for a folder of saved windows",
        _ => "check that it is a readable text file",
    };
    Problem::new(file.display(), format!("cannot be read: {error}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        (dir, path)
    }

    #[test]
    fn good_names_come_in_order_and_bad_ones_name_their_line() {
        let (_dir, names) =
            file("names.txt", b"# ours\nb.example\n\n a..example \nA.example. # again\n\xff.example\n");
        let (hosts, problems, _) = hosts(&["a.example".into(), "*.example".into()], &[names]);
        assert_eq!(hosts.iter().map(Host::as_str).collect::<Vec<_>>(), ["a.example", "b.example"]);
        let subjects: Vec<_> =
            problems.iter().map(|p| p.subject.rsplit('/').next().unwrap().to_owned()).collect();
        assert_eq!(subjects, ["name", "names.txt:4", "names.txt:6"]);
        assert!(problems.iter().all(|problem| !problem.hint.is_empty()));
    }

    #[test]
    fn what_people_paste_is_understood_and_said() {
        for (text, wanted, notes) in [
            ("https://api.example/v1/pay?x=1", vec!["api.example"], 1),
            ("postgres://user:secret@db.example:5432/shop", vec!["db.example"], 1),
            ("api.example:8443", vec!["api.example"], 1),
            ("a.example, b.example,c.example", vec!["a.example", "b.example", "c.example"], 0),
            ("@10.0.0.53", vec![], 1),
            ("api.example", vec!["api.example"], 0),
        ] {
            let (hosts, problems, said) = hosts(&[text.to_owned()], &[]);
            assert_eq!(hosts.iter().map(Host::as_str).collect::<Vec<_>>(), wanted, "{text}");
            assert_eq!((problems.len(), said.len()), (0, notes), "{text}: {problems:?} {said:?}");
            assert!(!said.concat().contains("secret"), "{said:?}");
        }
        for text in ["https://*.example/", "api.example:https", "10.0.0.1:443", "http://"] {
            let (hosts, problems, _) = hosts(&[text.to_owned()], &[]);
            assert_eq!((hosts.len(), problems.len()), (0, 1), "{text}");
        }
    }

    #[test]
    fn files_without_names_are_problems() {
        let (_dir, empty) = file("empty.txt", b"\n# nothing\n");
        let missing = empty.with_file_name("missing.txt");
        let folder = empty.parent().unwrap().to_owned();
        let (hosts, problems, _) = hosts(&[], &[empty, missing, folder]);
        assert!(hosts.is_empty());
        let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(messages.len(), 3, "{messages:?}");
        assert_eq!(messages[0], "holds no names");
        assert!(messages[1].contains("No such file") && messages[2].contains("directory"), "{messages:?}");
    }

    #[test]
    fn an_endless_line_is_given_up() {
        let (_dir, blob) = file("blob.bin", &vec![b'a'; 10_000]);
        let (hosts, problems, _) = hosts(&[], &[blob]);
        assert!(hosts.is_empty());
        assert!(problems[0].message.contains("more than 4096 bytes"), "{problems:?}");
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn a_window_must_be_whole() {
        let good = r#"{"host":"a.example","record_type":"A","sources":[],"started_at":"2026-07-01T00:00:00Z",
            "ended_at":"2026-07-01T00:00:00Z","samples":[]}"#;
        let (_dir, path) = file("a.example.A.json", good.as_bytes());
        assert_eq!(windows(path.parent().unwrap()).0.len(), 1);
        assert_eq!(windows(&path).0[0].host.as_str(), "a.example");

        let sourceless = good.replace(
            r#""samples":[]"#,
            r#""samples":[{"at":"2026-07-01T00:00:00Z","source":0,"rtt_ms":1.5,"outcome":"timeout"}]"#,
        );
        for (text, wanted) in [
            ("{", "is no saved window: EOF"),
            (&good.replace("a.example", "a\\u001b[31m.example"), "is not a host name label"),
            (&good.replace("\"A\"", "\"MX\""), "unknown variant `MX`"),
            (&sourceless, "names a source that the window does not list"),
        ] {
            let (_dir, path) = file("w.json", text.as_bytes());
            let (_, problems) = windows(&path);
            assert!(problems[0].message.contains(wanted), "{problems:?}");
        }
        let (_dir, other) = file("notes.txt", b"");
        assert!(windows(other.parent().unwrap()).1[0].message.contains("holds no saved windows"));
    }
}
