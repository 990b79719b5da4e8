//! Products of matrices of bytes with sums of 32 bits, as dynamically quantized networks have them.
//!
//! Σ (a − a₀)·(b − b₀) = Σ a·b − a₀·(Σ b − k·b₀) − b₀·Σ a, modulo 2³²: the vector unit multiplies the bytes as they are, a made
//! unsigned (on Arm signed) and b signed, and the zero points, which may be known at run time only, follow behind. B lies in panels
//! of as many columns as a vector has lanes: panel, step over 4 bytes of depth, column, 4 bytes (two i16 where the dot product
//! takes those).
#![expect(clippy::inline_always, reason = "vector code must be inlined where the instruction set is enabled")]

use std::ops::Range;

use crate::arch::int8::{Dot, SumsKernel};
use crate::cancel::{Pace, spans};
use crate::conv::Lines;
use crate::dispatch::{Level, multiversion};
use crate::parallel::{self, GRAIN, Shared};
use crate::{Error, Isa, Pool};

/// C = (A − a₀)·(B − b₀) per batch, all row-major and without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IMatMulSpec {
    /// Matrices.
    pub batch: usize,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Length of the sums, which wrap around in 32 bits.
    pub k: usize,
    /// Whether all batches use the same B.
    pub shared_b: bool,
    /// Whether A's and B's bytes are two's complement.
    pub signed: [bool; 2],
    /// How many zero points A has: none, one, or one per row.
    pub a_zeros: usize,
    /// How many zero points B has: none, one, or one per column.
    pub b_zeros: usize,
    /// How many factors sums are multiplied with: none, one, or one per column.
    pub scales: usize,
}

/// What a product is computed from.
#[derive(Clone, Copy, Debug)]
pub struct IMatMulOperands<'a> {
    /// The first operand's bytes.
    pub a: &'a [u8],
    /// The second one's, unless it was packed.
    pub b: &'a [u8],
    /// A's zero points, of its type.
    pub a_zeros: &'a [u8],
    /// B's zero points, of its type.
    pub b_zeros: &'a [u8],
    /// The factors.
    pub scales: &'a [f32],
}

/// How an instruction set takes operands.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// Columns of a panel.
    lanes: usize,
    /// Bytes that an element takes.
    width: usize,
    /// Whether A's bytes are signed.
    signed: bool,
    /// Rows of the kernels by number of panels.
    rows: &'static [&'static [usize]],
    kernel: fn(usize, usize) -> SumsKernel,
    /// What numbers of steps are multiples of.
    unit: usize,
}

