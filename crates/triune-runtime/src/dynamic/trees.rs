//! What ensembles of decision trees say of rows.
//!
//! Rows are taken in blocks, whose trees stay in the cache: in a block, tree by tree, several rows walk down side by side, since
//! none of them waits for another's memory; of fewer rows, several trees do. Leaves lead to themselves, so that walks of different
//! lengths go on together without a branch. Whatever walks beside what, each row's sums are made tree by tree, in order.

use triune_device::{Error as DeviceError, work};
use triune_graph::{
    ops::{Aggregate, Classes, Forest, PostTransform, TreeMode, TreeNode, Trees},
    passes::HostStep,
};
use triune_kernels::Pool;
use triune_tensor::{DType, Shape, memory};

use super::{
    Operands, operands,
    rows::{self, Blocks, elements},
    scores::{self, Second},
};
use crate::{Error, Tensor, TensorRef};

/// Walks side by side.
const LANES: usize = 16;
/// Rows of a block, of few targets and columns.
const BLOCK: usize = 256;
/// Most scores and most elements of a block's input, unless a row has more.
const SCORES: usize = 1 << 14;
const ELEMENTS: usize = 1 << 15;
/// Steps of a walk that a task should have at least.
const TASK: u64 = 1 << 15;

/// So many steps are not counted against the limit of work, which takes longer to look up than they do.
const UNCOUNTED: u64 = 100_000;

/// What trees compute in.
trait Real: rows::Real + PartialOrd + Send + Sync + 'static {
    const ZERO: Self;
    fn is_nan(self) -> bool;
    fn index(self) -> usize;
    fn plus(self, other: Self) -> Self;
    fn over(self, count: usize) -> Self;
    fn narrow(self) -> f32;
    fn wide(self) -> f64;
}

macro_rules! real {
    ($real:ident) => {
        impl Real for $real {
            const ZERO: Self = 0.0;

            fn is_nan(self) -> bool {
                $real::is_nan(self)
            }

            fn index(self) -> usize {
                self as usize
            }

            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn over(self, count: usize) -> Self {
                self / count as $real
            }

            fn narrow(self) -> f32 {
                self as f32
            }

            fn wide(self) -> f64 {
                f64::from(self)
            }
        }
    };
}

real!(f32);
real!(f64);

/// Runs the step.
pub(crate) fn run<'a>(
    step: &'a HostStep,
    op: &Trees,
    pool: &Pool,
    arrived: impl Fn(&str) -> Option<TensorRef<'a>>,
) -> Result<Vec<Tensor>, Error> {
    let operands = operands(step, |constant| constant, arrived)?;
    let at = Operands { step, operands: &operands };
    let x = at.input(0)?;
    let [rows, columns] = op.rows(x.dtype, x.shape).map_err(|reason| at.wrong(reason))?;
    match op.forests.narrow().filter(|_| x.dtype != DType::F64) {
        Some(forest) => Run { at: &at, op, forest, x, rows, columns }.all(pool),
        None => Run { at: &at, op, forest: op.forests.wide()?, x, rows, columns }.all(pool),
    }
}

struct Run<'r, 'a, T> {
    at: &'r Operands<'a>,
    op: &'r Trees,
    forest: &'r Forest<T>,
    x: TensorRef<'a>,
    rows: usize,
    columns: usize,
}

/// Where a block's results go: labels of eight bytes each, and scores.
struct Place<'a> {
    labels: &'a mut [u8],
    scores: &'a mut [u8],
}

/// What a block is computed in.
struct Scratch<T> {
    x: Vec<T>,
    sums: Vec<T>,
    /// Whether some tree says something of a target.
    said: Vec<bool>,
    /// A row's scores in the end.
    last: Vec<f32>,
}

