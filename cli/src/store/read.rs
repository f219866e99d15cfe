//! Reading a store from another process: the file itself, or, while `watch` has it open, through the HTTP API of that
//! `watch`, whose address lies beside the file. Used by `events` and `--from-store`.

use std::net::SocketAddr;
use std::path::Path;

use policies::ObservationWindow;
use serde::Deserialize;

use super::{Filter, Store, StoreError, Stored};
use crate::report::Problem;

/// The file with the address of the running `watch`.
pub const ADDRESS: &str = "watch.address";
/// Names whose windows are asked for at a time.
const PAGE: usize = 100;

/// Where to read.
#[derive(Debug)]
pub enum Reader {
    /// The file.
    File(Box<Store>),
    /// The `watch` that has it open.
    Live(SocketAddr),
}

#[derive(Debug, Deserialize)]
struct Windows {
    windows: Vec<ObservationWindow>,
    after: Option<String>,
}

impl Reader {
    /// Opens the store of a folder.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(folder: &Path) -> Result<Self, Problem> {
        if !folder.join(super::FILE).exists() {
            let hint = "name the folder that `egress-audit watch --store` writes";
            return Err(Problem::new(folder.display(), "holds no store", hint));
        }
        match Store::open(folder) {
            Ok(store) => Ok(Self::File(Box::new(store))),
            Err(StoreError::InUse) => {
                let address = std::fs::read_to_string(folder.join(ADDRESS)).ok();
                let address = address.and_then(|text| text.trim().parse().ok());
                address.map(Self::Live).ok_or_else(|| {
                    let hint = "its `watch` serves no HTTP: read the store once that has ended";
                    Problem::new(folder.display(), "is in use", hint)
                })
            }
            Err(error) => Err(error.at(folder)),
        }
    }

    /// Events, the oldest first.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn events(&self, filter: &Filter) -> anyhow::Result<Vec<Stored>> {
        match self {
            Self::File(store) => Ok(store.events(filter)?),
            Self::Live(address) => {
                let mut query = vec![("limit", filter.limit.to_string())];
                query.extend(filter.since.map(|since| ("since", since.to_string())));
                query.extend(filter.host.as_ref().map(|host| ("host", host.to_string())));
                query.extend((!filter.kinds.is_empty()).then(|| ("kind", filter.kinds.join(","))));
                Ok(get(*address, "events", &query).await?)
            }
        }
    }

    /// The windows of all names that answers are stored of.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn windows(&self) -> anyhow::Result<Vec<ObservationWindow>> {
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            match self {
                Self::File(store) => {
                    let hosts = store.answered(&after, PAGE)?;
                    let Some(last) = hosts.last() else { return Ok(all) };
                    last.as_str().clone_into(&mut after);
                    for host in &hosts {
                        all.extend(store.windows(host)?);
                    }
                }
                Self::Live(address) => {
                    let query = [("after", after.clone())];
                    let page: Windows = get(*address, "windows", &query).await?;
                    all.extend(page.windows);
                    match page.after {
                        Some(last) => after = last,
                        None => return Ok(all),
                    }
                }
            }
        }
    }
}

async fn get<T: serde::de::DeserializeOwned>(
    address: SocketAddr,
    what: &str,
    query: &[(&str, String)],
) -> Result<T, Problem> {
    let fault = |error: reqwest::Error| {
        let hint = "is the `watch` that uses this store still running?";
        Problem::new(address, format!("does not answer: {error}"), hint)
    };
    let client = reqwest::Client::builder().no_proxy().build().map_err(fault)?;
    let url = format!("http://{address}/api/v1/{what}");
    let response = client.get(url).query(query).send().await.map_err(fault)?;
    response.error_for_status().map_err(fault)?.json().await.map_err(fault)
}
