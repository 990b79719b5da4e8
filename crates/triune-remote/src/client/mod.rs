//! The client: a board that is somewhere else.

mod link;

use std::{
    collections::VecDeque,
    fmt,
    net::{TcpStream, ToSocketAddrs},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use triune_device::{Board, BoardInfo, Error, Job, JobReport, RegionId, RegionInfo, Settings};

use self::link::Link;
use crate::{
    ClientTls, Token, link,
    protocol::{Answer, Hello, Kind, MAX_PAYLOAD, Request, WRITE_HEAD, Welcome, decode_error},
    wire::{Fault, Incoming, Outgoing, Wire},
};

/// Bytes of bulk transfers in one frame: large enough to cost few calls of the system, small enough for a core's cache.
const PIECE: usize = 512 << 10;
const _: () = assert!(PIECE + WRITE_HEAD <= MAX_PAYLOAD);
/// Ranges in one frame, of 20 bytes each.
const MOST_RANGES: usize = 16 << 10;
const _: () = assert!(4 + 20 * MOST_RANGES <= MAX_PAYLOAD);
/// Time between two beats at least, whatever the server says.
const LEAST_PAUSE: Duration = Duration::from_millis(10);
/// Pieces that are asked for before the first has come.
const READ_AHEAD: usize = 8;

/// How to connect.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The board's number; `None`: the first that can be had.
    pub board: Option<u32>,
    /// Whether others may have the board at the same time.
    pub share: bool,
    /// What the server wants to hear.
    pub token: Option<Token>,
    /// Whose certificates are trusted; `None`: no TLS.
    pub tls: Option<ClientTls>,
    /// Allows a token to go to another machine without TLS.
    pub insecure: bool,
    /// Time to connect, shake hands and get a board.
    pub timeout: Duration,
    /// Silence after which the server is given up. One that works on a request sends a beat three times in it.
    pub patience: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            board: None,
            share: false,
            token: None,
            tls: None,
            insecure: false,
            timeout: Duration::from_secs(10),
            patience: Duration::from_secs(30),
        }
    }
}

/// A board behind a connection.
///
/// Calls of one thread happen in their order, as on a board in this process. A write returns when its bytes are on their
/// way; if the board refuses them after all, the next call that is no write is not done and gives the write's error.
///
/// Once the connection is lost, every call gives [`Error::Link`] with the reason. Nothing is tried again: what the board
/// held is gone with the connection, so only the caller can start over, with a new one. A process that is forked from the
/// one that connected cannot use the board, and does not disturb it.
pub struct RemoteBoard {
    link: Arc<Link>,
    info: BoardInfo,
    number: u32,
    beats: Option<JoinHandle<()>>,
}