impl<T: Real> Run<'_, '_, T> {
    fn all(&self, pool: &Pool) -> Result<Vec<Tensor>, Error> {
        let targets = self.op.targets;
        let dtype = if self.op.like_input { self.x.dtype } else { DType::F32 };
        let row_bytes = targets * dtype.bytes();
        let paths = self.forest.roots.len() as u64 * self.forest.depth as u64;
        let steps = paths.saturating_mul(self.rows as u64);
        if steps > UNCOUNTED && steps > work::limit()? {
            let (limit, variable) = (work::limit()?, work::VARIABLE);
            return Err(self.at.wrong(format!(
                "{steps} steps through trees, more than the {limit} operations that a run may take; a higher limit of work ({variable}, or triune.set_work_limit) would let it go on"
            )));
        }
        let block = BLOCK.min(SCORES / targets).min(ELEMENTS / self.columns.max(1)).max(LANES);
        // A block for each thread at least, unless it would be next to nothing.
        let share = self.rows.div_ceil(pool.threads()).next_multiple_of(LANES);
        let least = usize::try_from(TASK.div_ceil(paths.max(1))).unwrap_or(usize::MAX);
        let block = block.min(share.max(least)).max(1);
        let labels = if self.op.classes.is_some() { 8 } else { 0 };
        let blocks = Blocks { rows: self.rows, block, bytes: [labels, row_bytes] };
        let [labels, scores] =
            blocks.run(pool, &|first, [labels, scores]| self.block(first, &mut Place { labels, scores }))?;
        let shape = |dims: &[usize]| Shape::new(dims).ok_or_else(|| self.at.wrong("too many dimensions"));
        let scores = Tensor { dtype, shape: shape(&[self.rows, targets])?, bytes: scores };
        Ok(match self.op.classes {
            Some(_) => vec![Tensor { dtype: DType::I64, shape: shape(&[self.rows])?, bytes: labels }, scores],
            None => vec![scores],
        })
    }