impl Form {
    fn new(level: Level) -> Self {
        match level.isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::of::<crate::arch::int8_avx2::Avx2>(crate::arch::int8_avx2::sums),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Self::of::<crate::arch::int8_avx512::Avx512<false>>(crate::arch::int8_avx512::sums::<false>)
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => {
                Self::of::<crate::arch::int8_avx512::Avx512<true>>(crate::arch::int8_avx512::sums::<true>)
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => {
                use crate::arch::int8_amx::{ROWS, STEPS, kernel};
                Self { lanes: 16, width: 1, signed: false, rows: ROWS, kernel, unit: STEPS }
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => {
                Self::of::<crate::arch::int8_neon::Neon<false>>(crate::arch::int8_neon::sums::<false>)
            }
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => {
                Self::of::<crate::arch::int8_neon::Neon<true>>(crate::arch::int8_neon::sums::<true>)
            }
            _ => Self {
                lanes: PLAIN,
                width: 1,
                signed: false,
                rows: &[&[1]],
                kernel: |_, _| sums_plain::<false>,
                unit: 1,
            },
        }
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn of<S: crate::arch::int8::Int8>(kernel: fn(usize, usize) -> SumsKernel) -> Self {
        Self { lanes: S::LANES, width: S::WIDTH, signed: S::SIGNED, rows: S::ROWS, kernel, unit: 1 }
    }

    /// What a byte of A is xored with to become what the dot product takes, and what that adds to its value.
    const fn flip_a(self, signed: bool) -> (u8, i32) {
        match (self.signed, signed) {
            (false, true) => (0x80, 128),
            (true, false) => (0x80, -128),
            _ => (0, 0),
        }
    }

    /// Steps over a depth of `k`.
    const fn steps(self, k: usize) -> usize {
        // Whole tiles, one at least.
        let least = if self.unit > 1 { 1 } else { 0 };
        let steps = k.div_ceil(4 / self.width);
        if steps > least { steps } else { least }.next_multiple_of(self.unit)
    }
}

/// Columns of a panel where there are no vectors.
pub(crate) const PLAIN: usize = 8;
/// Most lanes that a vector has, and most sums that a kernel makes.
const MOST_LANES: usize = 16;
const MOST_SUMS: usize = 64 * MOST_LANES;
/// Rows that a task takes at most: a common multiple of the kernels'.
const ROWS: usize = 96;
/// Panels that a task takes at most, so that tasks can share few rows.
const PANELS: usize = 16;

/// A matrix B in the order of the kernels.
#[derive(Debug)]
pub struct PackedBytes {
    words: Lines,
    /// Σ b of every column of every panel, b signed.
    sums: Vec<i32>,
    extents: [usize; 2],
    signed: bool,
    level: Level,
}

impl PackedBytes {
    /// Packs k×n bytes whose neighbours lie `strides` apart, along a column and along a row.
    ///
    /// Errors: fewer bytes than that, extents that overflow.
    pub fn new(
        bytes: &[u8],
        [k, n]: [usize; 2],
        strides: [usize; 2],
        signed: bool,
        isa: Isa,
    ) -> Result<Self, Error> {
        let level = Level::new(isa);
        let form = Form::new(level);
        let last = (k.max(1) - 1)
            .checked_mul(strides[0])
            .and_then(|last| last.checked_add((n.max(1) - 1).checked_mul(strides[1])?));
        let packed =
            form.steps(k).checked_mul(n.next_multiple_of(form.lanes)).filter(|&all| all < usize::MAX / 8);
        let (Some(last), Some(words)) = (last, packed) else {
            return Err(Error::Invalid("extents overflow"));
        };
        if k > 0 && n > 0 {
            Error::check_len("b", bytes.len(), last + 1)?;
        }
        let mut packed = Self {
            words: Lines::zeroed(4 * words),
            sums: vec![0; n.next_multiple_of(form.lanes)],
            extents: [k, n],
            signed,
            level,
        };
        let panels = n.div_ceil(form.lanes);
        let matrix = Matrix { bytes, strides, extents: [k, n], flip: flip_b(signed) };
        let words = packed.words.words_mut();
        for panel in 0..panels {
            let words = &mut words[panel * form.steps(k) * form.lanes..][..form.steps(k) * form.lanes];
            let sums = &mut packed.sums[panel * form.lanes..][..form.lanes];
            pack_panel(level, &matrix, panel * form.lanes, form.width, words, sums);
        }
        Ok(packed)
    }

    /// Bytes that the packed matrix takes.
    pub fn bytes(&self) -> usize {
        4 * (Form::new(self.level).steps(self.extents[0]) + 1) * self.sums.len()
    }
}

/// What a byte of B is xored with to become signed.
const fn flip_b(signed: bool) -> u8 {
    if signed { 0 } else { 0x80 }
}

/// B before it is packed: k×n.
struct Matrix<'a> {
    bytes: &'a [u8],
    strides: [usize; 2],
    extents: [usize; 2],
    flip: u8,
}

/// A product ready to run.
#[derive(Clone, Debug)]
pub struct IMatMul {
    spec: IMatMulSpec,
    /// Bytes between B's neighbours, along a column and along a row.
    strides: [usize; 2],
    form: Form,
    level: Level,
    /// Bytes from one row of packed activations to the next.
    row_bytes: usize,
}

/// What a kernel multiplies, and where its sums go: rows of `panels` × lanes each.
pub(crate) struct Block {
    pub(crate) activations: *const u8,
    /// Bytes from one row to the next.
    pub(crate) stride: usize,
    pub(crate) steps: usize,
    pub(crate) weights: *const u8,
    pub(crate) sums: *mut i32,
}

impl IMatMul {
    /// Checks the description.
    ///
    /// Errors: extents that overflow, numbers of zero points or factors that do not fit them.
    pub fn new(spec: &IMatMulSpec, isa: Isa) -> Result<Self, Error> {
        let level = Level::new(isa);
        let form = Form::new(level);
        for (count, extent) in [(spec.a_zeros, spec.m), (spec.b_zeros, spec.n), (spec.scales, spec.n)] {
            if count > 1 {
                Error::check_eq("zero points or factors", extent, count)?;
            }
        }
        let all = [spec.m.max(1), spec.k.max(1), spec.n.max(1), spec.batch.max(1)]
            .into_iter()
            .try_fold(64_usize, usize::checked_mul);
        all.filter(|&all| all < usize::MAX / 64).ok_or(Error::Invalid("extents overflow"))?;
        // An odd number of cache lines, so that the rows of a kernel do not fall into the same cache sets.
        let row_bytes = (4 * form.steps(spec.k)).next_multiple_of(64) | 64;
        Ok(Self { spec: *spec, strides: [spec.n, 1], form, level, row_bytes })
    }

