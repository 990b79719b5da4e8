//! One connection, from its greeting to its end.

use std::{
    cell::Cell,
    collections::HashSet,
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use triune_device::{
    Error, Job, OutOfMemory, RegionId, SegmentTable,
    cancel::{self, Occasion},
};

use super::{
    Event, Shared,
    output::{Output, contained, words},
    runner::{Runner, Task},
    sites::Lease,
};
use crate::{
    link, lock,
    protocol::{Answer, FrameError, Hello, Kind, MAX_PAYLOAD, Request, Welcome, encode_error},
    wire::{Fault, Incoming, Outgoing, Wire},
};

/// Bytes of a greeting at most.
const MAX_HELLO: usize = 4 << 10;
/// What one client can have allocated at the same time; what lies in them is bounded by the regions.
const MAX_ALLOCATIONS: usize = 1 << 18;
/// The shortest and longest silence that a client can ask for.
const PATIENCE: [Duration; 2] = [Duration::from_millis(100), Duration::from_hours(1)];

/// How a connection ended.
enum End {
    Left,
    Refused(Error),
    Lost(Fault),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        Self::Lost(fault)
    }
}

/// Serves a connection until it ends, and tells how it did.
pub(super) fn serve(shared: &Arc<Shared>, connection: u64, socket: TcpStream) {
    let served = catch_unwind(AssertUnwindSafe(|| {
        let (mut session, mut incoming) = match greet(shared, connection, socket) {
            Ok(greeted) => greeted,
            Err(end) => return end,
        };
        let end = catch_unwind(AssertUnwindSafe(|| session.requests(&mut incoming)));
        session.finish(end.as_ref().ok());
        end.unwrap_or_else(|panic| {
            shared.tell(&Event::Panicked { connection, reason: words(&*panic) });
            End::Lost(Fault::Closed)
        })
    }));
    shared.tell(&match served {
        Ok(End::Left) => Event::Left { connection },
        Ok(End::Refused(error)) => Event::Refused { connection, reason: error.to_string() },
        Ok(End::Lost(fault)) => Event::Lost { connection, reason: fault.to_string() },
        Err(panic) => Event::Panicked { connection, reason: words(&*panic) },
    });
}

/// How often a client whose request waits for others is looked after.
const GLANCE: Duration = Duration::from_millis(100);

/// Does what may have to wait for jobs on the thread that hears the client: one that has gone is not waited for.
fn attended<T>(output: &Output, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let last = Cell::new(Instant::now());
    let gone = |occasion: Occasion| {
        if occasion == Occasion::Busy || last.get().elapsed() < GLANCE {
            return false;
        }
        last.set(Instant::now());
        // What is sent to somebody who has gone fails, the second time at the latest.
        output.send(Kind::Beat, 0, &[]).is_err()
    };
    cancel::during(None, Some(&gone), || contained(output, act))
}

/// The payload of an answer.
enum Reply {
    /// So many bytes of the buffer for what is read.
    Read(usize),
    Owned(Vec<u8>),
}

/// A connection with a board.
struct Session {
    output: Arc<Output>,
    lease: Lease,
    runner: Runner,
    beats: Option<thread::JoinHandle<()>>,
    /// What the client has allocated.
    held: HashSet<(RegionId, u64)>,
    /// The last request's number: numbers go up by one, so that lost and doubled frames are found.
    last: u64,
    /// What went wrong with a write that nobody waited for.
    failed: Option<Error>,
}

fn greet(shared: &Arc<Shared>, connection: u64, socket: TcpStream) -> Result<(Session, Incoming), End> {
    let options = &shared.options;
    let tls = options.tls.as_ref().map(crate::ServerTls::session).transpose().map_err(End::Refused)?;
    let wire = Wire::open(socket, tls, options.handshake)?;
    let mut incoming = Incoming::new(&wire, options.handshake);
    let mut outgoing = Outgoing::new(&wire, options.handshake);
    let hello = match hello(&mut incoming) {
        Ok(hello) => hello,
        Err(fault) => {
            if say_why(&mut outgoing, &fault) {
                wire.linger();
            }
            return Err(fault.into());
        }
    };
    let lease = match admit(shared, connection, &hello) {
        Ok(lease) => lease,
        Err(error) => {
            let _ = outgoing.send(Kind::Closing, 0, [&encode_error(&error), &[]]);
            wire.linger();
            return Err(End::Refused(error));
        }
    };
    let welcome = Welcome {
        board: lease.index as u32,
        patience: u32::try_from(options.patience.as_millis()).unwrap_or(u32::MAX),
        info: lease.board.info().clone(),
    };
    outgoing.send(Kind::Welcome, 0, [&welcome.encode(), &[]])?;
    incoming.set_patience(options.patience)?;
    outgoing.set_patience(options.patience);
    shared.tell(&Event::Board { connection, board: lease.index, shared: lease.shared });
    let output = Arc::new(Output {
        shared: shared.clone(),
        connection,
        wire,
        outgoing: Mutex::new(outgoing),
        busy: AtomicUsize::new(0),
        ended: Mutex::new(false),
        end: Condvar::new(),
    });
    let [least, most] = PATIENCE;
    let every = Duration::from_millis(hello.patience.into()).clamp(least, most) / 3;
    let beats = {
        let output = output.clone();
        thread::Builder::new().name("beats".into()).spawn(move || output.beat(every))
    };
    let session = Session {
        runner: Runner::new(lease.board.clone(), output.clone()),
        output,
        lease,
        beats: Some(beats.map_err(|error| End::Lost(Fault::Io(error)))?),
        held: HashSet::new(),
        last: 0,
        failed: None,
    };
    Ok((session, incoming))
}

