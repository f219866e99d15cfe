//! The scenarios that come with the lab: `gslb` to start from, `demo`, and the zoo of answer patterns with their
//! right verdicts. Embedded, so that the binary needs no files. Read by `lab scenarios`, `lab score` and `lab demo`.

use include_dir::{Dir, include_dir};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/scenarios");

/// Name (`gslb`, `zoo/one-vip`) and YAML of each scenario, sorted by name.
pub fn builtin() -> impl Iterator<Item = (&'static str, &'static str)> {
    let folders = std::iter::once(&FILES).chain(FILES.dirs());
    let mut all: Vec<_> = folders
        .flat_map(Dir::files)
        .filter_map(|file| Some((file.path().to_str()?.strip_suffix(".yaml")?, file.contents_utf8()?)))
        .collect();
    all.sort_unstable();
    all.into_iter()
}

/// The YAML of one scenario.
#[must_use]
pub fn find(name: &str) -> Option<&'static str> {
    builtin().find(|(known, _)| *known == name).map(|(_, yaml)| yaml)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    #[test]
    fn every_builtin_scenario_is_valid_and_the_zoo_is_judged() {
        let mut zoo = 0;
        for (name, yaml) in builtin() {
            let scenario = Scenario::from_yaml(yaml).unwrap_or_else(|e| panic!("{name}: {e} ({})", e.hint));
            assert!(scenario.description.is_some(), "{name} does not say what it shows");
            if name.starts_with("zoo/") {
                zoo += 1;
                assert_eq!(scenario.expectations().count(), 1, "{name}: one verdict");
            }
        }
        assert!(zoo >= 47, "{zoo}");
        assert!(find("gslb").is_some() && find("demo").is_some() && find("nope").is_none());
    }
}
