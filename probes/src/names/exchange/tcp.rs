//! One query over TCP, after a truncated datagram (RFC 7766): connect, write, read one message, close. Called by
//! `exchange`, which bounds the time that all of it takes.

use std::io;
use std::net::SocketAddr;

use policies::Malformed;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Failure;
use crate::names::wire::{self, Reply};

pub(super) async fn ask(server: SocketAddr, mut request: Vec<u8>) -> Result<Reply, Failure> {
    request[..2].copy_from_slice(&rand::random::<[u8; 2]>());
    let response = transfer(server, &request).await.map_err(|error| match error.kind() {
        // The server closed the connection in the middle of a message, or before one.
        io::ErrorKind::UnexpectedEof => Failure::Malformed(Malformed::Garbage),
        _ => Failure::Unreachable,
    })?;
    wire::read(&request, &response).map_err(Failure::Malformed)
}

async fn transfer(server: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(request.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), request].concat()).await?;
    let mut response = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut response).await?;
    Ok(response)
}
