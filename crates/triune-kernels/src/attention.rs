//! Attention: queries weigh values by how much they are like the values' keys.
//!
//! ```text
//! for head: pack its keys and values
//!     for some queries:                       as many as a tile of the products has rows
//!         scores = queries · keysᵀ · scale + bias
//!         weights = e^(scores − largest of the row)
//!         results = weights · values · (1 / sum of the row's weights)
//! ```
//!
//! Scores and weights of so few queries stay in the nearest cache, and nothing of them is written anywhere else. Operands may lie
//! with strides: heads beside each other, as projections leave them, are read where they are.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use crate::cancel::{self, spans};
use crate::conv::fgemm::{Finish, Line, MAX_COLUMNS, MAX_ROWS, Panels, TILE_STEPS};
use crate::dispatch::{Level, multiversion};
use crate::fmatmul::pack_columns;
use crate::parallel::Shared;
use crate::softmax::{LANES, add_each, largest, tree};
#[cfg(target_arch = "x86_64")]
use crate::unary_x86;
use crate::{Error, Isa, Pool, math};

/// Extents and strides, these in elements; elements of a query, key, value or result lie one after the other unless a stride says
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Heads, along two axes.
    pub heads: [usize; 2],
    /// Queries of a head.
    pub queries: usize,
    /// Keys of a head, and values.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub width: usize,
    /// Elements of a value and of a result.
    pub elements: usize,
    /// Factor of the queries.
    pub scale: f32,
    /// Of the queries: from one head to the next along both axes, and from one query to the next.
    pub q: [usize; 3],
    /// Of the keys: of heads, from one key to the next, and from one element to the next; one of the last two is 1.
    pub k: [usize; 4],
    /// Of the values: of heads, and from one value to the next.
    pub v: [usize; 3],
    /// Of what is added to the scores: of heads, and from one query to the next; 0 for what they share.
    pub bias: Option<[usize; 3]>,
    /// Of the results: of heads, and from one result to the next.
    pub y: [usize; 3],
}

/// An attention ready to run.
#[derive(Debug)]
pub struct Attention {
    spec: AttentionSpec,
    level: Level,
    /// What queries are multiplied by, and what scores less the largest are for weights that are powers of two.
    factors: [f32; 2],
    /// Whether queries are brought together before they are multiplied.
    gathers: bool,
    /// How keys are cut, and values.
    keys: Panels,
    values: Panels,
    room: Room,
}

/// Rows so many floats apart, or a multiple, share few places of a nearest cache.
const CROWDED: usize = 512;

/// Floats, each a multiple of a line.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// A head's packed keys and values.
    keys: usize,
    values: usize,
    /// Queries of a tile.
    queries: usize,
    /// Scores of a tile, and as many weights; and of one row.
    scores: usize,
    row: usize,
}

impl Room {
    const fn head(&self) -> usize {
        self.keys + self.values
    }

    const fn tile(&self) -> usize {
        self.queries + 2 * self.scores
    }
}

impl Attention {
    /// Checks the description.
    ///
    /// Errors: extents of 0, results that overlap, keys with gaps along both axes, products that overflow.
    pub fn new(spec: &AttentionSpec, isa: Isa) -> Result<Self, Error> {
        let level = Level::new(isa);
        let s = spec;
        let [outer, inner] = s.heads;
        if [outer, inner, s.queries, s.keys, s.width, s.elements].contains(&0) {
            return Err(Error::Invalid("an extent of attention is 0"));
        }
        if s.k[2] != 1 && s.k[3] != 1 {
            return Err(Error::Invalid("neither keys nor their elements lie one after the other"));
        }
        let mut axes = [(outer, s.y[0]), (inner, s.y[1]), (s.queries, s.y[2])];
        axes.sort_unstable_by_key(|&(_, stride)| stride);
        let mut own = s.elements;
        for (extent, stride) in axes {
            if extent > 1 && stride < own {
                return Err(Error::Invalid("results of attention overlap"));
            }
            own = (extent - 1).saturating_mul(stride).saturating_add(own);
        }
        let (keys, values) = (Panels::new(level, s.keys), Panels::new(level, s.elements));
        let overflow = Error::Invalid("extents overflow");
        let lines = |floats: Option<usize>| {
            let floats = floats.and_then(|floats| floats.checked_next_multiple_of(16));
            floats.filter(|&floats| floats < usize::MAX / 256).ok_or(overflow.clone())
        };
        let row = lines(Some(s.keys))?;
        let room = Room {
            keys: lines(keys.packed_len(s.width))?,
            values: lines(values.packed_len(s.keys))?,
            queries: lines(s.width.checked_mul(keys.rows))?,
            scores: lines(row.checked_mul(keys.rows))?,
            row,
        };
        lines(outer.checked_mul(inner).and_then(|heads| heads.checked_mul(room.head())))?;
        // A positive factor keeps scores in order, and can wait for their exponentials if nothing is added before.
        let waits = s.bias.is_none() && s.scale > 0.0 && (s.scale * LOG2_E).is_finite();
        let factors = if waits { [1.0, s.scale * LOG2_E] } else { [s.scale, LOG2_E] };
        let gathers = factors[0] != 1.0 || s.q[2].is_multiple_of(CROWDED);
        Ok(Self { spec: *spec, level, factors, gathers, keys, values, room })
    }

