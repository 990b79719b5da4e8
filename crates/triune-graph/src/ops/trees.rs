//! Ensembles of decision trees, laid out as evaluation walks over them.
//!
//! Who reads a file says what its trees are ([`Seedlings`]); [`Seedlings::plant`] puts the nodes of all trees into one array, tree
//! by tree and level by level, in which the two branches of a split are neighbours.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, OnceLock},
};

use triune_tensor::{DType, Shape, memory};

use super::infer::{Operands, TensorType};
use crate::{Error, walk::Walk};

/// How a split compares a feature with its value; where that holds, its first branch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeMode {
    /// At most the value.
    LessOrEqual,
    /// Less than the value.
    Less,
    /// At least the value.
    GreaterOrEqual,
    /// More than the value.
    Greater,
    /// The value.
    Equal,
    /// Another one than the value; NaN is.
    NotEqual,
    /// One of a set; the value is the number of that in [`Forest::sets`].
    Member,
}

impl TreeMode {
    /// All of them, by the numbers that nodes have for them.
    pub const ALL: [Self; 7] = [
        Self::LessOrEqual,
        Self::Less,
        Self::GreaterOrEqual,
        Self::Greater,
        Self::Equal,
        Self::NotEqual,
        Self::Member,
    ];
}

/// What becomes of what all trees say of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Their sum, tree by tree.
    Sum,
    /// Their sum, divided by the number of trees.
    Average,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// What becomes of scores in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostTransform {
    /// They stay.
    None,
    /// exp(x − largest)/Σ.
    Softmax,
    /// 1/(1 + exp(−x)).
    Logistic,
    /// As the first, but that scores of 0 are none.
    SoftmaxZero,
    /// The inverse of the normal distribution.
    Probit,
}

/// A node of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeNode<T> {
    /// What a split compares with, or a leaf's weight where there is one target.
    pub value: T,
    /// A split's feature, mode and whether NaN takes the first branch; [`Self::LEAF`] for a leaf.
    pub word: u32,
    /// Where a split's first branch is, before the other one; of a leaf, the leaf itself.
    pub next: u32,
}

impl<T> TreeNode<T> {
    /// The bit of a leaf.
    pub const LEAF: u32 = 1 << 31;
    /// The bit of a split where NaN takes the first branch.
    pub const MISSING: u32 = 1 << 30;
    /// The bits of the feature.
    pub const FEATURE: u32 = (1 << 27) - 1;
    const MODE: u32 = 27;

    /// The number of a split's mode in [`TreeMode::ALL`].
    #[inline]
    pub const fn mode(&self) -> u32 {
        self.word >> Self::MODE & 7
    }
}

/// Trees over values of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest<T> {
    /// All nodes.
    pub nodes: Vec<TreeNode<T>>,
    /// Each tree's first node.
    pub roots: Vec<u32>,
    /// By node, the first of a leaf's weights. Empty where there is one target.
    pub leaves: Vec<u32>,
    /// By node, how many weights a leaf has, unless all have as many.
    pub counts: Vec<u32>,
    /// How many weights each leaf has, if all have as many.
    pub each: u32,
    /// A target and what is said of it.
    pub weights: Vec<(u32, T)>,
    /// Sets that features are looked up in, in order.
    pub sets: Vec<Vec<T>>,
    /// What is added to the targets' scores: nothing, one number for the first, or one for each.
    pub base: Vec<T>,
    /// The mode of all splits, if they have one; [`TreeMode::LessOrEqual`] where there is no split.
    pub mode: Option<TreeMode>,
    /// Whether NaN takes the first branch of some split.
    pub missing: bool,
    /// Features that splits look at are below this.
    pub features: usize,
    /// Nodes on the longest path.
    pub depth: usize,
}