impl RemoteBoard {
    /// Asks the server at a host and port for a board of a device.
    ///
    /// # Errors
    /// [`Error::Link`]: there is no server, it refuses, is of another version, or gives a board of another device;
    /// [`Error::InUse`]: others have its boards; [`Error::Cancelled`].
    pub fn connect(host: &str, port: u16, device: &str, options: &ConnectOptions) -> Result<Self, Error> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = format!("{device} at {host}:{port}");
        let fail = |problem: &dyn fmt::Display| link(format!("{name}: {problem}"));
        let timeout = options.timeout.max(Duration::from_millis(1));
        let patience = options.patience.max(Duration::from_millis(100));
        let socket = reach(host, port, timeout).map_err(|error| fail(&error))?;
        let local = socket.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
        if options.token.is_some() && options.tls.is_none() && !local && !options.insecure {
            return Err(fail(
                &"a token would go to another machine for everyone to read: use TLS (or allow it as insecure)",
            ));
        }
        let tls = options.tls.as_ref().map(|tls| tls.session(host)).transpose()?;
        let lost = |fault| if let Fault::Stopped = fault { Error::Cancelled } else { fail(&fault) };
        let wire = Wire::open(socket, tls, timeout).map_err(lost)?;
        let mut incoming = Incoming::new(&wire, timeout);
        let mut outgoing = Outgoing::new(&wire, timeout);
        let hello = Hello {
            device: device.to_owned(),
            board: options.board,
            share: options.share,
            patience: u32::try_from(patience.as_millis()).unwrap_or(u32::MAX),
            token: options.token.as_ref().map(|token| token.bytes().to_vec()).unwrap_or_default(),
        };
        let sent = outgoing.send(Kind::Hello, 0, [&hello.encode(), &[]]);
        let welcome = match welcome(&mut incoming) {
            // A server that says why it does not want us may have done so before it heard us.
            Ok(answer) => answer.map_err(|error| match error {
                Error::InUse(problem) => Error::InUse(format!("{name}: {problem}")),
                error => fail(&error),
            })?,
            Err(fault) => return Err(lost(sent.err().unwrap_or(fault))),
        };
        let found = &welcome.info.device;
        // buyi-RxC is a buyi with fewer engines.
        if found != device && found.split_once('-').is_none_or(|(family, _)| family != device) {
            return Err(fail(&format!("the board there is a '{found}', not a '{device}'")));
        }
        incoming.set_patience(patience).map_err(lost)?;
        outgoing.set_patience(patience);
        let link = Arc::new(Link::new(name, wire, incoming, outgoing));
        let every = (Duration::from_millis(welcome.patience.into()) / 3).max(LEAST_PAUSE);
        let beats = {
            let link = link.clone();
            let builder = thread::Builder::new().name("board's beats".into());
            builder.spawn(move || link.beat(every)).map_err(|error| crate::link(error.to_string()))?
        };
        log::info!(target: "triune::remote", "opened {}, board {}", link.name(), welcome.board);
        Ok(Self { link, info: welcome.info, number: welcome.board, beats: Some(beats) })
    }

    /// The board's number at its server.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Ends the connection; every later call gives [`Error::Link`]. Writes that are on their way arrive first.
    pub fn close(&self) {
        if self.link.is_own() {
            self.link.close();
        }
    }

    fn region(&self, region: RegionId) -> Result<&RegionInfo, Error> {
        self.info.regions.get(region.0).ok_or_else(|| Error::UnknownMemory {
            device: self.info.device.clone(),
            name: format!("region {}", region.0),
            known: self.info.regions.iter().map(|region| region.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Asserts that bytes are in a region, so that nobody has to wait to hear it.
    fn check(&self, region: RegionId, start: u64, bytes: u64) -> Result<(), Error> {
        let RegionInfo { name, bytes: size, .. } = self.region(region)?;
        match start.checked_add(bytes) {
            Some(end) if end <= *size => Ok(()),
            _ => Err(Error::OutOfRegion { region: name.clone(), start, length: bytes, size: *size }),
        }
    }

    fn call(&self, request: &Request<'_>) -> Result<Answer, Error> {
        let payload = self.link.call(request.kind(), &request.encode_head())?;
        Answer::decode(request.kind(), &payload).map_err(|error| self.link.give_up(Fault::Frame(error)))
    }

    fn number_of(&self, request: &Request<'_>) -> Result<u64, Error> {
        match self.call(request)? {
            Answer::Number(number) => Ok(number),
            _ => Err(self.no_answer()),
        }
    }

    fn no_answer(&self) -> Error {
        self.link.give_up_because("the answer is to another question")
    }
}

/// Connects to the first of a host's addresses that answers.
fn reach(host: &str, port: u16, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut problem = None;
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => return Ok(socket),
            Err(error) => problem = Some(error),
        }
    }
    Err(problem.unwrap_or_else(|| std::io::ErrorKind::NotFound.into()))
}

/// What the server says first: welcome, or why not.
fn welcome(incoming: &mut Incoming) -> Result<Result<Welcome, Error>, Fault> {
    let header = incoming.header(MAX_PAYLOAD)?;
    let payload = incoming.whole_payload(&header)?;
    match header.kind {
        Kind::Welcome => Ok(Ok(Welcome::decode(&payload)?)),
        Kind::Closing => Ok(Err(decode_error(&payload)?)),
        kind => Err(crate::protocol::FrameError::Payload { kind, problem: "it is no welcome".into() }.into()),
    }
}

impl Board for RemoteBoard {
    fn info(&self) -> &BoardInfo {
        &self.info
    }

    fn allocate(&self, region: RegionId, bytes: u64, alignment: u64) -> Result<u64, Error> {
        self.region(region)?;
        self.number_of(&Request::Allocate { region, bytes, alignment })
    }

    fn allocate_at(&self, region: RegionId, start: u64, bytes: u64) -> Result<(), Error> {
        self.region(region)?;
        self.call(&Request::AllocateAt { region, start, bytes }).map(drop)
    }

    fn free(&self, region: RegionId, start: u64) -> Result<u64, Error> {
        self.region(region)?;
        self.number_of(&Request::Free { region, start })
    }

    fn live(&self, region: RegionId) -> Result<Vec<(u64, u64)>, Error> {
        self.region(region)?;
        match self.call(&Request::Live { region })? {
            Answer::Ranges(ranges) => Ok(ranges),
            _ => Err(self.no_answer()),
        }
    }

    fn read(&self, region: RegionId, start: u64, out: &mut [u8]) -> Result<(), Error> {
        self.check(region, start, out.len() as u64)?;
        let mut asked = VecDeque::new();
        let mut result = Ok(());
        let mut at = start;
        let mut pieces = out.chunks_mut(PIECE);
        loop {
            // After a failure only what was asked for is taken in, so that the next answers find their questions.
            if result.is_ok()
                && asked.len() < READ_AHEAD
                && let Some(piece) = pieces.next()
            {
                let request = Request::Read { region, start: at, bytes: piece.len() as u32 };
                at += piece.len() as u64;
                match self.link.ask(Kind::Read, &request.encode_head()) {
                    Ok(request) => asked.push_back((request, piece)),
                    Err(error) => result = Err(error),
                }
            } else if let Some((request, piece)) = asked.pop_front() {
                result = result.and(self.link.answer_into(request, piece));
            } else {
                return result;
            }
        }
    }

    fn write(&self, region: RegionId, start: u64, bytes: &[u8]) -> Result<(), Error> {
        self.check(region, start, bytes.len() as u64)?;
        let mut at = start;
        for piece in bytes.chunks(PIECE) {
            let request = Request::Write { region, start: at, bytes: piece };
            self.link.post(Kind::Write, &request.encode_head(), piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn copy(&self, from: (RegionId, u64), to: (RegionId, u64), bytes: u64) -> Result<(), Error> {
        self.check(from.0, from.1, bytes)?;
        self.check(to.0, to.1, bytes)?;
        self.call(&Request::Copy { from, to, bytes }).map(drop)
    }

    fn forget(&self, ranges: &[(RegionId, u64, u64)]) -> Result<(), Error> {
        for &(region, start, bytes) in ranges {
            self.check(region, start, bytes)?;
        }
        for some in ranges.chunks(MOST_RANGES) {
            self.call(&Request::Forget { ranges: some.to_vec() })?;
        }
        Ok(())
    }

    fn read_register(&self, address: u64) -> Result<u32, Error> {
        let value = self.number_of(&Request::ReadRegister { address })?;
        u32::try_from(value).map_err(|_| self.no_answer())
    }

    fn write_register(&self, address: u64, value: u32) -> Result<(), Error> {
        self.call(&Request::WriteRegister { address, value }).map(drop)
    }

    fn settings(&self) -> Result<Settings, Error> {
        match self.call(&Request::Settings)? {
            Answer::Settings(settings) => Ok(settings),
            _ => Err(self.no_answer()),
        }
    }

    fn configure(&self, settings: &Settings) -> Result<(), Error> {
        self.call(&Request::Configure(*settings)).map(drop)
    }

    fn run(&self, job: &Job) -> Result<JobReport, Error> {
        let segments = job.segments.as_ref().map(|table| table.segments().to_vec());
        match self.call(&Request::Run { start: job.start, bytes: job.bytes, segments })? {
            Answer::Report(report) => Ok(report),
            _ => Err(self.no_answer()),
        }
    }

    fn reset(&self, level: u32) -> Result<(), Error> {
        self.call(&Request::Reset { level }).map(drop)
    }
}

impl Drop for RemoteBoard {
    fn drop(&mut self) {
        if !self.link.is_own() {
            // The thread is in the other process; its handle means nothing here.
            std::mem::forget(self.beats.take());
            return;
        }
        self.link.hurry();
        self.link.close();
        if let Some(beats) = self.beats.take() {
            let _ = beats.join();
        }
    }
}

impl fmt::Debug for RemoteBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteBoard")
            .field("link", &self.link)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
    };

    use super::*;
    use crate::protocol::{Frame, HEADER_BYTES, Header};

    fn receive(socket: &mut TcpStream) -> Header {
        let mut bytes = [0; HEADER_BYTES];
        socket.read_exact(&mut bytes).unwrap();
        let header = Header::decode(&bytes, MAX_PAYLOAD).unwrap();
        socket.read_exact(&mut vec![0; header.length as usize]).unwrap();
        header
    }

    /// What a client says to a server that gives a board of `found` to whoever asks.
    fn welcomed_by(found: &str, asked: &str) -> Option<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let device = found.to_owned();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            receive(&mut socket);
            let info = BoardInfo {
                device,
                regions: Vec::new(),
                versions: Vec::new(),
                computes: true,
                watched: false,
            };
            let welcome = Welcome { board: 0, patience: 30_000, info }.encode();
            socket.write_all(&Frame::encode(Kind::Welcome, 0, &welcome)).unwrap();
            // Until the client goes.
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let result = RemoteBoard::connect("127.0.0.1", port, asked, &ConnectOptions::default());
        let error = result.err().map(|error| error.to_string());
        server.join().unwrap();
        error
    }

    #[test]
    fn a_board_of_another_device_is_refused_by_name() {
        for (found, asked) in [("zg330", "buyi"), ("buyi", "buyi-4x4"), ("buyish", "buyi"), ("", "buyi")] {
            let error = welcomed_by(found, asked).unwrap();
            assert!(error.ends_with(&format!("the board there is a '{found}', not a '{asked}'")), "{error}");
        }
        assert_eq!(welcomed_by("buyi-4x4", "buyi"), None);
        assert_eq!(welcomed_by("zg330", "zg330"), None);
    }

    #[test]
    fn a_server_that_has_to_get_rid_of_its_answers_first_is_relieved() {
        const PARTS: usize = 64;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            assert_eq!(receive(&mut socket).kind, Kind::Hello);
            let region = RegionInfo { name: "ddr".into(), bytes: 1 << 30, reserved: 0 };
            let info = BoardInfo {
                device: "d".into(),
                regions: vec![region],
                versions: Vec::new(),
                computes: true,
                watched: false,
            };
            let welcome = Welcome { board: 0, patience: 30_000, info }.encode();
            socket.write_all(&Frame::encode(Kind::Welcome, 0, &welcome)).unwrap();
            // More than the system's buffers hold, and nothing is read meanwhile.
            let asked = receive(&mut socket);
            let part = Frame::encode(Kind::Part, asked.request, &vec![7; MAX_PAYLOAD]);
            for _ in 0..PARTS {
                socket.write_all(&part).unwrap();
            }
            socket.write_all(&Frame::encode(Kind::Done, asked.request, b"")).unwrap();
            loop {
                match receive(&mut socket) {
                    Header { kind: Kind::Bye, .. } => return,
                    Header { request, .. } => {
                        socket.write_all(&Frame::encode(Kind::Done, request, b"")).unwrap();
                    }
                }
            }
        });
        let options = ConnectOptions { patience: Duration::from_secs(5), ..ConnectOptions::default() };
        let board = RemoteBoard::connect("127.0.0.1", port, "d", &options).unwrap();
        let request = board.link.ask(Kind::Live, b"").unwrap();
        board.write(RegionId(0), 0, &vec![1; 64 << 20]).unwrap();
        let mut answer = vec![0; PARTS * MAX_PAYLOAD];
        board.link.answer_into(request, &mut answer).unwrap();
        assert!(answer.iter().all(|byte| *byte == 7));
        drop(board);
        server.join().unwrap();
    }
}
