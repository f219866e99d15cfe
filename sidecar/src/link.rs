//! A connection as the listeners serve it: what came first may be a PROXY header, which is taken off, and a write that
//! makes no progress ends it. Used by `serve`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Whoever does not read for this long has gone.
const STALLED: Duration = Duration::from_secs(10);

/// The longest header of version 1, and the signature of version 2.
const V1_LONGEST: usize = 107;
const V2: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 may carry more (certificates, say); a balancer's check carries a few dozen bytes.
const V2_LONGEST: usize = 4 * 1024;

/// A stream, and what was read of it too early.
pub(crate) struct Link<S> {
    early: Vec<u8>,
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    /// Waits for the first bytes and takes a PROXY header off, of either version. Who is said to be behind it is not
    /// believed: anyone may send one.
    pub(crate) async fn open(mut stream: S) -> io::Result<Self> {
        let mut early = Vec::new();
        loop {
            match header(&early) {
                Header::None => return Ok(Self { early, stream, stalled: None }),
                Header::Whole(length) => {
                    return Ok(Self { early: early.split_off(length), stream, stalled: None });
                }
                Header::More => {}
                Header::Broken => return Err(io::ErrorKind::InvalidData.into()),
            }
            let mut piece = [0; 512];
            match stream.read(&mut piece).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => early.extend_from_slice(&piece[..read]),
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Header {
    None,
    Whole(usize),
    More,
    Broken,
}

fn header(bytes: &[u8]) -> Header {
    const V1: &[u8] = b"PROXY ";
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(a, b)| a == b);
    if begins(V2) {
        let Some(length) = bytes.get(14..16) else { return Header::More };
        let whole = 16 + usize::from(u16::from_be_bytes([length[0], length[1]]));
        return match (bytes[12] >> 4, whole) {
            (2, whole) if whole > V2_LONGEST => Header::Broken,
            (2, whole) if bytes.len() >= whole => Header::Whole(whole),
            (2, _) => Header::More,
            _ => Header::Broken,
        };
    }
    if begins(V1) {
        return match bytes.windows(2).position(|pair| pair == b"\r\n") {
            Some(end) if bytes.len() >= V1.len() => Header::Whole(end + 2),
            _ if bytes.len() > V1_LONGEST => Header::Broken,
            _ => Header::More,
        };
    }
    Header::None
}

impl<S: AsyncRead + Unpin> AsyncRead for Link<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let length = self.early.len().min(buf.remaining());
        buf.put_slice(&self.early[..length]);
        self.early.drain(..length);
        if self.early.is_empty() {
            self.early = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Link<S> {
    /// Passes a result on; a wait that lasts becomes an error.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Link<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    const REQUEST: &[u8] = b"HEAD / HTTP/1.0\r\n\r\n";

    async fn left(said: &[u8]) -> io::Result<Vec<u8>> {
        let (mut client, server) = tokio::io::duplex(8 * 1024);
        client.write_all(said).await?;
        drop(client);
        let mut link = Link::open(server).await?;
        let mut left = Vec::new();
        link.read_to_end(&mut left).await?;
        Ok(left)
    }

    #[tokio::test]
    async fn a_header_of_either_version_is_taken_off() {
        let mut v2 = V2.to_vec();
        v2.extend([0x21, 0x11, 0, 12, 127, 0, 0, 1, 127, 0, 0, 1, 0, 1, 0, 2]);
        let mut local = V2.to_vec();
        local.extend([0x20, 0, 0, 0]);
        for header in [&b""[..], b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", b"PROXY UNKNOWN\r\n", &v2, &local] {
            assert_eq!(left(&[header, REQUEST].concat()).await.unwrap(), REQUEST, "{header:?}");
        }
    }

    #[tokio::test]
    async fn what_only_resembles_a_header_is_left_or_refused() {
        for plain in [&b"P"[..], b"PROX", b"PUT / HTTP/1.1\r\n\r\n"] {
            assert!(left(plain).await.map_or(true, |left| left == plain));
        }
        let mut future = V2.to_vec();
        future.extend([0x31, 0x11, 0, 0]);
        for broken in
            [future, [b"PROXY ", &[b'x'; 200][..]].concat(), [V2, &[0x21, 0x11, 0xff, 0xff][..]].concat()]
        {
            assert!(left(&broken).await.is_err(), "{broken:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_never_reads_is_let_go() {
        let (mut client, server) = tokio::io::duplex(8);
        client.write_all(b"x").await.unwrap();
        let mut link = Link::open(server).await.unwrap();
        let error = link.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