    /// Panels of a head's keys and values.
    fn panels(&self) -> usize {
        self.keys.count() + self.values.count()
    }

    /// Heads of keys and values, and how many heads of queries share each.
    const fn groups(&self) -> [usize; 2] {
        let [outer, inner] = self.spec.heads;
        if self.spec.k[1] == 0 && self.spec.v[1] == 0 { [outer, inner] } else { [outer * inner, 1] }
    }

    /// Whether threads have heads of keys of their own: as many each, or so many that the last ones' wait is short.
    fn is_by_head(&self, threads: usize) -> bool {
        let [heads, _] = self.groups();
        heads.is_multiple_of(threads.max(1)) || heads >= 8 * threads
    }

    /// Packed heads that there is room for with a pool of `threads` threads.
    fn packed_heads(&self, threads: usize) -> usize {
        if self.is_by_head(threads) { threads.max(1) } else { self.groups()[0] }
    }

    fn floats(&self, threads: usize) -> usize {
        let heads = self.room.head().saturating_mul(self.packed_heads(threads));
        heads.saturating_add(self.room.tile().saturating_mul(threads.max(1)))
    }

    /// Bytes of scratch that [`Attention::run`] needs with a pool of `threads` threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        // A line is lost at either end to alignment.
        self.floats(threads).saturating_mul(4).saturating_add(2 * size_of::<Line>())
    }

    /// Computes `y` from queries, keys and values; without a bias in the description, `bias` is not looked at.
    ///
    /// Scores s are sums of fused multiply-adds in the order of the elements. If a bias is added or `scale` is not positive, it is one
    /// of the queries, each product rounded, and p = f32(log₂ e); else p = f32(`scale` · f32(log₂ e)). Weights are 2^((s − largest)·p),
    /// whose exponent is rounded once for its whole and once for its broken part; results are such sums of weights and values in the
    /// order of the keys, times 1 / the sum of the weights, element i of which goes to the part i mod 16.
    ///
    /// Errors: slices shorter than the strides reach.
    pub fn run(
        &self,
        [q, k, v]: [&[f32]; 3],
        bias: &[f32],
        y: &mut [f32],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        let s = &self.spec;
        let [outer, inner] = s.heads;
        let reach = |[first, second, row]: [usize; 3], rows: usize, own: usize| {
            let steps = [(outer, first), (inner, second), (rows, row)];
            steps
                .iter()
                .fold(own, |sum, (extent, stride)| sum.saturating_add((extent - 1).saturating_mul(*stride)))
        };
        Error::check_len("queries", q.len(), reach(s.q, s.queries, s.width))?;
        let [first, second, key, element] = s.k;
        let own = (s.width - 1).saturating_mul(element).saturating_add(1);
        Error::check_len("keys", k.len(), reach([first, second, key], s.keys, own))?;
        Error::check_len("values", v.len(), reach(s.v, s.keys, s.elements))?;
        Error::check_len("output", y.len(), reach(s.y, s.queries, s.elements))?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes(pool.threads()))?;
        if let Some(strides) = s.bias {
            Error::check_len("bias", bias.len(), reach(strides, s.queries, s.keys))?;
        }
        // SAFETY: any bytes are floats.
        let (_, lines, _) = unsafe { scratch.align_to_mut::<Line>() };
        let floats = Line::floats_mut(lines);
        Error::check_len("aligned scratch", floats.len(), self.floats(pool.threads()))?;
        let (packed, tiles) = floats.split_at_mut(self.room.head() * self.packed_heads(pool.threads()));
        let run = Run {
            attention: self,
            q,
            k,
            v,
            bias: s.bias.map(|_| bias),
            y: Shared::new(y),
            packed: Shared::new(packed),
            tiles: Shared::new(tiles),
        };
        run.all(pool);
        Ok(())
    }
}

/// A run.
struct Run<'a> {
    attention: &'a Attention,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    bias: Option<&'a [f32]>,
    y: Shared<'a, f32>,
    packed: Shared<'a, f32>,
    tiles: Shared<'a, f32>,
}

