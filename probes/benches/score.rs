//! `cargo bench -p egress-audit-probes --bench score [-- RUNS]`: how right the classifier is on the shipped zoo and on
//! the hold-out behaviours, as Markdown.
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::path::Path;
use std::time::Instant;

use policies::{Policy, Window};
use probes::names::score::{Access, Case, Settings, markdown, score};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(500);
    let policy = Policy::default();
    let sets = [("zoo", Case::zoo()?), ("hold-out", holdout()?)];
    for (name, cases) in &sets {
        for access in [Access::Authority, Access::CachesOnly, Access::Both] {
            report(name, cases, &Settings::patient(runs, 1, access, &policy), "until decided");
        }
        for (window, words) in [(Window::Auto, "at most 3 minutes"), (Window::Quick, "quick")] {
            for access in [Access::Authority, Access::CachesOnly] {
                let patient = Settings::patient(runs, 1, access, &policy);
                let settings = Settings { window, policy: policy.clone().into(), ..patient };
                report(name, cases, &settings, words);
            }
        }
    }
    Ok(())
}

fn report(name: &str, cases: &[Case], settings: &Settings, words: &str) {
    let began = Instant::now();
    let score = score(cases, settings);
    let took = began.elapsed();
    println!(
        "## {name}, {:?}, {words}: {} runs in {:.1} s\n",
        settings.access,
        settings.runs,
        took.as_secs_f64()
    );
    println!("{}", markdown(&score));
}

fn holdout() -> Result<Vec<Case>, Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/holdout");
    let mut files: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    let mut cases = Vec::new();
    for file in files {
        let name = file.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        cases.extend(Case::all_of(&name, &std::fs::read_to_string(file.path())?)?);
    }
    Ok(cases)
}
