//! Bytes per second of bulk transfers to a board behind a server on loopback, beside a copy in memory.
//!
//! `cargo run --release -p triune-remote --example loopback [MEBIBYTES]`

use std::{
    hint::black_box,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use triune_device::{
    Board, BoardInfo, Error, Job, JobReport, RegionId, RegionInfo, Settings, spec::Precision,
};
use triune_remote::{ConnectOptions, Options, RemoteBoard, Server};

/// A board of nothing but memory, which costs a copy.
#[derive(Debug)]
struct Bytes {
    info: BoardInfo,
    memory: Mutex<Vec<u8>>,
}

fn refuse<T>() -> Result<T, Error> {
    Err(Error::Board("it has memory only".into()))
}

impl Board for Bytes {
    fn info(&self) -> &BoardInfo {
        &self.info
    }
    fn allocate(&self, _: RegionId, _: u64, _: u64) -> Result<u64, Error> {
        refuse()
    }
    fn allocate_at(&self, _: RegionId, _: u64, _: u64) -> Result<(), Error> {
        refuse()
    }
    fn free(&self, _: RegionId, _: u64) -> Result<u64, Error> {
        refuse()
    }
    fn live(&self, _: RegionId) -> Result<Vec<(u64, u64)>, Error> {
        refuse()
    }
    fn read(&self, _: RegionId, start: u64, out: &mut [u8]) -> Result<(), Error> {
        out.copy_from_slice(&self.memory.lock().expect("no panics")[start as usize..][..out.len()]);
        Ok(())
    }
    fn write(&self, _: RegionId, start: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.lock().expect("no panics")[start as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn copy(&self, _: (RegionId, u64), _: (RegionId, u64), _: u64) -> Result<(), Error> {
        refuse()
    }
    fn read_register(&self, _: u64) -> Result<u32, Error> {
        Ok(7)
    }
    fn write_register(&self, _: u64, _: u32) -> Result<(), Error> {
        refuse()
    }
    fn settings(&self) -> Result<Settings, Error> {
        Ok(Settings { core_hz: 1, memory_hz: 1, engines: [1, 1], precision: Precision::Int8 })
    }
    fn configure(&self, _: &Settings) -> Result<(), Error> {
        refuse()
    }
    fn run(&self, _: &Job) -> Result<JobReport, Error> {
        refuse()
    }
    fn reset(&self, _: u32) -> Result<(), Error> {
        Ok(())
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn main() -> Result<(), Error> {
    let mebibytes: usize = std::env::args().nth(1).map_or(256, |text| text.parse().expect("a number"));
    let size = mebibytes << 20;
    let make = move || {
        let region = RegionInfo { name: "ddr".into(), bytes: size as u64, reserved: 0 };
        let info = BoardInfo {
            device: "bytes".into(),
            regions: vec![region],
            versions: Vec::new(),
            computes: false,
        };
        Ok(Arc::new(Bytes { info, memory: Mutex::new(vec![1; size]) }) as Arc<dyn Board>)
    };
    let options = Options { bind: "127.0.0.1:0".into(), ..Options::default() };
    let server = Server::start("bytes", options, make)?;
    let board =
        RemoteBoard::connect("127.0.0.1", server.address().port(), "bytes", &ConnectOptions::default())?;
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
            board.read_register(0)?;
        }
        trips.push(begun.elapsed());
    }
    let [copy, write, read] = [copies, writes, reads].map(|times| size as f64 / median(times) / 1e9);
    println!(
        "copy in memory {copy:.2} GB/s, write {write:.2} GB/s, read {read:.2} GB/s ({mebibytes} MiB, medians of 7)"
    );
    println!("a register in {:.1} µs", median(trips) * 1e3);
    Ok(())
}
