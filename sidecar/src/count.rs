//! Envoy's answer to `/stats` read as work in progress: text in, a [`Reading`] out. Requests are counted, not
//! connections, because idle connections are closed by nobody during a drain. What cannot be read is `Unknown`,
//! never zero. Called by `envoy` (to ask) and `engine`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// The gauges and counters that are asked for, as Envoy's `filter=` (a regular expression over names).
pub(crate) const FILTER: &str = concat!(
    r"^(http\..+\.downstream_(rq_active|rq_total|cx_active|cx_http2_active|cx_upgrades_active)",
    r"|listener\..+\.(downstream_cx_active|http\..+\.downstream_rq_completed)|http2\.streams_active)$"
);

/// Work that Envoy holds, by protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Active {
    /// HTTP/1 requests (and HTTP/2 ones where Envoy does not tell them apart).
    pub(crate) http: u64,
    pub(crate) h2: u64,
    pub(crate) websocket: u64,
    /// Raw TCP sessions; `None` when not asked for.
    pub(crate) tcp: Option<u64>,
    /// Connections, idle ones too: for information only.
    pub(crate) connections: u64,
    /// Requests since Envoy started.
    pub(crate) requests_total: u64,
    /// The gauges that were summed.
    pub(crate) summed: Vec<String>,
    /// Gauges of the same kind that were left out by name.
    pub(crate) excluded: Vec<String>,
    /// A listener is left out, and for some HTTP manager it is not told which listeners it sits on.
    pub(crate) unlinked: bool,
}

impl Active {
    /// All of it.
    pub(crate) fn total(&self) -> u64 {
        [self.h2, self.websocket, self.tcp.unwrap_or(0)].into_iter().fold(self.http, u64::saturating_add)
    }
}

/// What one poll says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    Known(Active),
    /// Why not; a label of `drain_stats_errors_total`.
    Unknown(&'static str),
}

impl Reading {
    /// Nobody listens where Envoy should.
    pub(crate) const REFUSED: &'static str = "refused";
    pub(crate) const STAT_MISSING: &'static str = "stat_missing";
    pub(crate) const LISTENER_STAT_MISSING: &'static str = "listener_stat_missing";
    pub(crate) const UNPARSABLE: &'static str = "unparsable";
    /// A skipped listener may own HTTP connections that no gauge links to it.
    pub(crate) const LISTENER_LINK_MISSING: &'static str = "listener_link_missing";
    /// Envoy answers, but nobody listens where it should serve.
    pub(crate) const DATA_REFUSED: &'static str = "data_refused";
    /// What says that no Envoy serves here, unlike one that hangs or talks nonsense.
    pub(crate) const ABSENT: [&'static str; 3] = [Self::REFUSED, Self::STAT_MISSING, Self::DATA_REFUSED];
}

/// What does not count, by exact name.
#[derive(Debug, Clone)]
pub(crate) struct Counting {
    /// `stat_prefix` of HTTP connection managers.
    pub(crate) exclude_http: Vec<String>,
    /// Listener addresses as in stat names (`0.0.0.0_15021`).
    pub(crate) exclude_listeners: Vec<String>,
    pub(crate) tcp: bool,
}

impl Counting {
    /// The admin's own request and connection are in its own answer.
    const ADMIN: &'static str = "admin";

    /// Reads the `name: value` lines of a filtered `/stats`.
    pub(crate) fn read(&self, text: &str) -> Reading {
        let mut sums = Sums::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let Some((name, value)) = line.split_once(": ") else {
                return Reading::Unknown(Reading::UNPARSABLE);
            };
            let Ok(value) = value.trim().parse() else { return Reading::Unknown(Reading::UNPARSABLE) };
            self.add(&mut sums, name, value);
        }
        self.add_listeners(&mut sums);
        sums.reading(self.tcp)
    }

    fn add(&self, sums: &mut Sums, name: &str, value: u64) {
        if name == "http2.streams_active" {
            sums.h2_streams = value;
        } else if let Some(rest) = name.strip_prefix("http.") {
            if let Some((prefix, stat)) = rest.rsplit_once(".downstream_") {
                self.add_http(sums, name, prefix, stat, value);
            }
        } else if let Some(rest) = name.strip_prefix("listener.") {
            if let Some(address) = rest.strip_suffix(".downstream_cx_active") {
                sums.listeners.insert(address.to_owned(), value);
            } else if let Some(link) = rest.strip_suffix(".downstream_rq_completed")
                && let Some((address, prefix)) = link.split_once(".http.")
            {
                let owners = if self.skips(address) { &mut sums.skipped } else { &mut sums.counted };
                owners.insert(prefix.to_owned());
            }
        }
    }

    fn add_http(&self, sums: &mut Sums, name: &str, prefix: &str, stat: &str, value: u64) {
        if prefix == Self::ADMIN {
            return;
        }
        if stat == "cx_active" {
            sums.http_connections.push((prefix.to_owned(), value));
        }
        if self.exclude_http.iter().any(|excluded| excluded == prefix) {
            if stat == "rq_active" {
                sums.excluded.push(name.to_owned());
            }
            return;
        }
        match stat {
            "rq_active" => {
                sums.requests = Some(sums.requests.unwrap_or(0).saturating_add(value));
                sums.summed.push(name.to_owned());
            }
            "rq_total" => sums.requests_total = sums.requests_total.saturating_add(value),
            "cx_upgrades_active" => sums.websocket = sums.websocket.saturating_add(value),
            _ => {}
        }
    }

