//! Frames and messages of boards over a socket.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::internals::remote::protocol::{
    Answer, Frame, HEADER_BYTES, Header, Hello, Kind, Request, Welcome, checksum, decode_error, encode_error,
};

/// Whatever a message is read from, what it is written to is read to the same.
fn messages(kind: Kind, payload: &[u8]) {
    if let Ok(request) = Request::decode(kind, payload) {
        let mut bytes = request.encode_head();
        if let Request::Write { bytes: data, .. } = request {
            bytes.extend_from_slice(data);
        }
        assert_eq!(bytes, payload);
    }
    if let Ok(answer) = Answer::decode(kind, payload) {
        assert_eq!(answer.encode(), payload);
    }
    if let Ok(error) = decode_error(payload) {
        let bytes = encode_error(&error);
        assert_eq!(encode_error(&decode_error(&bytes).expect("an error")), bytes);
    }
    if let Ok(hello) = Hello::decode(payload) {
        assert_eq!(Hello::decode(&hello.encode()).expect("a greeting").token, hello.token);
    }
    if let Ok(welcome) = Welcome::decode(payload) {
        assert_eq!(Welcome::decode(&welcome.encode()).expect("a greeting").board, welcome.board);
    }
}

fuzz_target!(|data: &[u8]| {
    // As it comes: hardly anything gets past the checksums.
    let mut rest = data;
    while let Ok((frame, behind)) = Frame::decode(rest) {
        messages(frame.header.kind, frame.payload);
        rest = behind;
    }
    // With the checksums made right, to see what is behind them.
    let Some((head, payload)) = data.split_first_chunk::<HEADER_BYTES>() else { return };
    let kind = Kind::ALL[usize::from(head[6]) % Kind::ALL.len()];
    messages(kind, payload);
    let length = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
    let header = Header { kind, request: 1, length, payload: checksum(&[payload]) };
    let bytes = [&header.encode()[..], payload].concat();
    if let Ok((frame, rest)) = Frame::decode(&bytes) {
        assert_eq!((frame.header, frame.payload.len() + rest.len()), (header, payload.len()));
    }
});
