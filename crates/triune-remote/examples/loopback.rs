//! Bytes per second of bulk transfers to a board behind a server on loopback, beside a copy in memory.
//! Server and client share the machine's cores.
//!
//! `cargo run --release -p triune-remote --example loopback [MEBIBYTES]`

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use triune_device::{Board, Error, LocalBoard, RegionId};
use triune_remote::{ConnectOptions, Options, RemoteBoard, Server};

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
    let [mut copies, mut writes, mut reads, mut trips] = [const { Vec::new() }; 4];
    for _ in 0..7 {
        let begun = Instant::now();
        out.copy_from_slice(black_box(&data));
        copies.push(begun.elapsed());
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
    let [copy, write, read] = [copies, writes, reads].map(|times| size as f64 / median(times) / 1e9);
    println!(
        "copy in memory {copy:.2} GB/s, write {write:.2} GB/s, read {read:.2} GB/s ({mebibytes} MiB, medians of 7)"
    );
    println!("an answer in {:.1} µs", median(trips) * 1e3);
    Ok(())
}
