//! The lab's authoritative DNS. A scenario file comes in; answers go out, over UDP and TCP or straight from the pure
//! zone in simulated time. Knows nothing of Envoy or Istio. Called by `probes` and the `lab` commands.

mod alias;
pub mod answer;
pub mod behaviour;
pub mod command;
pub mod control;
mod lab;
pub mod log;
pub mod name;
pub mod resolver;
mod rrset;
pub mod scenario;
pub mod scenarios;
pub mod schema;
mod seed;
mod server;
mod written;
pub mod zone;

pub use answer::{Alias, Answer, Query, Rcode, RecordType, Reply};
pub use command::{Command, CommandError};
pub use lab::{LabDns, Options, StartError};
pub use name::Name;
pub use resolver::{Farm, ResolverSpec};
pub use scenario::{Scenario, ScenarioError};
pub use zone::Zone;
