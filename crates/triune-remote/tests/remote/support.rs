//! A board of plain vectors for tests, and what they need to have servers and clients.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use triune_device::{
    Board, BoardInfo, Error, Job, JobReport, LayerTime, RegionId, RegionInfo, Settings, spec::Precision,
};
use triune_remote::{ConnectOptions, Event, Options, RemoteBoard, Server, protocol::Frame, protocol::Kind};
use triune_testing::Random;

pub(crate) const DDR: RegionId = RegionId(0);
pub(crate) const OCM: RegionId = RegionId(1);
pub(crate) const DDR_BYTES: usize = 8 << 20;
/// Reading this register panics.
pub(crate) const PANICS: u64 = 0xdead;
/// Writing this register takes that many milliseconds.
pub(crate) const SLEEPS: u64 = 0x51ee;
/// The last byte of a region that cannot be written, though it is there.
pub(crate) const BROKEN: u64 = DDR_BYTES as u64 - 1;

/// A board that keeps what it is given. Its jobs take `bytes` milliseconds and have `start` layers.
#[derive(Debug)]
pub(crate) struct Plain {
    info: BoardInfo,
    memory: Vec<Mutex<Vec<u8>>>,
    live: Vec<Mutex<BTreeMap<u64, u64>>>,
    registers: Mutex<BTreeMap<u64, u32>>,
    settings: Mutex<Settings>,
    running: Mutex<()>,
    alive: Arc<AtomicUsize>,
    /// Jobs that were begun, on this board and its likes.
    jobs: Arc<AtomicUsize>,
}

impl Plain {
    pub(crate) fn new(alive: &Arc<AtomicUsize>, jobs: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        let sizes = [("ddr", DDR_BYTES), ("ocm", 4096)];
        let region = |(name, bytes): (&str, usize)| RegionInfo {
            name: name.into(),
            bytes: bytes as u64,
            reserved: 64,
        };
        Self {
            info: BoardInfo {
                device: "plain".into(),
                regions: sizes.map(region).to_vec(),
                versions: vec![("core".into(), "1".into())],
                computes: true,
                watched: false,
            },
            memory: sizes.map(|(_, bytes)| Mutex::new(vec![0; bytes])).into(),
            live: sizes.map(|_| Mutex::default()).into(),
            registers: Mutex::default(),
            settings: Mutex::new(Settings {
                core_hz: 1,
                memory_hz: 2,
                engines: [3, 4],
                precision: Precision::Int8,
                timer: None,
                profiler: None,
            }),
            running: Mutex::new(()),
            alive: alive.clone(),
            jobs: jobs.clone(),
        }
    }

