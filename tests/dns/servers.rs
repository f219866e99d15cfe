//! The servers under test, as they are started: each before those whose configuration names it.

use std::path::Path;

use anyhow::Context;
use harness::{Daemon, DnsServer, Endpoint};

const SERVERS: &[Daemon] = &[
    GDNSD,
    // A second one, whose query count is that of the fail-over case alone.
    Daemon { name: "gdnsd-failover", ..GDNSD },
    Daemon {
        name: "powerdns",
        program: "pdns_server",
        package: "pdns-server pdns-backend-bind",
        config: "powerdns",
        args: &["--config-dir=@DIR@", "--enable-lua-records=shared"],
        ready: "ns1.powerdns.example",
    },
    Daemon {
        name: "powerdns-fresh",
        program: "pdns_server",
        package: "pdns-server pdns-backend-bind",
        config: "powerdns",
        args: &["--config-dir=@DIR@", "--enable-lua-records=yes"],
        ready: "ns1.powerdns.example",
    },
    Daemon {
        name: "knot",
        program: "knotd",
        package: "knot knot-module-geoip",
        config: "knot",
        args: &["-c", "@DIR@/knot.conf"],
        ready: "ns1.knot.example",
    },
    Daemon {
        name: "bind",
        program: "named",
        package: "bind9",
        config: "bind",
        args: &["-g", "-n", "1", "-c", "@DIR@/named.conf"],
        ready: "ns1.bind.example",
    },
    Daemon {
        name: "nsd",
        program: "nsd",
        package: "nsd",
        config: "nsd",
        args: &["-d", "-c", "@DIR@/nsd.conf"],
        ready: "ns1.nsd.example",
    },
    Daemon {
        name: "dnsmasq",
        program: "dnsmasq",
        package: "dnsmasq-base",
        config: "dnsmasq",
        args: &["--no-daemon", "-C", "@DIR@/dnsmasq.conf"],
        ready: "fleet.dnsmasq.example",
    },
    Daemon {
        name: "unbound",
        program: "unbound",
        package: "unbound",
        config: "unbound",
        args: &["-d", "-c", "@DIR@/unbound.conf"],
        ready: "ns1.nsd.example",
    },
];

const GDNSD: Daemon = Daemon {
    name: "gdnsd",
    program: "gdnsd",
    package: "gdnsd",
    config: "gdnsd",
    args: &["-c", "@DIR@", "start"],
    ready: "ns1.gdnsd.example",
};

/// Starts them all.
pub(crate) fn start() -> anyhow::Result<Vec<DnsServer>> {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("dns");
    SERVERS.iter().try_fold(Vec::new(), |mut running, daemon| {
        running.push(DnsServer::start(daemon, &configs, &running)?);
        Ok(running)
    })
}

/// A running server by its name.
pub(crate) fn named<'a>(servers: &'a [Endpoint], name: &str) -> anyhow::Result<&'a Endpoint> {
    servers.iter().find(|server| server.name == name).with_context(|| format!("no server is called {name}"))
}
