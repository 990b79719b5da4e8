//! The messages: what a client can ask, and what it is told.

use std::fmt;

use triune_device::{
    BoardInfo, JobReport, LayerTime, Records, RegionId, RegionInfo, Segment, SegmentKind, Settings,
    spec::Precision,
};

use super::{Fields, FrameError, Kind, fields::Put};

/// Bytes of a [`Request::Write`] ahead of what is to be written.
pub const WRITE_HEAD: usize = 12;

/// The client's first message.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// Name of the device that the board should be of, such as `zg330`.
    pub device: String,
    /// The board's number; `None`: the first that is free.
    pub board: Option<u32>,
    /// Whether others may have the board at the same time.
    pub share: bool,
    /// Milliseconds of silence after which the client gives the server up.
    pub patience: u32,
    /// What the server's token file holds; empty: none.
    pub token: Vec<u8>,
}

impl Hello {
    /// Its payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_text(&self.device);
        out.put_u32(self.board.unwrap_or(u32::MAX));
        out.put_u8(u8::from(self.share));
        out.put_u32(self.patience);
        out.put_u32(self.token.len() as u32);
        out.extend_from_slice(&self.token);
        out
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn decode(payload: &[u8]) -> Result<Self, FrameError> {
        let mut fields = Fields::new(Kind::Hello, payload);
        let hello = Self {
            device: fields.text()?,
            board: Some(fields.u32()?).filter(|board| *board != u32::MAX),
            share: fields.flag()?,
            patience: fields.u32()?,
            token: {
                let length = fields.u32()? as usize;
                fields.bytes(length)?.to_vec()
            },
        };
        fields.end()?;
        Ok(hello)
    }
}

impl fmt::Debug for Hello {
    /// Everything but the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, board, share, patience, token: _ } = self;
        let mut all = f.debug_struct("Hello");
        all.field("device", device).field("board", board).field("share", share).field("patience", patience);
        all.finish_non_exhaustive()
    }
}

/// The server's answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The board's number.
    pub board: u32,
    /// Milliseconds of silence after which the server gives the client up.
    pub patience: u32,
    /// What the board has and is.
    pub info: BoardInfo,
}

impl Welcome {
    /// Its payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u32(self.board);
        out.put_u32(self.patience);
        out.put_text(&self.info.device);
        out.put_u8(u8::from(self.info.computes));
        out.put_u8(u8::from(self.info.watched));
        out.put_u32(self.info.regions.len() as u32);
        for region in &self.info.regions {
            out.put_text(&region.name);
            out.put_u64(region.bytes);
            out.put_u64(region.reserved);
        }
        out.put_u32(self.info.versions.len() as u32);
        for (part, version) in &self.info.versions {
            out.put_text(part);
            out.put_text(version);
        }
        out
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn decode(payload: &[u8]) -> Result<Self, FrameError> {
        let mut fields = Fields::new(Kind::Welcome, payload);
        let (board, patience) = (fields.u32()?, fields.u32()?);
        let (device, computes, watched) = (fields.text()?, fields.flag()?, fields.flag()?);
        let regions = fields.list(20, |fields| {
            Ok(RegionInfo { name: fields.text()?, bytes: fields.u64()?, reserved: fields.u64()? })
        })?;
        let versions = fields.list(8, |fields| Ok((fields.text()?, fields.text()?)))?;
        fields.end()?;
        Ok(Self { board, patience, info: BoardInfo { device, regions, versions, computes, watched } })
    }
}

