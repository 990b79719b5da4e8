//! Frames: a header of 32 bytes and a payload, both under checksums.

use std::{fmt, hash::Hasher};

use twox_hash::XxHash3_64;

/// The first bytes of every frame.
pub const MAGIC: [u8; 4] = *b"TRBD";
/// The protocol's version. Peers of different versions do not talk.
pub const VERSION: u16 = 3;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;
/// Bytes that a payload can have at most.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// What a frame is for. The numbers are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// The client's first frame: who it is and what it wants.
    Hello = 1,
    /// "I am still here"; it has no answer.
    Beat = 2,
    /// The client's last frame.
    Bye = 3,
    /// The client does not want the answer to a request any more; it has no answer of its own.
    Cancel = 4,
    /// [`triune_device::Board::allocate`].
    Allocate = 16,
    /// [`triune_device::Board::allocate_at`].
    AllocateAt = 17,
    /// [`triune_device::Board::free`].
    Free = 18,
    /// [`triune_device::Board::live`].
    Live = 19,
    /// [`triune_device::Board::read`] of at most [`MAX_PAYLOAD`] bytes.
    Read = 20,
    /// [`triune_device::Board::write`].
    Write = 21,
    /// [`triune_device::Board::copy`].
    Copy = 22,
    /// [`triune_device::Board::read_register`].
    ReadRegister = 23,
    /// [`triune_device::Board::write_register`].
    WriteRegister = 24,
    /// [`triune_device::Board::settings`].
    Settings = 25,
    /// [`triune_device::Board::configure`].
    Configure = 26,
    /// [`triune_device::Board::run`].
    Run = 27,
    /// [`triune_device::Board::reset`].
    Reset = 28,
    /// [`triune_device::Board::forget`].
    Forget = 29,
    /// The server's answer to [`Kind::Hello`].
    Welcome = 128,
    /// The last or only frame of an answer.
    Done = 129,
    /// An answer's frame that another one follows.
    Part = 130,
    /// The request failed; the payload is the error.
    Failed = 131,
    /// The server ends the connection; the payload is the reason.
    Closing = 132,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 23] = [
        Self::Hello,
        Self::Beat,
        Self::Bye,
        Self::Cancel,
        Self::Allocate,
        Self::AllocateAt,
        Self::Free,
        Self::Live,
        Self::Read,
        Self::Write,
        Self::Copy,
        Self::ReadRegister,
        Self::WriteRegister,
        Self::Settings,
        Self::Configure,
        Self::Run,
        Self::Reset,
        Self::Forget,
        Self::Welcome,
        Self::Done,
        Self::Part,
        Self::Failed,
        Self::Closing,
    ];

    fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// What is wrong with a frame. None of these can be recovered from: where the next frame starts is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The first bytes are not a frame's.
    Magic([u8; 4]),
    /// The peer speaks another version.
    Version(u16),
    /// The header is not what was sent.
    HeaderChecksum,
    /// The kind is unknown.
    Kind(u16),
    /// The payload is longer than it may be.
    Length {
        /// Bytes that the header announces.
        announced: u32,
        /// Bytes that there can be.
        limit: usize,
    },
    /// The payload is not what was sent.
    PayloadChecksum,
    /// The bytes end before the frame does.
    Truncated,
    /// The payload is not what its kind has.
    Payload {
        /// The frame's kind.
        kind: Kind,
        /// What is wrong.
        problem: String,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic(bytes) => write!(
                f,
                "it sent {bytes:02x?} where a frame starts: it is no Triune peer, or only one of the two uses TLS"
            ),
            Self::Version(version) => {
                write!(f, "it speaks version {version} of the protocol, this is version {VERSION}")
            }
            Self::HeaderChecksum => f.write_str("a frame's header has the wrong checksum"),
            Self::Kind(kind) => write!(f, "a frame has the unknown kind {kind}"),
            Self::Length { announced, limit } => {
                write!(f, "a frame announces {announced} bytes, there can be {limit}")
            }
            Self::PayloadChecksum => f.write_str("a frame's payload has the wrong checksum"),
            Self::Truncated => f.write_str("a frame ends too early"),
            Self::Payload { kind, problem } => write!(f, "a {kind:?} frame: {problem}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// The checksum of a payload that lies in pieces: XXH3, 64 bits, no seed.
pub fn checksum(pieces: &[&[u8]]) -> u64 {
    if let [only] = pieces {
        return XxHash3_64::oneshot(only);
    }
    let mut hasher = XxHash3_64::new();
    for piece in pieces {
        hasher.write(piece);
    }
    hasher.finish()
}

/// A frame's header.
///
/// | bytes | little-endian |
/// |---|---|
/// | 0..4 | [`MAGIC`] |
/// | 4..6 | [`VERSION`]; these two are the same in every version |
/// | 6..8 | [`Kind`] |
/// | 8..16 | number of the request |
/// | 16..20 | bytes of the payload |
/// | 20..24 | low half of XXH3-64 over the other 28 bytes |
/// | 24..32 | XXH3-64 of the payload |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: Kind,
    /// The request that it is or answers; 0 for what is neither.
    pub request: u64,
    /// Bytes of the payload.
    pub length: u32,
    /// Checksum of the payload.
    pub payload: u64,
}

impl Header {
    /// The header for a payload that lies in pieces.
    ///
    /// # Panics
    /// If the payload is longer than [`MAX_PAYLOAD`].
    pub fn new(kind: Kind, request: u64, pieces: &[&[u8]]) -> Self {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert!(length <= MAX_PAYLOAD, "a payload of {length} bytes");
        Self { kind, request, length: length as u32, payload: checksum(pieces) }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.request.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..].copy_from_slice(&self.payload.to_le_bytes());
        let own = own_checksum(&bytes);
        bytes[20..24].copy_from_slice(&own);
        bytes
    }

    /// Reads a header whose payload may have `limit` bytes.
    ///
    /// # Errors
    /// [`FrameError`]: magic and version before the checksum, everything else behind it.
    pub fn decode(bytes: &[u8; HEADER_BYTES], limit: usize) -> Result<Self, FrameError> {
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        if bytes[20..24] != own_checksum(bytes) {
            return Err(FrameError::HeaderChecksum);
        }
        let number = u16::from_le_bytes([bytes[6], bytes[7]]);
        let kind = Kind::from_number(number).ok_or(FrameError::Kind(number))?;
        let word = |from: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(word)
        };
        let length = word(16) as u32;
        if length as usize > limit {
            return Err(FrameError::Length { announced: length, limit });
        }
        Ok(Self { kind, request: word(8), length, payload: word(24) })
    }

    /// Checks the payload.
    ///
    /// # Errors
    /// [`FrameError::PayloadChecksum`].
    pub fn check(&self, payload: &[u8]) -> Result<(), FrameError> {
        if payload.len() == self.length as usize && checksum(&[payload]) == self.payload {
            Ok(())
        } else {
            Err(FrameError::PayloadChecksum)
        }
    }
}

