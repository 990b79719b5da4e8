//! What peers can do wrong, and that it costs nobody else anything.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener},
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use triune_device::{Board, Error, Job};
use triune_remote::{
    ConnectOptions, Options, RemoteBoard,
    protocol::{Frame, HEADER_BYTES, Header, Kind, MAX_PAYLOAD, Request, decode_error},
};

use crate::support::{DDR, SLEEPS, Site, hello, receive, wait_for};

const PATIENCE: Duration = Duration::from_millis(400);

fn impatient() -> Options {
    let patience = PATIENCE;
    Options { boards: 2, patience, handshake: patience, ..Options::default() }
}

/// What a server says to bytes of a client that has a board, before it closes the connection.
fn reason(site: &Site, bytes: &[u8]) -> String {
    let mut socket = site.greeted();
    socket.write_all(bytes).unwrap();
    loop {
        match receive(&mut socket) {
            Some((Kind::Closing, payload)) => {
                assert!(receive(&mut socket).is_none(), "the connection goes on");
                return decode_error(&payload).unwrap().to_string();
            }
            Some((kind, _)) => assert_eq!(kind, Kind::Done),
            None => panic!("closed without a reason"),
        }
    }
}

fn with_length(length: u32) -> Vec<u8> {
    // The header's own checksum is right: only the limit keeps the server from believing it.
    let mut header = Header::new(Kind::Write, 1, &[]);
    header.length = length;
    header.encode().to_vec()
}

#[test]
fn bad_frames_end_the_connection_that_they_come_on() {
    let site = Site::new(impatient());
    let bystander = site.client();
    bystander.write(DDR, 0, b"right").unwrap();
    let good = Frame::encode(Kind::Settings, 1, b"");
    let flipped = |at: usize, bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    let write = [&Request::Write { region: DDR, start: 0, bytes: b"" }.encode_head()[..], b"wrong"].concat();
    let write = Frame::encode(Kind::Write, 1, &write);
    for (bytes, expected) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "it is no Triune peer"),
        (flipped(0, &good), "it is no Triune peer"),
        (flipped(5, &good), "it speaks version 259 of the protocol, this is version 3"),
        (flipped(9, &good), "a frame's header has the wrong checksum"),
        (flipped(write.len() - 1, &write), "a frame's payload has the wrong checksum"),
        (with_length(u32::MAX), "announces 4294967295 bytes, there can be 1048576"),
        (with_length(MAX_PAYLOAD as u32 + 1), "there can be 1048576"),
        (Frame::encode(Kind::Hello, 0, b""), "it is no request"),
        (Frame::encode(Kind::Done, 1, b""), "it is no request"),
        (Frame::encode(Kind::Free, 1, b"short"), "a Free frame: "),
        (Frame::encode(Kind::Settings, 2, b""), "request 2 follows 0"),
        ([good.clone(), good.clone()].concat(), "request 1 follows 1"),
        (
            Frame::encode(
                Kind::Read,
                1,
                &Request::Read { region: DDR, start: 0, bytes: u32::MAX }.encode_head(),
            ),
            "4294967295 bytes at once",
        ),
        (good[..20].to_vec(), "there was silence for 400ms"),
        (write[..40].to_vec(), "there was silence for 400ms"),
    ] {
        let said = reason(&site, &bytes);
        assert!(said.contains(expected), "{said} instead of {expected}");
        wait_for(expected, || site.told(expected));
    }
    let mut out = [0; 5];
    bystander.read(DDR, 0, &mut out).unwrap();
    assert_eq!(&out, b"right");
    drop(bystander);
    site.wait_until_free();
    assert_eq!(site.server.statistics().lost, 15);
}

#[test]
fn greetings_are_small_and_come_first_and_in_time() {
    let site = Site::new(impatient());
    for (bytes, expected) in [
        (Frame::encode(Kind::Hello, 0, &[0; 5000]), "announces 5000 bytes, there can be 4096"),
        (Frame::encode(Kind::Hello, 0, &[0xff; 100]), "a Hello frame: 4294967295 bytes are to follow"),
        (Frame::encode(Kind::Settings, 1, b""), "it comes before the greeting"),
        (Vec::new(), "silence"),
    ] {
        let mut socket = site.raw();
        socket.write_all(&bytes).unwrap();
        let (kind, payload) = receive(&mut socket).unwrap();
        let said = decode_error(&payload).unwrap().to_string();
        assert!(kind == Kind::Closing && said.contains(expected), "{said} instead of {expected}");
    }
    site.wait_until_free();
}

