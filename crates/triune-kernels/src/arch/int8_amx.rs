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
        (32, 2) => tiles::<2, 2>,
        (32, 1) => tiles::<2, 1>,
        (16, 2) => tiles::<1, 2>,
        (16, 1) => tiles::<1, 1>,
        _ => sums::<true>(rows, panels),
    }
}

/// 16 · MR rows times NV panels.
///
/// # Safety
/// [`is_available`]; the block describes as many rows and panels that exist, a number of steps above 0 that is a multiple of [`STEPS`],
/// and has room for their sums.
unsafe fn tiles<const MR: usize, const NV: usize>(block: &Block) {
    const NOTHING: [i32; 2 * LINES] = [0; 2 * LINES];
    // SAFETY: the caller's contract.
    unsafe {
        load::<MR, NV>(NOTHING.as_ptr());
        add::<MR, NV, false>(&Operands {
            activations: block.activations,
            stride: block.stride,
            weights: block.weights,
            panel: block.steps * LINE,
            count: block.steps / STEPS,
        });
        store::<MR, NV>(block.sums);
    }
}

/// What is multiplied in tiles.
pub(crate) struct Operands {
    /// The first row of activations, and bytes to the next.
    pub(crate) activations: *const u8,
    pub(crate) stride: usize,
    /// The first panel of weights, and bytes to the next.
    pub(crate) weights: *const u8,
    pub(crate) panel: usize,
    /// Tiles of depth, one at least.
    pub(crate) count: usize,
}

/// Moves a tile whose lines are a step apart.
macro_rules! each_line {
    ($text:literal, $at:expr, $step:expr) => {
        asm!($text, at = in(reg) $at, step = in(reg) $step, options(nostack))
    };
}

/// Lets each of 16 · MR rows of sums, over NV panels, begin with the same numbers.
///
/// # Safety
/// Between [`begin`] and [`end`]; there are 16 · NV numbers.
pub(crate) unsafe fn load<const MR: usize, const NV: usize>(numbers: *const i32) {
    const { assert!((MR == 1 || MR == 2) && (NV == 1 || NV == 2)) };
    // Lines that are no bytes apart are the same.
    let none = 0_usize;
    // SAFETY: the caller's contract.
    unsafe {
        each_line!("tileloadd tmm0, [{at} + {step}]", numbers, none);
        if NV == 2 {
            each_line!("tileloadd tmm1, [{at} + {step} + 64]", numbers, none);
        }
        if MR == 2 {
            each_line!("tileloadd tmm2, [{at} + {step}]", numbers, none);
        }
        if MR * NV == 4 {
            each_line!("tileloadd tmm3, [{at} + {step} + 64]", numbers, none);
        }
    }
}

/// The loop over depth: what is loaded and multiplied of each tile.
macro_rules! depth {
    ($operands:ident, $($line:expr),*) => {
        asm!(
            "2:",
            $($line,)*
            "add {a}, 64",
            "add {below}, 64",
            "add {b}, 1024",
            "add {other}, 1024",
            "dec {count}",
            "jnz 2b",
            a = inout(reg) $operands.activations => _,
            below = inout(reg) $operands.activations.wrapping_add(LINES * $operands.stride) => _,
            b = inout(reg) $operands.weights => _,
            other = inout(reg) $operands.weights.wrapping_add($operands.panel) => _,
            stride = in(reg) $operands.stride,
            line = in(reg) LINE,
            count = inout(reg) $operands.count => _,
            options(nostack, readonly),
        )
    };
}

macro_rules! products {
    ($operands:ident, $dot:literal) => {
        match (MR, NV) {
            (2, 2) => depth!(
                $operands,
                "tileloadd tmm4, [{a} + {stride}]",
                "tileloadd tmm6, [{b} + {line}]",
                concat!($dot, " tmm0, tmm4, tmm6"),
                "tileloadd tmm7, [{other} + {line}]",
                concat!($dot, " tmm1, tmm4, tmm7"),
                "tileloadd tmm5, [{below} + {stride}]",
                concat!($dot, " tmm2, tmm5, tmm6"),
                concat!($dot, " tmm3, tmm5, tmm7")
            ),
            (2, 1) => depth!(
                $operands,
                "tileloadd tmm4, [{a} + {stride}]",
                "tileloadd tmm6, [{b} + {line}]",
                concat!($dot, " tmm0, tmm4, tmm6"),
                "tileloadd tmm5, [{below} + {stride}]",
                concat!($dot, " tmm2, tmm5, tmm6")
            ),
            (1, 2) => depth!(
                $operands,
                "tileloadd tmm4, [{a} + {stride}]",
                "tileloadd tmm6, [{b} + {line}]",
                concat!($dot, " tmm0, tmm4, tmm6"),
                "tileloadd tmm7, [{other} + {line}]",
                concat!($dot, " tmm1, tmm4, tmm7")
            ),
            _ => depth!(
                $operands,
                "tileloadd tmm4, [{a} + {stride}]",
                "tileloadd tmm6, [{b} + {line}]",
                concat!($dot, " tmm0, tmm4, tmm6")
            ),
        }
    };
}

/// Adds products to sums that [`load`] began: 16 · MR rows of unsigned or `SIGNED` bytes times NV panels.
///
/// # Safety
/// Between [`begin`] and [`end`]; the rows and panels exist, `count` lines of 64 bytes of each row and 16 of each panel.
pub(crate) unsafe fn add<const MR: usize, const NV: usize, const SIGNED: bool>(operands: &Operands) {
    const { assert!((MR == 1 || MR == 2) && (NV == 1 || NV == 2)) };
    // SAFETY: the caller's contract.
    unsafe {
        if SIGNED {
            products!(operands, "tdpbssd");
        } else {
            products!(operands, "tdpbusd");
        }
    }
}

/// Stores the sums, row after row.
///
/// # Safety
/// Between [`begin`] and [`end`]; there is room for 16 · MR rows of 16 · NV sums.
pub(crate) unsafe fn store<const MR: usize, const NV: usize>(sums: *mut i32) {
    // SAFETY: the caller's contract.
    unsafe {
        let step = NV * LINE;
        each_line!("tilestored [{at} + {step}], tmm0", sums, step);
        if NV == 2 {
            each_line!("tilestored [{at} + {step} + 64], tmm1", sums, step);
        }
        let sums = sums.wrapping_add(LINES * NV * LINES);
        if MR == 2 {
            each_line!("tilestored [{at} + {step}], tmm2", sums, step);
        }
        if MR * NV == 4 {
            each_line!("tilestored [{at} + {step} + 64], tmm3", sums, step);
        }
    }
}
