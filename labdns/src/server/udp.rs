//! UDP, on one thread per socket that blocks on it. hickory-server takes a task per datagram and about three times the
//! CPU of gdnsd. Two system calls and hickory-proto's messages still take 1.3 to 2.2 times, by the load of the machine;
//! with the short way for plain queries (`plain.rs`) it is 1.0 to 1.4 times (`benches/servers`). A second thread would
//! cost a fifth more by waiting for the zone's lock. The faults also get at the raw bytes here.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use hickory_proto::op::{Message, OpCode, ResponseCode};
use tokio::runtime::Handle;

use super::plain::Plain;
use super::service::{Question, Response, Service, Work};
use super::wire;
use crate::answer::Mangle;
use crate::log::Transport;

/// A thread that serves one socket; dropping this stops it and closes the socket.
#[derive(Debug)]
pub(crate) struct UdpFront {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl UdpFront {
    /// Serves `socket`.
    pub(crate) fn start(socket: UdpSocket, service: &Arc<Service>) -> io::Result<Self> {
        let addr = socket.local_addr()?;
        let stop = Arc::default();
        let worker = Worker {
            socket: Arc::new(socket),
            service: service.clone(),
            stop: Arc::clone(&stop),
            runtime: Handle::current(),
        };
        let thread = thread::Builder::new().name("dns-udp".to_owned()).spawn(move || worker.run())?;
        Ok(Self { addr, stop, thread: Some(thread) })
    }
}

impl Drop for UdpFront {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.stop.store(true, Ordering::Relaxed);
        // The thread blocks on the socket and sees the flag with the next datagram: here it is.
        let own = match self.addr.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let Ok(waker) = UdpSocket::bind(SocketAddr::new(own, 0)) else { return };
        // A datagram may get lost in a full buffer, but then the thread is not blocked either.
        while !thread.is_finished() {
            if waker.send_to(&[], SocketAddr::new(own, self.addr.port())).is_err() {
                return;
            }
            thread::yield_now();
        }
        if thread.join().is_err() {
            tracing::error!("a DNS thread panicked");
        }
    }
}

struct Worker {
    socket: Arc<UdpSocket>,
    service: Arc<Service>,
    stop: Arc<AtomicBool>,
    runtime: Handle,
}

impl Worker {
    fn run(&self) {
        let mut datagram = [0; 4096];
        let mut out = Vec::with_capacity(4096);
        let mut work = Work::default();
        while !self.stop.load(Ordering::Relaxed) {
            let (length, client) = match self.socket.recv_from(&mut datagram) {
                Ok(received) => received,
                Err(error) => {
                    tracing::debug!(%error, "receiving a query failed");
                    continue;
                }
            };
            self.answer(&datagram[..length], client, &mut work, &mut out);
        }
    }

    fn answer(&self, query: &[u8], client: SocketAddr, work: &mut Work, out: &mut Vec<u8>) {
        let response = if let Some(plain) = Plain::read(query, &mut work.name) {
            let question =
                Question { record_type: plain.record_type, client, ecs: None, transport: Transport::Udp };
            if !self.service.ask(&question, work) {
                return;
            }
            if self.service.write(&plain, work, out) {
                return send(&self.socket, out, client);
            }
            Message::from_vec(query).ok().map(|request| self.service.respond(request, &question, work))
        } else {
            match Message::from_vec(query) {
                Ok(request) => self.service.answer(request, client, Transport::Udp, work),
                Err(_) => unreadable(query),
            }
        };
        if let Some(response) = response {
            self.send(response, client, out);
        }
    }

    fn send(&self, mut response: Response, client: SocketAddr, out: &mut Vec<u8>) {
        if let Err(error) = write(&mut response, out) {
            tracing::warn!(%error, "an answer cannot be encoded");
            return;
        }
        let delay = response.effects.delay;
        if delay.is_zero() {
            send(&self.socket, out, client);
            return;
        }
        let (socket, bytes) = (self.socket.clone(), out.clone());
        self.runtime.spawn(async move {
            tokio::time::sleep(delay).await;
            send(&socket, &bytes, client);
        });
    }
}

fn send(socket: &UdpSocket, bytes: &[u8], client: SocketAddr) {
    if let Err(error) = socket.send_to(bytes, client) {
        tracing::debug!(%error, %client, "an answer was not sent");
    }
}

/// The bytes of a response, spoilt as its effects say.
fn write(response: &mut Response, out: &mut Vec<u8>) -> Result<(), hickory_proto::ProtoError> {
    let mangle = response.effects.mangle;
    if mangle == Some(Mangle::WrongQuestion)
        && let Some(query) = response.message.queries.first_mut()
    {
        query.name = query.name.prepend_label("wrong").unwrap_or_default();
    }
    if mangle == Some(Mangle::WrongId) {
        response.message.metadata.id ^= 0x5555;
    }
    wire::encode(&mut response.message, response.limit, out)?;
    if mangle == Some(Mangle::Garbage) {
        // The id stays, so a client takes it for the answer; the counts promise records that do not come.
        out.truncate(12);
        out.extend_from_slice(b"\xff\xc0\xffgarbage");
    }
    Ok(())
}

/// FORMERR for what has a header at least; nothing for anything less and for responses.
fn unreadable(query: &[u8]) -> Option<Response> {
    let &[high, low, flags, ..] = query else { return None };
    if query.len() < 12 || flags & 0x80 != 0 {
        return None;
    }
    let id = u16::from_be_bytes([high, low]);
    let message = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr);
    Some(Response { message, effects: crate::answer::Effects::default(), limit: 512 })
}
