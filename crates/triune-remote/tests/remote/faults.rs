//! A proxy between client and server that does to their bytes what a bad network does, round after round.
//!
//! `TRIUNE_FAULT_ROUNDS` says how many rounds; the count of faults and of how they ended is printed.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use triune_device::{Board, Error, Job};
use triune_remote::{ConnectOptions, Options, RemoteBoard};
use triune_testing::Random;

use crate::{
    security::Certificates,
    support::{DDR, Site, noise, wait_for},
};

const PATIENCE: Duration = Duration::from_millis(500);

/// What happens to a stream of bytes at some point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Both directions end.
    Cut,
    /// This direction ends, after what came before.
    Truncate,
    /// Nothing passes for a moment; nothing is wrong.
    Delay,
    /// Nothing passes any more, and nobody says so.
    Stall,
    /// A byte changes.
    Corrupt,
    /// Bytes vanish.
    Drop,
    /// Bytes come twice.
    Double,
}

const FAULTS: [Fault; 7] =
    [Fault::Cut, Fault::Truncate, Fault::Delay, Fault::Stall, Fault::Corrupt, Fault::Drop, Fault::Double];

/// One fault at one place.
#[derive(Clone, Copy, Debug)]
struct Plan {
    fault: Fault,
    /// Whether it happens on the way to the server.
    forth: bool,
    /// After so many bytes.
    at: usize,
}

/// Passes bytes on, with a fault.
fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    plan: Option<Plan>,
    happened: &AtomicBool,
    over: &AtomicBool,
) {
    let mut passed = 0;
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut bytes = buffer[..count].to_vec();
        if let Some(Plan { fault, at, .. }) = plan
            && (passed..passed + count).contains(&at)
        {
            happened.store(true, Ordering::SeqCst);
            let here = at - passed;
            let some = (count - here).min(1 + at % 40);
            match fault {
                Fault::Cut => {
                    let _ = to.write_all(&bytes[..here]);
                    let _ = from.shutdown(Shutdown::Both);
                    break;
                }
                Fault::Truncate => {
                    let _ = to.write_all(&bytes[..here]);
                    let _ = to.shutdown(Shutdown::Write);
                    let _ = std::io::copy(&mut from, &mut std::io::sink());
                    break;
                }
                Fault::Delay => thread::sleep(PATIENCE / 4),
                Fault::Stall => {
                    while !over.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(5));
                    }
                    break;
                }
                Fault::Corrupt => bytes[here] ^= 1 << (at % 8),
                Fault::Drop => drop(bytes.drain(here..here + some)),
                Fault::Double => {
                    let again = bytes[here..here + some].to_vec();
                    bytes.splice(here..here, again);
                }
            }
        }
        passed += count;
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// A proxy for one connection, and its threads.
struct Proxy {
    port: u16,
    over: Arc<AtomicBool>,
    happened: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Proxy {
    fn new(server: SocketAddr, plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (over, happened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (own_over, own_happened) = (over.clone(), happened.clone());
        let thread = thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(server).unwrap();
            let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let (there, here) = (Some(plan).filter(|plan| plan.forth), Some(plan).filter(|plan| !plan.forth));
            thread::scope(|scope| {
                scope.spawn(|| pass(forth, server, there, &own_happened, &own_over));
                pass(back, client, here, &own_happened, &own_over);
            });
        });
        Self { port, over, happened, thread }
    }

    fn end(self) -> bool {
        self.over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        self.happened.load(Ordering::SeqCst)
    }
}

/// Uses a board in every way, and asserts that what comes back is right; only a lost connection ends it early.
fn use_board(board: &RemoteBoard, round: u64) -> Result<(), Error> {
    let data = noise(round, 30_000);
    let start = board.allocate(DDR, data.len() as u64, 64)?;
    for (index, piece) in data.chunks(7000).enumerate() {
        board.write(DDR, start + index as u64 * 7000, piece)?;
    }
    let mut out = vec![0; data.len()];
    board.read(DDR, start, &mut out)?;
    assert!(out == data, "round {round}: wrong bytes");
    board.write_register(round, round as u32)?;
    assert_eq!(u64::from(board.read_register(round)?), round);
    let report = board.run(&Job { start: 5, bytes: 1, segments: None })?;
    assert_eq!((report.layer_count, report.layers.len()), (5, 5));
    let settings = board.settings()?;
    board.configure(&settings)?;
    assert!(board.live(DDR)?.contains(&(start, data.len() as u64)));
    assert_eq!(board.free(DDR, start)?, data.len() as u64);
    // Left allocated on purpose.
    board.allocate(DDR, 64, 64)?;
    board.read(DDR, start, &mut out)?;
    assert!(out == data, "round {round}: wrong bytes");
    Ok(())
}