    /// The same with a B that lies as n×k.
    pub(crate) fn with_transposed_b(self) -> Self {
        Self { strides: [1, self.spec.k], ..self }
    }

    fn columns(&self) -> usize {
        self.spec.n.next_multiple_of(self.form.lanes)
    }

    fn panel_words(&self) -> usize {
        self.form.steps(self.spec.k) * self.form.lanes
    }

    /// Whether A is read where it lies.
    fn is_direct(&self) -> bool {
        self.form.width == 1
            && self.spec.signed[0] == self.form.signed
            && self.spec.k == 4 * self.form.steps(self.spec.k)
    }

    /// Words of scratch by what they hold: per column Σ b, the term that A's zero point is multiplied with, B's zero point and the
    /// factor; per row A's zero point and Σ a; packed rows; B.
    fn parts(&self, packed: bool) -> [usize; 8] {
        let (s, columns) = (&self.spec, self.columns());
        let rows = if self.is_direct() { 0 } else { s.m * self.row_bytes / 4 };
        let weights = if packed { 0 } else { columns / self.form.lanes * self.panel_words() };
        [columns, columns, columns, columns, s.m, s.m, rows, weights]
    }

    /// Bytes of scratch that [`Self::run`] needs, with B packed before or not.
    pub fn scratch_bytes(&self, packed: bool) -> usize {
        4 * self.parts(packed).iter().map(|part| part.next_multiple_of(16)).sum::<usize>() + 64
    }

    /// Computes `c`: sums as i32, or their f32 times the factors as the bits of f32. `packed` is B, unless that is given.
    ///
    /// Errors: slices shorter than the extents say, a B that was packed for another product.
    pub fn run(
        &self,
        operands: IMatMulOperands<'_>,
        packed: Option<&PackedBytes>,
        c: &mut [i32],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        let s = &self.spec;
        let IMatMulOperands { a, b, a_zeros, b_zeros, scales } = operands;
        let (a_len, b_len, c_len) = (s.m * s.k, s.k * s.n, s.m * s.n);
        Error::check_len("a", a.len(), s.batch * a_len)?;
        Error::check_len("c", c.len(), s.batch * c_len)?;
        Error::check_len("a's zero points", a_zeros.len(), s.a_zeros)?;
        Error::check_len("b's zero points", b_zeros.len(), s.b_zeros)?;
        Error::check_len("factors", scales.len(), s.scales)?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes(packed.is_some()))?;
        match packed {
            Some(packed) => {
                let same = packed.extents == [s.k, s.n] && packed.signed == s.signed[1];
                if !same || packed.level != self.level || !s.shared_b {
                    return Err(Error::Invalid("the second matrix was packed for another product"));
                }
            }
            None => {
                Error::check_len("b", b.len(), if s.shared_b { s.batch.min(1) } else { s.batch } * b_len)?;
            }
        }
        if s.batch * c_len == 0 {
            return Ok(());
        }
        let offset = scratch.as_ptr().align_offset(64);
        let scratch = scratch.get_mut(offset..).unwrap_or_default();
        // SAFETY: any bytes are integers.
        let (_, mut free, _) = unsafe { scratch.align_to_mut::<u32>() };
        let parts = self.parts(packed.is_some());
        let [sums, terms, zeros, factors, row_zeros, row_sums, rows, weights] = parts.map(|part| {
            let (own, rest) = std::mem::take(&mut free).split_at_mut(part.next_multiple_of(16));
            free = rest;
            &mut own[..part]
        });
        let sums = integers(sums);
        let (terms, zeros, row_zeros, row_sums) =
            (integers(terms), integers(zeros), integers(row_zeros), integers(row_sums));
        let shifted = |zero: u8, signed: bool, shift: i32| {
            (if signed { i32::from(zero.cast_signed()) } else { i32::from(zero) }) + shift
        };
        let at = |list: &[u8], index: usize| if list.len() == 1 { list[0] } else { list[index] };
        // Without zero points of their own, flipped bytes have that of what was added to them.
        for (column, zero) in zeros.iter_mut().enumerate() {
            let exists = column < s.n && s.b_zeros > 0;
            let own = if exists { at(&b_zeros[..s.b_zeros], column) } else { 0 };
            *zero = shifted(own, s.signed[1], -i32::from(flip_b(s.signed[1])));
        }
        for (row, zero) in row_zeros.iter_mut().enumerate() {
            let own = if s.a_zeros > 0 { at(&a_zeros[..s.a_zeros], row) } else { 0 };
            *zero = shifted(own, s.signed[0], self.form.flip_a(s.signed[0]).1);
        }
        for (column, factor) in factors.iter_mut().enumerate() {
            *factor = match s.scales {
                0 => 0,
                1 => scales[0].to_bits(),
                _ => scales.get(column).copied().unwrap_or_default().to_bits(),
            };
        }
        let c = Shared::new(c);
        for batch in 0..s.batch {
            if batch > 0 && crate::cancel::requested() {
                break;
            }
            let weights: *const u8 = if let Some(packed) = packed {
                if batch == 0 {
                    sums.copy_from_slice(&packed.sums);
                }
                packed.words.as_ptr()
            } else {
                if batch == 0 || !s.shared_b {
                    self.pack_b(&b[batch * b_len..][..b_len], weights, sums, pool);
                }
                weights.as_ptr().cast()
            };
            for ((term, &sum), &zero) in terms.iter_mut().zip(&*sums).zip(&*zeros) {
                *term = sum.wrapping_sub(zero.wrapping_mul(s.k as i32));
            }
            let a = &a[batch * a_len..][..a_len];
            self.pack_a(a, rows, row_sums, pool);
            let (activations, stride) =
                if self.is_direct() { (a.as_ptr(), s.k) } else { (rows.as_ptr().cast(), self.row_bytes) };
            let job = Job {
                activations,
                stride,
                weights,
                terms,
                zeros,
                factors,
                row_zeros,
                row_sums,
                c: &c,
                first: batch * c_len,
            };
            self.multiply(&job, pool);
        }
        Ok(())
    }

