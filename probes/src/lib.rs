//! Everything that touches the network: samples for the classifier, sweeps of many names, and the lab's parts.
//! Called by the commands in `cli`.

pub mod backend;
pub mod client;
pub mod envoy;
pub mod evidence;
pub mod experiments;
pub mod lab;
pub mod runner;
pub mod trust;
