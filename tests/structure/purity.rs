//! `policies` reads no clock, file, environment or socket and keeps no state: what it is given decides what it says.

use crate::{Source, every_source_obeys};

/// What pure code has no use for. `IpAddr`, `SocketAddr` and `Duration` are plain values.
const IMPURE: [&str; 22] = [
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::io",
    "std::os",
    "tokio",
    "reqwest",
    "hickory",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "SystemTime",
    "Instant",
    "Timestamp::now",
    "Zoned::now",
    "rand::rng",
    "static mut",
    "thread_local!",
    "OnceLock",
    "Mutex",
];

#[test]
fn policies_is_pure() {
    every_source_obeys(&["policies"], impurities);
}

#[test]
fn an_impurity_is_found_where_it_counts() {
    let text = "//! Docs may say std::fs.\nuse std::net::{IpAddr, UdpSocket};\nlet now = Timestamp::now();\n\
                \n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
    let source = Source { path: "policies/src/x.rs".to_owned(), text: text.to_owned() };
    assert_eq!(
        impurities(&source),
        ["policies/src/x.rs:2: UdpSocket", "policies/src/x.rs:3: Timestamp::now"]
    );
}

fn impurities(source: &Source) -> Vec<String> {
    let found = |(n, line): (usize, &str)| {
        let names: Vec<&str> = IMPURE.into_iter().filter(|name| line.contains(name)).collect();
        names.into_iter().map(|name| format!("{}:{n}: {name}", source.path)).collect::<Vec<_>>()
    };
    source.lines().flat_map(found).collect()
}