    /// The listeners' connections, once all names are known: which of them repeat another is not seen from one alone.
    fn add_listeners(&self, sums: &mut Sums) {
        let listeners = std::mem::take(&mut sums.listeners);
        for (address, &value) in &listeners {
            // `listener.<address>.worker_0.` and `.main_thread.` repeat the listener's own gauge, where there is one.
            let owner = address.rsplit_once('.').filter(|(_, last)| is_thread(last)).map(|(owner, _)| owner);
            if owner.is_some_and(|owner| listeners.contains_key(owner)) {
                continue;
            }
            let name = format!("listener.{address}.downstream_cx_active");
            let value = if address == Self::ADMIN {
                // The admin runs on the main thread. Connections on a worker are those of a listener that has chosen
                // the same name.
                let others = listeners.iter().filter(|(name, _)| {
                    name.strip_prefix("admin.").is_some_and(|thread| thread.starts_with("worker_"))
                });
                let mut others = others.map(|(_, value)| *value).peekable();
                if others.peek().is_none() {
                    continue;
                }
                others.fold(0, u64::saturating_add)
            } else {
                value
            };
            if self.skips(address) {
                sums.any_skipped = true;
                sums.skipped_connections = sums.skipped_connections.saturating_add(value);
                sums.excluded.push(name);
                continue;
            }
            sums.listener_connections = Some(sums.listener_connections.unwrap_or(0).saturating_add(value));
            if self.tcp {
                sums.summed.push(name);
            }
        }
    }

    /// Listeners left out by name, and the pipes between Envoy's own listeners.
    fn skips(&self, address: &str) -> bool {
        address.starts_with("envoy_internal_") || self.exclude_listeners.iter().any(|name| name == address)
    }
}

/// `worker_0`, `worker_11`, `main_thread`.
fn is_thread(name: &str) -> bool {
    let number = name.strip_prefix("worker_").unwrap_or_default();
    name == "main_thread" || (!number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

#[derive(Default)]
struct Sums {
    requests: Option<u64>,
    requests_total: u64,
    websocket: u64,
    h2_streams: u64,
    /// By `stat_prefix`.
    http_connections: Vec<(String, u64)>,
    /// Every gauge of a listener's connections, by what stands for the listener in its name.
    listeners: BTreeMap<String, u64>,
    listener_connections: Option<u64>,
    /// Connections of listeners that were left out.
    skipped_connections: u64,
    any_skipped: bool,
    /// The HTTP managers found on counted and on skipped listeners.
    counted: BTreeSet<String>,
    skipped: BTreeSet<String>,
    summed: Vec<String>,
    excluded: Vec<String>,
}

impl Sums {
    fn reading(self, tcp: bool) -> Reading {
        if tcp && self.skipped_connections > 0 && self.unlinked(1) {
            return Reading::Unknown(Reading::LISTENER_LINK_MISSING);
        }
        let unlinked = tcp && self.any_skipped && self.unlinked(0);
        let tcp = match (tcp, self.listener_connections) {
            (false, _) => None,
            (true, None) if self.requests.is_none() => return Reading::Unknown(Reading::STAT_MISSING),
            (true, None) => return Reading::Unknown(Reading::LISTENER_STAT_MISSING),
            (true, Some(all)) => Some(all.saturating_sub(self.http_connections_counted())),
        };
        // A gateway of TCP listeners only has no HTTP gauge to miss.
        let only_tcp = tcp.is_some() && self.http_connections.is_empty();
        let requests = match self.requests {
            None if !only_tcp => return Reading::Unknown(Reading::STAT_MISSING),
            requests => requests.unwrap_or(0),
        };
        let websocket = self.websocket.min(requests);
        let h2 = self.h2_streams.min(requests - websocket);
        Reading::Known(Active {
            http: requests - websocket - h2,
            h2,
            websocket,
            tcp,
            connections: self.listener_connections.unwrap_or_else(|| self.http_connections_counted()),
            requests_total: self.requests_total,
            summed: self.summed,
            excluded: self.excluded,
            unlinked,
        })
    }

    /// Whether an HTTP manager has connections of which it is not known whether a skipped listener owns them: they might
    /// be subtracted from listeners that count, and hide a TCP session.
    fn unlinked(&self, least: u64) -> bool {
        let linked = |prefix: &String| self.skipped.contains(prefix) || self.counted.contains(prefix);
        self.http_connections.iter().any(|(prefix, connections)| *connections >= least && !linked(prefix))
    }

    /// What is left of the listeners' connections after these is TCP. Managers whose requests are excluded are in
    /// it, because their listener counts them; those that sit on skipped listeners only are not.
    fn http_connections_counted(&self) -> u64 {
        let skipped = |prefix: &String| self.skipped.contains(prefix) && !self.counted.contains(prefix);
        self.http_connections
            .iter()
            .filter(|(prefix, _)| !skipped(prefix))
            .map(|(_, value)| *value)
            .fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests;