impl<T: Copy> Forest<T> {
    /// The same over another type.
    fn map<U>(&self, of: impl Fn(T) -> U) -> Result<Forest<U>, Error> {
        let mut nodes = memory::with_room(self.nodes.len())?;
        let node = |node: &TreeNode<T>| TreeNode { value: of(node.value), word: node.word, next: node.next };
        nodes.extend(self.nodes.iter().map(node));
        let mut weights = memory::with_room(self.weights.len())?;
        weights.extend(self.weights.iter().map(|&(target, weight)| (target, of(weight))));
        let mut sets = memory::with_room(self.sets.len())?;
        for set in &self.sets {
            sets.push(memory::collected(set.iter().map(|&value| of(value)))?);
        }
        Ok(Forest {
            nodes,
            roots: memory::copied(&self.roots)?,
            leaves: memory::copied(&self.leaves)?,
            counts: memory::copied(&self.counts)?,
            each: self.each,
            weights,
            sets,
            base: self.base.iter().map(|&value| of(value)).collect(),
            mode: self.mode,
            missing: self.missing,
            features: self.features,
            depth: self.depth,
        })
    }
}

/// Where a root or a branch of a split leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Branch {
    Split(usize),
    Leaf(usize),
}

/// A split as a reader found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    pub(crate) feature: u32,
    pub(crate) mode: TreeMode,
    /// Not NaN.
    pub(crate) value: f64,
    pub(crate) missing: bool,
    /// Where it leads if it holds, and if not.
    pub(crate) branches: [Branch; 2],
}

/// Trees as a reader found them.
#[derive(Debug, Default)]
pub(crate) struct Seedlings {
    pub(crate) splits: Vec<Split>,
    /// Which of the weights each leaf has.
    pub(crate) leaves: Vec<Range<usize>>,
    pub(crate) weights: Vec<(u32, f64)>,
    pub(crate) sets: Vec<Vec<f64>>,
    pub(crate) roots: Vec<Branch>,
    pub(crate) base: Vec<f64>,
}

/// Why trees are none.
#[derive(Debug)]
pub(crate) enum Unplanted {
    /// A split that two branches lead to, or one of its own.
    Twice(usize),
    /// There are more nodes than numbers.
    TooMany,
    Other(Error),
}

impl From<Error> for Unplanted {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<triune_tensor::OutOfMemory> for Unplanted {
    fn from(error: triune_tensor::OutOfMemory) -> Self {
        Self::Other(error.into())
    }
}

impl Seedlings {
    /// The largest feature's number.
    pub(crate) const FEATURES: i64 = TreeNode::<f64>::FEATURE as i64;
    /// The most sets, whose numbers are values.
    pub(crate) const SETS: usize = 1 << 24;

