//! A remote board does what the board does that is behind it.

use std::{sync::atomic::Ordering, thread, time::Duration};

use crate::support::{BROKEN, DDR, DDR_BYTES, OCM, PANICS, SLEEPS, Site, noise, wait_for};
use triune_device::{
    Board, Error, Job, Records, RegionId, Segment, SegmentKind, SegmentTable, Settings, spec::Precision,
};
use triune_remote::{ConnectOptions, RemoteBoard};

#[test]
fn every_call_reaches_the_board() {
    let site = Site::boards(1);
    let board = site.client();
    assert_eq!(board.info().device, "plain");
    assert_eq!(board.info().regions[1].name, "ocm");
    assert_eq!(board.number(), 0);

    let start = board.allocate(DDR, 100, 64).unwrap();
    assert_eq!(start, 64);
    board.allocate_at(DDR, 4096, 10).unwrap();
    assert_eq!(board.live(DDR).unwrap(), [(64, 100), (4096, 10)]);
    board.write(DDR, 64, b"hello").unwrap();
    board.copy((DDR, 64), (OCM, 128), 5).unwrap();
    let mut out = [0; 5];
    board.read(OCM, 128, &mut out).unwrap();
    assert_eq!(&out, b"hello");
    assert_eq!(board.free(DDR, start).unwrap(), 100);
    assert_eq!(board.live(DDR).unwrap(), [(4096, 10)]);

    board.forget(&[(DDR, 65, 2), (OCM, 129, 1)]).unwrap();
    board.read(DDR, 64, &mut out).unwrap();
    assert_eq!(&out, b"h\xdd\xddlo");
    board.read(OCM, 128, &mut out).unwrap();
    assert_eq!(&out, b"h\xddllo");
    assert!(matches!(board.forget(&[(OCM, 4096, 1)]), Err(Error::OutOfRegion { .. })));
    assert!(matches!(board.forget(&[(RegionId(7), 0, 1)]), Err(Error::UnknownMemory { .. })));
    // More than go into one frame.
    board.forget(&vec![(DDR, 64, 1); 100_000]).unwrap();

    board.write_register(16, 7).unwrap();
    assert_eq!(board.read_register(16).unwrap(), 7);
    let settings = Settings {
        core_hz: 5,
        memory_hz: 6,
        engines: [1, 2],
        precision: Precision::Int16,
        timer: None,
        profiler: Some(Records { region: OCM, start: 64, bytes: 128 }),
    };
    board.configure(&settings).unwrap();
    assert_eq!(board.settings().unwrap(), settings);
    let report = board.run(&Job { start: 3, bytes: 1, segments: None }).unwrap();
    assert_eq!((report.layer_count, report.layers.len()), (3, 3));
    board.reset(0).unwrap();
}

#[test]
fn errors_keep_what_they_are() {
    let site = Site::boards(1);
    let board = site.client();
    let huge = board.allocate(OCM, 1 << 20, 64);
    assert!(
        matches!(huge, Err(Error::OutOfMemory { ref region, length: 1_048_576, .. }) if region == "ocm"),
        "{huge:?}"
    );
    assert!(matches!(board.free(DDR, 5), Err(Error::NotAllocated { start: 5, .. })));
    let mut out = [0; 8];
    for start in [4090, u64::MAX] {
        assert!(matches!(board.read(OCM, start, &mut out), Err(Error::OutOfRegion { size: 4096, .. })));
        assert!(matches!(board.write(OCM, start, &out), Err(Error::OutOfRegion { length: 8, .. })));
        assert!(matches!(board.copy((OCM, start), (DDR, 0), 8), Err(Error::OutOfRegion { .. })));
    }
    assert!(matches!(board.live(RegionId(9)), Err(Error::UnknownMemory { .. })));
    assert_eq!(board.reset(7), Err(Error::Board("there is no level 7".into())));
    assert_eq!(board.read_register(3), Err(Error::Board("no register 0x3".into())));
    let empty = Some(SegmentTable::new(Vec::new()).unwrap());
    let error = board.run(&Job { start: 0, bytes: 0, segments: empty }).unwrap_err();
    assert_eq!(error, Error::Segment { segment: 0, problem: "there is none".into() });
    let segment = Segment { region: DDR, base: 64, len: 64, kind: SegmentKind::Output };
    let table = SegmentTable::new(vec![segment]).unwrap();
    board.run(&Job { start: 0, bytes: 0, segments: Some(table) }).unwrap();
}

#[test]
fn bulk_comes_back_at_every_size() {
    let site = Site::boards(1);
    let board = site.client();
    let data = noise(1, 5 << 20);
    for length in [0, 1, 31, 4096, (512 << 10) - 1, 512 << 10, (512 << 10) + 1, 3_000_001, 5 << 20] {
        board.write(DDR, 17, &data[..length]).unwrap();
        let mut out = vec![0; length];
        board.read(DDR, 17, &mut out).unwrap();
        assert!(out == data[..length], "{length} bytes");
    }
}

