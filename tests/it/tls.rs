//! TLS on both ports: what is shown, what changes while the server runs, and whoever speaks
//! something else.

mod clients;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncegate::port::clock::Clock;
use oncegate::store::memory::MemoryStore;
use oncegate::telemetry::metrics::Metrics;
use oncegate::testkit::certificates::{Authority, Signed};
use oncegate::testkit::process::{Ended, Server, bare, ended};
use oncegate::testkit::server::{TestServer, options};
use oncegate::transport::server::ServerOptions;
use oncegate::transport::tls::Tls;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};

use crate::cli::PROGRAM;

/// What takes longer does not come any more.
const PATIENCE: Duration = Duration::from_secs(30);
/// A bound that is over within the tests.
const SHORT: Duration = Duration::from_millis(300);
const HOST: &str = "127.0.0.1";
const GET: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n";

/// A server under a certificate, the authority behind it, and the folder that holds its files.
struct Stage {
    authority: Authority,
    signed: Signed,
    folder: TempDir,
    server: TestServer,
}

impl Stage {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(tune: impl FnOnce(&mut ServerOptions)) -> Self {
        let authority = Authority::new("harbour");
        let signed = authority.sign(HOST);
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = options();
        let files = signed.write(folder.path());
        options.tls = Some(Tls::read(files).await.expect("a pair"));
        tune(&mut options);
        let server = TestServer::with(Arc::new(MemoryStore::new(Clock::Database)), options).await;
        server.ready().await;
        Self {
            authority,
            signed,
            folder,
            server,
        }
    }

    fn ports(&self) -> [SocketAddr; 2] {
        [self.server.grpc_address(), self.server.http_address()]
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        secure(&self.authority, address).await
    }

    /// A page of the HTTP port.
    async fn page(&self, path: &str) -> String {
        let mut stream = self.connect(self.server.http_address()).await.expect("up");
        let get = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(get.as_bytes()).await.expect("sent");
        let mut page = String::new();
        stream.read_to_string(&mut page).await.expect("a page");
        page
    }