fn hello(incoming: &mut Incoming) -> Result<Hello, Fault> {
    let header = incoming.header(MAX_HELLO)?;
    let payload = incoming.whole_payload(&header)?;
    if header.kind != Kind::Hello {
        return Err(unexpected(header.kind, "it comes before the greeting").into());
    }
    Ok(Hello::decode(&payload)?)
}

fn admit(shared: &Arc<Shared>, connection: u64, hello: &Hello) -> Result<Lease, Error> {
    if let Some(token) = &shared.options.token
        && !token.is(&hello.token)
    {
        return Err(link(if hello.token.is_empty() {
            "the server wants a token"
        } else {
            "the token is wrong"
        }));
    }
    shared.let_in(connection)?;
    shared.sites.take(&hello.device, hello.board, hello.share)
}

fn unexpected(kind: Kind, problem: &str) -> FrameError {
    FrameError::Payload { kind, problem: problem.to_owned() }
}

/// Tells a peer that broke the protocol what it did, if it listens. Whether it was told anything.
fn say_why(outgoing: &mut Outgoing, fault: &Fault) -> bool {
    let (Fault::Frame(_) | Fault::Slow(_) | Fault::Silent(_)) = fault else { return false };
    let error = link(format!("the server closed the connection: {fault}"));
    outgoing.send(Kind::Closing, 0, [&encode_error(&error), &[]]).is_ok()
}

impl Session {
    fn requests(&mut self, incoming: &mut Incoming) -> End {
        match self.serve(incoming) {
            Ok(()) => End::Left,
            Err(fault) => End::Lost(fault),
        }
    }

    /// Serves requests in order until the client leaves.
    fn serve(&mut self, incoming: &mut Incoming) -> Result<(), Fault> {
        let (mut payload, mut read) = (Vec::new(), Vec::new());
        loop {
            let header = incoming.header(MAX_PAYLOAD)?;
            Incoming::make_room(&mut payload, &header)?;
            let payload = &mut payload[..header.length as usize];
            incoming.payload(&header, payload)?;
            match header.kind {
                Kind::Beat => continue,
                Kind::Bye => return Ok(()),
                Kind::Cancel => {
                    self.runner.cancel(header.request);
                    continue;
                }
                _ => {}
            }
            let request = Request::decode(header.kind, payload)?;
            if header.request != self.last + 1 {
                let problem = format!("request {} follows {}", header.request, self.last);
                return Err(unexpected(header.kind, &problem).into());
            }
            self.last = header.request;
            self.output.busy.fetch_add(1, Ordering::Relaxed);
            let done = match self.failed.take() {
                // Nobody heard of the write's failure yet; what came after it may rely on it.
                Some(error) if header.kind != Kind::Write => Err(error),
                failed => {
                    self.failed = failed;
                    match self.perform(header.request, request, &mut read)? {
                        Some(done) => done,
                        None => continue,
                    }
                }
            };
            let sent = match (done, header.kind) {
                (Err(error), Kind::Write) => {
                    self.failed.get_or_insert(error);
                    self.output.answer(header.request, Ok(&[]))
                }
                (Ok(Reply::Read(count)), _) => self.output.answer(header.request, Ok(&read[..count])),
                (Ok(Reply::Owned(payload)), _) => self.output.answer(header.request, Ok(&payload)),
                (Err(error), _) => self.output.answer(header.request, Err(&error)),
            };
            self.output.idle();
            sent?;
        }
    }