    fn pack_b(&self, b: &[u8], words: &mut [u32], sums: &mut [i32], pool: &Pool) {
        let (s, form, level) = (&self.spec, self.form, self.level);
        let (words, sums) = (Shared::new(words), Shared::new(sums));
        let size = self.panel_words();
        let matrix =
            Matrix { bytes: b, strides: self.strides, extents: [s.k, s.n], flip: flip_b(s.signed[1]) };
        parallel::ranges(pool, s.n.div_ceil(form.lanes), GRAIN.div_ceil(4 * size.max(1)), &|range| {
            for part in spans(range.len(), 4 * size) {
                for panel in range.start + part.start..range.start + part.end {
                    // SAFETY: panels are disjoint pieces of what is packed.
                    let (words, sums) = unsafe {
                        (words.piece(panel * size, size), sums.piece(panel * form.lanes, form.lanes))
                    };
                    sums.fill(0);
                    pack_panel(level, &matrix, panel * form.lanes, form.width, words, sums);
                }
            }
        });
    }

    /// Packs rows where that has to be, and sums them.
    fn pack_a(&self, a: &[u8], rows: &mut [u32], sums: &mut [i32], pool: &Pool) {
        let (k, level) = (self.spec.k, self.level);
        let (direct, size, width) = (self.is_direct(), self.row_bytes / 4, self.form.width);
        let (flip, _) = self.form.flip_a(self.spec.signed[0]);
        let signed = self.form.signed;
        let (rows, sums) = (Shared::new(rows), Shared::new(sums));
        parallel::ranges(pool, self.spec.m, GRAIN.div_ceil(k.max(1)), &|range| {
            for part in spans(range.len(), k) {
                let part = range.start + part.start..range.start + part.end;
                // SAFETY: rows are disjoint pieces of both.
                let (rows, sums) = unsafe {
                    let rows: &mut [u32] =
                        if direct { &mut [] } else { rows.piece(part.start * size, part.len() * size) };
                    (rows, sums.piece(part.start, part.len()))
                };
                pack_rows(level, &a[part.start * k..part.end * k], k, flip, signed, width, size, rows, sums);
            }
        });
    }

