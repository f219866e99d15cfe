//! Why a cell has no result, and what to do about it.

use std::time::Duration;

use labdns::{CommandError, ScenarioError, StartError};

use crate::lab::backend::BackendError;
use crate::lab::ca::TrustError;
use crate::lab::envoy::EnvoyError;
use crate::lab::envoy::admin::AdminError;

/// Why a cell has no result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Envoy.
    #[error(transparent)]
    Envoy(#[from] EnvoyError),
    /// Backends.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Keys.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The lab DNS.
    #[error(transparent)]
    Dns(#[from] StartError),
    /// The experiment's records are none.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The experiment's command fits no record.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The control plane does not send the name's cluster.
    #[error("the control plane: {0}")]
    ControlPlane(String),
    /// A pod of the lab.
    #[error("the lab's pod at {addr} does not answer {path}: {said}")]
    Part {
        /// Its control API.
        addr: std::net::SocketAddr,
        /// What was asked.
        path: String,
        /// What it or the system said.
        said: String,
    },
    /// Something that the experiment builds on did not come about.
    #[error("{what}: not within {:.1} s; last seen: {last}", waited.as_secs_f64())]
    Never {
        /// What was waited for.
        what: String,
        /// For how long.
        waited: Duration,
        /// The last state.
        last: String,
    },
}

impl From<AdminError> for LabError {
    fn from(error: AdminError) -> Self {
        Self::Envoy(EnvoyError::Admin(error))
    }
}

impl LabError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Envoy(error) => error.hint().to_owned(),
            Self::Backend(error) => error.hint(),
            Self::Trust(_) | Self::Scenario(_) | Self::Command(_) => "this is a fault of the lab; please report it".to_owned(),
            Self::Dns(error) => error.hint().to_owned(),
            Self::ControlPlane(_) => "the log of the control plane says why it refuses or does not send".to_owned(),
            Self::Part { .. } => "`kubectl get pods -n dns-lab` shows whether it runs; a NetworkPolicy may keep the client from it".to_owned(),
            Self::Never { .. } => {
                "a machine under load answers late: run fewer cells at once with `--jobs`, or a longer `--stream`".to_owned()
            }
        }
    }
}
