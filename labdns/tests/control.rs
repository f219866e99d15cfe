//! The control API, by a real HTTP client.
#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use labdns::control::{Problem, Status};
use labdns::log::Entry;
use labdns::zone::NameView;
use labdns::{LabDns, Options, Scenario};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

async fn start() -> (LabDns, Client, String) {
    let scenario = Scenario::from_yaml(labdns::scenarios::find("gslb").unwrap()).unwrap();
    let lab = LabDns::start(&scenario, &Options::default()).await.unwrap();
    let url = format!("http://{}", lab.control_addr().unwrap());
    (lab, Client::new(), url)
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_change_the_zone_and_bad_ones_say_why() {
    let (lab, client, url) = start().await;
    let post = async |body: Value| client.post(format!("{url}/commands")).json(&body).send().await.unwrap();
    let flip = json!({"flip": {"name": "api.partner.example", "to": ["127.0.0.3"]}});
    assert_eq!(post(flip).await.status(), StatusCode::NO_CONTENT);
    let names: Vec<NameView> = client.get(format!("{url}/names")).send().await.unwrap().json().await.unwrap();
    let vip = names.iter().find(|view| view.name.as_str() == "api.partner.example").unwrap();
    assert_eq!(vip.a.as_ref().unwrap().addresses, ["127.0.0.3".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(lab.names(), names);

    for (body, status, word) in [
        (json!({"flip": {"name": "nope.example", "to": ["127.0.0.3"]}}), 422, "no such name: nope.example"),
        (json!({"flop": {}}), 400, "flop"),
        (json!({"clear": {"nam": "x"}}), 400, "nam"),
    ] {
        let response = post(body).await;
        assert_eq!(response.status(), status);
        let problem: Problem = response.json().await.unwrap();
        assert!(problem.error.contains(word) && !problem.hint.is_empty(), "{problem:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_filtered_by_the_query_string() {
    let (lab, client, url) = start().await;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(lab.authority_addr()).unwrap();
    for last in [b'a', b'b', b'c'] {
        let mut query =
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01x\x07example\x00\x00\x01\x00\x01".to_vec();
        query[13] = last;
        socket.send(&query).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
    }
    let log = async |filter: &str| -> Vec<Entry> {
        client.get(format!("{url}/log?{filter}")).send().await.unwrap().json().await.unwrap()
    };
    let all = log("").await;
    assert_eq!(
        all.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(),
        ["a.example", "b.example", "c.example"]
    );
    assert_eq!(log("name=B.example&type=a").await, all[1..2]);
    assert_eq!(log("since=1").await, all[1..]);
    assert_eq!(log("limit=1").await, all[2..]);
    assert_eq!(log("type=AAAA").await, []);
    assert_eq!(log("client=127.0.0.9").await, []);
    let refused = client.get(format!("{url}/log?nme=x")).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let status: Status = client.get(&url).send().await.unwrap().json().await.unwrap();
    assert_eq!((status.queries, status.info.authority), (3, lab.authority_addrs().to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_document_describes_every_path_and_command() {
    let (_lab, client, url) = start().await;
    let api: Value = client.get(format!("{url}/openapi.json")).send().await.unwrap().json().await.unwrap();
    for path in ["/", "/names", "/commands", "/log"] {
        assert!(api["paths"][path].is_object(), "{path}");
    }
    let commands = api["components"]["schemas"]["Command"]["oneOf"].as_array().unwrap();
    assert_eq!(commands.len(), 6, "{commands:?}");
    let text = api.to_string();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(api["components"]["schemas"][name].is_object(), "{name} is not described");
    }
}
