//! A full disk, and a store of a newer release.

use harness::{eventually, find};

use crate::running::PATIENCE;
use crate::{Running, lab};

/// In a mount namespace of its own, whose store lies on a file system of 3 MiB.
#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let unshare = find("unshare", "util-linux").unwrap();
    let store = dir.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let script = format!("mount -t tmpfs -o size=3m tmpfs {} && exec \"$@\"", store.display());
    let through = [unshare.to_str().unwrap(), "-rm", "sh", "-c", &script, "sh"];
    let mut watch = Running::start_with(&lab, dir.path(), &["vip.lab.example", "pool.lab.example"], &through);
    watch.settled(&["vip.lab.example"]);

    // `unshare` and `sh` gave way to the program, so that its own view of the folder is here.
    let inside = format!("/proc/{}/root{}/filler", watch.child.id(), store.display());
    let mut filler = std::fs::File::create(&inside).unwrap();
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    while std::io::Write::write_all(&mut filler, &[0; 1]).is_ok() {}
    let before = watch.events("vip.lab.example", "flip").len();
    let mut last = 1;
    eventually(PATIENCE, "an error of the store", || {
        last = last % 200 + 1;
        lab.flip("vip.lab.example", &[[192, 0, 2, last]]);
        let text = watch.get("/metrics");
        let errors = text.lines().find_map(|line| line.strip_prefix("egress_audit_store_errors_total "));
        if errors.is_some_and(|count| count != "0") { Ok(()) } else { Err("none") }
    })
    .unwrap();
    assert!(watch.child.log().contains("measuring goes on"), "{}", watch.child.log());
    assert_eq!(watch.child.exited().unwrap(), None);
    lab.flip("vip.lab.example", &[[192, 0, 2, 250]]);
    let name = eventually(PATIENCE, "what is measured meanwhile", || {
        let name = watch.json("/api/v1/names/vip.lab.example");
        let addresses = name["name"]["families"][0]["addresses"].to_string();
        if addresses.contains("192.0.2.250") { Ok(addresses) } else { Err(addresses) }
    });
    name.unwrap();

    std::fs::remove_file(inside).unwrap();
    eventually(PATIENCE, "the flips of the meantime", || {
        let flips = watch.events("vip.lab.example", "flip");
        let last = flips.last().map(|flip| flip["event"]["what"]["flip"]["to"].to_string());
        let all = flips.len() > before && last.as_deref() == Some("[\"192.0.2.250\"]");
        if all { Ok(()) } else { Err(format!("{last:?}")) }
    })
    .unwrap();
    assert!(watch.child.log().contains("can be written again"));
}