    fn range(&self, region: RegionId, start: u64, bytes: u64) -> Result<std::ops::Range<usize>, Error> {
        let size = self.info.regions[region.0].bytes;
        match start.checked_add(bytes) {
            Some(end) if end <= size => Ok(start as usize..end as usize),
            _ => Err(Error::OutOfRegion {
                region: self.info.regions[region.0].name.clone(),
                start,
                length: bytes,
                size,
            }),
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Board for Plain {
    fn info(&self) -> &BoardInfo {
        &self.info
    }

    fn allocate(&self, region: RegionId, bytes: u64, alignment: u64) -> Result<u64, Error> {
        let mut live = self.live[region.0].lock().unwrap();
        let end = live.last_key_value().map_or(64, |(start, bytes)| start + bytes);
        let (start, size) = (end.next_multiple_of(alignment), self.info.regions[region.0].bytes);
        if start + bytes > size {
            let region = self.info.regions[region.0].name.clone();
            return Err(Error::OutOfMemory { region, length: bytes, alignment, live: end, size });
        }
        live.insert(start, bytes);
        Ok(start)
    }

    fn allocate_at(&self, region: RegionId, start: u64, bytes: u64) -> Result<(), Error> {
        self.live[region.0].lock().unwrap().insert(start, bytes);
        Ok(())
    }

    fn free(&self, region: RegionId, start: u64) -> Result<u64, Error> {
        self.live[region.0]
            .lock()
            .unwrap()
            .remove(&start)
            .ok_or_else(|| Error::NotAllocated { region: self.info.regions[region.0].name.clone(), start })
    }

    fn live(&self, region: RegionId) -> Result<Vec<(u64, u64)>, Error> {
        Ok(self.live[region.0].lock().unwrap().iter().map(|(start, bytes)| (*start, *bytes)).collect())
    }

    fn read(&self, region: RegionId, start: u64, out: &mut [u8]) -> Result<(), Error> {
        let range = self.range(region, start, out.len() as u64)?;
        out.copy_from_slice(&self.memory[region.0].lock().unwrap()[range]);
        Ok(())
    }

    fn write(&self, region: RegionId, start: u64, bytes: &[u8]) -> Result<(), Error> {
        let range = self.range(region, start, bytes.len() as u64)?;
        if range.contains(&(BROKEN as usize)) {
            return Err(Error::Board("this byte is broken".into()));
        }
        self.memory[region.0].lock().unwrap()[range].copy_from_slice(bytes);
        Ok(())
    }

    fn copy(&self, from: (RegionId, u64), to: (RegionId, u64), bytes: u64) -> Result<(), Error> {
        let mut buffer = vec![0; bytes as usize];
        self.read(from.0, from.1, &mut buffer)?;
        self.write(to.0, to.1, &buffer)
    }

    fn forget(&self, ranges: &[(RegionId, u64, u64)]) -> Result<(), Error> {
        // What is forgotten shows.
        for &(region, start, bytes) in ranges {
            let range = self.range(region, start, bytes)?;
            self.memory[region.0].lock().unwrap()[range].fill(0xdd);
        }
        Ok(())
    }

    fn read_register(&self, address: u64) -> Result<u32, Error> {
        assert!(address != PANICS, "this register panics");
        let registers = self.registers.lock().unwrap();
        registers.get(&address).copied().ok_or_else(|| Error::Board(format!("no register {address:#x}")))
    }

    fn write_register(&self, address: u64, value: u32) -> Result<(), Error> {
        if address == SLEEPS {
            thread::sleep(Duration::from_millis(value.into()));
        }
        self.registers.lock().unwrap().insert(address, value);
        Ok(())
    }

    fn settings(&self) -> Result<Settings, Error> {
        Ok(*self.settings.lock().unwrap())
    }

    fn configure(&self, settings: &Settings) -> Result<(), Error> {
        *self.settings.lock().unwrap() = *settings;
        Ok(())
    }

    fn run(&self, job: &Job) -> Result<JobReport, Error> {
        let _turn = self.running.lock().unwrap();
        if let Some(table) = &job.segments
            && table.segments().is_empty()
        {
            return Err(Error::Segment { segment: 0, problem: "there is none".into() });
        }
        self.jobs.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(job.bytes));
        let layers = (0..job.start).map(|start| LayerTime { start, end: start + 1 }).collect();
        Ok(JobReport { layer_count: job.start, cycles: job.start, nanoseconds: 0, layers })
    }

    fn reset(&self, level: u32) -> Result<(), Error> {
        if level > 1 {
            return Err(Error::Board(format!("there is no level {level}")));
        }
        Ok(())
    }
}

/// A server of plain boards, with what it told.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) alive: Arc<AtomicUsize>,
    pub(crate) jobs: Arc<AtomicUsize>,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
}

impl Site {
    pub(crate) fn new(options: Options) -> Self {
        let (alive, events) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let told = events.clone();
        let log = Arc::new(move |event: &Event| told.lock().unwrap().push(event.clone()));
        let options = Options { bind: "127.0.0.1:0".into(), log: Some(log), ..options };
        let jobs = Arc::new(AtomicUsize::new(0));
        let counters = (alive.clone(), jobs.clone());
        let make = move || Ok(Arc::new(Plain::new(&counters.0, &counters.1)) as Arc<dyn Board>);
        Self { server: Server::start("plain", options, make).unwrap(), alive, jobs, events }
    }

    pub(crate) fn boards(boards: u32) -> Self {
        Self::new(Options { boards, ..Options::default() })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) fn connect(&self, options: &ConnectOptions) -> Result<RemoteBoard, Error> {
        RemoteBoard::connect("127.0.0.1", self.address().port(), "plain", options)
    }

    pub(crate) fn client(&self) -> RemoteBoard {
        self.connect(&ConnectOptions::default()).unwrap()
    }

    /// Waits until nobody has a board, and all boards are gone.
    pub(crate) fn wait_until_free(&self) {
        wait_for("all boards are free", || {
            self.server.statistics().connections == 0 && self.alive.load(Ordering::SeqCst) == 0
        });
        assert_eq!(self.server.statistics().boards, 0);
    }

    pub(crate) fn told(&self, text: &str) -> bool {
        self.events.lock().unwrap().iter().any(|event| event.to_string().contains(text))
    }

    /// A connection that has greeted nobody.
    pub(crate) fn raw(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    }

    /// A connection with a board, for bytes of one's own.
    pub(crate) fn greeted(&self) -> TcpStream {
        let mut socket = self.raw();
        socket.write_all(&hello(&[])).unwrap();
        let (kind, _) = receive(&mut socket).unwrap();
        assert_eq!(kind, Kind::Welcome);
        socket
    }
}

pub(crate) fn hello(token: &[u8]) -> Vec<u8> {
    let hello = triune_remote::protocol::Hello {
        device: "plain".into(),
        board: None,
        share: false,
        patience: 30_000,
        token: token.to_vec(),
    };
    Frame::encode(Kind::Hello, 0, &hello.encode())
}

/// The next frame; `None` when the connection is closed.
pub(crate) fn receive(socket: &mut TcpStream) -> Option<(Kind, Vec<u8>)> {
    let mut bytes = vec![0; 32];
    socket.read_exact(&mut bytes).ok()?;
    let length = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
    bytes.resize(32 + length, 0);
    socket.read_exact(&mut bytes[32..]).ok()?;
    let (frame, _) = Frame::decode(&bytes).unwrap();
    Some((frame.header.kind, frame.payload.to_vec()))
}

pub(crate) fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !ready() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Bytes that look random and are the same every time.
pub(crate) fn noise(seed: u64, count: usize) -> Vec<u8> {
    Random(seed).bytes(count)
}