#[test]
fn a_peer_that_drips_is_not_waited_for() {
    let site = Site::new(impatient());
    let mut socket = site.greeted();
    let write = Frame::encode(Kind::Write, 1, &[0; 4096]);
    // Never silent for long, and never done: 400 ms are twenty of these bytes, and some while the server is told.
    let given_up = write[..400].iter().any(|&byte| {
        let sent = socket.write_all(&[byte]);
        thread::sleep(Duration::from_millis(20));
        sent.is_err() || site.told("a frame took longer than 400ms")
    });
    assert!(given_up);
    site.wait_until_free();
}

#[test]
fn a_peer_that_takes_no_answers_is_not_waited_for() {
    let site = Site::new(impatient());
    let bystander = site.client();
    let mut socket = site.greeted();
    let read = Request::Read { region: DDR, start: 0, bytes: MAX_PAYLOAD as u32 }.encode_head();
    for number in 1..=64 {
        if socket.write_all(&Frame::encode(Kind::Read, number, &read)).is_err() {
            break;
        }
    }
    wait_for("it is given up", || site.server.statistics().lost == 1);
    bystander.read(DDR, 0, &mut [0; 5]).unwrap();
}

#[test]
fn an_idle_client_stays_and_a_dead_one_goes() {
    let site = Site::new(impatient());
    let idle = site.client();
    let dead = site.greeted();
    wait_for("the dead one is given up", || site.server.statistics().boards == 1);
    wait_for("that is told", || site.told("there was silence for 400ms"));
    thread::sleep(2 * PATIENCE);
    idle.write_register(1, 2).unwrap();
    drop((idle, dead));
    site.wait_until_free();
}

#[test]
fn what_a_vanished_client_held_is_free() {
    let site = Site::boards(1);
    let share = ConnectOptions { share: true, ..ConnectOptions::default() };
    let stays = site.connect(&share).unwrap();
    let mut hello = triune_remote::protocol::Hello {
        device: "plain".into(),
        board: None,
        share: true,
        patience: 30_000,
        token: Vec::new(),
    };
    for round in 0..20u64 {
        hello.board = (round % 2 == 0).then_some(0);
        let mut socket = site.raw();
        socket.write_all(&Frame::encode(Kind::Hello, 0, &hello.encode())).unwrap();
        assert_eq!(receive(&mut socket).unwrap().0, Kind::Welcome);
        for number in 1..=3 {
            let allocate = Request::Allocate { region: DDR, bytes: 64, alignment: 64 }.encode_head();
            socket.write_all(&Frame::encode(Kind::Allocate, number, &allocate)).unwrap();
            assert_eq!(receive(&mut socket).unwrap().0, Kind::Done);
        }
        // It goes in the middle of a frame, in a different way each time.
        let head = Request::Write { region: DDR, start: 1 << 20, bytes: b"" }.encode_head();
        let write = Frame::encode(Kind::Write, 4, &[&head[..], &[7; 5000]].concat());
        socket.write_all(&write[..100 + round as usize * 200]).unwrap();
        match round % 3 {
            0 => drop(socket),
            1 => socket.shutdown(Shutdown::Write).unwrap(),
            _ => socket.shutdown(Shutdown::Both).unwrap(),
        }
        wait_for("its memory is free", || stays.live(DDR).unwrap().is_empty());
    }
    wait_for("all are counted", || site.server.statistics().lost == 20);
    let mut out = [1; 64];
    stays.read(DDR, 1 << 20, &mut out).unwrap();
    assert_eq!(out, [0; 64], "half a write was done");
}

#[test]
fn a_client_that_goes_while_its_job_runs_blocks_nobody() {
    let site = Site::boards(1);
    let mut socket = site.greeted();
    let run = Request::Run { start: 0, bytes: 3000, segments: None }.encode_head();
    socket.write_all(&Frame::encode(Kind::Run, 1, &run)).unwrap();
    socket.write_all(&Frame::encode(Kind::Run, 2, &run)).unwrap();
    // Both arrive.
    thread::sleep(Duration::from_millis(50));
    drop(socket);
    let mut next = None;
    wait_for("the board is free", || {
        next = site.connect(&ConnectOptions::default()).ok();
        next.is_some()
    });
    assert_eq!(
        site.alive.load(Ordering::SeqCst),
        2,
        "the next client has a board, and the job still runs on its own"
    );
    drop(next);
    site.wait_until_free();
    assert_eq!(site.jobs.load(Ordering::SeqCst), 1, "the second job is not begun");
}

