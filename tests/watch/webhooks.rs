//! Webhooks: at least once, in order, over failures and restarts; and a real Alertmanager.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use harness::ports::free_port;
use harness::{Child, eventually, find};
use serde_json::Value;

use crate::running::PATIENCE;
use crate::{Running, lab};

/// Takes requests; the first ones get an error.
struct Receiver {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    fn start(address: SocketAddr, mut failures: usize) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (address, kept) = (listener.local_addr().unwrap(), Arc::clone(&bodies));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream);
                let mut length = 0;
                for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty())
                {
                    if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = text.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let status = if failures > 0 { "503 Busy" } else { "200 OK" };
                if failures == 0 {
                    kept.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                }
                failures = failures.saturating_sub(1);
                let _ = write!(
                    reader.into_inner(),
                    "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
        });
        Self { address, bodies }
    }

    /// The ids of the flips that arrived.
    fn flips(&self) -> Vec<String> {
        let bodies = self.bodies.lock().unwrap();
        let events = bodies.iter().flat_map(|body| body["events"].as_array().unwrap().clone());
        let flips = events.filter(|stored| stored["event"]["what"]["flip"].is_object());
        flips.map(|stored| stored["event"]["id"].to_string()).collect()
    }
}

#[test]
fn a_webhook_gets_every_event_although_it_was_away() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let address = free_port().unwrap();
    let url = format!("http://{address}/hook");
    let args = ["vip.lab.example", "--webhook", &url];
    let watch = Running::start(&lab, dir.path(), &args);
    watch.settled(&["vip.lab.example"]);
    lab.flip("vip.lab.example", &[[192, 0, 2, 2]]);
    watch.wait_for("vip.lab.example", "flip", 1);
    // Nobody listened so far, and what was not delivered outlives the process.
    watch.stop();
    let receiver = Receiver::start(address, 2);
    assert_eq!(receiver.address, address);
    let watch = Running::start(&lab, dir.path(), &args);
    lab.flip("vip.lab.example", &[[192, 0, 2, 3]]);
    let to = |flips: &[Value]| flips.iter().any(|f| f["event"]["what"]["flip"]["to"][0] == "192.0.2.3");
    eventually(PATIENCE, "both flips", || {
        let stored = watch.events("vip.lab.example", "flip");
        let ids: HashSet<_> = stored.iter().map(|flip| flip["event"]["id"].to_string()).collect();
        let arrived: HashSet<_> = receiver.flips().into_iter().collect();
        if to(&stored) && arrived == ids { Ok(()) } else { Err(format!("{arrived:?} of {ids:?}")) }
    })
    .unwrap();
}

#[test]
fn alertmanager_shows_the_flip() {
    let (lab, dir) = (lab(), tempfile::tempdir().unwrap());
    let program = find("prometheus-alertmanager", "prometheus-alertmanager").unwrap();
    let config = dir.path().join("alertmanager.yml");
    std::fs::write(&config, "route: {receiver: none}\nreceivers: [{name: none}]\n").unwrap();
    let address = free_port().unwrap();
    let args = [
        format!("--config.file={}", config.display()),
        format!("--storage.path={}", dir.path().join("am").display()),
        format!("--web.listen-address={address}"),
        "--cluster.listen-address=".to_owned(),
    ];
    let _alertmanager = Child::spawn(&program, args, dir.path().join("alertmanager.log")).unwrap();
    let url = format!("http://{address}");
    let args = ["vip.lab.example", "--webhook", &url, "--webhook-form", "alertmanager"];
    let watch = Running::start(&lab, dir.path(), &args);
    watch.settled(&["vip.lab.example"]);
    lab.flip("vip.lab.example", &[[192, 0, 2, 2]]);
    let other = Running { address, child: watch.child, log: watch.log, store: watch.store };
    let alerts = eventually(PATIENCE, "the alert", || {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            other.json("/api/v2/alerts?filter=event%3D%22flip%22")
        }));
        match found {
            Ok(alerts) if alerts.as_array().is_some_and(|list| !list.is_empty()) => Ok(alerts),
            Ok(alerts) => Err(alerts.to_string()),
            Err(_) => Err("not up".to_owned()),
        }
    })
    .unwrap();
    assert_eq!(alerts[0]["labels"]["host"], "vip.lab.example");
    assert!(alerts[0]["annotations"]["summary"].as_str().unwrap().contains("flipped from 192.0.2.1"));
}