    fn multiply(&self, job: &Job<'_>, pool: &Pool) {
        let s = &self.spec;
        let panels = s.n.div_ceil(self.form.lanes);
        // Several tasks per thread even out their ends, if there is enough to do.
        let work = s.m.saturating_mul(s.n).saturating_mul(s.k);
        let (rows, columns) =
            if pool.threads() == 1 || work < 4 * GRAIN { (ROWS, panels) } else { (ROWS, PANELS) };
        let (tiles, chunks) = (s.m.div_ceil(rows), panels.div_ceil(columns));
        let run = |task: usize| {
            let (tile, chunk) = (task / chunks, task % chunks);
            let panels = chunk * columns..panels.min((chunk + 1) * columns);
            self.task(job, tile * rows..s.m.min((tile + 1) * rows), panels);
        };
        if work < 4 * GRAIN {
            (0..tiles * chunks).for_each(run);
        } else {
            pool.run(tiles * chunks, &|task, _| run(task));
        }
    }

    fn task(&self, job: &Job<'_>, rows: Range<usize>, panels: Range<usize>) {
        let (form, s) = (self.form, &self.spec);
        let most = form.rows.len();
        let _tiles = Tiles::on(self.level);
        let mut sums = Sums([0; MOST_SUMS]);
        let mut pace = Pace::new();
        let mut panel = panels.start;
        while panel < panels.end {
            let count = (panels.end - panel).min(most);
            // A panel's step covers many bytes of a row.
            if pace.stops(rows.len().saturating_mul(self.row_bytes / 8)) {
                return;
            }
            let (first, width) = (panel * form.lanes, count * form.lanes);
            let columns = first..s.n.min(first + width);
            let mut row = rows.start;
            for &step in form.rows[count - 1] {
                let kernel = (form.kernel)(step, count);
                while rows.end - row >= step {
                    // SAFETY: the form is one that the machine has; `step` rows and `count` panels exist from these on, and
                    // the sums of both fit.
                    unsafe {
                        kernel(&Block {
                            activations: job.activations.add(row * job.stride),
                            stride: job.stride,
                            steps: form.steps(s.k),
                            weights: job.weights.add(4 * panel * self.panel_words()),
                            sums: sums.0.as_mut_ptr(),
                        });
                    }
                    // SAFETY: tasks have disjoint rows or columns of C, which the slice covers.
                    unsafe { finish(self.level, job, &sums, width, row..row + step, columns.clone(), s) };
                    row += step;
                }
            }
            panel += count;
        }
    }
}

/// While it is there, kernels can use the thread's tiles, if the instruction set has any.
pub(crate) struct Tiles(
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has tiles"))] bool,
);

impl Tiles {
    pub(crate) fn on(level: Level) -> Self {
        let has = level.isa() == Isa::Amx;
        #[cfg(target_arch = "x86_64")]
        if has {
            // SAFETY: a level is only made for instruction sets that the machine has.
            unsafe { crate::arch::int8_amx::begin() };
        }
        Self(has)
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if self.0 {
            // SAFETY: as above.
            unsafe { crate::arch::int8_amx::end() };
        }
    }
}

/// The sums of a kernel, from a cache line on.
#[repr(align(64))]
struct Sums([i32; MOST_SUMS]);

/// One batch.
struct Job<'a> {
    activations: *const u8,
    stride: usize,
    weights: *const u8,
    terms: &'a [i32],
    zeros: &'a [i32],
    factors: &'a [u32],
    row_zeros: &'a [i32],
    row_sums: &'a [i32],
    c: &'a Shared<'a, i32>,
    /// Where the batch's result begins.
    first: usize,
}

// SAFETY: the pointers are read through only; what they point to outlives the job, and tasks write disjoint pieces of `c`.
unsafe impl Sync for Job<'_> {}

fn integers(words: &mut [u32]) -> &mut [i32] {
    // SAFETY: both are integers of 32 bits.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len()) }
}

