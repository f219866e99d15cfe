//! The metrics of `watch`. What was counted, and how the names stand at the scrape, come in; their text in the form of `OpenMetrics` goes out.
//! `host` is the only open label: names beyond the bound are counted, not labelled. An address is never a label.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use policies::watch::{Event, What};
use policies::{DnsSample, Host, ResolutionClass};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::serve::NameStatus;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfHost {
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfFamily {
    host: String,
    family: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfClass {
    host: String,
    family: &'static str,
    class: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEvent {
    host: String,
    event: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
}

type Gauges<L> = Family<L, Gauge>;

/// What is counted.
pub(super) struct Metrics {
    registry: Registry,
    labelled: BTreeSet<Host>,
    most: usize,
    events: Family<OfEvent, Counter>,
    lookups: Family<OfOutcome, Counter>,
    store_errors: Counter,
    delivered: Counter,
    failed_deliveries: Counter,
    hosts: Gauge,
    left_out: Gauge,
    store_bytes: Gauge,
    pending: Gauge,
    lag: Gauge<f64, AtomicU64>,
    class: Gauges<OfClass>,
    addresses: Gauges<OfFamily>,
    ttl: Gauges<OfFamily>,
    vanished: Gauges<OfFamily>,
    failing: Gauges<OfFamily>,
    unroutable: Gauges<OfFamily>,
    disagree: Gauges<OfFamily>,
    fits: Gauges<OfHost>,
}

/// What is read at the scrape, beside the names.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Now {
    /// Bytes of the store's file.
    pub(super) store_bytes: u64,
    /// Events that are not written yet.
    pub(super) pending: usize,
    /// How late lookups are sent, seconds.
    pub(super) lag_s: f64,
}

impl Metrics {
    /// `most` names get a label of their own.
    pub(super) fn new(most: usize) -> Self {
        let mut all = Self {
            registry: Registry::with_prefix("egress_audit"),
            labelled: BTreeSet::new(),
            most,
            events: Family::default(),
            lookups: Family::default(),
            store_errors: Counter::default(),
            delivered: Counter::default(),
            failed_deliveries: Counter::default(),
            hosts: Gauge::default(),
            left_out: Gauge::default(),
            store_bytes: Gauge::default(),
            pending: Gauge::default(),
            lag: Gauge::default(),
            class: Family::default(),
            addresses: Family::default(),
            ttl: Family::default(),
            vanished: Family::default(),
            failing: Family::default(),
            unroutable: Family::default(),
            disagree: Family::default(),
            fits: Family::default(),
        };
        all.register();
        all
    }

    fn register(&mut self) {
        let r = &mut self.registry;
        r.register("events", "What happened to names, by kind", self.events.clone());
        r.register("lookups", "Lookups, by outcome", self.lookups.clone());
        r.register("store_errors", "Times that the store could not be written", self.store_errors.clone());
        r.register("webhook_deliveries", "Events that a webhook accepted", self.delivered.clone());
        r.register(
            "webhook_failures",
            "Attempts that a webhook did not accept",
            self.failed_deliveries.clone(),
        );
        r.register("hosts", "Names that are watched", self.hosts.clone());
        r.register(
            "hosts_left_out",
            "Names without a label of their own (--metrics-max-hosts)",
            self.left_out.clone(),
        );
        r.register("store_bytes", "Size of the store", self.store_bytes.clone());
        r.register("events_pending", "Events that are not in the store yet", self.pending.clone());
        r.register("lag_seconds", "How late lookups are sent: above 0, --rate is too low", self.lag.clone());
        r.register("class", "1 for the class of a name", self.class.clone());
        r.register(
            "addresses",
            "Addresses in a name's pool; of a rotating pool, in its last answer",
            self.addresses.clone(),
        );
        r.register("ttl_seconds", "Published TTL of a name", self.ttl.clone());
        r.register("vanished", "1 while a name has no address (NXDOMAIN, NODATA)", self.vanished.clone());
        r.register("lookups_failing", "1 while no source can look a name up", self.failing.clone());
        r.register(
            "unroutable",
            "1 while a source answers with unroutable addresses only",
            self.unroutable.clone(),
        );
        r.register("sources_disagree", "1 while sources have no address in common", self.disagree.clone());
        r.register(
            "resolution_fits",
            "1 where the entry's resolution is right, 0 where it is not",
            self.fits.clone(),
        );
    }

    /// Names are watched from now on: these are labelled, as far as there is room.
    pub(super) fn watch<'a>(&mut self, hosts: impl Iterator<Item = &'a Host>) {
        for host in hosts {
            if self.labelled.len() < self.most {
                self.labelled.insert(host.clone());
                // A counter that appears with its first event shows no increase: alerts would miss it.
                for event in ["flip", "class_changed"] {
                    drop(self.events.get_or_create(&OfEvent { host: host.to_string(), event }));
                }
            }
        }
    }

    /// A name is not watched any more: its series end.
    pub(super) fn forget(&mut self, host: &Host) {
        if self.labelled.remove(host) {
            for event in What::KINDS {
                self.events.remove(&OfEvent { host: host.to_string(), event });
            }
        }
    }

    pub(super) fn event(&self, event: &Event) {
        let known = self.labelled.contains(&event.host);
        let host = if known { event.host.to_string() } else { String::new() };
        self.events.get_or_create(&OfEvent { host, event: event.what.kind() }).inc();
    }

    pub(super) fn lookup(&self, sample: &DnsSample) {
        self.lookups.get_or_create(&OfOutcome { outcome: sample.outcome.kind().as_str() }).inc();
    }

    pub(super) fn store_error(&self) {
        self.store_errors.inc();
    }

    pub(super) fn deliveries(&self) -> (Counter, Counter) {
        (self.delivered.clone(), self.failed_deliveries.clone())
    }

    /// The text, with how the names stand now.
    pub(super) fn text(&self, names: &[NameStatus], now: Now) -> String {
        self.hosts.set(count(names.len()));
        self.left_out.set(count(names.len().saturating_sub(self.labelled.len())));
        self.store_bytes.set(i64::try_from(now.store_bytes).unwrap_or(i64::MAX));
        self.pending.set(count(now.pending));
        self.lag.set(now.lag_s);
        self.class.clear();
        self.fits.clear();
        for gauges in
            [&self.addresses, &self.ttl, &self.vanished, &self.failing, &self.unroutable, &self.disagree]
        {
            gauges.clear();
        }
        for name in names.iter().filter(|name| self.labelled.contains(&name.host)) {
            self.fill(name);
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn fill(&self, name: &NameStatus) {
        let host = name.host.to_string();
        if let Some(fits) = name.fits {
            self.fits.get_or_create(&OfHost { host: host.clone() }).set(i64::from(fits));
        }
        for standing in &name.families {
            let family = if standing.record_type == policies::RecordType::A { "A" } else { "AAAA" };
            // Most names have no IPv6 address and never had: that is not worth seven series.
            let silent = standing.addresses.is_empty() && !standing.vanished && !standing.failing;
            if silent && family == "AAAA" {
                continue;
            }
            let of = OfFamily { host: host.clone(), family };
            if standing.class != ResolutionClass::InsufficientData {
                let class = format!("{:?}", standing.class);
                self.class.get_or_create(&OfClass { host: host.clone(), family, class }).set(1);
            }
            self.addresses.get_or_create(&of).set(count(standing.addresses.len()));
            if let Some(ttl) = standing.ttl_s {
                self.ttl.get_or_create(&of).set(i64::from(ttl));
            }
            self.vanished.get_or_create(&of).set(i64::from(standing.vanished));
            self.failing.get_or_create(&of).set(i64::from(standing.failing));
            self.unroutable.get_or_create(&of).set(i64::from(standing.unroutable));
            self.disagree.get_or_create(&of).set(i64::from(standing.disagree));
        }
    }
}

fn count(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}