impl Run<'_> {
    fn all(&self, pool: &Pool) {
        let all = self.attention;
        let [groups, each] = all.groups();
        let (panels, tiles) = (all.panels(), all.spec.queries.div_ceil(all.keys.rows));
        if all.is_by_head(pool.threads()) {
            pool.run(groups, &|group, worker| {
                if (0..panels).all(|panel| self.pack(group * each, worker, panel)) {
                    for head in group * each..(group + 1) * each {
                        self.tiles(head, worker, 0..tiles, worker);
                    }
                }
            });
            return;
        }
        pool.run(groups * panels, &|task, _| {
            self.pack(task / panels * each, task / panels, task % panels);
        });
        if cancel::requested() {
            return;
        }
        // Some tasks for each thread, so that none waits long for the last one.
        let heads = groups * each;
        let pieces = (4 * pool.threads()).div_ceil(heads).min(tiles);
        pool.run(heads * pieces, &|task, worker| {
            let (head, piece) = (task / pieces, task % pieces);
            self.tiles(head, head / each, piece * tiles / pieces..(piece + 1) * tiles / pieces, worker);
        });
    }

    /// Where a head's operand begins, by its strides.
    fn start(&self, head: usize, [first, second]: [usize; 2]) -> usize {
        let inner = self.attention.spec.heads[1];
        head / inner * first + head % inner * second
    }

    /// Packs one panel of a head's keys or values into `place`, unless the work is to stop.
    fn pack(&self, head: usize, place: usize, panel: usize) -> bool {
        let (all, s) = (self.attention, &self.attention.spec);
        if cancel::requested() {
            return false;
        }
        let start = place * all.room.head();
        if let Some(panel) = panel.checked_sub(all.keys.count()) {
            let len = all.values.width(panel) * s.keys;
            let start = start + all.room.keys + all.values.start(panel, s.keys);
            // SAFETY: panels are disjoint pieces of a head's, and heads have places of their own while they are at work.
            let packed = unsafe { self.packed.piece(start, len) };
            let values = &self.v[self.start(head, [s.v[0], s.v[1]])..];
            pack_columns(all.level, &all.values, panel, s.keys, values, s.v[2], false, packed);
        } else {
            let len = all.keys.width(panel) * s.width;
            // SAFETY: as above.
            let packed = unsafe { self.packed.piece(start + all.keys.start(panel, s.width), len) };
            let keys = &self.k[self.start(head, [s.k[0], s.k[1]])..];
            let [.., key, element] = s.k;
            // Of one key, or one element each, either stride may be the one that is 1.
            let by_key = element == 1;
            let stride = if by_key { key } else { element };
            pack_columns(all.level, &all.keys, panel, s.width, keys, stride, by_key, packed);
        }
        true
    }

    /// Some tiles of a head's queries, whose keys and values are packed at `place`.
    fn tiles(&self, head: usize, place: usize, tiles: Range<usize>, worker: usize) {
        let (all, s) = (self.attention, &self.attention.spec);
        let count = s.queries.div_ceil(all.keys.rows);
        let packed = self.packed.as_ptr().wrapping_add(place * all.room.head()).cast_const();
        // SAFETY: nobody writes what is packed any more, and each worker has a tile of its own.
        let (packed, room) = unsafe {
            let packed = std::slice::from_raw_parts(packed, all.room.head());
            (packed, self.tiles.piece(worker * all.room.tile(), all.room.tile()))
        };
        for tile in tiles {
            if cancel::requested() {
                return;
            }
            self.tile(head, packed, tile * s.queries / count..(tile + 1) * s.queries / count, room);
        }
    }

    fn tile(&self, head: usize, packed: &[f32], rows: Range<usize>, room: &mut [f32]) {
        let (all, s) = (self.attention, &self.attention.spec);
        let row = all.room.row;
        let (queries, room) = room.split_at_mut(all.room.queries);
        let (scores, weights) = room.split_at_mut(all.room.scores);
        let (keys, values) = packed.split_at(all.room.keys);
        let mut from = &self.q[self.start(head, [s.q[0], s.q[1]]) + rows.start * s.q[2]..];
        let mut stride = s.q[2];
        let [own, power] = all.factors;
        if all.gathers {
            scaled(all.level, from, stride, own, &mut queries[..rows.len() * s.width], s.width);
            (from, stride) = (queries, s.width);
        }
        let mut product = Rows::new(rows.len(), s.width);
        let mut added = [std::ptr::null(); MAX_ROWS];
        for index in 0..rows.len() {
            product.from[index] = from[index * stride..][..s.width].as_ptr();
            product.to[index] = scores[index * row..][..s.keys].as_mut_ptr();
            if let (Some(bias), Some([first, second, step])) = (self.bias, s.bias) {
                let start = self.start(head, [first, second]) + (rows.start + index) * step;
                added[index] = bias[start..][..s.keys].as_ptr();
            }
        }
        product.added = self.bias.map(|_| added);
        // SAFETY: queries have `width` floats each, rows of scores and of what is added to them as many as there are keys; the keys are
        // packed.
        unsafe { product.times(&all.keys, keys) };
        let mut product = Rows::new(rows.len(), s.keys);
        let mut inverses = [0.0; MAX_ROWS];
        weigh(all.level, scores, row, s.keys, power, weights, &mut inverses[..rows.len()]);
        product.factors = Some(inverses);
        let start = self.start(head, [s.y[0], s.y[1]]);
        for (index, row_of_y) in rows.enumerate() {
            product.from[index] = weights[index * row..][..s.keys].as_ptr();
            product.to[index] = self.y.as_ptr().wrapping_add(start + row_of_y * s.y[2]);
        }
        // SAFETY: rows of weights have one for each key, results `elements` floats of their own inside of the output's reach, which was
        // checked; the values are packed.
        unsafe { product.times(&all.values, values) };
    }
}

