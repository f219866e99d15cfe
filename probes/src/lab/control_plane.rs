//! A control plane in place of the lab's own bootstrap: what the name is to be like comes in, where its cluster can be
//! had goes out. Without one the lab writes the cluster as istiod would; with one, istiod itself does.

use std::net::SocketAddr;

use futures_util::future::BoxFuture;

use crate::envoy::bootstrap::{Ads, Discovery};

/// What a control plane is to send.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The external name.
    pub host: &'static str,
    /// Its resolution.
    pub discovery: Discovery,
    /// The lab DNS, which alone may be asked.
    pub resolver: SocketAddr,
    /// The port that every backend listens on.
    pub backend_port: u16,
}

/// Publishes the name and says where its cluster can be had.
pub type Publish = Box<dyn FnOnce(Wanted) -> BoxFuture<'static, Result<Ads, String>> + Send + Sync>;
