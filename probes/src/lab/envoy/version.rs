//! Which Envoy a binary or a running proxy is, from what it prints. Called by `install`, and for a proxy's own word.

use policies::Version;

/// Reads the line of `envoy --version`, `.../envoy  version: <sha>/1.40.0/Clean/RELEASE/BoringSSL`.
#[must_use]
pub fn of_banner(banner: &str) -> Option<Version> {
    of_build(banner.split("version:").nth(1)?)
}

/// Reads a build as `/server_info` names it, `<sha>/1.40.0/Clean/RELEASE/BoringSSL`. A development build calls itself
/// 1.41.0-dev, a distributor's 1.38.3-1.
#[must_use]
pub fn of_build(build: &str) -> Option<Version> {
    build.split('/').filter_map(|part| part.parse::<Version>().ok()).find(|version| version.is_release())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_of_real_builds_are_read() {
        for (banner, version) in [
            (
                "\n/tmp/x/envoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/1.40.0/Clean/RELEASE/BoringSSL\n",
                "1.40.0",
            ),
            ("envoy  version: 0/1.36.4-dev/Modified/DEBUG/BoringSSL", "1.36.4"),
        ] {
            assert_eq!(of_banner(banner).unwrap().to_string(), version);
        }
        assert_eq!(of_banner("bash: envoy: cannot execute binary file"), None);
        assert_eq!(of_build("1.40/Clean"), None, "a release line is not a build");
    }
}
