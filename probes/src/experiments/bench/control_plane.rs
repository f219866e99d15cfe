//! A control plane in place of the lab's own bootstrap: where the lab is comes in, where the name's cluster can be had
//! goes out. Without one the lab writes the cluster as istiod would; with one, istiod itself does.

use std::net::SocketAddr;

use futures_util::future::BoxFuture;

use crate::lab::envoy::bootstrap::Ads;

/// What a control plane is to send the name with.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The lab DNS, which alone may be asked.
    pub resolver: SocketAddr,
    /// The port that every backend listens on.
    pub backend_port: u16,
}

/// Publishes the name and says where its cluster can be had.
pub type Publish = Box<dyn FnOnce(Wanted) -> BoxFuture<'static, Result<Ads, String>> + Send + Sync>;
