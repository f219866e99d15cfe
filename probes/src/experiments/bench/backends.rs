//! The backends of one cell, in this process or in pods of their own: the same addresses, deaths and ledger either
//! way. Driven by the bench and the experiments.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::LabError;
use super::site::{NOTHING, Part, Place, Site};
use crate::lab::backend::control::Lived;
use crate::lab::backend::{Backends, ConnectionLife};
use crate::lab::ca::Roots;

/// The backends of a cell.
pub struct LabBackends(Placed);

enum Placed {
    Here(Backends),
    There {
        pods: Vec<(Place, Part)>,
        /// The zero of the cell's clock.
        start: Instant,
    },
}

impl LabBackends {
    pub(super) const fn here(backends: Backends) -> Self {
        Self(Placed::Here(backends))
    }

    /// Takes the pods over, all of them alive.
    pub(super) async fn there(site: &Site, start: Instant) -> Result<Self, LabError> {
        let mut pods = Vec::with_capacity(site.backends.len());
        for place in &site.backends {
            let control = Part::new(place.control)?;
            control.post("/revive", &()).await?;
            pods.push((place.clone(), control));
        }
        Ok(Self(Placed::There { pods, start }))
    }

    /// The CAs of pods, each of which has one of its own.
    pub(super) async fn roots(&self) -> Result<Roots, LabError> {
        let mut pem = String::new();
        if let Placed::There { pods, .. } = &self.0 {
            for (_, control) in pods {
                pem += &control.text("/ca.pem").await?;
            }
        }
        Ok(Roots::from_pem(&pem)?)
    }

    /// Their addresses.
    #[must_use]
    pub fn addrs(&self) -> Vec<IpAddr> {
        match &self.0 {
            Placed::Here(backends) => backends.addrs(),
            Placed::There { pods, .. } => pods.iter().map(|(place, _)| place.addr).collect(),
        }
    }

    /// `backend-a` for an address of the set.
    #[must_use]
    pub fn name(&self, addr: IpAddr) -> Option<&str> {
        match &self.0 {
            Placed::Here(backends) => backends.name(addr),
            Placed::There { pods, .. } => {
                pods.iter().find(|(place, _)| place.addr == addr).map(|(place, _)| place.name.as_str())
            }
        }
    }

    /// The process dies: every connection is closed, new ones are refused.
    ///
    /// # Errors
    /// Its port cannot be held, or its control API does not answer.
    pub async fn refuse(&mut self, index: usize) -> Result<(), LabError> {
        match &mut self.0 {
            Placed::Here(backends) => Ok(backends.refuse(index).await?),
            Placed::There { pods, .. } => pods[index].1.post("/refuse", &()).await,
        }
    }

    /// The host falls off the network: connections are closed, and new attempts get no answer at all.
    ///
    /// # Errors
    /// Its accept queue cannot be filled, or its control API does not answer.
    pub async fn black_hole(&mut self, index: usize) -> Result<(), LabError> {
        match &mut self.0 {
            Placed::Here(backends) => Ok(backends.black_hole(index).await?),
            Placed::There { pods, .. } => pods[index].1.post("/black-hole", &()).await,
        }
    }

    /// Leaves pods alive for whoever comes next; one that is out of reach is found then.
    pub(super) async fn release(&self) {
        if let Placed::There { pods, .. } = &self.0 {
            for (_, control) in pods {
                let _ = control.post("/revive", &()).await;
            }
        }
    }

    /// Connections since the start of the cell.
    pub(super) async fn lives(&self) -> Result<Vec<ConnectionLife>, LabError> {
        let (pods, start) = match &self.0 {
            Placed::Here(backends) => return Ok(backends.ledger().lives()),
            Placed::There { pods, start } => (pods, *start),
        };
        let mut lives = Vec::new();
        for (backend, (_, control)) in pods.iter().enumerate() {
            let told: Vec<Lived> = control.get("/ledger", &NOTHING).await?;
            let now = start.elapsed();
            let since = |ago_ms: u64| now.checked_sub(Duration::from_millis(ago_ms));
            lives.extend(told.into_iter().filter_map(|life| {
                Some(ConnectionLife {
                    backend,
                    peer: life.peer,
                    // What began before the cell is none of its connections.
                    opened: since(life.opened_ms_ago)?,
                    closed: life.closed_ms_ago.and_then(since),
                    requests: life.requests,
                })
            }));
        }
        lives.sort_by_key(|life| life.opened);
        Ok(lives)
    }
}
