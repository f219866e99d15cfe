//! Clients that vanish without a word (a machine that lost its power, a path that lost its route), in a network
//! namespace of their own: Envoy never learns of it, so a wait for their requests has to end by its limit.

use std::process::Command;
use std::time::Duration;

use harness::{Child, eventually, find};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::{log, plan, stage, until};

/// Where the clients are, until they are nowhere.
const AWAY: &str = "10.255.0.1";
const GRACE: Duration = Duration::from_secs(60);

/// The whole test again, as root of a network that is its own.
#[tokio::test(flavor = "multi_thread")]
async fn who_vanishes_is_waited_for_to_the_limit_and_no_longer() {
    // Built and installed out here: in there is no network.
    plan(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let prepare = format!("ip link set lo up && ip addr add {AWAY}/32 dev lo && exec \"$@\"");
    let this = std::env::current_exe().unwrap().display().to_string();
    let args =
        ["--user", "--map-root-user", "--net", "sh", "-c", &prepare, "sh", &this, "--ignored", "--exact"];
    let args = args.into_iter().chain(["vanished::inside"]);
    let mut inside =
        Child::spawn(&find("unshare", "util-linux").unwrap(), args, folder.path().join("log")).unwrap();
    let status = eventually(Duration::from_secs(120), "the test inside", || match inside.exited()? {
        Some(status) => Ok(status),
        None => Err(anyhow::anyhow!("it still runs")),
    });
    assert!(status.unwrap().success() && inside.log().contains("1 passed"), "{}", inside.log());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above, in a network namespace of its own"]
async fn inside() {
    let mut plan = plan(&["--drain-timeout=3s"]).await;
    plan.pods = 3;
    let stage = stage(&plan).await;
    let [idle, streaming, raw] = [0, 1, 2].map(|pod: usize| &stage.pods[pod]);
    let mut clients = Vec::new();
    for (at, said) in [
        (idle.data, "GET /sleep?ms=1 HTTP/1.1\r\nhost: x\r\n\r\n"),
        (streaming.data, "GET /stream?chunks=600&ms=100 HTTP/1.1\r\nhost: x\r\n\r\n"),
        (raw.tcp, "ping"),
    ] {
        let mut client = from_away(at).await;
        client.write_all(said.as_bytes()).await.unwrap();
        client.read_u8().await.unwrap();
        clients.push(client);
    }
    until(&stage, 0, "the idle one is at rest", |status| {
        status["active"]["http"] == 0 && status["active"]["connections"] == 1
    })
    .await;
    until(&stage, 1, "a request", |status| status["active"]["http"] == 1).await;
    until(&stage, 2, "a session", |status| status["active"]["tcp"] == 1).await;
    ip(&["addr", "del", &format!("{AWAY}/32"), "dev", "lo"]);
    ip(&["route", "add", "blackhole", AWAY]);
    // Closed over there; nobody over here hears of it.
    drop(clients);

    let hooks = tokio::join!(idle.hook(GRACE), streaming.hook(GRACE), raw.hook(GRACE));
    let answers = [hooks.0.unwrap().1, hooks.1.unwrap().1, hooks.2.unwrap().1];
    for (pod, (forced, remaining)) in [(false, 0), (true, 1), (true, 1)].into_iter().enumerate() {
        let answer = &answers[pod];
        assert_eq!(answer["state"], "CLOSED", "{pod}: {answer}\n{}", log(&stage, pod));
        assert_eq!(
            (&answer["forced"], &answer["remaining"]),
            (&Value::from(forced), &Value::from(remaining)),
            "{pod}"
        );
    }
    let idle = stage.pods[0].sidecar.status().await.unwrap();
    assert_eq!(idle["active"]["connections"], 1, "its connection is still there: {idle:#}");
}

async fn from_away(to: std::net::SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{AWAY}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

fn ip(args: &[&str]) {
    let output = Command::new(find("ip", "iproute2").unwrap()).args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
