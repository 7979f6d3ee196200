//! A TCP proxy that breaks what runs through it when it is told to: refuses, swallows, delays, cuts,
//! or loses the answer to a request that the server has already carried out. It knows nothing of
//! the protocol that it carries.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

/// What the proxy does with every connection, old and new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Passes everything on.
    Forward,
    /// As if nobody listened: open connections are cut, new ones refused.
    Refuse,
    /// Accepts, and nothing moves either way. What was swallowed is passed on once this ends.
    Blackhole,
    /// Passes everything on, each piece this much later.
    Delay(Duration),
}

/// A proxy in front of one server. It ends, and cuts every connection, when it is dropped.
#[derive(Debug)]
pub struct ChaosProxy {
    address: SocketAddr,
    wires: Arc<Wires>,
    accepting: AbortHandle,
    // Keeps the port while nobody listens on it.
    _reserved: TcpSocket,
}

/// What the connections share.
#[derive(Debug)]
struct Wires {
    mode: watch::Sender<Mode>,
    upstream: Mutex<SocketAddr>,
    lose_answer_to: Mutex<Option<Vec<u8>>>,
    accepted: AtomicU64,
    /// What cuts each open connection, by its number.
    open: Mutex<BTreeMap<u64, Arc<Notify>>>,
    answers_lost: AtomicU64,
}