fn own_checksum(bytes: &[u8; HEADER_BYTES]) -> [u8; 4] {
    let mut others = [0; HEADER_BYTES - 4];
    others[..20].copy_from_slice(&bytes[..20]);
    others[20..].copy_from_slice(&bytes[24..]);
    (XxHash3_64::oneshot(&others) as u32).to_le_bytes()
}

/// A frame in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// The payload, checked.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame that `bytes` start with, and what follows it.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), FrameError> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(FrameError::Truncated)?;
        let header = Header::decode(header, MAX_PAYLOAD)?;
        let (payload, rest) = rest.split_at_checked(header.length as usize).ok_or(FrameError::Truncated)?;
        header.check(payload)?;
        Ok((Self { header, payload }, rest))
    }

    /// A whole frame's bytes.
    pub fn encode(kind: Kind, request: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Header::new(kind, request, &[payload]).encode().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back() {
        let mut bytes = Frame::encode(Kind::Write, 7, b"abc");
        bytes.extend_from_slice(&Frame::encode(Kind::Beat, 0, b""));
        let (frame, rest) = Frame::decode(&bytes).unwrap();
        assert_eq!((frame.header.kind, frame.header.request, frame.payload), (Kind::Write, 7, &b"abc"[..]));
        let (frame, rest) = Frame::decode(rest).unwrap();
        assert_eq!((frame.header.kind, frame.header.length, rest), (Kind::Beat, 0, &b""[..]));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = Frame::encode(Kind::Write, 1 << 40, b"some bytes");
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::decode(&bad).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(Frame::decode(&bytes[..length]), Err(FrameError::Truncated));
        }
    }

    #[test]
    fn faults_have_names() {
        let good = Header::new(Kind::Read, 1, &[b"x"]);
        let with = |change: &dyn Fn(&mut [u8; HEADER_BYTES])| {
            let mut bytes = good.encode();
            change(&mut bytes);
            let own = own_checksum(&bytes);
            bytes[20..24].copy_from_slice(&own);
            Header::decode(&bytes, MAX_PAYLOAD).unwrap_err()
        };
        assert_eq!(with(&|bytes| bytes[0] = b'G'), FrameError::Magic(*b"GRBD"));
        assert_eq!(with(&|bytes| bytes[4] = 9), FrameError::Version(9));
        assert_eq!(with(&|bytes| bytes[6] = 99), FrameError::Kind(99));
        assert_eq!(
            with(&|bytes| bytes[16..20].fill(0xff)),
            FrameError::Length { announced: u32::MAX, limit: MAX_PAYLOAD }
        );
        assert_eq!(good.check(b"y"), Err(FrameError::PayloadChecksum));
        assert!(FrameError::Version(2).to_string().contains("version 2"));
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..5000u32).map(|index| (index * 31) as u8).collect();
        for cut in [0, 1, 12, 240, 241, 4999, 5000] {
            assert_eq!(checksum(&[&bytes[..cut], &bytes[cut..]]), checksum(&[&bytes]));
        }
    }
}
