//! What an experiment shows of its figures: tables in the forms of the guide's appendix, and bars. Every cell is ready
//! to print, so that all renderers say the same.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::lab::client::Exchange;

/// What an experiment shows of its figures.
#[derive(Debug, Default)]
pub struct Exhibits {
    /// Tables.
    pub tables: Vec<Table>,
    /// Bars.
    pub bars: Vec<Bars>,
}

impl From<Vec<Table>> for Exhibits {
    fn from(tables: Vec<Table>) -> Self {
        Self { tables, bars: Vec::new() }
    }
}

/// Rows under a title, every cell ready to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table from anything that can be shown.
    #[must_use]
    pub fn new(title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows,
        }
    }

    /// Requests in the form of the guide's appendix B.
    #[must_use]
    pub fn of_exchanges(title: &str, exchanges: &[Exchange]) -> Self {
        let rows = exchanges.iter().map(|x| {
            let outcome = x.failure.as_ref().map_or_else(
                || x.status.map_or_else(String::new, |status| status.to_string()),
                ToString::to_string,
            );
            vec![
                seconds(x.at_ms),
                x.label.clone(),
                x.local_port.to_string(),
                x.backend.clone().unwrap_or_else(|| "-".to_owned()),
                x.backend_ip.map_or_else(|| "-".to_owned(), |ip| ip.to_string()),
                x.bytes.to_string(),
                seconds(x.took_ms),
                outcome,
            ]
        });
        Self::new(
            title,
            &["t", "request", "local port", "backend", "ip", "bytes", "took", "outcome"],
            rows.collect(),
        )
    }

    /// Snapshots side by side in the form of the guide's appendix A: one column per moment.
    #[must_use]
    pub fn of_snapshots(title: &str, snapshots: &[Snapshot], counters: &[&str]) -> Self {
        let mut columns = vec![String::new()];
        columns.extend(snapshots.iter().map(|s| format!("{} (+{})", s.label, seconds(s.at_ms))));
        let row = |name: &str, show: &dyn Fn(&Snapshot) -> String| {
            std::iter::once(name.to_owned()).chain(snapshots.iter().map(show)).collect::<Vec<_>>()
        };
        let mut rows = vec![
            row("DNS answer", &|s| addrs(s.dns.iter())),
            row("Envoy's list", &|s| addrs(s.listed.iter().map(|host| &host.addr))),
        ];
        rows.extend(counters.iter().map(|name| row(name, &|s| s.counter(name).to_string())));
        Self { title: title.to_owned(), columns, rows }
    }
}

fn addrs<'a>(addrs: impl Iterator<Item = &'a IpAddr>) -> String {
    let all: Vec<String> = addrs.map(ToString::to_string).collect();
    match all.len() {
        0 => "none".to_owned(),
        1..=3 => all.join(", "),
        more => format!("{}, ... ({more})", all[..2].join(", ")),
    }
}

/// Milliseconds as `1.25 s`.
fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}

/// Values to be drawn side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bars {
    /// What they show, with the unit.
    pub title: String,
    /// Label and value.
    pub bars: Vec<(String, f64)>,
}
