//! A connection's bytes, plain or under TLS, as frames. One thread receives while another sends.

use std::{
    fmt,
    io::{self, BufRead, BufReader, ErrorKind, IoSlice, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::{
    lock,
    protocol::{FrameError, HEADER_BYTES, Header, Kind, MAGIC},
};

/// Bytes that are encrypted at once.
const TLS_CHUNK: usize = 64 << 10;
/// How long the system may take to accept bytes before somebody looks why.
const STALL: Duration = Duration::from_millis(20);
/// Bytes that are read ahead: small frames come whole, large payloads go past this buffer.
const AHEAD: usize = 4 << 10;

/// How long a connection that is to be closed is still read.
const LINGER: Duration = Duration::from_millis(250);

/// Why no more frames come or go.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The peer closed the connection between two frames.
    Closed,
    /// Nothing came, or nothing went, for so long.
    Silent(Duration),
    /// A frame took longer than this.
    Slow(Duration),
    /// The peer sent what is no frame.
    Frame(FrameError),
    /// The connection broke.
    Io(io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Silent(patience) => write!(f, "there was silence for {patience:?}"),
            Self::Slow(patience) => write!(f, "a frame took longer than {patience:?}"),
            Self::Frame(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A connection, shared by the side that receives and the one that sends.
pub(crate) struct Wire {
    socket: TcpStream,
    tls: Option<Mutex<rustls::Connection>>,
}

impl Wire {
    /// A connection that is ready for frames: under TLS if there is a session, whose handshake has to be done in time.
    pub(crate) fn open(
        socket: TcpStream,
        tls: Option<rustls::Connection>,
        patience: Duration,
    ) -> Result<Arc<Self>, Fault> {
        socket.set_nodelay(true).map_err(Fault::Io)?;
        let tls = match tls {
            None => None,
            Some(mut session) => {
                session.set_buffer_limit(None);
                let mut timed = Timed { socket: &socket, end: Instant::now() + patience };
                while session.is_handshaking() {
                    session.complete_io(&mut timed).map_err(|error| {
                        if is_timeout(&error) { Fault::Slow(patience) } else { Fault::Io(error) }
                    })?;
                }
                Some(Mutex::new(session))
            }
        };
        let wire = Self { socket, tls };
        wire.set_patience(patience)?;
        Ok(Arc::new(wire))
    }

    /// Sets how long one call of the system may take.
    fn set_patience(&self, patience: Duration) -> Result<(), Fault> {
        self.socket
            .set_read_timeout(Some(patience))
            .and_then(|()| self.socket.set_write_timeout(Some(patience.min(STALL))))
            .map_err(Fault::Io)
    }

    /// Ends the own direction and reads what is still on its way for a moment: a close with unread bytes would make the
    /// peer's system throw away what was said last.
    pub(crate) fn linger(&self) {
        let end = Instant::now() + LINGER;
        let mut timed = Timed { socket: &self.socket, end };
        let mut sink = [0; 4096];
        if self.socket.shutdown(Shutdown::Write).is_ok() {
            while timed.read(&mut sink).is_ok_and(|count| count > 0) {}
        }
    }

    /// Ends both directions; whoever waits for bytes wakes up.
    pub(crate) fn shutdown(&self) {
        // It fails when the peer was faster.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// A socket with an end of time, for handshakes.
struct Timed<'a> {
    socket: &'a TcpStream,
    end: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(out)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The plain bytes that come in.
struct Source {
    wire: Arc<Wire>,
    /// What came and was not decrypted yet.
    raw: Vec<u8>,
    used: usize,
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.wire.tls else { return (&self.wire.socket).read(out) };
        loop {
            let mut session = lock(tls);
            match session.reader().read(out) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.used < self.raw.len() {
                self.used += session.read_tls(&mut &self.raw[self.used..])?;
                session
                    .process_new_packets()
                    .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                continue;
            }
            // The sending side needs the session while this one waits.
            drop(session);
            self.raw.resize(TLS_CHUNK, 0);
            self.used = self.raw.len();
            let count = (&self.wire.socket).read(&mut self.raw)?;
            if count == 0 {
                return Ok(0);
            }
            self.raw.truncate(count);
            self.used = 0;
        }
    }
}

/// The receiving side.
pub(crate) struct Incoming {
    source: BufReader<Source>,
    patience: Duration,
    started: Instant,
}

impl Incoming {
    pub(crate) fn new(wire: &Arc<Wire>, patience: Duration) -> Self {
        let source = Source { wire: wire.clone(), raw: Vec::new(), used: 0 };
        Self { source: BufReader::with_capacity(AHEAD, source), patience, started: Instant::now() }
    }

    /// Sets how long silence may last, and a frame from its first byte to its last.
    pub(crate) fn set_patience(&mut self, patience: Duration) -> Result<(), Fault> {
        self.patience = patience;
        self.source.get_ref().wire.set_patience(patience)
    }

    /// The next frame's header; its payload has to be taken before the next.
    pub(crate) fn header(&mut self, limit: usize) -> Result<Header, Fault> {
        loop {
            match self.source.fill_buf() {
                Ok([]) => return Err(Fault::Closed),
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(Fault::Silent(self.patience)),
                Err(error) => return Err(Fault::Io(error)),
            }
        }
        self.started = Instant::now();
        let mut bytes = [0; HEADER_BYTES];
        let (magic, others) = bytes.split_at_mut(MAGIC.len());
        // What is no frame may be shorter than one.
        self.fill(magic)?;
        if magic == MAGIC {
            self.fill(others)?;
        }
        Ok(Header::decode(&bytes, limit)?)
    }

    /// The payload of the header that came last; `out` has its length.
    pub(crate) fn payload(&mut self, header: &Header, out: &mut [u8]) -> Result<(), Fault> {
        self.fill(out)?;
        Ok(header.check(out)?)
    }

    fn fill(&mut self, mut out: &mut [u8]) -> Result<(), Fault> {
        while !out.is_empty() {
            match self.source.read(out) {
                Ok(0) => return Err(Fault::Frame(FrameError::Truncated)),
                Ok(count) => out = &mut out[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(Fault::Silent(self.patience)),
                Err(error) => return Err(Fault::Io(error)),
            }
            // A peer that sends a byte now and then is never silent.
            if !out.is_empty() && self.started.elapsed() > self.patience {
                return Err(Fault::Slow(self.patience));
            }
        }
        Ok(())
    }
}

/// The sending side.
pub(crate) struct Outgoing {
    wire: Arc<Wire>,
    patience: Duration,
    /// When a frame went last.
    last: Instant,
    encrypted: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn new(wire: &Arc<Wire>, patience: Duration) -> Self {
        Self { wire: wire.clone(), patience, last: Instant::now(), encrypted: Vec::new() }
    }

    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// How long nothing went.
    pub(crate) fn idle(&self) -> Duration {
        self.last.elapsed()
    }

    /// Sends a frame whose payload lies in up to two pieces.
    pub(crate) fn send(&mut self, kind: Kind, request: u64, pieces: [&[u8]; 2]) -> Result<(), Fault> {
        self.send_or(kind, request, pieces, || {})
    }

    /// As [`Self::send`]; `stalled` is called when the peer takes nothing for a moment.
    pub(crate) fn send_or(
        &mut self,
        kind: Kind,
        request: u64,
        pieces: [&[u8]; 2],
        stalled: impl Fn(),
    ) -> Result<(), Fault> {
        let pieces_used = if pieces[1].is_empty() { &pieces[..1] } else { &pieces[..] };
        let header = Header::new(kind, request, pieces_used).encode();
        let pace = Pace { started: Instant::now(), patience: self.patience, stalled: &stalled };
        if self.wire.tls.is_some() {
            if header.len() + pieces[0].len() + pieces[1].len() <= TLS_CHUNK {
                self.encrypt(&[&header, pieces[0], pieces[1]], &pace)?;
            } else {
                for piece in [&header, pieces[0], pieces[1]] {
                    for chunk in piece.chunks(TLS_CHUNK) {
                        self.encrypt(&[chunk], &pace)?;
                    }
                }
            }
        } else {
            let mut slices = [IoSlice::new(&header), IoSlice::new(pieces[0]), IoSlice::new(pieces[1])];
            write_all(&self.wire.socket, &mut slices, &pace)?;
        }
        self.last = Instant::now();
        Ok(())
    }

    fn encrypt(&mut self, pieces: &[&[u8]], pace: &Pace<'_>) -> Result<(), Fault> {
        let Some(tls) = &self.wire.tls else { return Ok(()) };
        self.encrypted.clear();
        let mut session = lock(tls);
        for piece in pieces {
            session.writer().write_all(piece).map_err(Fault::Io)?;
        }
        while session.wants_write() {
            session.write_tls(&mut self.encrypted).map_err(Fault::Io)?;
        }
        // The receiving side needs the session while this one waits.
        drop(session);
        write_all(&self.wire.socket, &mut [IoSlice::new(&self.encrypted)], pace)
    }
}

/// How fast a frame has to go.
struct Pace<'a> {
    started: Instant,
    patience: Duration,
    stalled: &'a dyn Fn(),
}

fn write_all(mut socket: &TcpStream, mut slices: &mut [IoSlice<'_>], pace: &Pace<'_>) -> Result<(), Fault> {
    let mut moved = false;
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match socket.write_vectored(slices) {
            Ok(0) => return Err(Fault::Closed),
            Ok(count) => {
                moved = true;
                IoSlice::advance_slices(&mut slices, count);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => (pace.stalled)(),
            Err(error) => return Err(Fault::Io(error)),
        }
        if !slices.is_empty() && pace.started.elapsed() > pace.patience {
            let patience = pace.patience;
            return Err(if moved { Fault::Slow(patience) } else { Fault::Silent(patience) });
        }
    }
    Ok(())
}
