//! The server: accepts connections and gives each a board.

mod output;
mod runner;
mod session;
mod sites;

use std::{
    collections::HashMap,
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use triune_device::{Board, Error};
use triune_fork::Origin;

use self::sites::Sites;
use crate::{ServerTls, Token, link, lock};

/// Where events go.
pub type Log = Arc<dyn Fn(&Event) + Send + Sync>;

/// How a server is to be.
#[derive(Clone)]
pub struct Options {
    /// Host and port to listen at; port 0 picks one.
    pub bind: String,
    /// How many boards there are.
    pub boards: u32,
    /// What clients have to know; `None`: nothing.
    pub token: Option<Token>,
    /// The certificate to show; `None`: no TLS.
    pub tls: Option<ServerTls>,
    /// Allows addresses other than loopback without token or TLS.
    pub insecure: bool,
    /// Clients at the same time.
    pub connections: usize,
    /// Time that a client has to say who it is.
    pub handshake: Duration,
    /// Silence after which a client is given up. Clients that wait send a beat three times in it.
    pub patience: Duration,
    /// Told of what happens.
    pub log: Option<Log>,
}

impl Default for Options {
    /// One board at `127.0.0.1:9981`, for at most 64 connections.
    fn default() -> Self {
        Self {
            bind: "127.0.0.1:9981".into(),
            boards: 1,
            token: None,
            tls: None,
            insecure: false,
            connections: 64,
            handshake: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            log: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("bind", &self.bind)
            .field("boards", &self.boards)
            .finish_non_exhaustive()
    }
}

/// What happened on a connection. Connections are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum Event {
    /// Somebody came.
    Came { connection: u64, peer: SocketAddr },
    /// They have a board.
    Board { connection: u64, board: usize, shared: bool },
    /// They were not let in.
    Refused { connection: u64, reason: String },
    /// They left in order.
    Left { connection: u64 },
    /// The connection broke, or they broke the protocol.
    Lost { connection: u64, reason: String },
    /// The board failed a request with a panic, which is our fault.
    Panicked { connection: u64, reason: String },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Came { connection, peer } => write!(f, "connection {connection}: from {peer}"),
            Self::Board { connection, board, shared } => {
                let how = if *shared { ", shared" } else { "" };
                write!(f, "connection {connection}: has board {board}{how}")
            }
            Self::Refused { connection, reason } => write!(f, "connection {connection}: refused: {reason}"),
            Self::Left { connection } => write!(f, "connection {connection}: left"),
            Self::Lost { connection, reason } => write!(f, "connection {connection}: lost: {reason}"),
            Self::Panicked { connection, reason } => {
                write!(f, "connection {connection}: internal error: {reason}")
            }
        }
    }
}

/// Counts since a server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections that came.
    pub came: u64,
    /// Those that were not let in.
    pub refused: u64,
    /// Those that left in order.
    pub left: u64,
    /// Those that broke, or broke the protocol.
    pub lost: u64,
    /// Requests that ended in a panic.
    pub panics: u64,
    /// Connections that there are now.
    pub connections: usize,
    /// Boards that somebody has now.
    pub boards: usize,
}

/// What all threads of a server share.
struct Shared {
    options: Options,
    sites: Arc<Sites>,
    stopping: AtomicBool,
    peers: Mutex<HashMap<u64, Peer>>,
    /// A connection went.
    gone: Condvar,
    counts: [AtomicU64; 5],
}

impl Shared {
    fn tell(&self, event: &Event) {
        let count = match event {
            Event::Came { .. } => Some(0),
            Event::Refused { .. } => Some(1),
            Event::Left { .. } => Some(2),
            Event::Lost { .. } => Some(3),
            Event::Panicked { .. } => Some(4),
            Event::Board { .. } => None,
        };
        if let Some(count) = count {
            self.counts[count].fetch_add(1, Ordering::Relaxed);
        }
        let level = match event {
            Event::Panicked { .. } => log::Level::Error,
            Event::Refused { .. } | Event::Lost { .. } => log::Level::Warn,
            Event::Came { .. } | Event::Board { .. } | Event::Left { .. } => log::Level::Info,
        };
        log::log!(target: "triune::remote", level, "{event}");
        if let Some(log) = &self.options.log {
            log(event);
        }
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        let mut connection = 0;
        loop {
            let accepted = listener.accept();
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            match accepted {
                Ok((socket, peer)) => {
                    connection += 1;
                    self.tell(&Event::Came { connection, peer });
                    if let Err(reason) = self.start(connection, socket) {
                        self.tell(&Event::Refused { connection, reason });
                    }
                }
                // No more files or memory, or the peer has gone already: it gets better or is over.
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn start(self: &Arc<Self>, connection: u64, socket: TcpStream) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        let socket_too = socket.try_clone().map_err(text)?;
        let mut peers = lock(&self.peers);
        // Whoever does not say who they are keeps nobody else out.
        let strangers = peers.iter_mut().filter(|(_, peer)| peer.standing == Standing::Stranger);
        let strangers: Vec<_> = strangers.collect();
        if strangers.len() >= STRANGERS
            && let Some((_, oldest)) = strangers.into_iter().min_by_key(|(connection, _)| **connection)
        {
            oldest.standing = Standing::Going;
            let _ = oldest.socket.shutdown(Shutdown::Both);
        }
        peers.insert(connection, Peer { socket: socket_too, standing: Standing::Stranger });
        drop(peers);
        let shared = self.clone();
        let run = move || {
            let _present = Present { shared: &shared, connection };
            session::serve(&shared, connection, socket);
        };
        let spawned = thread::Builder::new().name(format!("connection {connection}")).spawn(run);
        spawned.map(drop).map_err(|error| {
            drop(Present { shared: self, connection });
            text(error)
        })
    }
}

impl Shared {
    /// Notes that a connection may have a board, if there is room.
    fn let_in(&self, connection: u64) -> Result<(), Error> {
        let mut peers = lock(&self.peers);
        if peers.values().filter(|peer| peer.standing == Standing::Client).count() >= self.options.connections
        {
            let count = self.options.connections;
            return Err(link(format!("the server has all {count} connections that it can have")));
        }
        if let Some(peer) = peers.get_mut(&connection) {
            peer.standing = Standing::Client;
        }
        Ok(())
    }
}

/// A connection from outside.
struct Peer {
    /// A second handle of the socket, to end it with.
    socket: TcpStream,
    standing: Standing,
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has not greeted yet.
    Stranger,
    /// It has, and may be here.
    Client,
    /// It has been ended.
    Going,
}

/// Connections that have not greeted yet, at most; the oldest has to go for another.
const STRANGERS: usize = 32;

/// A connection is in the list as long as this lives.
struct Present<'a> {
    shared: &'a Shared,
    connection: u64,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        lock(&self.shared.peers).remove(&self.connection);
        self.shared.gone.notify_all();
    }
}

