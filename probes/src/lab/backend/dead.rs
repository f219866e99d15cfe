//! Two ways to be dead without privileges: a port that refuses (bound, not listening) and a black hole (a listener
//! whose accept queue is full, so that Linux drops every further SYN).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// A SYN that is not answered within this time on loopback was dropped.
const UNANSWERED: Duration = Duration::from_millis(250);

/// A bound port without a listener: the kernel answers a SYN with RST, and nobody else can take the port.
#[derive(Debug)]
pub(super) struct Refusing(#[expect(dead_code, reason = "the socket is held, never used")] TcpSocket);

impl Refusing {
    pub(super) fn hold(addr: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        Ok(Self(socket))
    }
}

/// A listener that never accepts, with the connections that fill its queue.
#[derive(Debug)]
#[expect(dead_code, reason = "sockets are held, never used")]
pub(super) struct BlackHole {
    listener: TcpListener,
    queue: Vec<TcpStream>,
}

impl BlackHole {
    /// Fills the queue until an attempt goes unanswered.
    pub(super) async fn dig(addr: SocketAddr) -> io::Result<Self> {
        let listener = super::retried(|| {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(addr)?;
            socket.listen(0)
        })
        .await?;
        let mut queue = Vec::new();
        for _ in 0..16 {
            match timeout(UNANSWERED, TcpStream::connect(addr)).await {
                Ok(connected) => queue.push(connected?),
                Err(_) => return Ok(Self { listener, queue }),
            }
        }
        Err(io::Error::other("the accept queue never fills on this system"))
    }
}