    /// Does what is asked; `buffer` is for what is read. `None`: the runner does it, and answers.
    fn perform(
        &mut self,
        number: u64,
        request: Request<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Result<Reply, Error>>, Fault> {
        let task = match request {
            Request::Run { start, bytes, segments } => match segments.map(SegmentTable::new).transpose() {
                Ok(segments) => Task::Run(Job { start, bytes, segments }),
                Err(error) => return Ok(Some(Err(error))),
            },
            Request::WriteRegister { address, value } => Task::Register { address, value },
            Request::Read { region, start, bytes } => {
                let count = bytes as usize;
                if count > MAX_PAYLOAD {
                    return Err(unexpected(Kind::Read, &format!("{bytes} bytes at once")).into());
                }
                if buffer.len() < count {
                    if buffer.try_reserve_exact(count - buffer.len()).is_err() {
                        return Ok(Some(Err(Error::HostMemory(OutOfMemory { bytes: bytes.into() }))));
                    }
                    buffer.resize(count, 0);
                }
                let read = || self.lease.board.read(region, start, &mut buffer[..count]);
                return Ok(Some(attended(&self.output, read).map(|()| Reply::Read(count))));
            }
            request => {
                let output = self.output.clone();
                return Ok(Some(attended(&output, || self.act(&request)).map(Reply::Owned)));
            }
        };
        Ok(self.runner.submit(number, task).err().map(Err))
    }

    /// Does what takes no time and gives the answer's payload.
    fn act(&mut self, request: &Request<'_>) -> Result<Vec<u8>, Error> {
        let board = &self.lease.board;
        let answer = match *request {
            Request::Forget { ref ranges } => {
                board.forget(ranges)?;
                Answer::Nothing
            }
            Request::Allocate { region, bytes, alignment } => {
                self.room()?;
                let start = board.allocate(region, bytes, alignment)?;
                self.held.insert((region, start));
                Answer::Number(start)
            }
            Request::AllocateAt { region, start, bytes } => {
                self.room()?;
                board.allocate_at(region, start, bytes)?;
                self.held.insert((region, start));
                Answer::Nothing
            }
            Request::Free { region, start } => {
                if self.lease.shared && !self.held.contains(&(region, start)) {
                    return Err(Error::Board(format!(
                        "this client allocated nothing at {start:#x} in region {} of the board that it shares",
                        region.0
                    )));
                }
                let bytes = board.free(region, start)?;
                self.held.remove(&(region, start));
                Answer::Number(bytes)
            }
            Request::Live { region } => Answer::Ranges(board.live(region)?),
            Request::Write { region, start, bytes } => {
                board.write(region, start, bytes)?;
                Answer::Nothing
            }
            Request::Copy { from, to, bytes } => {
                board.copy(from, to, bytes)?;
                Answer::Nothing
            }
            Request::ReadRegister { address } => Answer::Number(board.read_register(address)?.into()),
            Request::Settings => Answer::Settings(board.settings()?),
            Request::Configure(settings) => {
                board.configure(&settings)?;
                Answer::Nothing
            }
            Request::Reset { level } => {
                board.reset(level)?;
                Answer::Nothing
            }
            Request::Read { .. } | Request::Run { .. } | Request::WriteRegister { .. } => {
                return Err(Error::Board("this request is not done here".into()));
            }
        };
        Ok(answer.encode())
    }

    fn room(&self) -> Result<(), Error> {
        if self.held.len() < MAX_ALLOCATIONS {
            Ok(())
        } else {
            Err(Error::Board(format!("a client can have {MAX_ALLOCATIONS} allocations, and has them")))
        }
    }

    /// Gives everything back.
    fn finish(self, end: Option<&End>) {
        let Self { output, lease, runner, beats, held, .. } = self;
        // The next client gets a new board while a job may still be ending on the old one. A board that others go on
        // using has to be done with the memory before it is freed.
        let lease = Some(lease).filter(|lease| lease.shared);
        let told = match (end, output.outgoing.try_lock()) {
            (Some(End::Lost(fault)), Ok(mut outgoing)) => say_why(&mut outgoing, fault),
            _ => false,
        };
        if !told {
            output.wire.shutdown();
        }
        *lock(&output.ended) = true;
        output.end.notify_all();
        runner.finish();
        if let Some(lease) = lease {
            for (region, start) in held {
                // It may have been freed by a reset of the board's own.
                let _ = contained(&output, || lease.board.free(region, start));
            }
        }
        if told {
            output.wire.linger();
            output.wire.shutdown();
        }
        if let Some(beats) = beats {
            let _ = beats.join();
        }
    }
}
