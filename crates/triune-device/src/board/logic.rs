//! Registers of the logic beside an accelerator, and what starting it does: pictures to feature maps (`ImageMake`, fed by a DMA
//! from `udma`), candidates of detectors (`DetPost`), boxes that stay (NMS).
//!
//! Addresses and meanings are those of public programs for the vendor's boards, which set these registers themselves.

use super::registers::{Kind, Register, State, register};
use crate::{
    Error, RegionId,
    logic::{Arrangement, CHANNELS, Compare, DetPost, ImageMake, Nms, Overlap, UNIT_BYTES, WORD_BYTES},
};

/// A piece of logic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    ImageMake,
    DetPost,
    Nms,
}

/// The DMA that feeds pictures.
const FEED: u64 = 0x1_000c_0000;
/// `ImageMake` of the first input port, which the DMA feeds. The others are cameras'.
const IMAGE: u64 = 0x1_0000_0400;
const POST: u64 = 0x1_0000_0800;
const NMS: u64 = 0x1_0000_1c00;

/// What the logic calls itself: programs refuse to work with another.
const IMAGE_VERSION: u32 = 0x2022_0623;
const POST_VERSION: u32 = 0x2022_0623;
const NMS_VERSION: u32 = 0x2311_0200;

/// Bytes of the words that the DMA is told the length in; it moves three of them at once.
const FEED_WORDS: u64 = 3;
const FEED_BYTES: u64 = FEED_WORDS * 8;
/// Extents of feature maps have 16 bits.
const MOST_EXTENT: u64 = 1 << 16;
/// Boxes at most, as programs have it.
const MOST_BOXES: u64 = 8192;
/// Boxes in a group.
const GROUP: u64 = 16;

/// Registers of a board with all of the logic.
pub(super) const ALL: &[Register] = &[
    register(FEED, "ImageMake DMA start", Kind::Start(Unit::ImageMake)),
    register(FEED + 0x04, "ImageMake DMA udma address", Kind::Stored),
    register(FEED + 0x08, "ImageMake DMA length", Kind::Stored),
    register(FEED + 0x0c, "ImageMake DMA last shift", Kind::Stored),
    register(FEED + 0x10, "ImageMake DMA channels", Kind::Stored),
    register(FEED + 0x1c, "ImageMake DMA enable", Kind::Stored),
    register(FEED + 0x20, "ImageMake DMA mode", Kind::Stored),
    register(IMAGE + 0x04, "ImageMake one fast", Kind::Stored),
    Register { count: 4, ..register(IMAGE + 0x14, "ImageMake mean and scale", Kind::Stored) },
    register(IMAGE + 0x114, "ImageMake plddr address", Kind::Stored),
    register(IMAGE + 0x118, "ImageMake columns", Kind::Stored),
    register(IMAGE + 0x11c, "ImageMake rows", Kind::Stored),
    register(IMAGE + 0x124, "ImageMake padding", Kind::Stored),
    Register { count: 64, ..register(IMAGE + 0x128, "ImageMake padding values", Kind::Stored) },
    register(IMAGE + 0x228, "ImageMake done", Kind::Done),
    register(IMAGE + 0x22c, "ImageMake last cycles", Kind::Stored),
    register(IMAGE + 0x234, "ImageMake version", Kind::Fixed(IMAGE_VERSION)),
    register(IMAGE + 0x238, "ImageMake cycles", Kind::Made),
    register(IMAGE + 0x240, "ImageMake channels", Kind::Stored),
    register(IMAGE + 0x244, "ImageMake times", Kind::Stored),
    register(IMAGE + 0x254, "ImageMake arrangement", Kind::Stored),
    register(IMAGE + 0x260, "ImageMake pixels accepted", Kind::Made),
    register(POST + 0x04, "DetPost reset", Kind::Stored),
    register(POST + 0x08, "DetPost start", Kind::Start(Unit::DetPost)),
    register(POST + 0x0c, "DetPost done", Kind::Done),
    register(POST + 0x10, "DetPost parts", Kind::Stored),
    Register { count: 3, ..register(POST + 0x14, "DetPost plddr addresses", Kind::Stored) },
    register(POST + 0x20, "DetPost last column", Kind::Stored),
    register(POST + 0x24, "DetPost last row", Kind::Stored),
    Register { count: 3, ..register(POST + 0x28, "DetPost last units", Kind::Stored) },
    register(POST + 0x34, "DetPost unit step", Kind::Stored),
    register(POST + 0x38, "DetPost last anchor", Kind::Stored),
    Register { count: 3, ..register(POST + 0x3c, "DetPost anchor steps", Kind::Stored) },
    register(POST + 0x48, "DetPost compare", Kind::Stored),
    register(POST + 0x4c, "DetPost threshold", Kind::Stored),
    Register { count: 2, ..register(POST + 0x50, "DetPost mask", Kind::Stored) },
    register(POST + 0x58, "DetPost udma address", Kind::Stored),
    register(POST + 0x5c, "DetPost last valid word", Kind::Stored),
    register(POST + 0x60, "DetPost cycles", Kind::Made),
    register(POST + 0x68, "DetPost version", Kind::Fixed(POST_VERSION)),
    register(POST + 0x70, "DetPost candidates", Kind::Made),
    register(POST + 0x74, "DetPost last compared unit", Kind::Stored),
    register(POST + 0x78, "DetPost rows", Kind::Made),
    register(POST + 0x7c, "DetPost words written", Kind::Made),
    register(POST + 0x80, "DetPost part step and type", Kind::Stored),
    register(NMS, "NMS start", Kind::Start(Unit::Nms)),
    register(NMS + 0x04, "NMS done", Kind::Done),
    register(NMS + 0x08, "NMS version", Kind::Fixed(NMS_VERSION)),
    register(NMS + 0x14, "NMS reset", Kind::Stored),
    register(NMS + 0x1c, "NMS first byte read", Kind::Stored),
    register(NMS + 0x20, "NMS first byte written", Kind::Stored),
    register(NMS + 0x24, "NMS last word read", Kind::Stored),
    register(NMS + 0x28, "NMS last word written", Kind::Stored),
    register(NMS + 0x2c, "NMS groups", Kind::Stored),
    register(NMS + 0x30, "NMS mode", Kind::Stored),
    register(NMS + 0x34, "NMS threshold", Kind::Stored),
    register(NMS + 0x38, "NMS words written", Kind::Stored),
];

