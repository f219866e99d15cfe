//! The names to watch: those typed, those of files and those of manifests, read again when a file changes. What is to be
//! watched goes out, with the `resolution` that manifests declare.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use policies::{Host, Resolution};

use crate::args::WatchArgs;
use crate::commands::audit;
use crate::input;
use crate::report::Problem;

/// Folders inside of each other.
const DEEPEST: usize = 64;

/// What is to be watched.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// In the order given.
    pub(super) hosts: Vec<Host>,
    /// Each of them, with the `resolution` of its entries.
    pub(super) declared: HashMap<Host, Vec<Resolution>>,
    /// What could not be read.
    pub(super) problems: Vec<Problem>,
}

/// Where names come from.
#[derive(Debug)]
pub(super) struct Names {
    typed: Vec<String>,
    files: Vec<PathBuf>,
    manifests: Vec<PathBuf>,
    /// What the files looked like when they were read last.
    seen: Vec<(PathBuf, Option<SystemTime>, u64)>,
}

impl Names {
    pub(super) fn new(args: &WatchArgs) -> Self {
        Self {
            typed: args.names.clone(),
            files: args.file.clone(),
            manifests: args.manifests.clone(),
            seen: Vec::new(),
        }
    }

    /// Reads everything.
    pub(super) fn read(&mut self) -> Wanted {
        self.seen = self.look();
        let (hosts, problems, _) = input::hosts(&self.typed, &self.files);
        let mut wanted = Wanted { problems, ..Wanted::default() };
        for host in hosts {
            wanted.declared.insert(host.clone(), Vec::new());
            wanted.hosts.push(host);
        }
        if self.manifests.is_empty() {
            return wanted;
        }
        let (declared, problems) = audit::declared(&self.manifests);
        wanted.problems.extend(problems);
        for (host, resolution) in declared {
            let entry = wanted.declared.entry(host.clone()).or_insert_with(|| {
                wanted.hosts.push(host);
                Vec::new()
            });
            if !entry.contains(&resolution) {
                entry.push(resolution);
            }
        }
        wanted
    }

    /// What is to be watched, if a file has changed. While something cannot be read (a file that is being replaced), what
    /// was read before stands.
    pub(super) fn changed(&mut self) -> Option<Wanted> {
        let now = self.look();
        if now == self.seen {
            return None;
        }
        let wanted = self.read();
        if wanted.hosts.is_empty() || self.files.iter().chain(&self.manifests).any(|path| !path.exists()) {
            self.seen = Vec::new();
            return None;
        }
        Some(wanted)
    }

    fn look(&self) -> Vec<(PathBuf, Option<SystemTime>, u64)> {
        let mut seen = Vec::new();
        for path in self.files.iter().chain(&self.manifests) {
            look(path, DEEPEST, &mut seen);
        }
        seen
    }
}

fn look(path: &Path, depth: usize, seen: &mut Vec<(PathBuf, Option<SystemTime>, u64)>) {
    let Ok(found) = std::fs::metadata(path) else { return };
    if !found.is_dir() {
        seen.push((path.to_owned(), found.modified().ok(), found.len()));
        return;
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    // A link to a folder may lead back up.
    for entry in entries.into_iter().filter(|entry| !(entry.is_symlink() && entry.is_dir())) {
        look(&entry, depth, seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(file: &Path, manifests: &Path) -> Names {
        Names {
            typed: vec!["typed.example".to_owned()],
            files: vec![file.to_owned()],
            manifests: vec![manifests.to_owned()],
            seen: Vec::new(),
        }
    }

    #[test]
    fn names_come_and_go_with_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let (file, manifests) = (dir.path().join("names.txt"), dir.path().join("repo"));
        std::fs::write(&file, "a.example\n").unwrap();
        std::fs::create_dir(&manifests).unwrap();
        let entry = |resolution: &str| {
            format!(
                "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: b, namespace: n}}\n\
                 spec: {{hosts: [b.example], resolution: {resolution}, ports: [{{number: 443, name: tls, protocol: TLS}}]}}\n"
            )
        };
        std::fs::write(manifests.join("b.yaml"), entry("DNS")).unwrap();
        let mut names = names(&file, &manifests);
        let hosts = |wanted: &Wanted| wanted.hosts.iter().map(Host::to_string).collect::<Vec<_>>();
        let first = names.read();
        assert_eq!(hosts(&first), ["typed.example", "a.example", "b.example"]);
        assert_eq!(first.declared[&Host::parse("b.example").unwrap()], [Resolution::Dns]);
        assert!(names.changed().is_none());

        std::fs::write(&file, "c.example # new\n").unwrap();
        std::fs::write(manifests.join("b.yaml"), entry("DNS_ROUND_ROBIN")).unwrap();
        let second = names.changed().unwrap();
        assert_eq!(hosts(&second), ["typed.example", "c.example", "b.example"]);
        assert_eq!(second.declared[&Host::parse("b.example").unwrap()], [Resolution::DnsRoundRobin]);

        // A file that is gone for a moment takes no name away.
        std::fs::remove_file(&file).unwrap();
        assert!(names.changed().is_none());
        std::fs::write(&file, "a.example\n").unwrap();
        assert_eq!(hosts(&names.changed().unwrap()), ["typed.example", "a.example", "b.example"]);
    }
}
