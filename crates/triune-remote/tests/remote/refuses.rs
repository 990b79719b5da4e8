//! What frames and their payloads are refused for, kind by kind.

use triune_device::{RegionId, Segment, SegmentKind, Settings, spec::Precision};
use triune_remote::protocol::{
    Answer, Frame, FrameError, HEADER_BYTES, Header, Hello, Kind, MAX_PAYLOAD, Request, Welcome, checksum,
    decode_error,
};

const REGION: RegionId = RegionId(1);

fn settings() -> Settings {
    Settings {
        core_hz: 1,
        memory_hz: 2,
        engines: [3, 4],
        precision: Precision::Int8,
        timer: None,
        profiler: None,
    }
}

/// A request of every kind, and the bytes that its fields take.
fn requests() -> Vec<(Request<'static>, usize)> {
    let segment = Segment { region: REGION, base: 64, len: 9, kind: SegmentKind::Input };
    vec![
        (Request::Allocate { region: REGION, bytes: 1, alignment: 2 }, 20),
        (Request::AllocateAt { region: REGION, start: 1, bytes: 2 }, 20),
        (Request::Free { region: REGION, start: 3 }, 12),
        (Request::Live { region: REGION }, 4),
        (Request::Read { region: REGION, start: 4, bytes: 5 }, 16),
        (Request::Write { region: REGION, start: 6, bytes: b"" }, 12),
        (Request::Copy { from: (REGION, 8), to: (REGION, 9), bytes: 10 }, 32),
        (Request::ReadRegister { address: 11 }, 8),
        (Request::WriteRegister { address: 12, value: 13 }, 12),
        (Request::Settings, 0),
        (Request::Configure(settings()), 27),
        (Request::Run { start: 14, bytes: 15, segments: None }, 17),
        (Request::Run { start: 14, bytes: 15, segments: Some(vec![segment]) }, 42),
        (Request::Reset { level: 1 }, 4),
        (Request::Forget { ranges: vec![(REGION, 1, 2)] }, 24),
    ]
}

/// Words of a payload's refusal, which names the frame's kind.
fn refused<T: std::fmt::Debug>(kind: Kind, result: Result<T, FrameError>, words: &str) {
    let error = result.expect_err(words);
    assert!(matches!(error, FrameError::Payload { kind: named, .. } if named == kind), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("a {kind:?} frame: ")) && text.contains(words), "'{words}': {text}");
}

#[test]
fn payloads_that_are_too_short_or_too_long() {
    let mut kinds = Vec::new();
    for (request, bytes) in requests() {
        let (kind, good) = (request.kind(), request.encode_head());
        assert_eq!(good.len(), bytes, "{request:?}");
        assert_eq!(Request::decode(kind, &good).expect("it is right"), request);
        kinds.push(kind);
        for length in 0..bytes {
            let short = Request::decode(kind, &good[..length]);
            assert!(matches!(short, Err(FrameError::Payload { .. })), "{length} bytes: {short:?}");
        }
        if bytes > 0 {
            refused(kind, Request::decode(kind, &[]), "bytes are to follow, there are 0");
        }
        if kind != Kind::Write {
            refused(kind, Request::decode(kind, &[&good[..], &[0]].concat()), "1 bytes too many");
        }
    }
    // Every kind between the greeting and the answers is among them.
    for kind in Kind::ALL {
        let is_request = (Kind::Allocate as u16..Kind::Welcome as u16).contains(&(kind as u16));
        assert_eq!(kinds.contains(&kind), is_request, "{kind:?}");
        if !is_request {
            refused(kind, Request::decode(kind, &[]), "it is no request");
        }
    }
}

#[test]
fn fields_that_mean_nothing() {
    let with = |request: Request<'_>, at: usize, byte: u8| {
        let mut bytes = request.encode_head();
        let at = if at == usize::MAX { bytes.len() - 1 } else { at };
        bytes[at] = byte;
        (request.kind(), bytes)
    };
    let segment = Segment { region: REGION, base: 64, len: 9, kind: SegmentKind::Input };
    let segments = Some(vec![segment]);
    let run = || Request::Run { start: 14, bytes: 15, segments: segments.clone() };
    for ((kind, bytes), words) in [
        (with(run(), 16, 2), "2 is neither 0 nor 1"),
        (with(run(), usize::MAX, 7), "the kind 7 of a segment is unknown"),
        (with(run(), 17, 2), "2 items are to follow in 21 bytes"),
        (with(run(), 20, 255), "items are to follow in 21 bytes"),
        (with(Request::Configure(settings()), 24, 9), "a width of 9 bits"),
        (with(Request::Configure(settings()), 25, 3), "3 is neither 0 nor 1"),
        (with(Request::Configure(settings()), 26, 3), "3 is neither 0 nor 1"),
        (with(Request::Configure(settings()), 25, 1), "bytes are to follow"),
        (with(Request::Forget { ranges: Vec::new() }, 3, 255), "items are to follow in 0 bytes"),
    ] {
        refused(kind, Request::decode(kind, &bytes), words);
    }
}

