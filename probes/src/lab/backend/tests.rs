//! Backends over loopback sockets, the dead ones included.

use super::*;
use crate::lab::client::{Client, Failure};
use crate::lab::envoy::bootstrap::{HttpVersion, Layer};

const HOST: &str = "api.partner.example";
const PATIENCE: Duration = Duration::from_secs(10);

async fn pair() -> (Backends, Trust, Instant) {
    let start = Instant::now();
    let trust = Trust::generate(HOST).unwrap();
    (Backends::start(2, &trust, start).await.unwrap(), trust, start)
}

fn client(backends: &Backends, index: usize, http: HttpVersion, trust: &Trust, start: Instant) -> Client {
    let front = SocketAddr::new(backends.addrs()[index], backends.port());
    Client::new(front, HOST, Layer::Passthrough, http, trust.roots(), start).unwrap()
}

#[tokio::test]
async fn a_backend_names_itself_over_both_http_versions_and_the_ledger_counts() {
    let (backends, trust, start) = pair().await;
    for http in [HttpVersion::H1, HttpVersion::H2] {
        let mut connection = client(&backends, 1, http, &trust, start).open().await.unwrap();
        for _ in 0..2 {
            let got = connection.get("x", "/", PATIENCE).await;
            assert!(got.ok(), "{got:?}");
            assert_eq!(got.backend.as_deref(), Some("backend-b"));
            assert_eq!(got.backend_ip, Some(backends.addrs()[1]));
        }
    }
    let lives = backends.ledger().lives();
    assert_eq!(lives.iter().map(|life| (life.backend, life.requests)).collect::<Vec<_>>(), [(1, 2), (1, 2)]);
}

#[tokio::test]
async fn slow_has_its_length_and_breaks_at_a_byte_when_the_backend_dies() {
    let (mut backends, trust, start) = pair().await;
    let whole =
        client(&backends, 0, HttpVersion::H1, &trust, start).once("x", "/slow?seconds=0.4", PATIENCE).await;
    assert!(whole.ok() && whole.bytes == SLOW_BYTES, "{whole:?}");

    for http in [HttpVersion::H1, HttpVersion::H2] {
        let victim = client(&backends, 0, http, &trust, start);
        let stream = tokio::spawn(async move { victim.once("x", "/slow?seconds=60", PATIENCE).await });
        // The ledger shows the request before the backend dies under it.
        let begun = || {
            backends.ledger().lives().last().is_some_and(|life| life.requests == 1 && life.closed.is_none())
        };
        while !begun() {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        backends.refuse(0).await.unwrap();
        let broken = stream.await.unwrap();
        assert!(matches!(broken.failure, Some(Failure::BrokenBody { at }) if at < SLOW_BYTES), "{broken:?}");
        backends.revive(0).await.unwrap();
    }
}

#[tokio::test]
async fn the_two_kinds_of_dead_are_told_apart_and_both_can_come_back() {
    let (mut backends, trust, start) = pair().await;
    let client = client(&backends, 0, HttpVersion::H1, &trust, start);
    backends.refuse(0).await.unwrap();
    assert_eq!(client.once("x", "/", PATIENCE).await.failure, Some(Failure::ConnectionRefused));
    backends.black_hole(0).await.unwrap();
    assert_eq!(client.once("x", "/", PATIENCE).await.failure, Some(Failure::ConnectTimeout));
    backends.revive(0).await.unwrap();
    assert!(client.once("x", "/", PATIENCE).await.ok());
}

#[tokio::test]
async fn a_web_socket_echoes_and_dies_with_its_backend() {
    let (mut backends, trust, start) = pair().await;
    let mut socket = client(&backends, 0, HttpVersion::H1, &trust, start).web_socket().await.unwrap();
    assert_eq!(socket.receive(PATIENCE).await.unwrap(), format!("backend-a {}", backends.addrs()[0]));
    assert_eq!(socket.echo("hello", PATIENCE).await.as_deref(), Some("hello"));
    backends.refuse(0).await.unwrap();
    assert_eq!(socket.echo("hello", PATIENCE).await, None);
}

#[test]
fn names_go_past_the_alphabet() {
    let names: Vec<String> = [0, 25, 26, 51, 52].map(name_of).into();
    assert_eq!(names, ["backend-a", "backend-z", "backend-aa", "backend-az", "backend-ba"]);
}
