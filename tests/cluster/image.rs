//! The container image without a container engine: it is packed, taken apart again as an engine would, and what is in it
//! runs with nothing else around.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use harness::find;
use serde_json::Value;

use crate::Test;
use crate::control_plane::ControlPlane;
use crate::manifests::repository;

pub(crate) const TESTS: &[Test] = &[("the image holds static programs and nothing else", image)];

fn image(_: &ControlPlane) -> anyhow::Result<()> {
    // The profile of the tests: what is packed is the same, and a release takes minutes more.
    let packed = Command::new(repository().join("scripts/image")).env("IMAGE_PROFILE", "dev").output()?;
    ensure!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let archive = repository().join(String::from_utf8(packed.stdout)?.trim());
    let folder = tempfile::tempdir()?;
    let (layout, root) = (folder.path().join("oci"), folder.path().join("root"));
    untar(&archive, &layout)?;

    let index = read(&layout.join("index.json"))?;
    let manifest = read(&blob(&layout, &index["manifests"][0])?)?;
    let config = read(&blob(&layout, &manifest["config"])?)?;
    ensure!(config["config"]["User"] == "65532:65532", "{config:#}");
    ensure!(config["config"]["Entrypoint"] == serde_json::json!(["/egress-audit"]), "{config:#}");
    let layers = manifest["layers"].as_array().context("no layers")?;
    ensure!(layers.len() == 1, "{manifest:#}");
    untar(&blob(&layout, &layers[0])?, &root)?;

    let mut names: Vec<_> = std::fs::read_dir(&root)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<anyhow::Result<_>>()?;
    names.sort();
    ensure!(names == ["drain-sidecar", "egress-audit"], "{names:?}");
    // With the layer as the whole file system, which needs a user namespace or root.
    for args in
        [&["/egress-audit", "--version"][..], &["/egress-audit", "policy"], &["/drain-sidecar", "--help"]]
    {
        let ran = Command::new(find("unshare", "util-linux")?)
            .args(["--map-root-user", "--root"])
            .arg(&root)
            .args(args)
            .env_clear()
            .output()?;
        ensure!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        ensure!(!ran.stdout.is_empty(), "{args:?} says nothing");
    }
    Ok(())
}

fn untar(archive: &Path, into: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(into)?;
    let done = Command::new(find("tar", "tar")?).arg("-xf").arg(archive).arg("-C").arg(into).output()?;
    ensure!(done.status.success(), "{}: {}", archive.display(), String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// The file that a descriptor refers to, checked against its digest and size.
fn blob(layout: &Path, descriptor: &Value) -> anyhow::Result<std::path::PathBuf> {
    let digest = descriptor["digest"]
        .as_str()
        .and_then(|digest| digest.strip_prefix("sha256:"))
        .context("no digest")?;
    let path = layout.join("blobs/sha256").join(digest);
    let sum = Command::new(find("sha256sum", "coreutils")?).arg(&path).output()?;
    ensure!(
        String::from_utf8(sum.stdout)?.starts_with(digest),
        "{} is not what it is called",
        path.display()
    );
    ensure!(descriptor["size"].as_u64() == Some(std::fs::metadata(&path)?.len()), "{descriptor:#}");
    Ok(path)
}

fn read(path: &Path) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}
