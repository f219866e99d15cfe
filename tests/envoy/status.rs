//! `proxy status` on real Envoys before and after the merged DNS implementation: what it reads, and what it says of a
//! session that a flip left behind.

use std::time::Duration;

use anyhow::{Context, ensure};
use harness::egress_audit;
use policies::Resolution;
use probes::experiments::bench::{Bench, HOST, Plan, Setup};
use probes::experiments::evidence::{EgressCell, Topology};
use probes::lab::envoy::Binary;
use probes::lab::envoy::bootstrap::{HttpVersion, Layer};
use serde_json::{Value, json};

use super::{NEW, OLD, STREAM, binaries};

/// The one proxy of `proxy status --admin`.
fn status(bench: &Bench, host: &str) -> anyhow::Result<Value> {
    let admin = bench.admin().addr().to_string();
    let output =
        egress_audit().args(["proxy", "status", "--admin", &admin, "--host", host, "-o", "json"]).output()?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let found = !report["fleet"]["proxies"][0]["inspection"]["clusters"]
        .as_array()
        .context("no clusters")?
        .is_empty();
    ensure!(output.status.success() == found, "{report:#}");
    Ok(report["fleet"]["proxies"][0].clone())
}

/// By `type`, as istiod still writes it whatever the release, or as the extension; what counts for a flip is the
/// release and not the way of writing.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_status_reads_both_ways_to_write_a_cluster() {
    let [old, new] = binaries(&[OLD, NEW]).await.unwrap().try_into().unwrap();
    // The lab writes for the version that it is told.
    let new_as_istiod_writes = Binary { version: OLD, ..new.clone() };
    for (binary, written, merged) in
        [(old, "enum", false), (new, "dns_cluster", true), (new_as_istiod_writes, "enum", true)]
    {
        for (resolution, name) in
            [(Resolution::Dns, "STRICT_DNS"), (Resolution::DnsRoundRobin, "LOGICAL_DNS")]
        {
            let cell = EgressCell {
                envoy: binary.version,
                old_dns: false,
                topology: Topology::Sidecar,
                path: Layer::Passthrough,
                http: HttpVersion::H1,
                resolution,
                variant: None,
                control: None,
            };
            let plan = Plan::pair(STREAM);
            let setup = Setup {
                experiment: "status",
                question: "",
                cell,
                plan,
                stream: STREAM,
                keep: None,
                publish: None,
            };
            let mut bench = Bench::start(setup, &binary).await.unwrap();

            let proxy = status(&bench, HOST).unwrap();
            let cluster = &proxy["inspection"]["clusters"][0];
            assert_eq!(cluster["type"], name, "{proxy:#}");
            assert_eq!(cluster["written"], written, "{proxy:#}");
            let dns = json!({ "respect_ttl": true, "refresh_s": 60.0, "jitter_s": 0.1, "family": "V4_ONLY" });
            assert_eq!(cluster["dns"], dns, "{proxy:#}");
            assert_eq!(cluster["members"][0]["addr"], bench.addrs()[0].to_string(), "{proxy:#}");
            assert_eq!(cluster["pinned"], 0, "{proxy:#}");

            // A stream in flight stays behind the flip, wherever Envoy shows it.
            let client = bench.client().unwrap();
            let flight = tokio::spawn(async move {
                client.once("stream", "/slow?seconds=30", Duration::from_secs(60)).await
            });
            bench
                .until_ledger("the stream to begin", |lives| lives.iter().any(|life| life.requests > 0))
                .await
                .unwrap();
            bench.flip(&[1]).await.unwrap();
            let new = bench.addrs()[1];
            bench.until("the new address", STREAM, |seen| seen.listed_addrs() == [new]).await.unwrap();
            let proxy = status(&bench, HOST).unwrap();
            let hides = resolution == Resolution::DnsRoundRobin && !merged;
            assert_eq!(proxy["inspection"]["clusters"][0]["pinned"], u64::from(!hides), "{proxy:#}");
            let says = if hides { "under the newest address" } else { "1 socket goes to an address" };
            assert!(proxy["meanings"].to_string().contains(says), "{proxy:#}");
            flight.abort();

            // Another name is nowhere.
            assert_eq!(status(&bench, "other.example").unwrap()["inspection"]["clusters"], json!([]));
        }
    }
}