/// Rows of a tile that are multiplied by a packed matrix, and where the results go.
struct Rows {
    count: usize,
    /// Elements of a row.
    depth: usize,
    from: [*const f32; MAX_ROWS],
    to: [*mut f32; MAX_ROWS],
    added: Option<[*const f32; MAX_ROWS]>,
    factors: Option<[f32; MAX_ROWS]>,
}

impl Rows {
    #[inline]
    const fn new(count: usize, depth: usize) -> Self {
        let (from, to) = ([std::ptr::null(); MAX_ROWS], [std::ptr::null_mut(); MAX_ROWS]);
        Self { count, depth, from, to, added: None, factors: None }
    }

    /// Writes rows · matrix · factors + what is added.
    ///
    /// # Safety
    /// Each pointer of the rows leads to `depth` floats, and each of those to write and to add to as many as the matrix has columns;
    /// `packed` holds its panels.
    #[inline]
    unsafe fn times(&self, panels: &Panels, packed: &[f32]) {
        let zeros = [0.0_f32; MAX_COLUMNS];
        for part in spans(panels.count(), self.depth.saturating_mul(TILE_STEPS)) {
            for panel in part {
                let width = panels.width(panel);
                let finish = Finish {
                    bias: zeros.as_ptr(),
                    factors: self.factors.as_ref().map_or(std::ptr::null(), |factors| factors.as_ptr()),
                    residual: self.added.as_ref().map_or(std::ptr::null(), |added| added.as_ptr()),
                    output: self.to.as_ptr(),
                    ahead: self.to.as_ptr(),
                    next: 0,
                    offset: panel * panels.columns,
                    used: panels.used(panel),
                    limits: [f32::NEG_INFINITY, f32::INFINITY],
                };
                let b = packed[panels.start(panel, self.depth)..][..width * self.depth].as_ptr();
                // SAFETY: as promised by the caller.
                unsafe { panels.tile(self.count, width, self.from.as_ptr(), 1, self.depth, b, &finish) };
            }
        }
    }
}

/// Of rows that lie `row` floats apart, `keys` of each: the weights, and 1 / their sums, one for each of `inverses`.
fn weigh(
    level: Level,
    scores: &[f32],
    row: usize,
    keys: usize,
    factor: f32,
    weights: &mut [f32],
    inverses: &mut [f32],
) {
    #[cfg(target_arch = "x86_64")]
    if level.is_512() && keys <= cancel::SPAN {
        // SAFETY: the level vouches for the features.
        return unsafe { unary_x86::weigh(scores, row, keys, factor, weights, inverses) };
    }
    let rows = scores.chunks_exact(row).zip(weights.chunks_exact_mut(row));
    for ((x, y), inverse) in rows.zip(inverses) {
        *inverse = 1.0 / weigh_row(level, &x[..keys], largest(level, &x[..keys]), factor, &mut y[..keys]);
    }
}

multiversion! {
    /// Writes 2^((x − largest)·factor) to y, and gives the sum, to whose part i mod [`LANES`] element i goes.
    fn weigh_row(x: &[f32], largest: f32, factor: f32, y: &mut [f32]) -> f32 {
        let mut sums = [0.0; LANES];
        for part in spans(x.len().div_ceil(LANES), LANES) {
            let part = part.start * LANES..x.len().min(part.end * LANES);
            let (x, y) = (&x[part.clone()], &mut y[part]);
            let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks_mut::<LANES>());
            for (x, y) in x.iter().zip(y) {
                add_each(x, y, &mut sums, |x| math::power(x - largest, factor));
            }
            add_each(x_rest, y_rest, &mut sums, |x| math::power(x - largest, factor));
        }
        tree(sums)
    }
}

multiversion! {
    /// Rows times a factor, brought together.
    fn scaled(x: &[f32], stride: usize, factor: f32, y: &mut [f32], width: usize) {
        for (row, y) in y.chunks_exact_mut(width).enumerate() {
            for (y, x) in y.iter_mut().zip(&x[row * stride..][..width]) {
                *y = x * factor;
            }
        }
    }
}