#[test]
fn greetings_and_answers() {
    let hello =
        Hello { device: "zg330".into(), board: None, share: true, patience: 5, token: b"secret".to_vec() };
    let good = hello.encode();
    let text = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    refused(Kind::Hello, Hello::decode(&[]), "4 bytes are to follow, there are 0");
    refused(Kind::Hello, Hello::decode(&text(4, 0xff)), "a text: invalid utf-8");
    refused(Kind::Hello, Hello::decode(&text(0, 200)), "200 bytes are to follow");
    refused(Kind::Hello, Hello::decode(&text(13, 2)), "2 is neither 0 nor 1");
    refused(Kind::Hello, Hello::decode(&text(18, 7)), "7 bytes are to follow, there are 6");
    refused(Kind::Hello, Hello::decode(&text(18, 5)), "1 bytes too many");
    for length in 0..good.len() {
        Hello::decode(&good[..length]).expect_err("it is cut");
    }
    // Number, patience, device, two flags, regions, versions.
    let welcome = [&[0; 8][..], &[1, 0, 0, 0, b'd', 1, 0], &[0; 8]].concat();
    Welcome::decode(&welcome).expect("it is right");
    for (at, byte, words) in [
        (8, 99, "99 bytes are to follow"),
        (12, 0xff, "a text: invalid utf-8"),
        (13, 2, "2 is neither 0 nor 1"),
        (14, 2, "2 is neither 0 nor 1"),
        (15, 1, "1 items are to follow in 4 bytes"),
        (19, 1, "1 items are to follow in 0 bytes"),
    ] {
        let mut bytes = welcome.clone();
        bytes[at] = byte;
        refused(Kind::Welcome, Welcome::decode(&bytes), words);
    }
    refused(Kind::Welcome, Welcome::decode(&[&welcome[..], &[0]].concat()), "1 bytes too many");
    for (to, bytes, words) in [
        (Kind::Allocate, &[0; 7][..], "8 bytes are to follow, there are 7"),
        (Kind::Allocate, &[0; 9], "1 bytes too many"),
        (Kind::Live, &[1, 0, 0, 0], "1 items are to follow in 0 bytes"),
        (Kind::Settings, &[0; 24], "1 bytes are to follow, there are 0"),
        (Kind::Run, &[0; 27], "4 bytes are to follow, there are 3"),
        (Kind::Write, &[0], "1 bytes too many"),
    ] {
        refused(Kind::Done, Answer::decode(to, bytes), words);
    }
    for (bytes, words) in [
        (&[][..], "1 bytes are to follow, there are 0"),
        (&[13], "the error 13 is unknown"),
        (&[12, 9, 0, 0, 0, 0, 0, 0], "the error's class is unknown"),
        (&[12, 0, 2], "2 is neither 0 nor 1"),
        (&[8, 0], "1 bytes too many"),
        (&[0, 1, 0, 0, 0, 0xff], "a text: invalid utf-8"),
    ] {
        refused(Kind::Failed, decode_error(bytes), words);
    }
}

#[test]
fn headers_say_what_is_wrong_with_them() {
    let good = Frame::encode(Kind::Settings, 7, b"");
    Frame::decode(&good).expect("it is right");
    assert_eq!(good.len(), HEADER_BYTES);
    // A header that is wrong in itself, with the checksum that it should have.
    let signed = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let own = checksum(&[&[&bytes[..20], &bytes[24..]].concat()]) as u32;
        bytes[20..24].copy_from_slice(&own.to_le_bytes());
        bytes
    };
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let payload = Frame::encode(Kind::Live, 7, &[1, 2, 3, 4]);
    let mut damaged = payload.clone();
    damaged[HEADER_BYTES] ^= 1;
    for (bytes, expected) in [
        (flipped(0), "it is no Triune peer"),
        (flipped(4), "it speaks version 2 of the protocol, this is version 3"),
        (flipped(8), "a frame's header has the wrong checksum"),
        (flipped(20), "a frame's header has the wrong checksum"),
        (signed(&|bytes| bytes[6] = 99), "a frame has the unknown kind 99"),
        (signed(&|bytes| bytes[7] = 1), "a frame has the unknown kind"),
        (
            signed(&|bytes| bytes[16..20].copy_from_slice(&(MAX_PAYLOAD as u32 + 1).to_le_bytes())),
            "a frame announces 1048577 bytes, there can be 1048576",
        ),
        (signed(&|bytes| bytes[16] = 1), "a frame ends too early"),
        (signed(&|bytes| bytes[24] ^= 1), "a frame's payload has the wrong checksum"),
        (damaged, "a frame's payload has the wrong checksum"),
        (payload[..35].to_vec(), "a frame ends too early"),
        (good[..31].to_vec(), "a frame ends too early"),
        (Vec::new(), "a frame ends too early"),
    ] {
        let error = Frame::decode(&bytes).expect_err(expected).to_string();
        assert!(error.contains(expected), "'{expected}': {error}");
    }
    assert!(Header::new(Kind::Live, 1, &[&[1, 2]]).check(&[1, 2]).is_ok());
    for other in [&[1, 3][..], &[1], &[1, 2, 3], &[]] {
        assert_eq!(Header::new(Kind::Live, 1, &[&[1, 2]]).check(other), Err(FrameError::PayloadChecksum));
    }
}