/// The memories that logic reads and writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) far: RegionId,
    pub(super) udma: RegionId,
}

/// Bytes of a memory: region, first byte, how many.
pub(super) type Bytes = (RegionId, u64, u64);

/// What a piece of logic was started for.
#[derive(Debug)]
pub(super) enum Task {
    Picture { make: ImageMake, from: Bytes, to: (RegionId, u64) },
    Candidates { post: DetPost, maps: Vec<Bytes>, to: (RegionId, u64) },
    Boxes { nms: Nms, from: Bytes, to: (RegionId, u64), words: u64 },
}

impl Task {
    /// What the registers say.
    pub(super) fn of(unit: Unit, state: &State, device: &str, at: Places) -> Result<Self, Error> {
        let read = |address: u64| state.stored(address);
        match unit {
            Unit::ImageMake => picture(&read, at),
            Unit::DetPost => candidates(&read, at),
            Unit::Nms => boxes(&read, at),
        }
        .map_err(|problem| Error::Board(format!("{device}: {problem}")))
    }

    /// The memory that it reads.
    pub(super) fn reads(&self) -> &[Bytes] {
        match self {
            Self::Picture { from, .. } | Self::Boxes { from, .. } => std::slice::from_ref(from),
            Self::Candidates { maps, .. } => maps,
        }
    }

