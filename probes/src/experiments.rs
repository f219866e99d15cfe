//! The catalogue: what can be run on a bench, as rows of one table. Each file has the same parts in the same order:
//! the question, `EXPERIMENT`, `run` (measures, holds no opinion), `Measured`, `judge` (pure). Every experiment has
//! controls, which must come out the other way. Called by `runner` and `lab list`.

use std::time::Duration;

use futures_util::future::BoxFuture;
use policies::platform::{Behaviour, NEW_DNS_GUARD, Platform};

use crate::experiments::bench::{Bench, Plan};
use crate::experiments::evidence::{EgressCell, Evidence};
use crate::lab::envoy::bootstrap::{HttpVersion, Layer};
use policies::Resolution;
use policies::Version;

pub mod bench;
mod churn;
mod dead_ip;
mod dns_outage;
pub mod drain;
mod drain_switch;
mod ejection_memory;
pub mod evidence;
mod failover_time;
mod flip_record;
mod in_flight_flip;
mod keepalive_pinning;
mod long_stream;
pub mod matrix;
mod multi_a_spread;
mod order_churn;
mod rotation_churn;
pub mod runner;
mod ttl_refresh;

/// All of them, those of the guide's appendix first and in its order.
pub const CATALOG: &[Experiment] = &[
    in_flight_flip::EXPERIMENT,
    keepalive_pinning::EXPERIMENT,
    multi_a_spread::EXPERIMENT,
    dead_ip::EXPERIMENT,
    flip_record::EXPERIMENT,
    rotation_churn::EXPERIMENT,
    order_churn::EXPERIMENT,
    dns_outage::EXPERIMENT,
    ttl_refresh::EXPERIMENT,
    ejection_memory::EXPERIMENT,
    failover_time::EXPERIMENT,
    drain_switch::EXPERIMENT,
    long_stream::EXPERIMENT,
];

/// One experiment.
pub struct Experiment {
    /// What it is called on the command line.
    pub id: &'static str,
    /// Its section in the guide's appendix.
    pub appendix: Option<char>,
    /// What it asks.
    pub question: &'static str,
    /// Where it can run.
    pub axes: Axes,
    /// Runs that must come out the other way.
    pub controls: &'static [Control],
    /// What it wants on the bench.
    pub plan: fn(&EgressCell, Duration) -> Plan,
    /// Runs and judges it.
    pub conduct: fn(Bench) -> BoxFuture<'static, Evidence>,
}

/// The values that make a difference to an experiment.
#[derive(Debug)]
pub struct Axes {
    /// Resolutions.
    pub resolutions: &'static [Resolution],
    /// Paths.
    pub paths: &'static [Layer],
    /// HTTP versions.
    pub http: &'static [HttpVersion],
    /// The experiment's own axis; empty when it has none.
    pub variants: &'static [&'static str],
    /// Combinations that exist.
    pub fits: fn(&EgressCell) -> bool,
}

/// One way to make the verdict come out the other way.
#[derive(Debug)]
pub struct Control {
    /// What it is called.
    pub name: &'static str,
    /// What is changed, and what must then be seen.
    pub what: &'static str,
    /// The cells in which it can be seen.
    pub applies: fn(&EgressCell) -> bool,
}

pub(crate) const BOTH_RESOLUTIONS: &[Resolution] = &[Resolution::Dns, Resolution::DnsRoundRobin];
pub(crate) const BOTH_PATHS: &[Layer] = &[Layer::Passthrough, Layer::Http];
pub(crate) const BOTH_HTTP: &[HttpVersion] = &[HttpVersion::H1, HttpVersion::H2];
pub(crate) const H1: &[HttpVersion] = &[HttpVersion::H1];

/// The experiment of that id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Experiment> {
    CATALOG.iter().find(|experiment| experiment.id == id)
}

/// Whether this cell's Envoy is known to do so.
fn is_known(cell: &EgressCell, behaviour: Behaviour) -> bool {
    is_known_of(cell.envoy, cell.old_dns, behaviour)
}

/// Whether an Envoy, with the DNS implementation of 1.38 or its own, is known to do so.
pub(crate) fn is_known_of(envoy: Version, old_dns: bool, behaviour: Behaviour) -> bool {
    let mut platform = Platform { envoy_version: Some(envoy), ..Platform::default() };
    if old_dns {
        platform.guards.insert(NEW_DNS_GUARD.to_owned(), false);
    }
    platform.behaves(behaviour)
}

/// Whether this is a cell in which versions differ, measured and not its control.
fn is_logical(cell: &EgressCell) -> bool {
    cell.resolution == Resolution::DnsRoundRobin && cell.control.is_none()
}

/// Whether `membership_change` is known to count a flip here.
fn flip_is_recorded(cell: &EgressCell) -> bool {
    cell.resolution == Resolution::Dns || is_known(cell, Behaviour::LogicalFlipRecorded)
}

/// Whether a flip is known to close idle pooled connections here.
fn flip_drains(cell: &EgressCell) -> bool {
    cell.resolution == Resolution::Dns || is_known(cell, Behaviour::LogicalFlipDrains)
}