/// What a client asks of its board: the methods of [`triune_device::Board`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the methods' parameters")]
pub enum Request<'a> {
    Allocate {
        region: RegionId,
        bytes: u64,
        alignment: u64,
    },
    AllocateAt {
        region: RegionId,
        start: u64,
        bytes: u64,
    },
    Free {
        region: RegionId,
        start: u64,
    },
    Live {
        region: RegionId,
    },
    Read {
        region: RegionId,
        start: u64,
        bytes: u32,
    },
    Write {
        region: RegionId,
        start: u64,
        bytes: &'a [u8],
    },
    Copy {
        from: (RegionId, u64),
        to: (RegionId, u64),
        bytes: u64,
    },
    ReadRegister {
        address: u64,
    },
    WriteRegister {
        address: u64,
        value: u32,
    },
    Settings,
    Configure(Settings),
    Run {
        start: u64,
        bytes: u64,
        /// Not checked yet: they may be misaligned or overlap.
        segments: Option<Vec<Segment>>,
    },
    Reset {
        level: u32,
    },
    Forget {
        ranges: Vec<(RegionId, u64, u64)>,
    },
}

impl<'a> Request<'a> {
    /// The frame's kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Allocate { .. } => Kind::Allocate,
            Self::AllocateAt { .. } => Kind::AllocateAt,
            Self::Free { .. } => Kind::Free,
            Self::Live { .. } => Kind::Live,
            Self::Read { .. } => Kind::Read,
            Self::Write { .. } => Kind::Write,
            Self::Copy { .. } => Kind::Copy,
            Self::ReadRegister { .. } => Kind::ReadRegister,
            Self::WriteRegister { .. } => Kind::WriteRegister,
            Self::Settings => Kind::Settings,
            Self::Configure(_) => Kind::Configure,
            Self::Run { .. } => Kind::Run,
            Self::Reset { .. } => Kind::Reset,
            Self::Forget { .. } => Kind::Forget,
        }
    }

    /// The payload's fields; the bytes that a write carries follow them.
    pub fn encode_head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Allocate { region, bytes, alignment } => {
                put_region(&mut out, *region);
                out.put_u64(*bytes);
                out.put_u64(*alignment);
            }
            Self::AllocateAt { region, start, bytes } => {
                put_region(&mut out, *region);
                out.put_u64(*start);
                out.put_u64(*bytes);
            }
            Self::Free { region, start } | Self::Write { region, start, .. } => {
                put_region(&mut out, *region);
                out.put_u64(*start);
            }
            Self::Live { region } => put_region(&mut out, *region),
            Self::Read { region, start, bytes } => {
                put_region(&mut out, *region);
                out.put_u64(*start);
                out.put_u32(*bytes);
            }
            Self::Copy { from, to, bytes } => {
                for (region, start) in [from, to] {
                    put_region(&mut out, *region);
                    out.put_u64(*start);
                }
                out.put_u64(*bytes);
            }
            Self::ReadRegister { address } => out.put_u64(*address),
            Self::WriteRegister { address, value } => {
                out.put_u64(*address);
                out.put_u32(*value);
            }
            Self::Settings => {}
            Self::Configure(settings) => put_settings(&mut out, settings),
            Self::Run { start, bytes, segments } => {
                out.put_u64(*start);
                out.put_u64(*bytes);
                out.put_u8(u8::from(segments.is_some()));
                if let Some(segments) = segments {
                    out.put_u32(segments.len() as u32);
                    for segment in segments {
                        put_region(&mut out, segment.region);
                        out.put_u64(segment.base);
                        out.put_u64(segment.len);
                        out.put_u8(segment_number(segment.kind));
                    }
                }
            }
            Self::Reset { level } => out.put_u32(*level),
            Self::Forget { ranges } => {
                out.put_u32(ranges.len() as u32);
                for (region, start, bytes) in ranges {
                    put_region(&mut out, *region);
                    out.put_u64s(&[*start, *bytes]);
                }
            }
        }
        out
    }

    /// Reads the payload of a frame of a kind.
    ///
    /// # Errors
    /// [`FrameError::Payload`], also for kinds that are no requests.
    pub fn decode(kind: Kind, payload: &'a [u8]) -> Result<Self, FrameError> {
        let mut fields = Fields::new(kind, payload);
        let fields = &mut fields;
        let request = match kind {
            Kind::Allocate => {
                Self::Allocate { region: region(fields)?, bytes: fields.u64()?, alignment: fields.u64()? }
            }
            Kind::AllocateAt => {
                Self::AllocateAt { region: region(fields)?, start: fields.u64()?, bytes: fields.u64()? }
            }
            Kind::Free => Self::Free { region: region(fields)?, start: fields.u64()? },
            Kind::Live => Self::Live { region: region(fields)? },
            Kind::Read => Self::Read { region: region(fields)?, start: fields.u64()?, bytes: fields.u32()? },
            Kind::Write => {
                Self::Write { region: region(fields)?, start: fields.u64()?, bytes: fields.rest() }
            }
            Kind::Copy => Self::Copy {
                from: (region(fields)?, fields.u64()?),
                to: (region(fields)?, fields.u64()?),
                bytes: fields.u64()?,
            },
            Kind::ReadRegister => Self::ReadRegister { address: fields.u64()? },
            Kind::WriteRegister => Self::WriteRegister { address: fields.u64()?, value: fields.u32()? },
            Kind::Settings => Self::Settings,
            Kind::Configure => Self::Configure(settings(fields)?),
            Kind::Run => {
                let (start, bytes) = (fields.u64()?, fields.u64()?);
                let segments = if fields.flag()? { Some(fields.list(21, segment)?) } else { None };
                Self::Run { start, bytes, segments }
            }
            Kind::Reset => Self::Reset { level: fields.u32()? },
            Kind::Forget => {
                let range = |fields: &mut Fields<'_>| Ok((region(fields)?, fields.u64()?, fields.u64()?));
                Self::Forget { ranges: fields.list(20, range)? }
            }
            _ => return Err(fields.fail("it is no request")),
        };
        fields.end()?;
        Ok(request)
    }
}