#[test]
fn answers_can_be_longer_than_a_frame() {
    let site = Site::boards(1);
    let board = site.client();
    let report = board.run(&Job { start: 200_000, bytes: 0, segments: None }).unwrap();
    assert_eq!(report.layers.len(), 200_000);
    assert_eq!((report.layers[199_999].start, report.layers[199_999].end), (199_999, 200_000));
    board.run(&Job { start: 65_536, bytes: 0, segments: None }).unwrap();
}

#[test]
fn a_failed_write_is_heard_of_before_anything_relies_on_it() {
    let site = Site::boards(1);
    let board = site.client();
    for index in 0..600 {
        board.write(DDR, index * 64, &[1; 64]).unwrap();
    }
    board.write(DDR, BROKEN, &[1]).unwrap();
    board.write(DDR, 0, &[2]).unwrap();
    let report = board.run(&Job { start: 1, bytes: 0, segments: None });
    assert_eq!(report, Err(Error::Board("this byte is broken".into())));
    // It is told once, and what was fine is there.
    let mut out = [0; 2];
    board.read(DDR, 0, &mut out).unwrap();
    assert_eq!(out, [2, 1]);
}

#[test]
fn threads_share_a_board() {
    let site = Site::boards(1);
    let board = site.client();
    thread::scope(|scope| {
        for index in 0..4u64 {
            let board = &board;
            scope.spawn(move || {
                let start = index * (1 << 20);
                for round in 0..20 {
                    let data = noise(index * 100 + round, 700_000);
                    board.write(DDR, start, &data).unwrap();
                    let mut out = vec![0; data.len()];
                    board.read(DDR, start, &mut out).unwrap();
                    assert!(out == data);
                    board.write_register(index, round as u32).unwrap();
                    assert_eq!(board.read_register(index).unwrap(), round as u32);
                }
            });
        }
    });
}

#[test]
fn other_threads_go_on_while_a_job_runs() {
    let site = Site::boards(1);
    let board = site.client();
    thread::scope(|scope| {
        let job = scope.spawn(|| board.run(&Job { start: 0, bytes: 400, segments: None }));
        let mut reads = 0;
        while !job.is_finished() {
            board.read(DDR, 0, &mut [0; 64]).unwrap();
            reads += 1;
        }
        assert!(reads > 20, "{reads} reads in 400 ms");
        job.join().unwrap().unwrap();
    });
}

#[test]
fn jobs_may_take_longer_than_either_side_is_patient() {
    let site = Site::new(triune_remote::Options {
        patience: Duration::from_millis(150),
        ..triune_remote::Options::default()
    });
    let options = ConnectOptions { patience: Duration::from_millis(150), ..ConnectOptions::default() };
    let board = site.connect(&options).unwrap();
    board.run(&Job { start: 0, bytes: 600, segments: None }).unwrap();
    board.write_register(SLEEPS, 600).unwrap();
    // And nothing may be asked for longer.
    thread::sleep(Duration::from_millis(600));
    assert_eq!(board.read_register(SLEEPS).unwrap(), 600);
}

#[test]
fn a_panic_is_an_error_of_the_one_who_caused_it() {
    let site = Site::boards(2);
    let (board, other) = (site.client(), site.client());
    let error = board.read_register(PANICS).unwrap_err();
    assert_eq!(error, Error::Board("the board failed: this register panics".into()));
    board.write_register(1, 2).unwrap();
    other.write_register(1, 3).unwrap();
    assert_eq!((board.read_register(1), other.read_register(1)), (Ok(2), Ok(3)));
    assert_eq!(site.server.statistics().panics, 1);
}

#[test]
fn every_client_has_a_board_of_its_own() {
    let site = Site::boards(2);
    let (first, second) = (site.client(), site.client());
    assert_eq!((first.number(), second.number()), (0, 1));
    first.write(DDR, 0, b"first").unwrap();
    second.write(DDR, 0, b"other").unwrap();
    let mut out = [0; 5];
    first.read(DDR, 0, &mut out).unwrap();
    assert_eq!(&out, b"first");

    let error = site.connect(&ConnectOptions::default()).unwrap_err();
    assert!(matches!(error, Error::InUse(_)));
    assert!(error.to_string().contains("all 2 boards of the server are in use"), "{error}");
    let named = ConnectOptions { board: Some(1), ..ConnectOptions::default() };
    assert!(site.connect(&named).unwrap_err().to_string().contains("board 1 is in use by another client"));
    let beyond = ConnectOptions { board: Some(2), ..ConnectOptions::default() };
    assert!(site.connect(&beyond).unwrap_err().to_string().contains("there is no board 2"));

    drop(second);
    wait_for("board 1 is free", || site.server.statistics().boards == 1);
    let again = site.connect(&named).unwrap();
    assert_eq!(again.number(), 1);
    // It is a new board: what the last client left is gone.
    again.read(DDR, 0, &mut out).unwrap();
    assert_eq!(out, [0; 5]);
    assert_eq!(site.alive.load(Ordering::SeqCst), 2);
    drop((first, again));
    site.wait_until_free();
    let statistics = site.server.statistics();
    assert_eq!((statistics.left, statistics.lost, statistics.refused), (3, 0, 3));
}

