//! Products of bytes in tiles: 16 rows of 64 bytes times 64 × 16 bytes at once. Columns, and rows that fill no tile, are VNNI's.
//!
//! The compiler knows no tiles yet: instructions are written as such, and the system is asked for their registers once.

use std::arch::{
    asm,
    x86_64::{__cpuid, __cpuid_count, _xgetbv},
};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::arch::int8::SumsKernel;
use crate::arch::int8_avx512::sums;
use crate::imatmul::Block;

/// Steps of 4 bytes of depth that a tile has.
pub(crate) const STEPS: usize = 16;
/// Rows of the kernels by number of panels.
pub(crate) const ROWS: &[&[usize]] = &[&[32, 16, 8, 4, 2, 1], &[32, 16, 12, 8, 4, 2, 1]];

/// Bytes of a line of a tile, lines of a tile.
const LINE: usize = 64;
const LINES: usize = 16;

/// Whether the machine has tiles of bytes and the system saves them.
pub(crate) fn is_available() -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    // Threads that ask first at the same time all find out, as with the instruction sets.
    static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
    match FOUND.load(Relaxed) {
        UNKNOWN => {
            let found = has_tiles() && is_permitted();
            FOUND.store(if found { YES } else { NO }, Relaxed);
            found
        }
        found => found == YES,
    }
}

fn has_tiles() -> bool {
    const TILES_OF_BYTES: u32 = 1 << 24 | 1 << 25;
    const SAVED_BY_SYSTEM: u32 = 1 << 27;
    const TILE_STATE: u64 = 1 << 17 | 1 << 18;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & SAVED_BY_SYSTEM == 0 {
        return false;
    }
    // SAFETY: the system saves registers by `xsave`, which comes with this instruction.
    let saved = unsafe { state() };
    __cpuid_count(7, 0).edx & TILES_OF_BYTES == TILES_OF_BYTES && saved & TILE_STATE == TILE_STATE
}

/// What the system saves of a thread's registers.
///
/// # Safety
/// The system has switched `xsave` on.
#[target_feature(enable = "xsave")]
unsafe fn state() -> u64 {
    // SAFETY: the caller's contract.
    unsafe { _xgetbv(0) }
}

/// Asks the system for the tiles' registers, for all threads of the process.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const REQUEST_PERMISSION: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let result: isize;
    // SAFETY: a system call that reads and writes no memory of the process.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// The shape of every tile: 16 lines of 64 bytes.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    line_bytes: [u16; 16],
    lines: [u8; 16],
}

static SHAPES: Shapes = Shapes {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    line_bytes: [
        LINE as u16,
        LINE as u16,
        LINE as u16,
        LINE as u16,
        LINE as u16,
        LINE as u16,
        LINE as u16,
        LINE as u16,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ],
    lines: [
        LINES as u8,
        LINES as u8,
        LINES as u8,
        LINES as u8,
        LINES as u8,
        LINES as u8,
        LINES as u8,
        LINES as u8,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ],
};

/// Before kernels run on this thread.
///
/// # Safety
/// [`is_available`].
pub(crate) unsafe fn begin() {
    // SAFETY: the caller's contract; the shapes are 64 bytes as the instruction wants them.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, readonly)) };
}

/// Behind them: registers that are free again need not be saved.
///
/// # Safety
/// [`is_available`].
pub(crate) unsafe fn end() {
    // SAFETY: the caller's contract.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// The kernel for rows and panels out of [`ROWS`]; between [`begin`] and [`end`].
pub(crate) fn kernel(rows: usize, panels: usize) -> SumsKernel {
    match (rows, panels) {
        (32, 2) => four_tiles,
        (32, 1) => tiles::<2, 1>,
        (16, 2) => tiles::<1, 2>,
        (16, 1) => tiles::<1, 1>,
        _ => sums::<true>(rows, panels),
    }
}

/// 32 rows times two panels: each tile of either operand serves two of sums.
///
/// # Safety
/// As [`tiles`].
unsafe fn four_tiles(block: &Block) {
    let panel = block.steps * LINE;
    // SAFETY: the block has 32 rows and two panels, both padded to whole tiles, and room for 32 × 32 sums.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{a} + {stride}]",
            "tileloadd tmm6, [{b} + {line}]",
            "tdpbusd tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{other} + {line}]",
            "tdpbusd tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{below} + {stride}]",
            "tdpbusd tmm2, tmm5, tmm6",
            "tdpbusd tmm3, tmm5, tmm7",
            "add {a}, 64",
            "add {below}, 64",
            "add {b}, 1024",
            "add {other}, 1024",
            "dec {count}",
            "jnz 2b",
            "add {line}, {line}",
            "tilestored [{c} + {line}], tmm0",
            "tilestored [{c} + {line} + 64], tmm1",
            "tilestored [{c} + {line} + 2048], tmm2",
            "tilestored [{c} + {line} + 2112], tmm3",
            a = inout(reg) block.activations => _,
            below = inout(reg) block.activations.add(LINES * block.stride) => _,
            b = inout(reg) block.weights => _,
            other = inout(reg) block.weights.add(panel) => _,
            stride = in(reg) block.stride,
            line = inout(reg) LINE => _,
            count = inout(reg) block.steps / STEPS => _,
            c = in(reg) block.sums,
            options(nostack),
        );
    }
}

/// 16 · MR rows times NV panels, tile by tile.
///
/// # Safety
/// [`is_available`]; the block describes as many rows and panels that exist, a number of steps above 0 that is a multiple of [`STEPS`],
/// and has room for their sums.
unsafe fn tiles<const MR: usize, const NV: usize>(block: &Block) {
    for row in 0..MR {
        for panel in 0..NV {
            // SAFETY: the caller's contract.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "2:",
                    "tileloadd tmm4, [{a} + {stride}]",
                    "tileloadd tmm6, [{b} + {line}]",
                    "tdpbusd tmm0, tmm4, tmm6",
                    "add {a}, 64",
                    "add {b}, 1024",
                    "dec {count}",
                    "jnz 2b",
                    "tilestored [{c} + {line} * {times}], tmm0",
                    a = inout(reg) block.activations.add(row * LINES * block.stride) => _,
                    b = inout(reg) block.weights.add(panel * block.steps * LINE) => _,
                    stride = in(reg) block.stride,
                    line = in(reg) LINE,
                    count = inout(reg) block.steps / STEPS => _,
                    c = in(reg) block.sums.add((row * LINES * NV + panel) * LINES),
                    times = const NV,
                    options(nostack),
                );
            }
        }
    }
}
