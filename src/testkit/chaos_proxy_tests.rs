//! What the proxy does in each mode, before a server that sends everything back.

use std::io::ErrorKind;

use tokio::time::{Instant, timeout};

use super::*;

/// Long enough for anything on the loopback, even on a busy machine.
const SOON: Duration = Duration::from_secs(5);
/// Long enough to see that nothing comes.
const A_WHILE: Duration = Duration::from_millis(100);

/// Sends everything back, and counts the pieces that it got.
struct Echo {
    address: SocketAddr,
    received: Arc<AtomicU64>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counter = Arc::clone(&counter);
                tokio::spawn(async move {
                    let mut buffer = [0; 1024];
                    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                        counter.fetch_add(1, Ordering::SeqCst);
                        if stream.write_all(&buffer[..length]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, received }
    }
}

async fn proxied() -> (Echo, ChaosProxy) {
    let echo = Echo::start().await;
    let proxy = ChaosProxy::in_front_of(echo.address).unwrap();
    (echo, proxy)
}

async fn client(proxy: &ChaosProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

/// Sends a word and waits for it to come back.
async fn echoes(stream: &mut TcpStream, word: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(word).await?;
    let mut answer = vec![0; word.len()];
    let read = timeout(SOON, stream.read_exact(&mut answer)).await;
    read.expect("an answer or an error comes soon")?;
    Ok(answer)
}

async fn is_cut(stream: &mut TcpStream) {
    let read = timeout(SOON, stream.read(&mut [0; 16])).await;
    let error = read.expect("the cut comes soon").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_forwarding_proxy_carries_both_ways_and_counts() {
    let (_echo, proxy) = proxied().await;
    let (mut one, mut two) = (client(&proxy).await, client(&proxy).await);
    assert_eq!(echoes(&mut one, b"one").await.unwrap(), b"one");
    assert_eq!(echoes(&mut two, b"two").await.unwrap(), b"two");
    assert_eq!((proxy.accepted(), proxy.open()), (2, 2));
}

#[tokio::test]
async fn a_refusing_proxy_cuts_what_is_open_and_takes_nothing_new_until_it_forwards_again() {
    let (_echo, proxy) = proxied().await;
    let mut before = client(&proxy).await;
    echoes(&mut before, b"x").await.unwrap();
    for _ in 0..3 {
        proxy.set(Mode::Refuse);
        is_cut(&mut before).await;
        let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

        proxy.set(Mode::Forward);
        before = timeout(SOON, async {
            loop {
                match TcpStream::connect(proxy.address()).await {
                    Ok(stream) => break stream,
                    Err(_still_refused) => tokio::task::yield_now().await,
                }
            }
        })
        .await
        .unwrap();
        assert_eq!(echoes(&mut before, b"back").await.unwrap(), b"back");
    }
}

#[tokio::test]
async fn a_blackhole_accepts_and_moves_nothing_until_it_ends() {
    let (echo, proxy) = proxied().await;
    let mut before = client(&proxy).await;
    echoes(&mut before, b"x").await.unwrap();

    proxy.set(Mode::Blackhole);
    let mut during = client(&proxy).await;
    before.write_all(b"y").await.unwrap();
    during.write_all(b"z").await.unwrap();
    for stream in [&mut before, &mut during] {
        assert!(timeout(A_WHILE, stream.read(&mut [0; 1])).await.is_err());
    }
    assert_eq!(echo.received.load(Ordering::SeqCst), 1);

    proxy.set(Mode::Forward);
    for (stream, want) in [(&mut before, b'y'), (&mut during, b'z')] {
        assert_eq!(
            timeout(SOON, stream.read_u8()).await.unwrap().unwrap(),
            want
        );
    }
}

#[tokio::test]
async fn a_lost_answer_was_asked_and_carried_out_and_the_connection_is_cut() {
    let (echo, proxy) = proxied().await;
    let (mut one, mut two) = (client(&proxy).await, client(&proxy).await);
    proxy.lose_answer_to(b"SECRET".as_slice());
    assert_eq!(echoes(&mut one, b"harmless").await.unwrap(), b"harmless");
    assert_eq!(proxy.answers_lost(), 0);

    echoes(&mut one, b"a SECRET thing").await.unwrap_err();
    assert_eq!(
        (proxy.answers_lost(), echo.received.load(Ordering::SeqCst)),
        (1, 2)
    );
    // Once only, and nobody else was hit.
    assert_eq!(echoes(&mut two, b"SECRET").await.unwrap(), b"SECRET");
}

#[tokio::test]
async fn a_cut_resets_every_open_connection_and_new_ones_work() {
    let (_echo, proxy) = proxied().await;
    let (mut one, mut two) = (client(&proxy).await, client(&proxy).await);
    echoes(&mut one, b"x").await.unwrap();
    echoes(&mut two, b"x").await.unwrap();
    assert_eq!(proxy.cut(), 2);
    is_cut(&mut one).await;
    is_cut(&mut two).await;
    assert_eq!(echoes(&mut client(&proxy).await, b"x").await.unwrap(), b"x");
}

#[tokio::test]
async fn one_connection_can_be_cut_alone() {
    let (_echo, proxy) = proxied().await;
    assert!(!proxy.cut_one(7));
    let (mut one, mut two) = (client(&proxy).await, client(&proxy).await);
    echoes(&mut one, b"x").await.unwrap();
    echoes(&mut two, b"x").await.unwrap();
    assert!(proxy.cut_one(1));
    is_cut(&mut two).await;
    echoes(&mut one, b"x").await.unwrap();
    assert_eq!((proxy.open(), proxy.accepted()), (1, 2));
}

#[tokio::test]
async fn a_delay_holds_each_piece_back() {
    let (_echo, proxy) = proxied().await;
    let mut stream = client(&proxy).await;
    echoes(&mut stream, b"x").await.unwrap();
    proxy.set(Mode::Delay(A_WHILE));
    let before = Instant::now();
    echoes(&mut stream, b"y").await.unwrap();
    assert!(before.elapsed() >= A_WHILE * 2);
}

#[tokio::test]
async fn a_redirected_proxy_sends_new_connections_elsewhere() {
    let (first, proxy) = proxied().await;
    let second = Echo::start().await;
    let mut old = client(&proxy).await;
    echoes(&mut old, b"x").await.unwrap();
    proxy.redirect(second.address);
    echoes(&mut client(&proxy).await, b"x").await.unwrap();
    echoes(&mut old, b"x").await.unwrap();
    let received = |echo: &Echo| echo.received.load(Ordering::SeqCst);
    assert_eq!((received(&first), received(&second)), (2, 1));
}

#[tokio::test]
async fn a_dropped_proxy_cuts_everything() {
    let (_echo, proxy) = proxied().await;
    let mut stream = client(&proxy).await;
    echoes(&mut stream, b"x").await.unwrap();
    drop(proxy);
    is_cut(&mut stream).await;
}