/// What a request gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but that it is done.
    Nothing,
    /// An address, a length or a register.
    Number(u64),
    /// Addresses with lengths.
    Ranges(Vec<(u64, u64)>),
    /// Bytes of the board's memory.
    Bytes(Vec<u8>),
    /// What is set.
    Settings(Settings),
    /// What a job cost.
    Report(JobReport),
}

impl Answer {
    /// Its payload, which is cut into frames.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Nothing => {}
            Self::Number(value) => out.put_u64(*value),
            Self::Ranges(ranges) => {
                out.put_u32(ranges.len() as u32);
                for (start, length) in ranges {
                    out.put_u64(*start);
                    out.put_u64(*length);
                }
            }
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::Settings(settings) => put_settings(&mut out, settings),
            Self::Report(report) => {
                out.put_u64s(&[report.layer_count, report.cycles, report.nanoseconds]);
                out.put_u32(report.layers.len() as u32);
                for layer in &report.layers {
                    out.put_u64(layer.start);
                    out.put_u64(layer.end);
                }
            }
        }
        out
    }

    /// Reads the answer to a request of a kind.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn decode(to: Kind, payload: &[u8]) -> Result<Self, FrameError> {
        let mut fields = Fields::new(Kind::Done, payload);
        let answer = match to {
            Kind::Allocate | Kind::Free | Kind::ReadRegister => Self::Number(fields.u64()?),
            Kind::Live => Self::Ranges(fields.list(16, |fields| Ok((fields.u64()?, fields.u64()?)))?),
            Kind::Read => Self::Bytes(fields.rest().to_vec()),
            Kind::Settings => Self::Settings(settings(&mut fields)?),
            Kind::Run => Self::Report(JobReport {
                layer_count: fields.u64()?,
                cycles: fields.u64()?,
                nanoseconds: fields.u64()?,
                layers: fields
                    .list(16, |fields| Ok(LayerTime { start: fields.u64()?, end: fields.u64()? }))?,
            }),
            _ => Self::Nothing,
        };
        fields.end()?;
        Ok(answer)
    }
}

fn put_region(out: &mut Vec<u8>, region: RegionId) {
    // No board has so many regions: an index that does not fit becomes one that is unknown.
    out.put_u32(u32::try_from(region.0).unwrap_or(u32::MAX));
}