    /// Waits until a page says this.
    async fn until(&self, path: &str, says: &str) {
        let limit = Instant::now() + PATIENCE;
        loop {
            let page = self.page(path).await;
            if page.contains(says) {
                return;
            }
            assert!(Instant::now() < limit, "no {says}: {page}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until both ports show this certificate to new connections.
    async fn until_shown(&self, signed: &Signed) {
        let limit = Instant::now() + PATIENCE;
        for address in self.ports() {
            while shown(&self.connect(address).await.expect("up")) != der(signed) {
                assert!(Instant::now() < limit, "{address} still shows another one");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn secure(authority: &Authority, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
    let host = ServerName::from(Ipv4Addr::LOCALHOST);
    let stream = TcpStream::connect(address).await?;
    let connector = TlsConnector::from(Arc::new(authority.client()));
    connector.connect(host, stream).await
}

/// The certificate that a connection was shown.
fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let chain = stream.get_ref().1.peer_certificates().expect("a handshake");
    chain[0].clone()
}

fn der(signed: &Signed) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(signed.cert.as_bytes()).expect("PEM")
}

/// Asks on an open connection whether the server is ready.
async fn asked(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(GET).await.expect("still open");
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let read = stream.read_buf(&mut answer).await.expect("an answer");
        assert_ne!(read, 0, "closed");
    }
    String::from_utf8(answer).expect("text")
}

/// Waits until the server has closed a connection that nothing more is said on.
async fn closed(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut heard = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut heard)).await;
    // How it was closed does not matter.
    drop(end.expect("still open"));
    heard
}

#[tokio::test]
async fn both_ports_are_served_over_tls_and_close_who_speaks_none() {
    let stage = Stage::new().await;
    for address in stage.ports() {
        let mut secure = stage.connect(address).await.expect("up");
        secure.write_all(GET).await.expect("sent");
        let mut plain = TcpStream::connect(address).await.expect("up");
        plain.write_all(GET).await.expect("sent");
        let heard = closed(plain).await;
        assert!(!heard.starts_with(b"HTTP"), "{heard:?}");
    }
    assert!(stage.page("/readyz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn both_ports_speak_http_2_where_a_client_can_and_http_1_where_it_cannot() {
    let stage = Stage::new().await;
    for address in stage.ports() {
        for (offered, want) in [
            (&["http/1.1", "h2"][..], Some("h2")),
            (&["http/1.1"], Some("http/1.1")),
            (&[], None),
        ] {
            let mut client = stage.authority.client();
            let offered = offered.iter().map(|name| name.as_bytes().to_vec());
            client.alpn_protocols = offered.collect();
            let stream = TcpStream::connect(address).await.expect("up");
            let connector = TlsConnector::from(Arc::new(client));
            let host = ServerName::from(Ipv4Addr::LOCALHOST);
            let stream = connector.connect(host, stream).await.expect("a handshake");
            let spoken = stream.get_ref().1.alpn_protocol();
            assert_eq!(spoken, want.map(str::as_bytes), "{address}");
        }
    }
}

#[tokio::test]
async fn a_client_of_tls_is_closed_by_a_server_that_speaks_none() {
    let server = TestServer::start(Arc::new(MemoryStore::new(Clock::Database))).await;
    let authority = Authority::new("harbour");
    for address in [server.grpc_address(), server.http_address()] {
        let told = timeout(PATIENCE, secure(&authority, address)).await;
        assert!(told.expect("an end").is_err(), "{address}");
    }
}

// Field case I6.
#[tokio::test]
async fn whoever_takes_too_long_over_its_handshake_or_says_nothing_after_it_is_closed() {
    let stage = Stage::with(|options| options.connections.header_timeout = SHORT).await;
    for address in stage.ports() {
        for begun in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01"] {
            let mut slow = TcpStream::connect(address).await.expect("up");
            slow.write_all(begun).await.expect("sent");
            closed(slow).await;
        }
        closed(stage.connect(address).await.expect("up")).await;
        let mut half = stage.connect(address).await.expect("up");
        half.write_all(b"PRI * HTTP/2").await.expect("sent");
        closed(half).await;
    }
}

// Field case I6.
#[tokio::test]
async fn an_unfinished_handshake_does_not_hold_up_the_end() {
    let stage = Stage::with(|options| options.drain_timeout = PATIENCE * 2).await;
    let mut slow = TcpStream::connect(stage.server.grpc_address()).await;
    let slow = slow.as_mut().expect("up");
    slow.write_all(b"\x16\x03").await.expect("sent");
    // Whoever came later is answered: the slow one was accepted by now.
    stage
        .connect(stage.server.grpc_address())
        .await
        .expect("up");
    timeout(PATIENCE, stage.server.drain())
        .await
        .expect("an end");
}

/// Puts a link in place of whatever has its name, in one step, as Kubernetes changes a mounted secret.
fn link(folder: &Path, name: &str, to: &str) {
    let next = folder.join("next");
    symlink(to, &next).expect("linked");
    fs::rename(next, folder.join(name)).expect("swapped");
}

#[tokio::test]
async fn a_swapped_secret_is_shown_to_new_connections_and_open_ones_live_on() {
    let stage = Stage::new().await;
    let folder = stage.folder.path();
    let after = stage.authority.sign(HOST);
    for (name, signed) in [("..before", &stage.signed), ("..after", &after)] {
        fs::create_dir(folder.join(name)).expect("made");
        signed.write(&folder.join(name));
    }
    link(folder, "..data", "..before");
    link(folder, "tls.crt", "..data/tls.crt");
    link(folder, "tls.key", "..data/tls.key");
    let mut open = stage
        .connect(stage.server.http_address())
        .await
        .expect("up");
    assert!(asked(&mut open).await.contains("200 OK"));
    link(folder, "..data", "..after");
    stage.until_shown(&after).await;
    let used = "oncegate_certificate_changes_total{result=\"used\"} 1\n";
    stage.until("/metrics", used).await;
    assert_eq!(shown(&open), der(&stage.signed));
    assert!(asked(&mut open).await.contains("200 OK"));
}

#[tokio::test]
async fn a_changed_pair_that_cannot_be_used_is_counted_and_the_one_before_stays() {
    let stage = Stage::new().await;
    let folder = stage.folder.path();
    let other = stage.authority.sign(HOST);
    let half = Signed {
        cert: other.cert.clone(),
        ..stage.signed.clone()
    };
    let files = half.write(folder);
    let refused =
        |times| format!("oncegate_certificate_changes_total{{result=\"refused\"}} {times}\n");
    stage.until("/metrics", &refused(1)).await;
    fs::remove_file(files.key).expect("a file");
    stage.until("/metrics", &refused(2)).await;
    for address in stage.ports() {
        let stream = stage.connect(address).await.expect("up");
        assert_eq!(shown(&stream), der(&stage.signed));
    }
    other.write(folder);
    stage.until_shown(&other).await;
}

#[tokio::test(start_paused = true)]
async fn a_pair_of_which_half_is_written_is_left_alone_until_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("harbour");
    let (before, after) = (authority.sign(HOST), authority.sign(HOST));
    let files = before.write(folder.path());
    let tls = Tls::read(files.clone()).await.expect("a pair");
    let metrics = Arc::new(Metrics::new().expect("usable names"));
    let counted = Arc::clone(&metrics);
    let following = tokio::spawn(async move { tls.follow(&counted).await });
    let changes = || {
        let text = metrics.text().expect("a text");
        let of_result = |result| {
            let line = format!("oncegate_certificate_changes_total{{result=\"{result}\"}} 1\n");
            text.contains(&line)
        };
        (of_result("used"), of_result("refused"))
    };
    // Between two looks.
    sleep(Duration::from_millis(2_500)).await;
    fs::write(&files.cert, &after.cert).expect("written");
    sleep(Duration::from_secs(1)).await;
    fs::write(&files.key, &after.key).expect("written");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(changes(), (false, false), "it may still change");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(changes(), (true, false));
    following.abort();
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_at_the_start_is_a_usage_error_with_its_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("harbour");
    let good = authority.sign(HOST);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let (cert, key) = (file("cert", &good.cert), file("key", &good.key));
    let other = file("other", &authority.sign(HOST).key);
    let (empty, none) = (file("empty", ""), "/nothing".to_owned());
    for (cert, key, setting, reason) in [
        (&cert, &none, "tls.key_file: /nothing", "No such file"),
        (&none, &key, "tls.cert_file: /nothing", "No such file"),
        (
            &cert,
            &other,
            "tls.key_file",
            "is not the key of the certificate",
        ),
        (&empty, &key, "tls.cert_file", "holds no certificate"),
        (&key, &key, "tls.cert_file", "holds no certificate"),
        (&cert, &cert, "tls.key_file", "holds no private key"),
        (&cert, &String::new(), "tls.key_file", "is missing"),
        (&String::new(), &key, "tls.cert_file", "is missing"),
    ] {
        let mut serve = Server::prepare(PROGRAM, &[]).serving();
        serve
            .env("ONCEGATE_TLS_CERT_FILE", cert)
            .env("ONCEGATE_TLS_KEY_FILE", key);
        let told = timeout(PATIENCE, ended(&mut serve)).await.expect("an end");
        let said = &told.expect(2).stderr;
        assert!(said.contains(setting) && said.contains(reason), "{said}");
        assert!(!said.contains("PRIVATE"), "{said}");
    }
}

#[tokio::test]
async fn a_served_certificate_comes_from_the_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("harbour");
    let files = authority.sign(HOST).write(folder.path());
    let server = Server::prepare(PROGRAM, &[]);
    let mut serve = server.serving();
    serve
        .env("ONCEGATE_TLS_CERT_FILE", files.cert)
        .env("ONCEGATE_TLS_KEY_FILE", files.key);
    let _process = serve.spawn().expect("it starts");
    let limit = Instant::now() + PATIENCE;
    loop {
        if let Ok(mut stream) = secure(&authority, server.http_address()).await
            && asked(&mut stream).await.contains("200 OK")
        {
            return;
        }
        assert!(Instant::now() < limit, "not ready in time");
        sleep(Duration::from_millis(20)).await;
    }
}
