//! What each server does and how it must be judged: one row a behaviour.

use harness::Endpoint;
use policies::ResolutionClass::{self, FixedMultiIp, RotatingPool, SingleVip, Unresolvable};
use policies::Trait::{self, Cname, Failover, OrderShuffled, PartialAnswers, Regional};

use crate::classify::fail_over;

/// How the server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// As the zone's own server.
    Authority,
    /// As a resolver, and nobody else.
    Cache,
}

/// One behaviour and its right answer.
pub(crate) struct Case {
    /// The test's name: server and behaviour.
    pub(crate) name: &'static str,
    /// The server that is asked.
    pub(crate) server: &'static str,
    /// How it is asked.
    pub(crate) asked: Asked,
    /// The name that is classified.
    pub(crate) host: &'static str,
    /// Further arguments.
    pub(crate) args: &'static [&'static str],
    /// What happens meanwhile.
    pub(crate) meanwhile: Option<fn(&Endpoint) -> anyhow::Result<()>>,
    /// The right class.
    pub(crate) class: ResolutionClass,
    /// Traits that must be among those reported.
    pub(crate) traits: &'static [Trait],
}

impl Case {
    const fn new(
        name: &'static str,
        (server, asked): (&'static str, Asked),
        host: &'static str,
        class: ResolutionClass,
        traits: &'static [Trait],
    ) -> Self {
        Self { name, server, asked, host, args: &[], meanwhile: None, class, traits }
    }
}

const GDNSD: (&str, Asked) = ("gdnsd", Asked::Authority);
const POWERDNS: (&str, Asked) = ("powerdns", Asked::Authority);
const KNOT: (&str, Asked) = ("knot", Asked::Authority);
const BIND: (&str, Asked) = ("bind", Asked::Authority);
const NSD: (&str, Asked) = ("nsd", Asked::Authority);
const DNSMASQ: (&str, Asked) = ("dnsmasq", Asked::Cache);
const UNBOUND: (&str, Asked) = ("unbound", Asked::Cache);

pub(crate) const CASES: &[Case] = &[
    Case::new("gdnsd::weighted", GDNSD, "site.gdnsd.example", SingleVip, &[]),
    Case::new("gdnsd::weighted_multi", GDNSD, "partial.gdnsd.example", FixedMultiIp, &[PartialAnswers]),
    Case::new("gdnsd::multifo", GDNSD, "fleet.gdnsd.example", FixedMultiIp, &[OrderShuffled]),
    Case {
        args: &["--window", "12s"],
        meanwhile: Some(fail_over),
        ..Case::new(
            "gdnsd::failover",
            ("gdnsd-failover", Asked::Authority),
            "duo.gdnsd.example",
            SingleVip,
            &[Failover],
        )
    },
    Case::new("powerdns::pick_one_of_few", POWERDNS, "pick.powerdns.example", SingleVip, &[]),
    Case::new("powerdns::all", POWERDNS, "every.powerdns.example", FixedMultiIp, &[OrderShuffled]),
    Case::new("powerdns::hashed", POWERDNS, "hashed.powerdns.example", SingleVip, &[]),
    Case::new("powerdns::eight_of_400", POWERDNS, "pool.powerdns.example", RotatingPool, &[]),
    Case::new("powerdns::one_of_200", POWERDNS, "one.powerdns.example", RotatingPool, &[]),
    Case::new(
        "powerdns::pool_with_fresh_state",
        ("powerdns-fresh", Asked::Authority),
        "pool.powerdns.example",
        FixedMultiIp,
        &[],
    ),
    Case::new("powerdns::packet_cache", POWERDNS, "fixed.powerdns.example", FixedMultiIp, &[]),
    Case::new("powerdns::alias", POWERDNS, "alias.powerdns.example", FixedMultiIp, &[Cname]),
    Case::new("knot::weighted", KNOT, "canary.knot.example", SingleVip, &[]),
    Case {
        args: &["--ecs", "10.1.0.0/24", "--ecs", "10.2.0.0/24"],
        ..Case::new("knot::subnet", KNOT, "regional.knot.example", SingleVip, &[Regional])
    },
    Case::new("knot::rotation", KNOT, "rotated.knot.example", FixedMultiIp, &[OrderShuffled]),
    Case::new("bind::random_order", BIND, "shuffled.bind.example", FixedMultiIp, &[OrderShuffled]),
    Case::new("bind::cyclic_order", BIND, "cyclic.bind.example", FixedMultiIp, &[OrderShuffled]),
    Case::new("bind::forty_addresses", BIND, "wide.bind.example", FixedMultiIp, &[]),
    Case::new("nsd::round_robin", NSD, "cyclic.nsd.example", FixedMultiIp, &[OrderShuffled]),
    Case::new("nsd::single", NSD, "single.nsd.example", SingleVip, &[]),
    Case::new("nsd::no_such_name", NSD, "missing.nsd.example", Unresolvable, &[]),
    Case::new("dnsmasq::host_records", DNSMASQ, "fleet.dnsmasq.example", FixedMultiIp, &[]),
    Case::new("dnsmasq::before_eight_of_400", DNSMASQ, "pool.powerdns.example", RotatingPool, &[]),
    Case::new("unbound::before_eight_of_400", UNBOUND, "pool.powerdns.example", RotatingPool, &[]),
    Case::new("unbound::before_one_of_200", UNBOUND, "one.powerdns.example", RotatingPool, &[]),
    Case::new("unbound::before_one_of_few", UNBOUND, "pick.powerdns.example", SingleVip, &[]),
    Case::new("unbound::before_weighted", UNBOUND, "site.gdnsd.example", SingleVip, &[]),
    Case::new("unbound::before_random_order", UNBOUND, "shuffled.bind.example", FixedMultiIp, &[]),
    Case::new("unbound::before_single", UNBOUND, "single.nsd.example", SingleVip, &[]),
];