multiversion! {
    /// Puts sums of a block where they belong, less what zero points add to them, as integers or times their factors.
    ///
    /// # Safety
    /// Nobody else has these rows and columns of C, which exist.
    unsafe fn finish(
        job: &Job<'_>, sums: &Sums, width: usize, rows: Range<usize>, columns: Range<usize>, s: &IMatMulSpec,
    ) {
        let (terms, zeros) = (&job.terms[columns.clone()], &job.zeros[columns.clone()]);
        let factors = &job.factors[columns.clone()];
        for (row, sums) in rows.zip(sums.0.chunks_exact(width)) {
            // SAFETY: the caller's contract.
            let c = unsafe { job.c.piece(job.first + row * s.n + columns.start, columns.len()) };
            let (zero, sum) = (job.row_zeros[row], job.row_sums[row]);
            let parts = sums.iter().zip(terms).zip(zeros);
            if s.scales > 0 {
                for ((c, ((&whole, &term), &other)), &factor) in c.iter_mut().zip(parts).zip(factors) {
                    let exact = whole.wrapping_sub(zero.wrapping_mul(term)).wrapping_sub(other.wrapping_mul(sum));
                    *c = (exact as f32 * f32::from_bits(factor)).to_bits().cast_signed();
                }
            } else {
                for (c, ((&whole, &term), &other)) in c.iter_mut().zip(parts) {
                    *c = whole.wrapping_sub(zero.wrapping_mul(term)).wrapping_sub(other.wrapping_mul(sum));
                }
            }
        }
    }
}

multiversion! {
    /// Rows of `k` bytes made what the dot product takes, `signed` or not, in elements of `width` bytes, `size` words apart, and
    /// their sums; only these without `rows`.
    fn pack_rows(
        a: &[u8], k: usize, flip: u8, signed: bool, width: usize, size: usize, rows: &mut [u32], sums: &mut [i32],
    ) {
        for (row, sum) in sums.iter_mut().enumerate() {
            let a = &a[row * k..][..k];
            *sum = if signed {
                a.iter().fold(0_i32, |sum, &byte| sum.wrapping_add(i32::from((byte ^ flip).cast_signed())))
            } else {
                a.iter().fold(0_u32, |sum, &byte| sum.wrapping_add(u32::from(byte ^ flip))).cast_signed()
            };
        }
        for (row, to) in rows.chunks_exact_mut(size.max(1)).enumerate() {
            let a = &a[row * k..][..k];
            to.fill(0);
            if width == 1 {
                let to = bytes_of::<u8>(to);
                for (to, &byte) in to.iter_mut().zip(a) {
                    *to = byte ^ flip;
                }
            } else {
                let to = bytes_of::<u16>(to);
                for (to, &byte) in to.iter_mut().zip(a) {
                    *to = u16::from(byte ^ flip);
                }
            }
        }
    }
}

/// Words as what they are made of.
#[inline(always)]
fn bytes_of<T: Copy>(words: &mut [u32]) -> &mut [T] {
    // SAFETY: words are integers of any narrower width, at a boundary of 4 bytes.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * (4 / size_of::<T>())) }
}

multiversion! {
    /// Packs the columns from `first` on and adds up each of them; what is beyond the last one is 0.
    fn pack_panel(matrix: &Matrix<'_>, first: usize, width: usize, words: &mut [u32], sums: &mut [i32]) {
        match (sums.len(), width) {
            (16, 1) => pack_columns::<16, 1>(matrix, first, words, sums),
            (16, _) => pack_columns::<16, 2>(matrix, first, words, sums),
            (4, 1) => pack_columns::<4, 1>(matrix, first, words, sums),
            (4, _) => pack_columns::<4, 2>(matrix, first, words, sums),
            (_, 1) => pack_columns::<8, 1>(matrix, first, words, sums),
            _ => pack_columns::<8, 2>(matrix, first, words, sums),
        }
    }
}

