//! How a connection begins: the handshake where there is TLS, and what its client says first. The
//! timeouts of neither protocol hold before that, so whoever awaits this sets the bound.

use std::io::{self, Cursor, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::tls::Tls;

/// What a client of HTTP/2 says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection, encrypted or not, whose client has said which protocol it speaks.
pub(super) type Connection = Opened<Either<TcpStream, Box<TlsStream<TcpStream>>>>;

/// Waits until the client has said which protocol it speaks.
///
/// # Errors
///
/// The handshake failed, or the client has gone.
pub(super) async fn open(stream: TcpStream, tls: Option<&Tls>) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let stream = match tls {
        None => Either::Left(stream),
        Some(tls) => Either::Right(Box::new(tls.acceptor().accept(stream).await?)),
    };
    Opened::read(stream).await
}

/// A stream whose first bytes were looked at; they are read from it all the same.
#[derive(Debug)]
pub(super) struct Opened<S> {
    said: Cursor<Vec<u8>>,
    stream: S,
}

impl<S: AsyncRead + Unpin> Opened<S> {
    async fn read(mut stream: S) -> io::Result<Self> {
        let mut said = Vec::with_capacity(PREFACE.len());
        while said.len() < PREFACE.len() && PREFACE.starts_with(&said) {
            if stream.read_buf(&mut said).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let said = Cursor::new(said);
        Ok(Self { said, stream })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opened<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let said = Pin::new(&mut self.said).poll_read(context, buffer);
        if buffer.filled().len() > before {
            return said;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opened<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn it_has_begun_with_a_whole_preface_or_the_first_byte_of_anything_else() {
        let half = PREFACE.len() / 2;
        for (said, begun) in [
            (&b""[..], false),
            (&PREFACE[..1], false),
            (&PREFACE[..half], false),
            (PREFACE, true),
            (b"GET /", true),
            (b"POST /", true),
            (b"PUT /", true),
            (b"\x16\x03", true),
        ] {
            let (mut far, near) = tokio::io::duplex(64);
            far.write_all(said).await.expect("written");
            // Whoever says no more goes away: then there is nothing to wait for.
            drop(far);
            let opened = Opened::read(near).await;
            assert_eq!(opened.is_ok(), begun, "{said:?}");
        }
    }

    #[tokio::test]
    async fn what_was_said_first_is_read_first_in_pieces_of_any_size() {
        let whole = [PREFACE, b"and more"].concat();
        for piece in 1..=whole.len() {
            let (mut far, near) = tokio::io::duplex(64);
            far.write_all(&whole).await.expect("written");
            drop(far);
            let mut opened = Opened::read(near).await.expect("it has begun");
            let mut read = Vec::new();
            let mut buffer = vec![0; piece];
            loop {
                match opened.read(&mut buffer).await.expect("read") {
                    0 => break,
                    length => read.extend_from_slice(&buffer[..length]),
                }
            }
            assert_eq!(read, whole, "{piece}");
        }
    }
}
