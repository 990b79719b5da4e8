//! A connection's bytes, plain or under TLS, as frames. One thread receives while another sends.

use std::{
    fmt,
    io::{self, BufRead, BufReader, ErrorKind, IoSlice, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use triune_device::cancel::{self, GLANCE};

use crate::{
    lock,
    protocol::{FrameError, HEADER_BYTES, Header, Kind, MAGIC},
    tls::Session,
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
    /// Whoever waited was stopped ([`cancel`]); the connection goes on where it was.
    Stopped,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Silent(patience) => write!(f, "there was silence for {patience:?}"),
            Self::Slow(patience) => write!(f, "a frame took longer than {patience:?}"),
            Self::Frame(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Stopped => f.write_str("the wait was stopped"),
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
    tls: Option<Mutex<Session>>,
}

impl Wire {
    /// A connection that is ready for frames: under TLS if there is a session, whose handshake has to be done in time.
    pub(crate) fn open(
        socket: TcpStream,
        tls: Option<Session>,
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
                        if cancel::requested() {
                            Fault::Stopped
                        } else if is_timeout(&error) {
                            Fault::Slow(patience)
                        } else {
                            Fault::Io(error)
                        }
                    })?;
                }
                Some(Mutex::new(session))
            }
        };
        let wire = Self { socket, tls };
        wire.set_patience(patience)?;
        Ok(Arc::new(wire))
    }

    /// Sets how long one call of the system may take: what looks at the clock, and whether it is to stop, in between.
    fn set_patience(&self, patience: Duration) -> Result<(), Fault> {
        self.socket
            .set_read_timeout(Some(patience.min(GLANCE)))
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
        loop {
            self.socket.set_read_timeout(Some(self.left()?.min(GLANCE)))?;
            match self.socket.read(out) {
                Err(error) if is_timeout(&error) => {}
                done => return done,
            }
            if cancel::requested_waiting() {
                return Err(io::Error::other(Fault::Stopped.to_string()));
            }
        }
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

/// The receiving side. Whoever stops waiting in the middle of a frame leaves it for the next one to go on with.
pub(crate) struct Incoming {
    source: BufReader<Source>,
    patience: Duration,
    /// When the frame that is coming began.
    started: Instant,
    /// Its header, and how much of that has come.
    head: ([u8; HEADER_BYTES], usize),
    /// What came of its payload before whoever waited was stopped.
    left: Vec<u8>,
}

impl Incoming {
    pub(crate) fn new(wire: &Arc<Wire>, patience: Duration) -> Self {
        let source = Source { wire: wire.clone(), raw: Vec::new(), used: 0 };
        Self {
            source: BufReader::with_capacity(AHEAD, source),
            patience,
            started: Instant::now(),
            head: ([0; HEADER_BYTES], 0),
            left: Vec::new(),
        }
    }

    /// Sets how long silence may last, and a frame from its first byte to its last.
    pub(crate) fn set_patience(&mut self, patience: Duration) -> Result<(), Fault> {
        self.patience = patience;
        self.source.get_ref().wire.set_patience(patience)
    }

    /// The next frame's header; its payload has to be taken before the next. A header whose payload was not taken to the end
    /// comes again.
    pub(crate) fn header(&mut self, limit: usize) -> Result<Header, Fault> {
        let (mut bytes, mut have) = self.head;
        if have == 0 {
            self.begin()?;
        }
        // What is no frame may be shorter than one.
        let filled = self
            .fill(&mut bytes[..MAGIC.len()], &mut have)
            .and_then(|()| if bytes.starts_with(&MAGIC) { self.fill(&mut bytes, &mut have) } else { Ok(()) });
        self.head = (bytes, have);
        filled?;
        Ok(Header::decode(&bytes, limit)?)
    }

    /// Waits for a frame's first byte.
    fn begin(&mut self) -> Result<(), Fault> {
        let since = Instant::now();
        loop {
            match self.source.fill_buf() {
                Ok([]) => return Err(Fault::Closed),
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    if since.elapsed() >= self.patience {
                        return Err(Fault::Silent(self.patience));
                    }
                    if cancel::requested_waiting() {
                        return Err(Fault::Stopped);
                    }
                }
                Err(error) => return Err(Fault::Io(error)),
            }
        }
        self.started = Instant::now();
        Ok(())
    }

    /// Makes `bytes` as long as the payload of a header at least.
    pub(crate) fn make_room(bytes: &mut Vec<u8>, header: &Header) -> Result<(), Fault> {
        let length = bytes.len().max(header.length as usize);
        let none = |_| Fault::Io(ErrorKind::OutOfMemory.into());
        bytes.try_reserve_exact(length - bytes.len()).map_err(none)?;
        bytes.resize(length, 0);
        Ok(())
    }

    /// The payload of the header that came last, in memory of its own.
    pub(crate) fn whole_payload(&mut self, header: &Header) -> Result<Vec<u8>, Fault> {
        let mut payload = Vec::new();
        Self::make_room(&mut payload, header)?;
        self.payload(header, &mut payload)?;
        Ok(payload)
    }

    /// The payload of the header that came last; `out` has its length.
    pub(crate) fn payload(&mut self, header: &Header, out: &mut [u8]) -> Result<(), Fault> {
        let mut have = self.left.len().min(out.len());
        out[..have].copy_from_slice(&self.left[..have]);
        if let Err(fault) = self.fill(out, &mut have) {
            self.left = out[..have].to_vec();
            return Err(fault);
        }
        self.left.clear();
        self.head.1 = 0;
        Ok(header.check(out)?)
    }

    /// Reads until all of `out` is there, of which the first `have` bytes are.
    fn fill(&mut self, out: &mut [u8], have: &mut usize) -> Result<(), Fault> {
        let mut last = Instant::now();
        while *have < out.len() {
            match self.source.read(&mut out[*have..]) {
                Ok(0) => return Err(Fault::Frame(FrameError::Truncated)),
                Ok(count) => {
                    *have += count;
                    last = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    if last.elapsed() >= self.patience {
                        return Err(Fault::Silent(self.patience));
                    }
                    if cancel::requested_waiting() {
                        return Err(Fault::Stopped);
                    }
                }
                Err(error) => return Err(Fault::Io(error)),
            }
            // A peer that sends a byte now and then is never silent.
            if *have < out.len() && self.started.elapsed() > self.patience {
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
    /// The rest of a frame whose sender was stopped; it goes before anything else.
    unsent: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn new(wire: &Arc<Wire>, patience: Duration) -> Self {
        Self { wire: wire.clone(), patience, last: Instant::now(), encrypted: Vec::new(), unsent: Vec::new() }
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

    /// As [`Self::send`]; `stalled` is called when the peer takes nothing for a moment. When the sender is stopped, either
    /// nothing has gone ([`Fault::Stopped`]), or the rest goes with the next frame.
    pub(crate) fn send_or(
        &mut self,
        kind: Kind,
        request: u64,
        pieces: [&[u8]; 2],
        stalled: impl Fn(),
    ) -> Result<(), Fault> {
        let pace = Pace { started: Instant::now(), patience: self.patience, stalled: &stalled };
        self.go_on(&pace)?;
        let pieces_used = if pieces[1].is_empty() { &pieces[..1] } else { &pieces[..] };
        let header = Header::new(kind, request, pieces_used).encode();
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
            self.put(&mut [IoSlice::new(&header), IoSlice::new(pieces[0]), IoSlice::new(pieces[1])], &pace)?;
        }
        self.last = Instant::now();
        Ok(())
    }

    /// Sends what an earlier frame's sender left.
    fn go_on(&mut self, pace: &Pace<'_>) -> Result<(), Fault> {
        let mut slices = [IoSlice::new(&self.unsent)];
        let mut slices = &mut slices[..];
        let sent = write_all(&self.wire.socket, &mut slices, pace);
        let rest = slices.iter().map(|slice| slice.len()).sum::<usize>();
        self.unsent.drain(..self.unsent.len() - rest);
        sent
    }

    /// Sends a part of a frame, or keeps what does not go.
    fn put(&mut self, mut slices: &mut [IoSlice<'_>], pace: &Pace<'_>) -> Result<(), Fault> {
        if self.unsent.is_empty() {
            match write_all(&self.wire.socket, &mut slices, pace) {
                Err(Fault::Stopped) => {}
                done => return done,
            }
        }
        for slice in &*slices {
            self.unsent.extend_from_slice(slice);
        }
        Ok(())
    }

    fn encrypt(&mut self, pieces: &[&[u8]], pace: &Pace<'_>) -> Result<(), Fault> {
        let Some(tls) = &self.wire.tls else { return Ok(()) };
        let mut encrypted = std::mem::take(&mut self.encrypted);
        encrypted.clear();
        let mut session = lock(tls);
        for piece in pieces {
            session.writer().write_all(piece).map_err(Fault::Io)?;
        }
        while session.wants_write() {
            session.write_tls(&mut encrypted).map_err(Fault::Io)?;
        }
        // The receiving side needs the session while this one waits.
        drop(session);
        let put = self.put(&mut [IoSlice::new(&encrypted)], pace);
        self.encrypted = encrypted;
        put
    }
}

/// How fast a frame has to go.
struct Pace<'a> {
    started: Instant,
    patience: Duration,
    stalled: &'a dyn Fn(),
}

/// Sends the slices; what is left of them has not gone.
#[expect(clippy::mut_mut, reason = "the caller keeps what is left, and no slice of slices shrinks otherwise")]
fn write_all(mut socket: &TcpStream, slices: &mut &mut [IoSlice<'_>], pace: &Pace<'_>) -> Result<(), Fault> {
    let mut moved = false;
    IoSlice::advance_slices(slices, 0);
    while !slices.is_empty() {
        match socket.write_vectored(slices) {
            Ok(0) => return Err(Fault::Closed),
            Ok(count) => {
                moved = true;
                IoSlice::advance_slices(slices, count);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => {
                (pace.stalled)();
                if cancel::requested_waiting() {
                    return Err(Fault::Stopped);
                }
            }
            Err(error) => return Err(Fault::Io(error)),
        }
        if !slices.is_empty() && pace.started.elapsed() > pace.patience {
            let patience = pace.patience;
            return Err(if moved { Fault::Slow(patience) } else { Fault::Silent(patience) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use triune_device::CancelToken;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn connected() -> [Arc<Wire>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("a port")).expect("a peer");
        let far = listener.accept().expect("a connection").0;
        [near, far].map(|socket| Wire::open(socket, None, PATIENCE).expect("a wire"))
    }

    /// Whoever is stopped in the middle of a frame leaves the rest to whoever sends next: both frames arrive, whole and in order.
    #[test]
    fn the_rest_of_a_frame_goes_before_the_next() {
        let [near, far] = connected();
        let mut outgoing = Outgoing::new(&near, PATIENCE);
        let large: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
        let (stopped, mut sent) = (CancelToken::new(), 0);
        stopped.during(|| {
            // Until the system keeps no more for a peer that reads nothing.
            while outgoing.unsent.is_empty() {
                sent += 1;
                outgoing
                    .send_or(Kind::Done, sent, [&large, b""], || stopped.cancel())
                    .expect("it goes on later");
            }
        });
        let reader = std::thread::spawn(move || {
            let mut incoming = Incoming::new(&far, PATIENCE);
            let frame = |_| {
                let header = incoming.header(1 << 20).expect("a frame");
                (header.request, incoming.whole_payload(&header).expect("its payload"))
            };
            (0..=sent).map(frame).collect::<Vec<_>>()
        });
        outgoing.send(Kind::Done, sent + 1, [b"next", b""]).expect("both");
        assert!(outgoing.unsent.is_empty());
        let mut frames = reader.join().expect("frames");
        assert_eq!(frames.pop(), Some((sent + 1, b"next".to_vec())));
        assert!(frames.into_iter().zip(1..).all(|(frame, number)| frame == (number, large.clone())));
    }

    /// Four bytes are enough to see that a peer speaks something else: nobody waits for a fifth.
    #[test]
    fn what_is_no_frame_may_be_shorter_than_one() {
        use std::io::Write as _;

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = TcpStream::connect(listener.local_addr().expect("a port")).expect("a peer");
        let far = listener.accept().expect("a connection").0;
        let far = Wire::open(far, None, Duration::from_secs(2)).expect("a wire");
        near.write_all(b"GET ").expect("sent");
        let mut incoming = Incoming::new(&far, Duration::from_secs(2));
        let fault = incoming.header(1 << 20).map(|header| header.request).expect_err("no frame");
        assert!(matches!(fault, Fault::Frame(_)), "{fault}");
    }
}