/// Holds simulated boards for clients on other ends of connections. It stops when it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
    /// The process that serves. One that is forked from it has the sockets, but none of the threads.
    origin: Origin,
}

impl Server {
    /// How long [`Self::stop`] and dropping wait for what is running.
    const GRACE: Duration = Duration::from_secs(5);

    /// Listens. Boards are of a device and made by `make`, one for each client that does not share.
    ///
    /// # Errors
    /// [`Error::Link`] if the address cannot be had, or would let strangers in: any but a loopback address needs a token
    /// and TLS, or [`Options::insecure`].
    pub fn start(
        device: &str,
        options: Options,
        make: impl Fn() -> Result<Arc<dyn Board>, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        if options.boards == 0 || options.connections == 0 {
            return Err(link("a server has at least one board and one connection"));
        }
        if options.handshake.is_zero() || options.patience.is_zero() {
            return Err(link("a server has some patience"));
        }
        let fail = |error: io::Error| link(format!("{}: {error}", options.bind));
        let addresses: Vec<_> = options.bind.to_socket_addrs().map_err(fail)?.collect();
        check_exposure(&addresses, &options)?;
        let listener = TcpListener::bind(&*addresses).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let sites = Arc::new(Sites::new(device, options.boards, make));
        let shared = Arc::new(Shared {
            options,
            sites,
            stopping: AtomicBool::new(false),
            peers: Mutex::default(),
            gone: Condvar::new(),
            counts: Default::default(),
        });
        let acceptor = {
            let shared = shared.clone();
            let name = thread::Builder::new().name("acceptor".into());
            name.spawn(move || shared.accept(&listener)).map_err(|error| link(error.to_string()))?
        };
        Ok(Self { shared, address, acceptor: Some(acceptor), origin: Origin::here() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether this process serves, and not one that it was forked from.
    pub fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    /// What happened up to now; in a forked child, up to the fork.
    pub fn statistics(&self) -> Statistics {
        let [came, refused, left, lost, panics] =
            [0, 1, 2, 3, 4].map(|index: usize| self.shared.counts[index].load(Ordering::Relaxed));
        if !self.is_here() {
            return Statistics { came, refused, left, lost, panics, ..Statistics::default() };
        }
        let connections = lock(&self.shared.peers).len();
        Statistics { came, refused, left, lost, panics, connections, boards: self.shared.sites.in_use() }
    }

    /// Ends all connections, and waits some seconds for jobs that are running. Whether all have ended. Ends nothing in a forked
    /// child.
    pub fn stop(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        let Some(acceptor) = self.acceptor.take() else { return true };
        if !self.is_here() {
            // The threads are in the other process, and the connections are theirs.
            std::mem::forget(acceptor);
            return true;
        }
        self.shared.stopping.store(true, Ordering::Release);
        // A connection is what wakes the acceptor. Without one it stays where it is, and does no harm.
        if TcpStream::connect_timeout(&self.reachable(), Duration::from_secs(1)).is_ok() {
            let _ = acceptor.join();
        }
        let end = Instant::now() + Self::GRACE;
        let mut peers = lock(&self.shared.peers);
        for peer in peers.values() {
            let _ = peer.socket.shutdown(Shutdown::Both);
        }
        while !peers.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            peers = self.shared.gone.wait_timeout(peers, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// An address that leads here from this machine.
    fn reachable(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Refuses addresses that others than this machine reach, if they need neither token nor TLS.
fn check_exposure(addresses: &[SocketAddr], options: &Options) -> Result<(), Error> {
    let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback()) else { return Ok(()) };
    let missing = match (&options.token, &options.tls) {
        _ if options.insecure => return Ok(()),
        (Some(_), Some(_)) => return Ok(()),
        (None, Some(_)) => "a token",
        (Some(_), None) => "a certificate and its key",
        (None, None) => "a token, and a certificate with its key",
    };
    Err(link(format!(
        "{open} can be reached from other machines: that needs {missing} (or to be allowed as insecure)"
    )))
}
