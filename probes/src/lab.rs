//! The lab's real parts, each once: Envoy, HAProxy, backends, clients, the test CA, and the children and folders that
//! they live in. Knows nothing of experiments, which put them together.

pub mod backend;
pub mod ca;
pub mod child;
pub mod client;
pub mod envoy;
pub mod haproxy;
pub mod ingress;
pub mod scratch;
