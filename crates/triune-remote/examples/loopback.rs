//! Bytes per second of bulk transfers to a board behind a server on loopback, beside a copy in memory and a bare
//! socket, whose bytes nobody checks or keeps.
//! Server and client share the machine's cores.
//!
//! `cargo run --release -p triune-remote --example loopback [MEBIBYTES]`

use std::{
    hint::black_box,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use triune_device::{Board, Error, LocalBoard, RegionId};
use triune_remote::{ConnectOptions, Options, RemoteBoard, Server};

/// Seconds that bytes take through a bare socket, in the pieces that the protocol cuts.
fn bare(data: &[u8]) -> io::Result<Duration> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    let mut left = data.len();
    let sink = thread::spawn(move || {
        let mut buffer = vec![0; 512 << 10];
        while left > 0 {
            left -= receiver.read(&mut buffer)?;
        }
        Ok(receiver)
    });
    let begun = Instant::now();
    for piece in data.chunks(512 << 10) {
        sender.write_all(piece)?;
    }
    let receiver: io::Result<TcpStream> = sink.join().expect("no panics");
    receiver.map(|_| begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn main() -> Result<(), Error> {
    let mebibytes: usize = std::env::args().nth(1).map_or(256, |text| text.parse().expect("a number"));
    let size = mebibytes << 20;
    let make = || Ok(Arc::new(LocalBoard::open("zg330", false, 1)?) as Arc<dyn Board>);
    let options = Options { bind: "127.0.0.1:0".into(), ..Options::default() };
    let server = Server::start("zg330", options, make)?;
    let board =
        RemoteBoard::connect("127.0.0.1", server.address().port(), "zg330", &ConnectOptions::default())?;
    let (data, mut out) = (vec![2; size], vec![3; size]);
    let region = RegionId(0);
    let [mut copies, mut bares, mut writes, mut reads, mut trips] = [const { Vec::new() }; 5];
    for _ in 0..7 {
        let begun = Instant::now();
        out.copy_from_slice(black_box(&data));
        copies.push(begun.elapsed());
        bares.push(bare(&data).map_err(|error| Error::Link(error.to_string()))?);
        let begun = Instant::now();
        board.write(region, 0, &data)?;
        // The answer comes when everything has arrived.
        board.settings()?;
        writes.push(begun.elapsed());
        let begun = Instant::now();
        board.read(region, 0, &mut out)?;
        reads.push(begun.elapsed());
        assert!(out == data);
        let begun = Instant::now();
        for _ in 0..1000 {
            board.settings()?;
        }
        trips.push(begun.elapsed());
    }
    let [copy, bare, write, read] =
        [copies, bares, writes, reads].map(|times| size as f64 / median(times) / 1e9);
    println!(
        "copy in memory {copy:.2} GB/s, bare socket {bare:.2} GB/s, write {write:.2} GB/s ({:.2} of bare), \
         read {read:.2} GB/s ({:.2} of bare); {mebibytes} MiB, medians of 7",
        write / bare,
        read / bare
    );
    println!("an answer in {:.1} µs", median(trips) * 1e3);
    Ok(())
}
