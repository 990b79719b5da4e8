//! How much a command reads, makes and takes: what its table says of its fields, in elements.

use triune_tensor::DType;

use super::{
    Command,
    types::{Addr, FeatureMap, Operand, Window},
};

/// How a command uses what lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// It reads elements that an earlier command, or whoever runs the program, wrote.
    In,
    /// It writes elements.
    Out,
    /// It reads what came with the program: weights, biases, multipliers, tables.
    Const,
}

/// Elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Elements {
    /// Those of a feature map.
    Map(FeatureMap),
    /// Extents; unused ones are 1.
    Extents([u32; 6]),
    /// The same, of which a part of a whole counts: the others fill blocks. Zeros: all of it.
    Part([u32; 6], [u32; 2]),
}

impl Elements {
    /// How many there are; saturates.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Map(map) => map.elements(),
            Self::Extents(dims) | Self::Part(dims, _) => product(*dims),
        }
    }
}

impl From<FeatureMap> for Elements {
    fn from(map: FeatureMap) -> Self {
        Self::Map(map)
    }
}

impl<const N: usize> From<[u32; N]> for Elements {
    fn from(extents: [u32; N]) -> Self {
        let mut dims = [1; 6];
        dims[..N].copy_from_slice(&extents);
        Self::Extents(dims)
    }
}

/// What lies at an address. Gaps count for nothing, repeated (broadcast) elements once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Access {
    /// Bytes of an element.
    pub(crate) each: u64,
    /// The elements.
    pub(crate) elements: Elements,
}

impl Access {
    /// `count` of each.
    pub(super) fn times(self, count: u32) -> Self {
        Self { each: self.each.saturating_mul(count.into()), ..self }
    }
}

/// A field that says by itself how much lies there.
pub(super) trait Accessing {
    /// The address and what lies there; of an operand, as much as is `made`.
    fn access(&self, made: Option<Elements>) -> Option<(Addr, Access)>;
}

impl Accessing for FeatureMap {
    fn access(&self, _: Option<Elements>) -> Option<(Addr, Access)> {
        Some((self.addr, Access { each: self.dtype.bytes() as u64, elements: Elements::Map(*self) }))
    }
}

impl Accessing for Option<FeatureMap> {
    fn access(&self, made: Option<Elements>) -> Option<(Addr, Access)> {
        self.as_ref()?.access(made)
    }
}

impl Accessing for Operand {
    fn access(&self, made: Option<Elements>) -> Option<(Addr, Access)> {
        let elements = match made? {
            Elements::Map(map) => Elements::Map(map),
            Elements::Extents(dims) => Elements::Extents(distinct(dims, self.strides)),
            Elements::Part(dims, counted) => Elements::Part(distinct(dims, self.strides), counted),
        };
        Some((self.addr, Access { each: self.dtype.bytes() as u64, elements }))
    }
}

impl Command {
    /// Whether the command makes no element: what depends on data may come out empty, and then there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.makes().is_some_and(|made| made.count() == 0)
    }
}

/// The product of extents; saturates.
pub(crate) fn product(extents: impl IntoIterator<Item = u32>) -> u64 {
    extents.into_iter().fold(1, |product: u64, extent| product.saturating_mul(extent.into()))
}

/// Elements one behind the other, of `each` bytes.
pub(super) fn dense<const N: usize>(each: u32, extents: [u32; N]) -> Access {
    Access { each: each.into(), elements: extents.into() }
}

/// Elements of `each` bytes by strides.
pub(super) fn strided(each: u32, dims: [u32; 6], strides: [u64; 6]) -> Access {
    dense(each, distinct(dims, strides))
}

/// An operand of other extents than what is made.
pub(super) fn operand(operand: &Operand, dims: [u32; 6]) -> Access {
    strided(bytes(operand.dtype), dims, operand.strides)
}

/// Extents with another last one.
pub(super) const fn with_last([a, b, c, d, e, _]: [u32; 6], last: u32) -> [u32; 6] {
    [a, b, c, d, e, last]
}

/// A matrix of integers of so many bits in blocks, each of which has a factor and a zero point behind it.
pub(super) fn in_blocks(columns: u32, depth: u32, [bits, block]: [u32; 2]) -> Access {
    let blocks = if block == 0 { 0 } else { depth.div_ceil(block) };
    dense(1, [columns, blocks, (block / 8).saturating_mul(bits).saturating_add(8)])
}

/// A convolution's weights, which are of its input's type.
pub(super) fn weights(input: &FeatureMap, output: &FeatureMap, window: &Window) -> Access {
    let [rows, columns] = window.kernel;
    dense(bytes(input.dtype), [output.c, rows, columns, input.c / window.groups.max(1)])
}

/// A table of all patterns of a type.
pub(super) fn table(dtype: DType) -> Access {
    dense(if dtype.bytes() == 2 { 1 << 17 } else { 256 }, [1])
}

/// Bytes of an element.
pub(super) fn bytes(dtype: DType) -> u32 {
    dtype.bytes() as u32
}

/// How many there are of what a batch may share.
pub(super) const fn batches(shared: bool, batch: u32) -> u32 {
    if shared { 1 } else { batch }
}

/// Extents without axes that repeat.
fn distinct(mut dims: [u32; 6], strides: [u64; 6]) -> [u32; 6] {
    for (dim, stride) in dims.iter_mut().zip(strides) {
        if stride == 0 {
            *dim = 1;
        }
    }
    dims
}

/// The mask of one axis; none of an axis that there is not.
pub(super) fn axis(axis: u32) -> u32 {
    1_u32.checked_shl(axis).unwrap_or(0)
}

/// What stays of extents when the axes of a mask go: bit i is axis i.
pub(super) fn kept(dims: [u32; 6], axes: u32) -> [u32; 6] {
    std::array::from_fn(|axis| if axes >> axis & 1 == 1 { 1 } else { dims[axis] })
}

/// How many elements go into one when the axes of a mask go.
pub(super) fn gone(dims: [u32; 6], axes: u32) -> u64 {
    product((0..6).filter(|axis| axes >> axis & 1 == 1).map(|axis| dims[axis]))
}