#[test]
fn faults_cost_nobody_else_anything() {
    survive(105, None);
}

#[test]
fn faults_under_tls_cost_nobody_else_anything() {
    survive(35, Some(&Certificates::new(&["127.0.0.1"])));
}

fn survive(rounds: u64, certificates: Option<&Certificates>) {
    let rounds = std::env::var("TRIUNE_FAULT_ROUNDS").map_or(rounds, |text| text.parse().unwrap());
    let tls = certificates.map(Certificates::server);
    let options = Options { boards: 3, patience: PATIENCE, handshake: PATIENCE, tls, ..Options::default() };
    let site = Site::new(options);
    let options = ConnectOptions {
        patience: PATIENCE,
        timeout: PATIENCE,
        tls: certificates.map(Certificates::client),
        ..ConnectOptions::default()
    };
    let share = ConnectOptions { share: true, ..options.clone() };
    // One bystander has a board of its own, one shares the victims'.
    let alone = site.connect(&options).unwrap();
    let sharing = site.connect(&share).unwrap();
    let own = sharing.allocate_at(DDR, 4 << 20, 64).map(|()| vec![(4 << 20, 64)]).unwrap();
    let stop = AtomicBool::new(false);
    let checks = AtomicU64::new(0);
    let mut counts = [[0u32; 2]; FAULTS.len()];
    let mut missed = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Ordering::SeqCst) {
                let data = noise(round, 50_000);
                for board in [&alone, &sharing] {
                    board.write(DDR, 5 << 20, &data).unwrap();
                    let mut out = vec![0; data.len()];
                    board.read(DDR, 5 << 20, &mut out).unwrap();
                    assert!(out == data, "a bystander's bytes");
                    checks.fetch_add(1, Ordering::SeqCst);
                }
                round += 1;
                thread::sleep(Duration::from_millis(2));
            }
        });
        // A victim that panics must not leave the bystander running.
        let done = Stop(&stop);
        let mut random = Random(0x7472_6975_6e65);
        for round in 0..rounds {
            let index = round as usize % FAULTS.len();
            let forth = random.below(2) == 0;
            let plan =
                Plan { fault: FAULTS[index], forth, at: random.below(if forth { 31_500 } else { 61_000 }) };
            let proxy = Proxy::new(site.address(), plan);
            let options = ConnectOptions { share: round % 2 == 0, ..share.clone() };
            let result = RemoteBoard::connect("127.0.0.1", proxy.port, "plain", &options)
                .and_then(|board| use_board(&board, round));
            // The board is dropped, which may be slow, too.
            let happened = proxy.end();
            match result {
                _ if !happened => missed += 1,
                Ok(()) => counts[index][0] += 1,
                Err(Error::Link(_) | Error::InUse(_)) => counts[index][1] += 1,
                Err(error) => panic!("round {round}, {plan:?}: {error:?}"),
            }
            wait_for("what the victim held is free", || {
                site.server.statistics().connections == 2 && sharing.live(DDR).unwrap() == own
            });
        }
        drop(done);
    });
    let statistics = site.server.statistics();
    let injected: u32 = counts.iter().flatten().sum();
    for (fault, [unharmed, lost]) in FAULTS.iter().zip(counts) {
        println!("{fault:?}: {unharmed} without harm, {lost} as a lost connection");
    }
    println!(
        "{injected} faults in {rounds} rounds ({missed} came too late), {} checks of bystanders, {statistics:?}",
        checks.load(Ordering::SeqCst)
    );
    assert_eq!((statistics.panics, statistics.connections, statistics.boards), (0, 2, 2));
    assert!(injected > rounds as u32 / 2, "hardly any fault was injected");
    let delays = FAULTS.iter().position(|fault| *fault == Fault::Delay).unwrap();
    assert_eq!(counts[delays][1], 0, "a delay is no fault");
    for (fault, [unharmed, lost]) in FAULTS.iter().zip(counts) {
        let harmless = matches!(fault, Fault::Delay);
        assert!(harmless || lost > 0, "{fault:?} was never noticed, {unharmed} times");
    }
    drop((alone, sharing));
    site.wait_until_free();
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
