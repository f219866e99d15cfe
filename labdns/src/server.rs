//! The sockets of a lab's DNS servers: a [`Service`] and an address come in, bound listeners go out. TCP is
//! hickory-server's; UDP is our own (`udp.rs` says why). Used by `lab`.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hickory_proto::op::{Header, HeaderCounts, Message, MessageType, Metadata};
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use tokio::net::TcpListener;

use crate::log::Transport;
use service::{Response, Service, Work};
use udp::UdpFront;

mod plain;
pub(crate) mod service;
mod udp;
mod wire;

/// A TCP connection on which nothing is asked for so long is closed.
const TCP_IDLE: Duration = Duration::from_secs(10);
/// Answers that may wait for a slow TCP client.
const TCP_BACKLOG: usize = 64;
/// Tries to find a port that is free for UDP and TCP alike.
const PORT_TRIES: usize = 64;

/// One server on one or more addresses; dropping it closes its sockets.
pub(crate) struct Listeners {
    /// The addresses that it is bound to, all with the same port.
    pub(crate) addrs: Vec<SocketAddr>,
    /// Stops on drop.
    _udp: Vec<UdpFront>,
    tcp: Option<Server<Tcp>>,
}

/// Sockets that are bound but not served yet.
pub(crate) struct Bound {
    pub(crate) addrs: Vec<SocketAddr>,
    udp: Vec<UdpSocket>,
    tcp: Vec<TcpListener>,
}

impl Bound {
    /// Binds UDP and, with `tcp`, TCP on each address. Port 0 is chosen by the system, once for all addresses.
    pub(crate) async fn bind(addrs: &[SocketAddr], tcp: bool) -> io::Result<Self> {
        let mut tries = 0;
        loop {
            match Self::try_bind(addrs, tcp).await {
                // A port that the system chose for the first socket may be taken for one of the others.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && addrs.iter().any(|addr| addr.port() == 0)
                        && tries < PORT_TRIES =>
                {
                    tries += 1;
                }
                done => return done,
            }
        }
    }

    async fn try_bind(addrs: &[SocketAddr], tcp: bool) -> io::Result<Self> {
        let mut bound = Self { addrs: Vec::new(), udp: Vec::new(), tcp: Vec::new() };
        for addr in addrs {
            let mut addr = *addr;
            if let (0, Some(first)) = (addr.port(), bound.addrs.first()) {
                addr.set_port(first.port());
            }
            let udp = UdpSocket::bind(addr)?;
            let addr = udp.local_addr()?;
            if tcp {
                bound.tcp.push(TcpListener::bind(addr).await?);
            }
            bound.udp.push(udp);
            bound.addrs.push(addr);
        }
        Ok(bound)
    }

    /// Serves the sockets.
    pub(crate) fn serve(self, service: &Arc<Service>) -> io::Result<Listeners> {
        let mut udp = Vec::new();
        for socket in self.udp {
            udp.push(UdpFront::start(socket, service)?);
        }
        let mut server = Server::new(Tcp { service: service.clone() });
        for listener in self.tcp {
            server.register_listener(listener, TCP_IDLE, TCP_BACKLOG);
        }
        Ok(Listeners { addrs: self.addrs, _udp: udp, tcp: Some(server) })
    }
}

impl Listeners {
    /// Ends the TCP tasks and waits until they are gone.
    pub(crate) async fn shutdown(&mut self) {
        if let Some(mut tcp) = self.tcp.take()
            && let Err(error) = tcp.shutdown_gracefully().await
        {
            tracing::debug!(%error, "the TCP listener ended with an error");
        }
    }
}

struct Tcp {
    service: Arc<Service>,
}

#[async_trait]
impl RequestHandler for Tcp {
    /// Where nothing is sent (drop, TCP `closed`, or a mangled answer, which hickory-server cannot send), the client
    /// is left waiting until it gives up.
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut response_handle: R,
    ) -> ResponseInfo {
        let answer = Message::from_vec(request.as_slice())
            .ok()
            .and_then(|query| self.service.answer(query, request.src(), Transport::Tcp, &mut Work::default()))
            .filter(|response| response.effects.mangle.is_none());
        let nothing = ResponseInfo::from(Header {
            metadata: Metadata::new(request.metadata.id, MessageType::Response, request.metadata.op_code),
            counts: HeaderCounts::default(),
        });
        let Some(Response { message, effects, .. }) = answer else { return nothing };
        if !effects.delay.is_zero() {
            tokio::time::sleep(effects.delay).await;
        }
        let builder = MessageResponseBuilder::new(&request.queries, message.edns.as_ref());
        let response =
            builder.build(message.metadata, &message.answers, &message.authorities, [], &message.additionals);
        match response_handle.send_response(response).await {
            Ok(info) => info,
            Err(error) => {
                tracing::debug!(%error, "an answer over TCP was not sent");
                nothing
            }
        }
    }
}
