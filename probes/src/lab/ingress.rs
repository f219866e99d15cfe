//! The way in, on one machine: clients -> HAProxy -> pods (Envoy and the real drain sidecar) -> a backend. Parts for
//! the drain experiment and the tests; each dies with the lab. `pod` plays the kubelet.

pub mod backend;
pub mod config;
pub mod l4;
pub mod load;
pub mod pod;
pub mod sidecar;
pub mod stage;
pub mod watch;
pub mod xds;

pub use backend::Backend;
pub use load::{Ending, Load, Shot, Tally};
pub use pod::{Pod, PodError, PodSpec};
pub use sidecar::{Sidecar, SidecarError};
pub use stage::{Stage, StageError, StagePlan};
pub use watch::{Sample, Watch};
pub use xds::SilentXds;
