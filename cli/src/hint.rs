//! Errors of the other members and what would help against each: an error in, a [`Problem`] with the thing at fault, the
//! message with its causes and the remedy out. Commands turn errors into problems by `?`.

use std::error::Error;
use std::fmt::Display;

use policies::chain;

use crate::problem::Problem;
use crate::report::Unreadable;

/// An error that knows its remedy.
pub trait Hint: Error + 'static {
    /// The thing at fault where the command names none.
    const SUBJECT: &'static str;

    /// What would help.
    fn remedy(&self) -> String;
}

impl<E: Hint> From<E> for Problem {
    fn from(error: E) -> Self {
        Self::about(E::SUBJECT, &error)
    }
}

impl Problem {
    /// The problem that an error is for the thing at fault.
    pub fn about(subject: impl Display, error: &impl Hint) -> Self {
        Self::new(subject, chain(error), error.remedy())
    }
}

/// What stands behind a wrong value on the command line: the message and the remedy.
pub(crate) fn refusal(error: &impl Hint) -> String {
    format!("{}; {}", chain(error), error.remedy())
}

macro_rules! hints {
    ($($error:ty => $subject:expr,)*) => {$(
        impl Hint for $error {
            const SUBJECT: &'static str = $subject;

            fn remedy(&self) -> String {
                self.hint().to_string()
            }
        }
    )*};
}

hints! {
    Unreadable => "the report",
    labdns::CommandError => "the command",
    labdns::StartError => "lab dns",
    policies::HostError => "the name",
    policies::VersionError => "the version",
    probes::experiments::bench::LabError => "the lab",
    probes::lab::backend::BackendError => "lab backend",
    probes::lab::envoy::install::InstallError => "Envoy",
    probes::lab::ingress::sidecar::SidecarError => "the sidecar",
    probes::names::resolvers::ResolverError => probes::names::resolvers::RESOLV_CONF,
}

impl Hint for labdns::ScenarioError {
    const SUBJECT: &'static str = "the scenario";

    fn remedy(&self) -> String {
        self.hint.clone()
    }
}
