//! Everything that touches the network: samples for the classifier, sweeps of many names, and the lab's parts.
//! Called by the commands in `cli`.

pub mod authority;
pub mod backend;
pub mod child;
pub mod client;
pub mod envoy;
pub mod evidence;
mod exchange;
pub mod experiments;
pub mod haproxy;
pub mod ingress;
pub mod lab;
pub mod matrix;
pub mod note;
pub mod resolvers;
pub mod runner;
pub mod sample;
pub mod score;
pub mod scratch;
pub mod sweep;
pub mod trust;
pub mod watch;
mod wire;