#[inline(always)]
fn pack_columns<const LANES: usize, const WIDTH: usize>(
    matrix: &Matrix<'_>,
    first: usize,
    words: &mut [u32],
    sums: &mut [i32],
) {
    let Matrix { bytes, strides: [down, along], extents: [k, n], flip } = *matrix;
    let count = LANES.min(n - first);
    let per_step = 4 / WIDTH;
    let mut totals = [0_i32; LANES];
    for (step, words) in words.chunks_exact_mut(LANES).enumerate() {
        let mut own = [0_u32; LANES];
        if WIDTH == 1 && down == 1 && count == LANES && 4 * step + 4 <= k {
            // A step of a column is a word that lies there.
            for lane in 0..LANES {
                let word = bytes[(first + lane) * along + 4 * step..].first_chunk().expect("as many");
                own[lane] = u32::from_le_bytes(*word) ^ u32::from_le_bytes([flip; 4]);
                let sum = own[lane].to_le_bytes().iter().map(|byte| i32::from(byte.cast_signed())).sum();
                totals[lane] = totals[lane].wrapping_add(sum);
            }
            words.copy_from_slice(&own);
            continue;
        }
        for part in 0..per_step.min(k.saturating_sub(step * per_step)) {
            let from = (step * per_step + part) * down + first * along;
            let mut values = [0_i32; LANES];
            if along == 1 && count == LANES {
                let row: &[u8; LANES] = bytes[from..][..LANES].try_into().expect("as many");
                for (value, &byte) in values.iter_mut().zip(row) {
                    *value = i32::from((byte ^ flip).cast_signed());
                }
            } else {
                for (lane, value) in values[..count].iter_mut().enumerate() {
                    *value = i32::from((bytes[from + lane * along] ^ flip).cast_signed());
                }
            }
            let mask = if WIDTH == 1 { 0xff } else { 0xffff };
            for lane in 0..LANES {
                totals[lane] = totals[lane].wrapping_add(values[lane]);
                own[lane] |= (values[lane].cast_unsigned() & mask) << (8 * WIDTH * part);
            }
        }
        words.copy_from_slice(&own);
    }
    sums.copy_from_slice(&totals);
}

/// The kernel without vectors: one row, of signed bytes or unsigned ones, and one panel of signed bytes.
///
/// # Safety
/// As [`sums_block`], for panels of [`PLAIN`] columns and one row.
pub(crate) unsafe fn sums_plain<const SIGNED: bool>(block: &Block) {
    let mut sums = [0_i32; PLAIN];
    for step in 0..block.steps {
        // SAFETY: the block has `steps` steps of 4 bytes of one row, and of 4 bytes of each column.
        let (a, b) = unsafe {
            let a = std::slice::from_raw_parts(block.activations.add(4 * step), 4);
            (a, std::slice::from_raw_parts(block.weights.add(4 * PLAIN * step), 4 * PLAIN))
        };
        for (sum, b) in sums.iter_mut().zip(b.chunks_exact(4)) {
            for (&a, &b) in a.iter().zip(b) {
                let a = if SIGNED { i32::from(a.cast_signed()) } else { i32::from(a) };
                *sum = sum.wrapping_add(a * i32::from(b.cast_signed()));
            }
        }
    }
    // SAFETY: the block's sums have room for a panel's.
    unsafe { block.sums.copy_from_nonoverlapping(sums.as_ptr(), PLAIN) };
}

/// Adds products over the depth to the sums of MR rows, `stride` bytes apart, and NV panels, `panel` bytes apart.
///
/// # Safety
/// The CPU has `S`; rows have `steps` steps of 4 bytes, panels as many of a vector.
#[inline(always)]
pub(crate) unsafe fn add_products<S: Dot, const MR: usize, const NV: usize>(
    sums: &mut [[S::V; NV]; MR],
    mut activations: *const u8,
    stride: usize,
    mut weights: *const u8,
    panel: usize,
    steps: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        for _ in 0..steps {
            let mut w = [S::load(weights.cast()); NV];
            for (v, w) in w.iter_mut().enumerate() {
                *w = S::load(weights.add(v * panel).cast());
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = S::splat(activations.add(row * stride));
                for v in 0..NV {
                    sums[v] = S::dot(sums[v], a, w[v]);
                }
            }
            weights = weights.add(S::LANES * 4);
            activations = activations.add(4);
        }
    }
}

/// The kernel: MR rows times NV panels.
///
/// # Safety
/// The CPU has `S`; the block describes MR rows and NV panels that exist, and has room for their sums.
#[inline(always)]
pub(crate) unsafe fn sums_block<S: Dot, const MR: usize, const NV: usize>(block: &Block) {
    const { assert!(MR * NV * S::LANES <= MOST_SUMS) };
    // SAFETY: the caller's contract.
    unsafe {
        let zero = 0_i32.to_ne_bytes();
        let mut sums = [[S::splat(zero.as_ptr()); NV]; MR];
        let panel = block.steps * S::LANES * 4;
        add_products::<S, MR, NV>(
            &mut sums,
            block.activations,
            block.stride,
            block.weights,
            panel,
            block.steps,
        );
        for (row, sums) in sums.iter().enumerate() {
            for (v, &sum) in sums.iter().enumerate() {
                S::store(block.sums.add((row * NV + v) * S::LANES), sum);
            }
        }
    }
}