impl ChaosProxy {
    /// Starts on a free port of the loopback, in front of `upstream`, in [`Mode::Forward`].
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub fn in_front_of(upstream: SocketAddr) -> io::Result<Self> {
        let reserved = reusable_socket((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = reserved.local_addr()?;
        let first = listen(address)?;
        let wires = Arc::new(Wires {
            mode: watch::Sender::new(Mode::Forward),
            upstream: Mutex::new(upstream),
            lose_answer_to: Mutex::default(),
            accepted: AtomicU64::new(0),
            open: Mutex::default(),
            answers_lost: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(Arc::clone(&wires), address, first)).abort_handle();
        Ok(Self {
            address,
            wires,
            accepting,
            _reserved: reserved,
        })
    }

    /// Where clients connect to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens from now on, on open connections too.
    pub fn set(&self, mode: Mode) {
        self.wires.mode.send_replace(mode);
    }

    /// Sends new connections to another server; open ones stay where they are.
    pub fn redirect(&self, upstream: SocketAddr) {
        *lock(&self.wires.upstream) = upstream;
    }

    /// Cuts every open connection both ways, by RST; the number of those that were open.
    pub fn cut(&self) -> usize {
        let open = lock(&self.wires.open);
        open.values().for_each(|cut| cut.notify_one());
        open.len()
    }

    /// Cuts one of the open connections, the one that a random number picks; `false`: none is open.
    pub fn cut_one(&self, random: u64) -> bool {
        let open = lock(&self.wires.open);
        let among = u64::try_from(open.len()).unwrap_or(u64::MAX);
        let picked = random
            .checked_rem(among)
            .and_then(|nth| usize::try_from(nth).ok());
        let picked = picked.and_then(|nth| open.values().nth(nth));
        picked.is_some_and(|cut| {
            cut.notify_one();
            true
        })
    }

    /// Passes the next write that holds these bytes on to the server, drops the server's answer to
    /// it, and cuts that connection: what was asked has happened, and nobody was told.
    pub fn lose_answer_to(&self, part_of_the_request: impl Into<Vec<u8>>) {
        *lock(&self.wires.lose_answer_to) = Some(part_of_the_request.into());
    }

    /// How many answers were lost on purpose.
    pub fn answers_lost(&self) -> u64 {
        self.wires.answers_lost.load(Ordering::SeqCst)
    }

    /// How many connections were ever accepted.
    pub fn accepted(&self) -> u64 {
        self.wires.accepted.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        lock(&self.wires.open).len()
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Wires {
    /// Whether the answer to this write is to be lost; asked once for each write.
    fn loses_answer_to(&self, written: &[u8]) -> bool {
        let mut wanted = lock(&self.lose_answer_to);
        let found = wanted
            .as_deref()
            .is_some_and(|part| written.windows(part.len()).any(|window| window == part));
        if found {
            *wanted = None;
        }
        found
    }
}

/// Nothing between a lock and its end can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two such sockets may be bound to one port while at most one of them listens.
fn reusable_socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    reusable_socket(address)?.listen(1024)
}

async fn accept(wires: Arc<Wires>, address: SocketAddr, first: TcpListener) {
    let mut mode = wires.mode.subscribe();
    let mut connections = JoinSet::new();
    let mut listener = Some(first);
    loop {
        if *mode.borrow_and_update() == Mode::Refuse {
            listener = None;
            connections.shutdown().await;
        } else if listener.is_none() {
            listener = listen(address).ok();
        }
        let next = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = mode.changed() => if changed.is_err() { return },
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = next => if let Ok((client, _)) = accepted {
                connections.spawn(connect(Arc::clone(&wires), client));
            },
        }
    }
}

/// Lists a connection for as long as it lives.
struct Open<'a> {
    wires: &'a Wires,
    number: u64,
    cut: Arc<Notify>,
}

impl<'a> Open<'a> {
    fn list(wires: &'a Wires) -> Self {
        let number = wires.accepted.fetch_add(1, Ordering::SeqCst);
        let cut = Arc::new(Notify::new());
        lock(&wires.open).insert(number, Arc::clone(&cut));
        Self { wires, number, cut }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        lock(&self.wires.open).remove(&self.number);
    }
}

async fn connect(wires: Arc<Wires>, mut client: TcpStream) {
    let open = Open::list(&wires);
    // Dropped in the middle, by whatever way, both sides see RST and not an orderly end.
    if client.set_zero_linger().is_err() {
        return;
    }
    let carrying = async {
        let mut mode = wires.mode.subscribe();
        open_way(&mut mode).await;
        let upstream = *lock(&wires.upstream);
        let Ok(mut server) = TcpStream::connect(upstream).await else {
            return;
        };
        if server.set_zero_linger().is_err() {
            return;
        }
        drop(client.set_nodelay(true).and(server.set_nodelay(true)));
        carry(&wires, &mut client, &mut server).await;
    };
    tokio::select! {
        () = carrying => {}
        () = open.cut.notified() => {}
    }
}

async fn carry(wires: &Wires, client: &mut TcpStream, server: &mut TcpStream) {
    let losing = watch::Sender::new(false);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let requests = pump(wires, from_client, to_server, |written| {
        if wires.loses_answer_to(written) {
            losing.send_replace(true);
        }
        true
    });
    let answers = pump(wires, from_server, to_client, |_answer| {
        let lost = *losing.borrow();
        if lost {
            wires.answers_lost.fetch_add(1, Ordering::SeqCst);
        }
        !lost
    });
    // An end on one side ends both: nothing that is tested here half-closes.
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}

/// Carries one direction until its end, an error, or a piece that `may_pass` stops.
async fn pump(
    wires: &Wires,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut may_pass: impl FnMut(&[u8]) -> bool,
) {
    let mut mode = wires.mode.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        open_way(&mut mode).await;
        let piece = buffer.get(..length).unwrap_or_default();
        if !may_pass(piece) || to.write_all(piece).await.is_err() {
            return;
        }
    }
}

/// Waits until the mode lets a piece through.
async fn open_way(mode: &mut watch::Receiver<Mode>) {
    let open = mode.wait_for(|mode| *mode != Mode::Blackhole).await;
    let now = open.map_or(Mode::Forward, |mode| *mode);
    if let Mode::Delay(delay) = now {
        tokio::time::sleep(delay).await;
    }
}

#[cfg(test)]
#[path = "chaos_proxy_tests.rs"]
mod tests;
