//! Free ports for children that cannot be handed a socket.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

/// An address on loopback whose port was free for TCP and UDP a moment ago. Somebody may take it before the child
/// does, so a child that then fails with "address in use" is to be given another.
///
/// # Errors
/// When no port can be bound at all.
pub fn free_port() -> std::io::Result<SocketAddr> {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = tcp.local_addr()?;
        if UdpSocket::bind(addr).is_ok() {
            return Ok(addr);
        }
    }
}
