//! Many datagrams per system call on Linux, one elsewhere. A connected socket and buffers come in; `lane` calls it
//! when the socket is ready. Queries of one size pass the kernel as segments of one (UDP GSO, Linux 4.18): the way
//! through it is most of what a small datagram costs.

use std::cell::RefCell;
use std::io;

use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Datagrams per system call.
pub(super) const BATCH: usize = 32;
/// Full batches that are read in a row: a server that floods does not hold up everything else.
const ROW: usize = 16;
/// Servers that ignore the payload size offered still fit, up to a size that no path carries anyway.
const BUFFER: usize = 4096;

/// A datagram, or an ICMP message about one that was sent.
pub(super) const ARRIVAL: Interest = Interest::READABLE.add(Interest::ERROR);

type Buffers = [[u8; BUFFER]; BATCH];

thread_local! {
    static BUFFERS: RefCell<Box<Buffers>> = RefCell::new(Box::new([[0; BUFFER]; BATCH]));
}

/// Hands the datagrams that wait to `take`. `Ok` once the socket is drained or has had its turn; an error is the socket's pending
/// one (an ICMP message came back), after which there may be more to read.
pub(super) fn receive(socket: &UdpSocket, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut pending = None;
    // Nothing but "would block" clears the readiness, and it is for one interest at a time.
    let _ = socket.try_io(Interest::ERROR, || {
        pending = socket.take_error()?;
        io::Result::<()>::Err(io::ErrorKind::WouldBlock.into())
    });
    if let Some(error) = pending {
        return Err(error);
    }
    BUFFERS.with_borrow_mut(|buffers| {
        for _ in 0..ROW {
            // A batch that is not full has drained the socket: saying so spares the call that would find it empty.
            let drained = socket.try_io(Interest::READABLE, || {
                let full = system::receive(socket, buffers, &mut take)? == BATCH;
                if full { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
            });
            match drained {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Sends the first of `requests`, at most [`BATCH`], and those of its size that follow it at once. Says how many the
/// kernel took.
pub(super) fn send<'a>(socket: &UdpSocket, requests: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
    socket.try_io(Interest::WRITABLE, || system::send(socket, requests))
}

#[cfg(target_os = "linux")]
mod system {
    use std::io::{self, IoSlice, IoSliceMut};
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    use nix::errno::Errno;
    use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, recvmmsg, sendmsg};
    use tokio::net::UdpSocket;

    use super::{BATCH, Buffers};

    /// The kernel, or a device on the way, refused segments.
    static WHOLE: AtomicBool = AtomicBool::new(false);

    pub(super) fn receive(
        socket: &UdpSocket,
        buffers: &mut Buffers,
        take: &mut impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut headers = MultiHeaders::<()>::preallocate(BATCH, None);
        let mut slices = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let messages = recvmmsg(socket.as_raw_fd(), &mut headers, &mut slices, MsgFlags::MSG_DONTWAIT, None)?;
        Ok(messages.map(|message| take(message.iovs().next().unwrap_or_default())).count())
    }

    pub(super) fn send<'a>(
        socket: &UdpSocket,
        requests: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<usize> {
        let most = if WHOLE.load(Ordering::Relaxed) { 1 } else { BATCH };
        let mut slices = [IoSlice::new(&[]); BATCH];
        let (mut count, mut first) = (0, None);
        for request in requests.take(most) {
            if request.len() != *first.get_or_insert(request.len()) {
                break;
            }
            slices[count] = IoSlice::new(request);
            count += 1;
        }
        let size = u16::try_from(first.unwrap_or_default()).map_err(io::Error::other)?;
        let transmit = |slices: &[IoSlice<'_>]| {
            let segments = [ControlMessage::UdpGsoSegments(&size)];
            let segments = if slices.len() > 1 { &segments[..] } else { &[] };
            sendmsg::<()>(socket.as_raw_fd(), slices, segments, MsgFlags::MSG_DONTWAIT, None)
        };
        match transmit(&slices[..count]) {
            Err(Errno::EIO | Errno::EINVAL) if count > 1 => {
                WHOLE.store(true, Ordering::Relaxed);
                count = 1;
                transmit(&slices[..1])?;
            }
            sent => _ = sent?,
        }
        Ok(count)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    use nix::sys::socket::{MsgFlags, recv, send as send_one};
    use std::os::fd::AsRawFd;
    use tokio::net::UdpSocket;

    use super::{BATCH, Buffers};

    pub(super) fn receive(
        socket: &UdpSocket,
        buffers: &mut Buffers,
        take: &mut impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        for count in 0..BATCH {
            match recv(socket.as_raw_fd(), &mut buffers[0], MsgFlags::MSG_DONTWAIT) {
                Ok(size) => take(&buffers[0][..size]),
                Err(_) if count > 0 => return Ok(count),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(BATCH)
    }

    pub(super) fn send<'a>(
        socket: &UdpSocket,
        mut requests: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<usize> {
        let first = requests.next().unwrap_or_default();
        send_one(socket.as_raw_fd(), first, MsgFlags::MSG_DONTWAIT)?;
        Ok(1)
    }
}
