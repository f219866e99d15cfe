//! The pure core: sample -> observe -> classify -> recommend -> render.
//!
//! No clock, file, environment, socket or async runtime; time and randomness are arguments. The nouns are
//! [`Host`], [`DnsSample`] and [`ObservationWindow`]; the verbs are `observe`, `classify`, `recommend` and `audit`.
//! `probes` feeds it, `cli` prints what it says.

pub mod audit;
mod chain;
mod citation;
pub mod classify;
pub mod ejection;
pub mod finding;
pub mod host;
pub mod manifest;
pub mod observe;
pub mod plan;
pub mod platform;
pub mod policy;
pub mod proxy;
pub mod recommend;
pub mod resolution;
pub mod sample;
pub mod schema;
pub mod watch;

pub use chain::chain;
pub use citation::{Citation, Reason};
pub use classify::{Classification, Needs, ResolutionClass, Trait, classify, classify_both};
pub use host::{Host, HostError};
pub use observe::{Observation, observe};
pub use plan::{Limits, Plan, Step, StopReason, Window};
pub use platform::{
    Behaviour, EnvoyInUse, IstioBehaviour, LookupFamily, Platform, ProxyKind, Version, VersionBasis,
    VersionError,
};
pub use policy::Policy;
pub use recommend::{Family, Observed, Protocol, Recommendation, Settings, recommend};
pub use resolution::{ClusterType, Resolution};
pub use sample::{
    Answer, Cname, DnsSample, Malformed, ObservationWindow, Outcome, OutcomeKind, RecordType, Response,
    Source, Transport, Vantage,
};