fn region(fields: &mut Fields<'_>) -> Result<RegionId, FrameError> {
    Ok(RegionId(fields.u32()? as usize))
}

fn put_settings(out: &mut Vec<u8>, settings: &Settings) {
    out.put_u64(settings.core_hz);
    out.put_u64(settings.memory_hz);
    for count in settings.engines {
        out.put_u32(count);
    }
    out.put_u8(match settings.precision {
        Precision::Int8 => 8,
        Precision::Int16 => 16,
    });
    for records in [settings.timer, settings.profiler] {
        out.put_u8(u8::from(records.is_some()));
        if let Some(Records { region, start, bytes }) = records {
            put_region(out, region);
            out.put_u64s(&[start, bytes]);
        }
    }
}

fn settings(fields: &mut Fields<'_>) -> Result<Settings, FrameError> {
    Ok(Settings {
        core_hz: fields.u64()?,
        memory_hz: fields.u64()?,
        engines: [fields.u32()?, fields.u32()?],
        precision: match fields.u8()? {
            8 => Precision::Int8,
            16 => Precision::Int16,
            other => return Err(fields.fail(format!("a width of {other} bits"))),
        },
        timer: records(fields)?,
        profiler: records(fields)?,
    })
}

fn records(fields: &mut Fields<'_>) -> Result<Option<Records>, FrameError> {
    if !fields.flag()? {
        return Ok(None);
    }
    Ok(Some(Records { region: region(fields)?, start: fields.u64()?, bytes: fields.u64()? }))
}

const SEGMENT_KINDS: [SegmentKind; 7] = [
    SegmentKind::Instructions,
    SegmentKind::Constants,
    SegmentKind::Scratch,
    SegmentKind::Resident,
    SegmentKind::Input,
    SegmentKind::Output,
    SegmentKind::Spilled,
];

fn segment_number(kind: SegmentKind) -> u8 {
    match kind {
        SegmentKind::Instructions => 0,
        SegmentKind::Constants => 1,
        SegmentKind::Scratch => 2,
        SegmentKind::Resident => 3,
        SegmentKind::Input => 4,
        SegmentKind::Output => 5,
        SegmentKind::Spilled => 6,
    }
}

