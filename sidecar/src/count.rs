//! Envoy's answer to `/stats` read as work in progress: text in, a [`Reading`] out. Requests are counted, not
//! connections, because idle connections are closed by nobody during a drain. What cannot be read is `Unknown`,
//! never zero. Called by `envoy` (to ask) and `engine`.

use std::collections::BTreeSet;

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
}

impl Active {
    /// All of it.
    pub(crate) fn total(&self) -> u64 {
        self.http + self.h2 + self.websocket + self.tcp.unwrap_or(0)
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
                self.add_listener(sums, name, address, value);
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
                sums.requests = Some(sums.requests.unwrap_or(0) + value);
                sums.summed.push(name.to_owned());
            }
            "rq_total" => sums.requests_total += value,
            "cx_upgrades_active" => sums.websocket += value,
            _ => {}
        }
    }

    fn add_listener(&self, sums: &mut Sums, name: &str, address: &str, value: u64) {
        // `listener.<address>.worker_0.` and `.main_thread.` repeat the listener's own gauge.
        let (owner, last) = address.rsplit_once('.').unwrap_or(("", address));
        let repeated = !owner.is_empty() && (last.starts_with("worker_") || last == "main_thread");
        if address == Self::ADMIN || repeated {
            return;
        }
        if self.skips(address) {
            sums.excluded.push(name.to_owned());
            return;
        }
        sums.listener_connections = Some(sums.listener_connections.unwrap_or(0) + value);
        if self.tcp {
            sums.summed.push(name.to_owned());
        }
    }

    /// Listeners left out by name, and the pipes between Envoy's own listeners.
    fn skips(&self, address: &str) -> bool {
        address.starts_with("envoy_internal_") || self.exclude_listeners.iter().any(|name| name == address)
    }
}

#[derive(Default)]
struct Sums {
    requests: Option<u64>,
    requests_total: u64,
    websocket: u64,
    h2_streams: u64,
    /// By `stat_prefix`.
    http_connections: Vec<(String, u64)>,
    listener_connections: Option<u64>,
    /// The HTTP managers found on counted and on skipped listeners.
    counted: BTreeSet<String>,
    skipped: BTreeSet<String>,
    summed: Vec<String>,
    excluded: Vec<String>,
}

impl Sums {
    fn reading(self, tcp: bool) -> Reading {
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
        })
    }

    /// What is left of the listeners' connections after these is TCP. Managers whose requests are excluded are in
    /// it, because their listener counts them; those that sit on skipped listeners only are not.
    fn http_connections_counted(&self) -> u64 {
        let skipped = |prefix: &String| self.skipped.contains(prefix) && !self.counted.contains(prefix);
        self.http_connections.iter().filter(|(prefix, _)| !skipped(prefix)).map(|(_, value)| value).sum()
    }
}

#[cfg(test)]
mod tests;