    /// The rows from `first` on, as many as there are places for.
    fn block(&self, first: usize, place: &mut Place<'_>) -> Result<(), Error> {
        let targets = self.op.targets;
        let dtype = if self.op.like_input { self.x.dtype } else { DType::F32 };
        let row_bytes = targets * dtype.bytes();
        let rows = place.scores.len() / row_bytes;
        let mut scratch = Scratch {
            x: elements(self.x, self.columns, first, rows)?,
            sums: memory::filled(rows * targets, T::ZERO)?,
            said: memory::filled(rows * targets, false)?,
            last: memory::filled(targets.max(2), 0.0)?,
        };
        self.walk(rows, &mut scratch)?;
        let mut labels = place.labels.as_chunks_mut::<8>().0.iter_mut();
        for (row, bytes) in place.scores.chunks_exact_mut(row_bytes).enumerate() {
            let sums = &mut scratch.sums[row * targets..][..targets];
            let said = &mut scratch.said[row * targets..][..targets];
            if let Some(classes) = &self.op.classes {
                let label = self.classified(classes, sums, said, &mut scratch.last);
                if let Some(place) = labels.next() {
                    *place = label.to_le_bytes();
                }
            } else {
                self.regressed(sums, said);
                // A single score has nothing to share with.
                let by = if targets > 1 || self.op.post_transform == PostTransform::Probit {
                    self.op.post_transform
                } else {
                    PostTransform::None
                };
                if by == PostTransform::None && dtype == DType::F64 {
                    let words = bytes.as_chunks_mut::<8>().0;
                    words.iter_mut().zip(&*sums).for_each(|(word, sum)| *word = sum.wide().to_le_bytes());
                    continue;
                }
                let last = &mut scratch.last[..targets];
                last.iter_mut().zip(&*sums).for_each(|(last, sum)| *last = sum.narrow());
                scores::transform(last, by);
            }
            let last = &scratch.last[..targets];
            if dtype == DType::F64 {
                let words = bytes.as_chunks_mut::<8>().0;
                words.iter_mut().zip(last).for_each(|(word, last)| *word = f64::from(*last).to_le_bytes());
            } else {
                let words = bytes.as_chunks_mut::<4>().0;
                words.iter_mut().zip(last).for_each(|(word, last)| *word = last.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Lets rows walk down all trees.
    fn walk(&self, rows: usize, scratch: &mut Scratch<T>) -> Result<(), Error> {
        macro_rules! by {
            ($($mode:literal)+) => {
                match (self.forest.mode.map(|mode| mode as u32), self.forest.missing) {
                    $((Some($mode), false) => self.walk_by::<$mode, false>(rows, scratch),
                    (Some($mode), true) => self.walk_by::<$mode, true>(rows, scratch),)+
                    _ => self.walk_by::<ANY, true>(rows, scratch),
                }
            };
        }
        by!(0 1 2 3 4 5)
    }

    fn walk_by<const MODE: u32, const MISSING: bool>(
        &self,
        rows: usize,
        scratch: &mut Scratch<T>,
    ) -> Result<(), Error> {
        let together = rows - rows % LANES;
        if self.forest.features == 0 {
            // Single leaves, and perhaps no columns.
            for row in 0..rows {
                self.forest.roots.iter().for_each(|root| self.add(row, *root, scratch));
            }
            return Ok(());
        }
        for (tree, &root) in self.forest.roots.iter().enumerate() {
            if together > 0 && tree.is_multiple_of(64) {
                stop()?;
            }
            for row in (0..together).step_by(LANES) {
                let base = std::array::from_fn(|lane| (row + lane) * self.columns);
                let ends = self.down::<MODE, MISSING>(&scratch.x, base, [root; LANES])?;
                for (lane, end) in ends.into_iter().enumerate() {
                    self.add(row + lane, end, scratch);
                }
            }
        }
        for row in together..rows {
            stop()?;
            for roots in self.forest.roots.chunks(LANES) {
                let lanes = std::array::from_fn(|lane| roots[lane.min(roots.len() - 1)]);
                let ends = self.down::<MODE, MISSING>(&scratch.x, [row * self.columns; LANES], lanes)?;
                for &end in &ends[..roots.len()] {
                    self.add(row, end, scratch);
                }
            }
        }
        Ok(())
    }

    /// The leaves that walks from some nodes, of rows that begin at some elements, end at.
    #[inline]
    fn down<const MODE: u32, const MISSING: bool>(
        &self,
        x: &[T],
        base: [usize; LANES],
        from: [u32; LANES],
    ) -> Result<[u32; LANES], Error> {
        /// Levels between two looks: few trees are deeper.
        const LEVELS: usize = 1 << 12;
        let nodes = &self.forest.nodes[..];
        let mut at = from;
        loop {
            for _ in 0..LEVELS {
                let mut splits = 0;
                for lane in 0..LANES {
                    let node = &nodes[at[lane] as usize];
                    let own = x[base[lane] + (node.word & TreeNode::<T>::FEATURE) as usize];
                    let mut holds = self.holds::<MODE>(own, node);
                    if MISSING {
                        holds |= node.word & TreeNode::<T>::MISSING != 0 && own.is_nan();
                    }
                    let split = !node.word >> 31;
                    at[lane] = node.next + (u32::from(!holds) & split);
                    splits |= split;
                }
                if splits == 0 {
                    return Ok(at);
                }
            }
            stop()?;
        }
    }

    /// Whether a split holds; of a leaf, whatever.
    #[inline]
    fn holds<const MODE: u32>(&self, x: T, node: &TreeNode<T>) -> bool {
        match if MODE == ANY { node.mode() } else { MODE } {
            0 => x <= node.value,
            1 => x < node.value,
            2 => x >= node.value,
            3 => x > node.value,
            4 => x == node.value,
            5 => x != node.value,
            _ => self.forest.sets.get(node.value.index()).is_some_and(|set| {
                let place = set.partition_point(|member| *member < x);
                set.get(place).is_some_and(|member| *member == x)
            }),
        }
    }

    /// Adds what a leaf says to a row's sums.
    #[inline]
    fn add(&self, row: usize, leaf: u32, scratch: &mut Scratch<T>) {
        if self.op.targets == 1 {
            let weight = self.forest.nodes[leaf as usize].value;
            let (sum, said) = (&mut scratch.sums[row], &mut scratch.said[row]);
            *sum = self.aggregated(*sum, *said, weight);
            *said = true;
            return;
        }
        let first = self.forest.leaves[leaf as usize];
        let count = self.forest.counts.get(leaf as usize).copied().unwrap_or(self.forest.each);
        for &(target, weight) in &self.forest.weights[first as usize..][..count as usize] {
            let place = row * self.op.targets + target as usize;
            let (sum, said) = (&mut scratch.sums[place], &mut scratch.said[place]);
            *sum = self.aggregated(*sum, *said, weight);
            *said = true;
        }
    }

    #[inline]
    fn aggregated(&self, sum: T, said: bool, weight: T) -> T {
        match self.op.aggregate {
            Aggregate::Sum | Aggregate::Average => sum.plus(weight),
            Aggregate::Min if !said || weight < sum => weight,
            Aggregate::Max if !said || weight > sum => weight,
            Aggregate::Min | Aggregate::Max => sum,
        }
    }

    /// What a target's score has added.
    fn base(&self, target: usize) -> T {
        self.forest.base.get(target).copied().unwrap_or(T::ZERO)
    }

    /// Makes scores of a row's sums; of several targets, one of which no tree says anything has 0, as in ONNX Runtime.
    fn regressed(&self, sums: &mut [T], said: &[bool]) {
        for (target, (sum, said)) in sums.iter_mut().zip(said).enumerate() {
            if self.op.targets > 1 && !said {
                *sum = T::ZERO;
                continue;
            }
            let base = self.base(target);
            *sum = match self.op.aggregate {
                Aggregate::Sum => sum.plus(base),
                Aggregate::Average => sum.over(self.forest.roots.len()).plus(base),
                Aggregate::Min | Aggregate::Max if *said => base.plus(*sum),
                Aggregate::Min | Aggregate::Max => base,
            };
        }
    }

    /// The label of a row, and its scores as `last`.
    fn classified(&self, classes: &Classes, sums: &mut [T], said: &mut [bool], last: &mut [f32]) -> i64 {
        let by = self.op.post_transform;
        for (target, (sum, said)) in sums.iter_mut().zip(&mut *said).enumerate() {
            *sum = sum.plus(self.base(target));
            *said |= !self.forest.base.is_empty() && self.op.targets > 2;
        }
        let score = |target: usize| if said[target] { sums[target] } else { T::ZERO };
        // Of two classes, what the trees say of one of them is all that there is.
        if classes.binary {
            let own = if said[1] { sums[1] } else { score(0) };
            let half = if classes.shares { 0.5 } else { 0.0 };
            let label = classes.labels[usize::from(own.wide() > half)];
            if said[1] || self.forest.base.len() == 2 {
                last.iter_mut().enumerate().for_each(|(target, last)| *last = score(target).narrow());
                scores::transform(last, by);
            } else {
                let second = if classes.shares { Second::Rest } else { Second::Opposite };
                last.copy_from_slice(&both(own, second, by));
            }
            return label;
        }
        let mut best = None;
        for target in (0..sums.len()).filter(|target| said[*target]) {
            if best.is_none_or(|best: usize| sums[target] > sums[best]) {
                best = Some(target);
            }
        }
        last.iter_mut().zip(0..sums.len()).for_each(|(last, target)| *last = score(target).narrow());
        if sums.len() > 1 {
            scores::transform(&mut last[..sums.len()], by);
        }
        classes.labels[best.unwrap_or(0)]
    }
}

/// As [`scores::both`], with f64's digits for what needs no function.
fn both<T: Real>(score: T, second: Second, by: PostTransform) -> [f32; 2] {
    match second {
        Second::Rest if !matches!(by, PostTransform::Probit | PostTransform::Logistic) => {
            [(1.0 - score.wide()) as f32, score.narrow()]
        }
        _ => scores::both(score.narrow(), second, by),
    }
}

/// The mode of trees whose splits have several.
const ANY: u32 = TreeMode::ALL.len() as u32;

/// Ends the work if it is to stop.
fn stop() -> Result<(), Error> {
    if triune_kernels::cancel::requested() { Err(DeviceError::Cancelled.into()) } else { Ok(()) }
}
