//! What every tier's tests share: starting real servers on loopback ports, waiting with a deadline, running the
//! programs of this workspace. Tests call in; whatever was started is torn down on drop.

pub mod binaries;
pub mod child;
pub mod dns_server;
pub mod eventually;
pub mod ports;

pub use binaries::{egress_audit, find};
pub use child::Child;
pub use dns_server::{Daemon, DnsServer, Endpoint};
pub use eventually::{eventually, eventually_async};