fn segment(fields: &mut Fields<'_>) -> Result<Segment, FrameError> {
    Ok(Segment {
        region: region(fields)?,
        base: fields.u64()?,
        len: fields.u64()?,
        kind: {
            let number = fields.u8()?;
            *SEGMENT_KINDS
                .get(usize::from(number))
                .ok_or_else(|| fields.fail(format!("the kind {number} of a segment is unknown")))?
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(kind in select(&Kind::ALL[..]), payload in vec(any::<u8>(), 0..96)) {
            if let Ok(request) = Request::decode(kind, &payload) {
                prop_assert_eq!(self::payload(&request), &payload[..]);
            }
            if let Ok(answer) = Answer::decode(kind, &payload) {
                prop_assert_eq!(answer.encode(), &payload[..]);
            }
            let _ = (Hello::decode(&payload), Welcome::decode(&payload));
        }

        #[test]
        fn lists_of_any_length_come_back(ranges in vec(any::<(u64, u64)>(), 0..40)) {
            let answer = Answer::Ranges(ranges);
            prop_assert_eq!(Answer::decode(Kind::Live, &answer.encode()).unwrap(), answer);
        }
    }

    fn requests() -> Vec<Request<'static>> {
        let region = RegionId(1);
        let segments = SEGMENT_KINDS.map(|kind| Segment { region, base: 64, len: 9, kind }).to_vec();
        vec![
            Request::Allocate { region, bytes: 1, alignment: 2 },
            Request::AllocateAt { region, start: 1, bytes: 2 },
            Request::Free { region, start: 3 },
            Request::Live { region },
            Request::Read { region, start: 4, bytes: 5 },
            Request::Write { region, start: 6, bytes: b"seven" },
            Request::Copy { from: (region, 8), to: (RegionId(0), 9), bytes: 10 },
            Request::ReadRegister { address: 11 },
            Request::WriteRegister { address: 12, value: 13 },
            Request::Settings,
            Request::Configure(example_settings()),
            Request::Run { start: 14, bytes: 15, segments: None },
            Request::Run { start: 14, bytes: 15, segments: Some(segments) },
            Request::Reset { level: 1 },
            Request::Forget { ranges: vec![(region, 16, 17), (RegionId(0), 18, 19)] },
        ]
    }

    fn example_settings() -> Settings {
        Settings {
            core_hz: 1,
            memory_hz: 2,
            engines: [3, 4],
            precision: Precision::Int16,
            timer: Some(Records { region: RegionId(5), start: 6, bytes: 7 }),
            profiler: None,
        }
    }

    fn payload(request: &Request<'_>) -> Vec<u8> {
        let mut bytes = request.encode_head();
        if let Request::Write { bytes: data, .. } = request {
            assert_eq!(bytes.len(), WRITE_HEAD);
            bytes.extend_from_slice(data);
        }
        bytes
    }

    #[test]
    fn requests_come_back() {
        for request in requests() {
            let bytes = payload(&request);
            assert_eq!(Request::decode(request.kind(), &bytes).unwrap(), request);
            if request.kind() != Kind::Write {
                for length in 0..bytes.len() {
                    assert!(Request::decode(request.kind(), &bytes[..length]).is_err(), "{request:?}");
                }
                assert!(Request::decode(request.kind(), &[&*bytes, &[0]].concat()).is_err(), "{request:?}");
            }
        }
        assert!(Request::decode(Kind::Hello, b"").is_err());
    }

    #[test]
    fn answers_come_back() {
        let layers = vec![LayerTime { start: 1, end: 2 }, LayerTime { start: 2, end: 5 }];
        let report = JobReport { layer_count: 2, cycles: 5, nanoseconds: 6, layers };
        for (to, answer) in [
            (Kind::Allocate, Answer::Number(1)),
            (Kind::Write, Answer::Nothing),
            (Kind::Live, Answer::Ranges(vec![(1, 2), (3, 4)])),
            (Kind::Read, Answer::Bytes(b"abc".to_vec())),
            (Kind::Settings, Answer::Settings(example_settings())),
            (Kind::Run, Answer::Report(report)),
        ] {
            assert_eq!(Answer::decode(to, &answer.encode()).unwrap(), answer);
        }
    }

    #[test]
    fn counts_are_checked_before_anything_is_allocated() {
        let mut bytes = Request::Run { start: 0, bytes: 0, segments: Some(Vec::new()) }.encode_head();
        let count = bytes.len() - 4;
        bytes[count..].fill(0xff);
        let error = Request::decode(Kind::Run, &bytes).unwrap_err();
        assert!(error.to_string().contains("4294967295 items"), "{error}");
    }

    #[test]
    fn greetings_come_back() {
        let hello = Hello {
            device: "zg330".into(),
            board: Some(3),
            share: true,
            patience: 30_000,
            token: b"secret".to_vec(),
        };
        assert_eq!(Hello::decode(&hello.encode()).unwrap(), hello);
        assert!(!format!("{hello:?}").contains("115, 101"), "the token is told");
        let first = Hello { board: None, ..hello };
        assert_eq!(Hello::decode(&first.encode()).unwrap(), first);
        let info = BoardInfo {
            device: "zg330".into(),
            regions: vec![RegionInfo { name: "ddr".into(), bytes: 1 << 32, reserved: 4096 }],
            versions: vec![("core".into(), "1.0".into())],
            computes: true,
            watched: true,
        };
        let welcome = Welcome { board: 1, patience: 2, info };
        assert_eq!(Welcome::decode(&welcome.encode()).unwrap(), welcome);
    }
}