    /// The trees as one array; `targets` decides where weights lie.
    pub(crate) fn plant(self, targets: usize) -> Result<Forest<f64>, Unplanted> {
        let most = self.roots.len().saturating_add(self.splits.len().saturating_mul(2));
        if most >= 1 << 31 || self.weights.len() >= 1 << 32 {
            return Err(Unplanted::TooMany);
        }
        let empty = TreeNode { value: 0.0, word: TreeNode::<f64>::LEAF, next: 0 };
        let mut nodes = memory::with_room(most)?;
        let mut leaves = memory::with_room(if targets == 1 { 0 } else { most })?;
        let mut sizes = self.leaves.iter().map(Range::len);
        let each = sizes.next().unwrap_or(0);
        let uneven = targets != 1 && sizes.any(|size| size != each);
        let mut counts = memory::with_room(if uneven { most } else { 0 })?;
        let mut roots = memory::with_room(self.roots.len())?;
        let mut seen = memory::filled(self.splits.len(), false)?;
        let mut modes = self.splits.iter().map(|split| split.mode);
        let first = modes.next().unwrap_or(TreeMode::LessOrEqual);
        let mode = modes.all(|mode| mode == first).then_some(first);
        let (mut depth, mut walk, mut waiting) = (0, Walk::new(), VecDeque::new());
        for &root in &self.roots {
            roots.push(nodes.len() as u32);
            waiting.push_back((root, nodes.len(), 1));
            nodes.push(empty);
            while let Some((branch, place, level)) = waiting.pop_front() {
                walk.node()?;
                depth = depth.max(level);
                match branch {
                    Branch::Leaf(leaf) => {
                        let own = self.leaves[leaf].clone();
                        let value = self.weights[own.clone()].iter().map(|(_, weight)| weight).sum();
                        nodes[place] = TreeNode { value, next: place as u32, ..empty };
                        if targets != 1 {
                            leaves.resize(leaves.len().max(place + 1), 0);
                            leaves[place] = own.start as u32;
                            if uneven {
                                counts.resize(leaves.len(), 0);
                                counts[place] = own.len() as u32;
                            }
                        }
                    }
                    Branch::Split(split) => {
                        if std::mem::replace(&mut seen[split], true) {
                            return Err(Unplanted::Twice(split));
                        }
                        let split = &self.splits[split];
                        let missing = if split.missing { TreeNode::<f64>::MISSING } else { 0 };
                        let word = split.feature | (split.mode as u32) << TreeNode::<f64>::MODE | missing;
                        nodes[place] = TreeNode { value: split.value, word, next: nodes.len() as u32 };
                        for branch in split.branches {
                            waiting.push_back((branch, nodes.len(), level + 1));
                            nodes.push(empty);
                        }
                    }
                }
            }
        }
        let features = self.splits.iter().zip(&seen).filter(|(_, seen)| **seen);
        Ok(Forest {
            nodes,
            roots,
            leaves,
            counts,
            each: each as u32,
            features: features.map(|(split, _)| split.feature as usize + 1).max().unwrap_or(0),
            missing: self.splits.iter().any(|split| split.missing),
            weights: if targets == 1 { Vec::new() } else { self.weights },
            sets: self.sets,
            base: self.base,
            mode,
            depth,
        })
    }
}

/// The same trees over f32 and over f64, as far as they are needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Forests {
    /// Over f32, unless what the file says has more digits.
    narrow: Option<Forest<f32>>,
    wide: OnceLock<Forest<f64>>,
}

impl Forests {
    /// Of reals that are all f32, or f64.
    pub(crate) fn new(forest: Forest<f64>, is_wide: bool) -> Result<Self, Error> {
        if is_wide {
            return Ok(Self { narrow: None, wide: OnceLock::from(forest) });
        }
        Ok(Self { narrow: Some(forest.map(|value| value as f32)?), wide: OnceLock::new() })
    }

    /// The trees over f32, unless they need f64.
    pub fn narrow(&self) -> Option<&Forest<f32>> {
        self.narrow.as_ref()
    }

    /// The trees over f64.
    pub fn wide(&self) -> Result<&Forest<f64>, Error> {
        if let (None, Some(narrow)) = (self.wide.get(), &self.narrow) {
            let wide = narrow.map(f64::from)?;
            return Ok(self.wide.get_or_init(|| wide));
        }
        self.wide.get().ok_or_else(|| Error::Graph("trees of no type".into()))
    }

    /// Numbers that the trees have, of splits and of leaves, and their bytes.
    pub(super) fn held(&self) -> [u64; 2] {
        fn count<T>(forest: &Forest<T>) -> [u64; 2] {
            let leaf = |node: &&TreeNode<T>| node.word & TreeNode::<T>::LEAF != 0;
            let leaves = forest.nodes.iter().filter(leaf).count();
            let said = if forest.weights.is_empty() { leaves } else { forest.weights.len() };
            let sets: usize = forest.sets.iter().map(Vec::len).sum();
            let all = (forest.nodes.len() - leaves + said + sets + forest.base.len()) as u64;
            [all, all * size_of::<T>() as u64]
        }
        match (&self.narrow, self.wide.get()) {
            (Some(narrow), _) => count(narrow),
            (None, Some(wide)) => count(wide),
            (None, None) => [0; 2],
        }
    }

    /// Features that splits look at are below this.
    pub fn features(&self) -> usize {
        let wide = self.wide.get().map(|forest| forest.features);
        self.narrow.as_ref().map(|forest| forest.features).or(wide).unwrap_or(0)
    }
}

/// What an ensemble's classes are called, and which of them wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// The label of each; of strings, their numbers.
    pub labels: Vec<i64>,
    /// Whether there are two of which the trees speak of one only: how it scores decides.
    pub binary: bool,
    /// Whether no weight is negative, which makes scores shares of one.
    pub shares: bool,
}