    /// What it writes, where, and what the registers show then, for the bytes that it reads.
    pub(super) fn run(&self, read: &[Vec<u8>]) -> Result<Done, Error> {
        let count = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let first = read.first().map_or(&[][..], Vec::as_slice);
        match self {
            Self::Picture { make, to, .. } => {
                let pixels = (make.width as u64).saturating_mul(make.height as u64);
                let registers = vec![
                    (IMAGE + 0x228, 1),
                    (IMAGE + 0x238, count(make.cycles())),
                    (IMAGE + 0x260, count(pixels)),
                ];
                Ok(Done { to: *to, bytes: make.run(first)?, registers })
            }
            Self::Candidates { post, to, .. } => {
                let maps: Vec<&[u8]> = read.iter().map(Vec::as_slice).collect();
                let bytes = post.run(&maps)?;
                let rows = bytes.len() / post.row_bytes().max(1);
                let words = (bytes.len() / WORD_BYTES) as u64;
                let registers = vec![
                    (POST + 0x0c, 1),
                    (POST + 0x60, count(post.cycles(rows))),
                    (POST + 0x70, count(rows as u64)),
                    (POST + 0x78, count(rows as u64)),
                    (POST + 0x7c, count(words)),
                ];
                Ok(Done { to: *to, bytes, registers })
            }
            Self::Boxes { nms, to, words, .. } => {
                let mut bytes = nms.run(first)?;
                bytes.resize((words * 8) as usize, 0);
                Ok(Done { to: *to, bytes, registers: vec![(NMS + 0x04, 1)] })
            }
        }
    }
}

/// What logic has done.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) to: (RegionId, u64),
    pub(super) bytes: Vec<u8>,
    pub(super) registers: Vec<(u64, u32)>,
}

fn picture(read: &impl Fn(u64) -> u32, at: Places) -> Result<Task, String> {
    let [width, height] = [0x118, 0x11c].map(|offset| u64::from(read(IMAGE + offset)));
    if width == 0 || height == 0 {
        return Err("ImageMake is fed a picture before it is set up: apply a session of a network that has it, or initOp it".into());
    }
    let channels = u64::from(read(IMAGE + 0x240)) * u64::from(read(IMAGE + 0x244));
    let given = u64::from(read(FEED + 0x10));
    let wide = match read(FEED + 0x20) {
        0 => false,
        2 => true,
        other => return Err(format!("ImageMake's DMA has mode {other}; 0 is uint8, 2 is int16")),
    };
    if given != channels || !(1..=CHANNELS as u64).contains(&channels) {
        return Err(format!(
            "ImageMake is set up for {channels} channels and fed {given}; 1 to {CHANNELS} can be, as many as it is set up for"
        ));
    }
    let each = channels * if wide { 2 } else { 1 };
    let (length, last) = (u64::from(read(FEED + 0x08)), u64::from(read(FEED + 0x0c)));
    let groups = (length / FEED_WORDS).saturating_sub(1);
    let fed = (groups * (FEED_BYTES / each)).saturating_add(last);
    if fed != width * height {
        return Err(format!(
            "ImageMake is set up for an image of {width} * {height}, but is fed {fed} pixels"
        ));
    }
    let arrangement = read(IMAGE + 0x254);
    let Some(arrangement) = Arrangement::of(arrangement) else {
        return Err(format!("ImageMake has arrangement {arrangement}; 0 is int8, 1 is int16, 2 is uint8"));
    };
    if read(IMAGE + 0x04) != 0 {
        return Err("ImageMake's register 'one fast' is set: what it changes is not published".into());
    }
    if (0..64).any(|index| read(IMAGE + 0x128 + 4 * index) != 0) {
        return Err("ImageMake pads with other numbers than 0, which is not modelled".into());
    }
    let pads = read(IMAGE + 0x124).to_le_bytes().map(usize::from);
    let factors: [u32; CHANNELS] = std::array::from_fn(|index| read(IMAGE + 0x14 + 4 * index as u64));
    let make = ImageMake {
        width: width as usize,
        height: height as usize,
        channels: channels as usize,
        mean: factors.map(|factor| (factor >> 16) as i16),
        scale: factors.map(|factor| factor as i16),
        pads,
        wide,
        arrangement,
    };
    let bytes = make.input_bytes().map_err(|error| error.to_string())?;
    let from = (at.udma, read(FEED + 0x04).into(), bytes as u64);
    Ok(Task::Picture { make, from, to: (at.far, read(IMAGE + 0x114).into()) })
}