#[test]
fn boards_can_be_shared_by_those_who_ask() {
    let site = Site::boards(2);
    let share = ConnectOptions { share: true, ..ConnectOptions::default() };
    let alone = site.client();
    let (first, second) = (site.connect(&share).unwrap(), site.connect(&share).unwrap());
    assert_eq!((alone.number(), first.number(), second.number()), (0, 1, 1));
    let named = ConnectOptions { board: Some(0), ..share.clone() };
    assert!(site.connect(&named).unwrap_err().to_string().contains("board 0 is in use by another client"));
    let named = ConnectOptions { board: Some(1), ..ConnectOptions::default() };
    assert!(site.connect(&named).unwrap_err().to_string().contains("ask to share it"));

    let (mine, theirs) = (first.allocate(DDR, 64, 64).unwrap(), second.allocate(DDR, 64, 64).unwrap());
    first.write(DDR, mine, b"shared").unwrap();
    let mut out = [0; 6];
    first.live(DDR).unwrap();
    second.read(DDR, mine, &mut out).unwrap();
    assert_eq!(&out, b"shared");
    let error = second.free(DDR, mine).unwrap_err();
    assert!(error.to_string().contains("this client allocated nothing at 0x40"), "{error}");
    drop(first);
    // What the first had is free; what the second has is not.
    wait_for("its memory is free", || second.live(DDR).unwrap() == [(theirs, 64)]);
    drop((second, alone));
    site.wait_until_free();
}

#[test]
fn a_lost_connection_is_lost_for_good() {
    let site = Site::boards(1);
    let board = site.client();
    board.write_register(1, 1).unwrap();
    let name = format!("plain at 127.0.0.1:{}", site.address().port());
    let Site { server, .. } = site;
    assert!(server.stop());
    for _ in 0..3 {
        let error = board.read_register(1).unwrap_err();
        assert!(matches!(&error, Error::Link(text) if text.starts_with(&name)), "{error}");
        assert!(matches!(board.write(DDR, 0, &[1]), Err(Error::Link(_))));
        assert!(matches!(board.settings(), Err(Error::Link(_))));
    }
    let closed = Site::boards(1);
    let board = closed.client();
    board.close();
    assert!(board.read_register(1).unwrap_err().to_string().contains("it was closed"));
    closed.client();
}

#[test]
fn a_stop_ends_jobs_that_wait() {
    let site = Site::boards(1);
    let board = site.client();
    thread::scope(|scope| {
        let job = scope.spawn(|| board.run(&Job { start: 0, bytes: 300, segments: None }));
        thread::sleep(Duration::from_millis(50));
        let Site { server, alive, .. } = site;
        assert!(server.stop());
        assert!(matches!(job.join().unwrap(), Err(Error::Link(_))));
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn nobody_there_is_said() {
    let port = {
        let site = Site::boards(1);
        site.address().port()
    };
    let error = RemoteBoard::connect("127.0.0.1", port, "plain", &ConnectOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::Link(text) if text.contains("plain at 127.0.0.1:")), "{error}");
    let site = Site::boards(1);
    let error = RemoteBoard::connect("127.0.0.1", site.address().port(), "zg330", &ConnectOptions::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the server has boards of plain, not of 'zg330'"), "{error}");
    assert_eq!(DDR_BYTES as u64, BROKEN + 1);
}

#[test]
fn readers_and_writers_do_not_wait_for_each_other() {
    let site = Site::boards(1);
    let board = site.client();
    let half = DDR_BYTES / 2;
    let data = noise(4, half);
    board.write(DDR, 0, &data).unwrap();
    thread::scope(|scope| {
        // More is asked for at the same time than all buffers between the two ends hold.
        for index in 0..8 {
            let (board, data) = (&board, &data);
            scope.spawn(move || {
                for _ in 0..6 {
                    if index % 2 == 0 {
                        let mut out = vec![0; half];
                        board.read(DDR, 0, &mut out).unwrap();
                        assert!(out == *data);
                    } else {
                        board.write(DDR, half as u64, &data[1..]).unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn servers_have_boards_connections_and_patience() {
    use triune_remote::{Options, Server};
    let (board, patience) =
        ("a server has at least one board and one connection", "a server has some patience");
    for (options, words) in [
        (Options { boards: 0, ..Options::default() }, board),
        (Options { connections: 0, ..Options::default() }, board),
        (Options { handshake: Duration::ZERO, ..Options::default() }, patience),
        (Options { patience: Duration::ZERO, ..Options::default() }, patience),
    ] {
        let error = Server::start("plain", options, || panic!("no board is made")).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
    }
}
