//! Plain sockets: ports that are free, and one HTTP request.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An address on this machine that nothing listens on, below those that the system gives to outgoing
/// connections: one of these could take it before the server does.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let at = NEXT.fetch_add(1, Ordering::Relaxed);
        // Other test runs on this machine begin elsewhere.
        let begin = std::process::id().wrapping_mul(61);
        let port = 10_000 + begin.wrapping_add(at) % 20_000;
        let port = u16::try_from(port).expect("below 30,000");
        if let Ok(probe) = TcpListener::bind(("127.0.0.1", port)) {
            return probe.local_addr().expect("its address");
        }
    }
}

/// The status and the body of a GET.
pub async fn http_get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    Ok((status, body.to_owned()))
}