fn candidates(read: &impl Fn(u64) -> u32, at: Places) -> Result<Task, String> {
    let one_more = |offset: u64| u64::from(read(POST + offset)) + 1;
    let count = match read(POST + 0x10) {
        1 => 1,
        3 => 2,
        7 => 3,
        other => return Err(format!("DetPost has parts {other:#b}; 0b1, 0b11 and 0b111 can be")),
    };
    let (width, height) = (one_more(0x20), one_more(0x24));
    let parts: Vec<u64> = (0..count).map(|part| one_more(0x28 + 4 * part)).collect();
    if parts
        .iter()
        .chain([&width, &height, &one_more(0x38), &one_more(0x74)])
        .any(|&extent| extent > MOST_EXTENT)
    {
        return Err(format!("DetPost has columns, rows, units or anchors beyond {MOST_EXTENT}"));
    }
    let halves = |name: &str, offset: u64, wanted: u64| {
        let found = u64::from(read(POST + offset));
        if found == wanted {
            Ok(())
        } else {
            Err(format!("DetPost's register {name} is {found}; maps that lie in blocks have {wanted}"))
        }
    };
    let step = 2 * width * height;
    halves("unit step", 0x34, step)?;
    for (part, units) in (0..count).zip(&parts) {
        halves("anchor step", 0x3c + 4 * part, step * units)?;
    }
    let last = read(POST + 0x80);
    if u64::from(last >> 1) != step {
        return Err(format!(
            "DetPost's register part step is {}; maps that lie in blocks have {step}",
            last >> 1
        ));
    }
    let mask = u64::from(read(POST + 0x50)) | u64::from(read(POST + 0x54)) << 32;
    let compare = (read(POST + 0x48) != 0).then_some(Compare {
        units: one_more(0x74) as usize,
        mask,
        threshold: read(POST + 0x4c) as i32,
    });
    let post = DetPost {
        width: width as usize,
        height: height as usize,
        anchors: one_more(0x38) as usize,
        parts: parts.iter().map(|&units| units as usize).collect(),
        valid: one_more(0x5c) as usize,
        compare,
        wide: last & 1 == 1,
    };
    let sizes = post.map_bytes().map_err(|error| error.to_string())?;
    let half = (UNIT_BYTES / 2) as u64;
    let maps = (0..count).zip(sizes).map(|(part, size)| {
        let first = u64::from(read(POST + 0x14 + 4 * part)) * half;
        (at.far, first, size as u64)
    });
    let to = u64::from(read(POST + 0x58)) * WORD_BYTES as u64;
    Ok(Task::Candidates { post, maps: maps.collect(), to: (at.udma, to) })
}

fn boxes(read: &impl Fn(u64) -> u32, at: Places) -> Result<Task, String> {
    let word = |offset: u64| u64::from(read(NMS + offset));
    let (groups, words) = (word(0x2c), word(0x38));
    let boxes = groups * GROUP;
    if boxes == 0 || boxes > MOST_BOXES {
        return Err(format!("NMS has {boxes} boxes; 1 to {MOST_BOXES} can be"));
    }
    let bytes = Nms::bytes(boxes as usize) as u64;
    let (from, to) = (word(0x1c), word(0x20));
    let last = [(0x24, from + bytes - 8), (0x28, to + (words * 8).saturating_sub(8))];
    if last.iter().any(|&(offset, wanted)| word(offset) != wanted) || words != boxes.div_ceil(64) {
        return Err(format!(
            "NMS reads {boxes} boxes of 10 bytes at {from:#x} and writes {words} words at {to:#x}, a bit for each box: its registers \
             for the last word read and written, and how many are written, say something else"
        ));
    }
    let overlap = match word(0x30) {
        0 => Overlap::SameClass,
        1 => Overlap::AllClasses,
        other => return Err(format!("NMS has mode {other}; 0 is within classes, 1 among all")),
    };
    let nms = Nms { threshold: read(NMS + 0x34), overlap };
    Ok(Task::Boxes { nms, from: (at.udma, from, bytes), to: (at.udma, to), words })
}
