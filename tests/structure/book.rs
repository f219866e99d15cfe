//! The book: every page is in the summary, and every link leads to a page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::workspace;

#[test]
fn every_page_is_listed_and_every_link_leads_somewhere() {
    let source = workspace().join("book/src");
    let mut pages = BTreeSet::new();
    collect(&source, &source, &mut pages);
    let text = |page: &str| fs::read_to_string(source.join(page)).unwrap();
    let listed: BTreeSet<String> = links("", &text("SUMMARY.md")).into_iter().collect();
    assert_eq!(listed, pages.iter().filter(|page| *page != "SUMMARY.md").cloned().collect());

    let broken = |page: &String| {
        let links = links(page.rsplit_once('/').map_or("", |(folder, _)| folder), &text(page));
        links
            .into_iter()
            .filter(|link| !source.join(link).is_file())
            .map(|link| format!("{page}: {link}"))
            .collect::<Vec<_>>()
    };
    let broken: Vec<String> = pages.iter().flat_map(broken).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

fn page(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// Targets of the Markdown links to pages in a text, beneath the book's folder.
fn links(folder: &str, text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let pages = targets.filter(|target| !target.contains("://") && page(target));
    pages.map(|page| if folder.is_empty() { page.to_owned() } else { format!("{folder}/{page}") }).collect()
}

fn collect(root: &Path, folder: &Path, pages: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.insert(path.strip_prefix(root).unwrap().display().to_string());
        }
    }
}
