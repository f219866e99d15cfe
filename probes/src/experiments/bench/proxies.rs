//! The Envoys of one cell: started here with the lab's own bootstrap, or waiting for what a control plane sends. Called
//! by the bench.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::dns::NameServer;
use super::{HOST, LabError, SENT, Setup};
use crate::experiments::evidence::Topology;
use crate::lab::ca::Trust;
use crate::lab::envoy::admin::Admin;
use crate::lab::envoy::bootstrap::{self, Ads, DnsCluster, Proxy, Upstream};
use crate::lab::envoy::process::Launch;
use crate::lab::envoy::{Binary, Envoy};
use policies::Resolution;

/// Waits until the control plane has sent the cluster and DNS has given it a member.
pub(super) async fn until_sent(admin: Admin, cluster: &str) -> Result<(), LabError> {
    let began = Instant::now();
    while admin.hosts(cluster).await?.is_empty() {
        if began.elapsed() > SENT {
            return Err(LabError::ControlPlane(format!("no member of {cluster} within {SENT:?}")));
        }
        sleep(Duration::from_millis(25)).await;
    }
    Ok(())
}

/// Waits until the proxy holds what the lab DNS has told it in this cell. It may have asked for the name before the
/// cell's records were there, and then holds those of the cell before until their TTL is over.
pub(super) async fn until_told(
    admin: Admin,
    cluster: &str,
    resolution: Resolution,
    dns: &NameServer,
) -> Result<(), LabError> {
    let began = Instant::now();
    loop {
        let mut told = dns.log().await?.pop().map(|answer| answer.addrs).unwrap_or_default();
        match resolution {
            Resolution::Dns => told.sort_unstable(),
            _ => told.truncate(1),
        }
        let mut listed: Vec<IpAddr> = admin.hosts(cluster).await?.into_iter().map(|host| host.addr).collect();
        listed.sort_unstable();
        if !told.is_empty() && listed == told {
            return Ok(());
        }
        if began.elapsed() > SENT {
            let said = format!("{cluster} holds {listed:?} after {SENT:?}, and the lab DNS told it {told:?}");
            return Err(LabError::ControlPlane(said));
        }
        sleep(Duration::from_millis(25)).await;
    }
}

/// One Envoy, or a sidecar in front of a gateway; the one with the DNS cluster is last.
pub(super) async fn start(
    setup: &Setup,
    trust: &Trust,
    resolver: SocketAddr,
    backend_port: u16,
    ads: Option<Ads>,
    binary: &Binary,
) -> Result<Vec<Envoy>, LabError> {
    let Setup { cell, plan, .. } = setup;
    let keep =
        |name| Launch { keep: setup.keep.as_ref().map(|folder| folder.join(name)), ..Launch::default() };
    let cluster = DnsCluster {
        resolution: cell.resolution,
        resolver,
        backend_port,
        refresh: plan.refresh,
        connect_timeout: plan.connect_timeout,
        outlier: plan.outlier,
        close_on_host_set_change: plan.close_on_host_set_change,
    };
    let behind_mtls = cell.topology == Topology::Gateway;
    let egress = Proxy {
        version: binary.version,
        old_dns: cell.old_dns,
        host: HOST,
        layer: cell.path,
        http: cell.http,
        behind_mtls,
        upstream: ads.map_or(Upstream::Dns(cluster), Upstream::Ads),
        trust: trust.envoy(),
        max_connection_duration: plan.max_connection_duration,
    };
    let last = Envoy::start_with(binary, &bootstrap::bootstrap(&egress), keep("envoy")).await?;
    if !behind_mtls {
        return Ok(vec![last]);
    }
    // A lifetime on the gateway's listener is what the DestinationRule sets; the sidecar has none of its own.
    let sidecar = Proxy {
        behind_mtls: false,
        upstream: Upstream::Gateway(last.front()),
        max_connection_duration: None,
        ..egress
    };
    let first = Envoy::start_with(binary, &bootstrap::bootstrap(&sidecar), keep("sidecar")).await?;
    Ok(vec![first, last])
}