#[test]
fn jobs_do_not_pile_up() {
    let site = Site::boards(1);
    let mut socket = site.greeted();
    let sleep = Request::WriteRegister { address: SLEEPS, value: 300 }.encode_head();
    for number in 1..=300 {
        socket.write_all(&Frame::encode(Kind::WriteRegister, number, &sleep)).unwrap();
    }
    let (kind, payload) = receive(&mut socket).unwrap();
    assert_eq!(kind, Kind::Failed);
    assert_eq!(decode_error(&payload).unwrap(), Error::Board("256 jobs are waiting already".into()));
    drop(socket);
    site.wait_until_free();
}

#[test]
fn there_are_only_so_many_connections() {
    let site = Site::new(Options { boards: 4, connections: 2, ..Options::default() });
    let _clients = (site.client(), site.client());
    let error = site.connect(&ConnectOptions::default()).unwrap_err().to_string();
    assert!(error.contains("the server has all 2 connections that it can have"), "{error}");
}

#[test]
fn those_who_do_not_greet_keep_nobody_out() {
    let site = Site::new(Options { boards: 2, connections: 2, ..Options::default() });
    let first = site.client();
    let silent: Vec<_> = (0..100).map(|_| site.raw()).collect();
    let second = site.client();
    wait_for("the oldest have gone", || site.server.statistics().connections <= 34);
    first.write_register(1, 1).unwrap();
    second.write_register(1, 1).unwrap();
    drop(silent);
}

/// A server that does what it is told, once, and what a client says to it.
fn against(answers: Vec<Vec<u8>>, patience: Duration) -> Error {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        for answer in answers {
            receive(&mut socket).unwrap();
            socket.write_all(&answer).unwrap();
        }
        // Until the client goes.
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let options = ConnectOptions { patience, timeout: patience, ..ConnectOptions::default() };
    let error = RemoteBoard::connect("127.0.0.1", port, "plain", &options)
        .and_then(|board| board.read(DDR, 0, &mut [0; 16]))
        .unwrap_err();
    server.join().unwrap();
    assert!(matches!(error, Error::Link(_)), "{error:?}");
    error
}

#[test]
fn clients_trust_no_server_either() {
    let site = Site::boards(1);
    let mut socket = site.raw();
    socket.write_all(&hello(&[])).unwrap();
    let (_, welcome) = receive(&mut socket).unwrap();
    let welcome = Frame::encode(Kind::Welcome, 0, &welcome);
    let second = Duration::from_secs(1);
    let mut newer = welcome.clone();
    newer[4] = 9;
    let mut flipped = Frame::encode(Kind::Done, 1, &[0; 16]);
    flipped[40] ^= 1;
    for (answers, expected) in [
        (vec![b"HTTP/1.1 400\r\n\r\n".to_vec()], "it is no Triune peer"),
        (vec![newer], "it speaks version 9 of the protocol, this is version 3"),
        (vec![Frame::encode(Kind::Welcome, 0, &[0xff; 64])], "a Welcome frame"),
        (vec![Frame::encode(Kind::Done, 0, b"")], "it is no welcome"),
        (vec![welcome.clone(), flipped], "a frame's payload has the wrong checksum"),
        (vec![welcome.clone(), Frame::encode(Kind::Done, 1, &[0; 15])], "an answer has the wrong length"),
        (vec![welcome.clone(), Frame::encode(Kind::Done, 7, &[0; 16])], "nobody asked for the answer to 7"),
        (vec![welcome.clone(), Frame::encode(Kind::Hello, 1, b"")], "no server sends it"),
        (vec![welcome.clone(), with_length(u32::MAX)], "announces 4294967295 bytes"),
        (vec![welcome.clone(), b"TRBD, half a header".to_vec()], "silence"),
    ] {
        let patience = if expected == "silence" { PATIENCE } else { second };
        let error = against(answers, patience).to_string();
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    assert!(against(vec![welcome], PATIENCE).to_string().contains("there was silence for 400ms"));
    assert!(against(Vec::new(), PATIENCE).to_string().contains("there was silence for 400ms"));
    assert_eq!(HEADER_BYTES, 32);
}

#[test]
fn a_client_hears_why_it_was_thrown_out() {
    let site = Site::new(impatient());
    let board = site.client();
    let job = Job { start: 1, bytes: 0, segments: None };
    assert!(board.run(&job).is_ok());
    let Site { server, .. } = site;
    server.stop();
    let error = board.run(&job).unwrap_err().to_string();
    assert!(error.contains("closed") || error.contains("reset") || error.contains("pipe"), "{error}");
}