/// What an ensemble of trees says of each row: scores (N, targets), behind labels (N) of i64 where there are classes.
///
/// The input is (N, features) or (features) of f32, f64, i32 or i64. Over f64, or with weights that are, sums are of f64, else of
/// f32: one tree after the other, in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    /// The operator's name in its source format.
    pub name: &'static str,
    /// The trees.
    pub forests: Forests,
    /// Targets or classes.
    pub targets: usize,
    /// What becomes of what all trees say.
    pub aggregate: Aggregate,
    /// What becomes of the scores.
    pub post_transform: PostTransform,
    /// The classes, where there are some.
    pub classes: Option<Classes>,
    /// Whether scores have the input's type; else they are f32.
    pub like_input: bool,
}

impl Trees {
    /// Rows and columns of an input; `Err` says what is wrong with it.
    pub fn rows(&self, dtype: DType, shape: &[usize]) -> Result<[usize; 2], String> {
        let real = matches!(dtype, DType::F32 | DType::F64);
        if !real && (self.like_input || !matches!(dtype, DType::I32 | DType::I64)) {
            return Err(format!("an input of {dtype}; float32, float64, int32 or int64 is expected"));
        }
        let [rows, columns] = match *shape {
            [columns] => [1, columns],
            [rows, columns] => [rows, columns],
            _ => return Err(format!("an input of {} axes; one or two are expected", shape.len())),
        };
        let features = self.forests.features();
        if columns < features {
            let last = features - 1;
            return Err(format!(
                "attribute 'nodes_featureids' names feature {last}, and the input has {columns} columns"
            ));
        }
        Ok([rows, columns])
    }

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let [rows, _] = self.rows(x.dtype, &x.shape).map_err(|reason| at.wrong(reason))?;
        let dtype = if self.like_input { x.dtype } else { DType::F32 };
        let scores = TensorType { dtype, shape: at.shape(&[rows, self.targets])? };
        Ok(match self.classes {
            Some(_) => vec![TensorType { dtype: DType::I64, shape: Shape::from([rows]) }, scores],
            None => vec![scores],
        })
    }
}

impl From<Trees> for crate::Op {
    fn from(trees: Trees) -> Self {
        Self::Hosted(super::Hosted::Trees(Arc::new(trees)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(feature: u32, value: f64, branches: [Branch; 2]) -> Split {
        Split { feature, mode: TreeMode::LessOrEqual, value, missing: false, branches }
    }

    #[test]
    fn branches_of_a_split_are_neighbours() {
        let seedlings = Seedlings {
            splits: vec![
                split(4, 0.5, [Branch::Leaf(0), Branch::Split(1)]),
                split(2, 1.5, [Branch::Leaf(1), Branch::Leaf(2)]),
            ],
            leaves: vec![0..1, 1..2, 2..3],
            weights: vec![(0, 1.0), (0, 2.0), (0, 3.0)],
            roots: vec![Branch::Split(0), Branch::Leaf(2)],
            ..Seedlings::default()
        };
        let forest = seedlings.plant(1).unwrap();
        assert_eq!((forest.roots, forest.features, forest.depth), (vec![0, 5], 5, 3));
        let places: Vec<_> = forest.nodes.iter().map(|node| (node.value, node.next)).collect();
        assert_eq!(places, [(0.5, 1), (1.0, 1), (1.5, 3), (2.0, 3), (3.0, 4), (3.0, 5)]);
    }

    #[test]
    fn a_split_that_leads_to_itself_is_no_tree() {
        let seedlings = Seedlings {
            splits: vec![
                split(0, 0.5, [Branch::Split(1), Branch::Leaf(0)]),
                split(0, 1.5, [Branch::Split(0), Branch::Leaf(0)]),
            ],
            leaves: std::iter::once(0..0).collect(),
            roots: vec![Branch::Split(0)],
            ..Seedlings::default()
        };
        assert!(matches!(seedlings.plant(2), Err(Unplanted::Twice(0))));
    }
}
