//! Constant tensors: weights, shapes, tables.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};
use triune_tensor::{Buffer, DType, Recipe, Shape};

use crate::ops::BlockMatMul;

/// A dense row-major tensor whose bytes (little-endian) are shared, possibly with a mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant(Arc<Elements>);

/// In a place of its own: few values are constants, and all have room for one.
#[derive(Debug)]
struct Elements {
    dtype: DType,
    shape: Shape,
    source: Source,
}

/// Where the elements are.
#[derive(Clone, Debug)]
enum Source {
    Bytes(Bytes),
    /// Made when somebody wants them; all shapes of them share what was made.
    Recipe(Arc<Promised>),
}

struct Promised {
    recipe: Recipe,
    bytes: LazyLock<Bytes, Box<dyn FnOnce() -> Bytes + Send>>,
    blocks: Option<(BlockMatMul, Constant)>,
}

impl fmt::Debug for Promised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.recipe.fmt(f)
    }
}

impl PartialEq for Elements {
    fn eq(&self, other: &Self) -> bool {
        (self.dtype, self.shape) == (other.dtype, other.shape)
            && match (&self.source, &other.source) {
                (Source::Recipe(own), Source::Recipe(other)) if own.recipe == other.recipe => true,
                (own, other) => own.bytes() == other.bytes(),
            }
    }
}

impl Eq for Elements {}

impl Source {
    fn bytes(&self) -> &Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Recipe(promised) => &promised.bytes,
        }
    }
}

impl Constant {
    /// A constant over `bytes`; `None` unless they hold exactly the elements of `shape`.
    pub fn new(dtype: DType, shape: Shape, bytes: impl Into<Bytes>) -> Option<Self> {
        let bytes = bytes.into();
        (shape.elements()?.checked_mul(dtype.bytes())? == bytes.len())
            .then(|| Self(Arc::new(Elements { dtype, shape, source: Source::Bytes(bytes) })))
    }

    /// A constant that is made when its elements are asked for, in memory that is set aside now; `None` when there is none, or
    /// the recipe makes another number of bytes than the elements have.
    pub fn made(dtype: DType, shape: Shape, recipe: Recipe) -> Option<Self> {
        Self::promised(dtype, shape, recipe, None)
    }

    /// As [`Self::made`] a matrix of f32, which products can do without: with the operand of one that stands for it.
    pub(crate) fn made_of_blocks(
        shape: Shape,
        recipe: Recipe,
        product: BlockMatMul,
        matrix: Self,
    ) -> Option<Self> {
        Self::promised(DType::F32, shape, recipe, Some((product, matrix)))
    }

    fn promised(
        dtype: DType,
        shape: Shape,
        recipe: Recipe,
        blocks: Option<(BlockMatMul, Self)>,
    ) -> Option<Self> {
        if shape.elements()?.checked_mul(dtype.bytes())? != recipe.len() {
            return None;
        }
        let bytes: Box<dyn FnOnce() -> Bytes + Send> = Box::new(recipe.promise()?);
        let promised = Promised { recipe, bytes: LazyLock::new(bytes), blocks };
        Some(Self(Arc::new(Elements { dtype, shape, source: Source::Recipe(Arc::new(promised)) })))
    }

    /// The product that a product with this matrix is, and its operand, if it is made of blocks of integers.
    pub(crate) fn blocks(&self) -> Option<&(BlockMatMul, Self)> {
        match &self.0.source {
            Source::Bytes(_) => None,
            Source::Recipe(promised) => promised.blocks.as_ref(),
        }
    }

    /// What lies in memory before anybody asks for elements: these, or what they are made of.
    pub fn held(&self) -> &Bytes {
        self.recipe().map_or_else(|| self.bytes(), Recipe::source)
    }

    /// How the elements are made, if they are made of others when somebody asks for them.
    pub fn recipe(&self) -> Option<&Recipe> {
        match &self.0.source {
            Source::Bytes(_) => None,
            Source::Recipe(promised) => Some(&promised.recipe),
        }
    }

    /// A constant of f32 values; `None` unless there are exactly as many as `shape` holds.
    pub fn from_f32(shape: Shape, values: &[f32]) -> Option<Self> {
        Self::new(DType::F32, shape, little_endian(values, f32::to_le_bytes))
    }

    /// A constant of i64 values; `None` unless there are exactly as many as `shape` holds.
    pub fn from_i64(shape: Shape, values: &[i64]) -> Option<Self> {
        Self::new(DType::I64, shape, little_endian(values, i64::to_le_bytes))
    }

    /// A constant of i32 values; `None` unless there are exactly as many as `shape` holds.
    pub fn from_i32(shape: Shape, values: &[i32]) -> Option<Self> {
        Self::new(DType::I32, shape, little_endian(values, i32::to_le_bytes))
    }

    /// A constant of i8 values; `None` unless there are exactly as many as `shape` holds.
    pub fn from_i8(shape: Shape, values: &[i8]) -> Option<Self> {
        Self::new(DType::I8, shape, values.iter().map(|&v| v as u8).collect::<Vec<u8>>())
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// The extents.
    pub fn shape(&self) -> Shape {
        self.0.shape
    }

    /// The extents, as long as the constant is there.
    pub fn dims(&self) -> &[usize] {
        &self.0.shape
    }

    /// The elements as little-endian bytes, row-major.
    pub fn bytes(&self) -> &Bytes {
        self.0.source.bytes()
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.0.shape.iter().product()
    }

    /// The number of bytes of the elements.
    pub fn byte_len(&self) -> usize {
        self.elements() * self.0.dtype.bytes()
    }

    /// The same bytes under another shape of as many elements.
    pub fn reshaped(&self, shape: Shape) -> Option<Self> {
        let Elements { dtype, source, .. } = &*self.0;
        (shape.elements()? == self.elements())
            .then(|| Self(Arc::new(Elements { dtype: *dtype, shape, source: source.clone() })))
    }

    /// The same elements with the axes permuted: axis i of the result is axis `perm[i]` of this one. `None` when `perm` does
    /// not permute the axes.
    pub fn permuted(&self, perm: &[usize]) -> Option<Self> {
        let from = self.0.shape;
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..from.rank()) {
            return None;
        }
        let strides = from.strides();
        let dims: Vec<usize> = perm.iter().map(|&axis| from[axis]).collect();
        let steps: Vec<usize> = perm.iter().map(|&axis| strides[axis]).collect();
        let width = self.0.dtype.bytes();
        let mut bytes = Vec::with_capacity(self.byte_len());
        let mut at = vec![0; dims.len()];
        for _ in 0..self.elements() {
            let element: usize = at.iter().zip(&steps).map(|(index, step)| index * step).sum();
            bytes.extend_from_slice(&self.bytes()[element * width..][..width]);
            for axis in (0..dims.len()).rev() {
                at[axis] += 1;
                if at[axis] < dims[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
        Self::new(self.0.dtype, Shape::new(&dims)?, bytes)
    }

    /// The elements as f32, or `None` for another element type.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        (self.0.dtype == DType::F32).then(|| self.words().map(f32::from_le_bytes).collect())
    }

    /// The elements as i32, or `None` for another element type.
    pub fn to_i32(&self) -> Option<Vec<i32>> {
        (self.0.dtype == DType::I32).then(|| self.words().map(i32::from_le_bytes).collect())
    }

    /// The elements of any integer (or bool) type widened to i64, or `None` for floats and u64 above i64's range.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        let mut values = Vec::with_capacity(self.elements());
        self.for_each_i64(|value| values.push(value))?;
        Some(values)
    }

    /// Calls `f` on every element of any integer (or bool) type, in order; `None` for floats and u64 above i64's range.
    pub(crate) fn for_each_i64(&self, mut f: impl FnMut(i64)) -> Option<()> {
        match self.0.dtype {
            DType::Bool | DType::U8 => self.bytes().iter().for_each(|&b| f(i64::from(b))),
            DType::I8 => self.bytes().iter().for_each(|&b| f(i64::from(b as i8))),
            DType::U16 => self.words().for_each(|w| f(i64::from(u16::from_le_bytes(w)))),
            DType::I16 => self.words().for_each(|w| f(i64::from(i16::from_le_bytes(w)))),
            DType::U32 => self.words().for_each(|w| f(i64::from(u32::from_le_bytes(w)))),
            DType::I32 => self.words().for_each(|w| f(i64::from(i32::from_le_bytes(w)))),
            DType::I64 => self.words().for_each(|w| f(i64::from_le_bytes(w))),
            DType::U64 => {
                self.words().try_for_each(|w| i64::try_from(u64::from_le_bytes(w)).map(&mut f)).ok()?;
            }
            DType::U4 | DType::I4 | DType::U2 | DType::I2 => {
                self.bytes().iter().filter_map(|&byte| self.0.dtype.decode_integer(byte)).for_each(f);
            }
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::F8E8M0 | DType::F4E2M1 => {
                return None;
            }
            DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ => return None,
        }
        Some(())
    }

    /// The elements of any type of reals as f64, or `None` for another element type.
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        match self.0.dtype {
            DType::F16 | DType::BF16 => {
                self.words().map(|word| self.0.dtype.decode(u16::from_le_bytes(word))).collect()
            }
            dtype if dtype.is_storage() => {
                self.bytes().iter().map(|&byte| dtype.decode(byte.into())).collect()
            }
            DType::F32 => Some(self.words().map(|w| f64::from(f32::from_le_bytes(w))).collect()),
            DType::F64 => Some(self.words().map(f64::from_le_bytes).collect()),
            _ => None,
        }
    }

    /// The only element as f32, when there is exactly one and it is an f32.
    pub fn scalar_f32(&self) -> Option<f32> {
        match self.to_f32()?.as_slice() {
            [value] => Some(*value),
            _ => None,
        }
    }

    /// f32 elements times one factor per index along `axis`: computed in f64, rounded once. `None` for another element type,
    /// another number of factors, an axis that there is not, or without the memory.
    pub fn scaled(&self, axis: usize, factors: &[f64]) -> Option<Self> {
        (self.0.dtype == DType::F32 && self.0.shape.get(axis) == Some(&factors.len())).then_some(())?;
        let run: usize = self.0.shape[axis + 1..].iter().product();
        let mut scaled = Buffer::zeroed(self.byte_len())?;
        let (to, _) = scaled.as_chunks_mut();
        let (from, _) = self.bytes().as_chunks();
        let times = |to: &mut [u8; 4], from: &[u8; 4], factor: f64| {
            *to = ((f64::from(f32::from_le_bytes(*from)) * factor) as f32).to_le_bytes();
        };
        if run == 1 {
            let rows = to.chunks_exact_mut(factors.len().max(1)).zip(from.chunks_exact(factors.len().max(1)));
            for (to, from) in rows {
                to.iter_mut()
                    .zip(from)
                    .zip(factors)
                    .for_each(|((to, from), &factor)| times(to, from, factor));
            }
        } else {
            let runs = to.chunks_exact_mut(run.max(1)).zip(from.chunks_exact(run.max(1)));
            for ((to, from), &factor) in runs.zip(factors.iter().cycle()) {
                to.iter_mut().zip(from).for_each(|(to, from)| times(to, from, factor));
            }
        }
        Self::new(DType::F32, self.0.shape, Bytes::from_owner(scaled))
    }

    fn words<const N: usize>(&self) -> impl Iterator<Item = [u8; N]> + '_ {
        self.bytes().as_chunks().0.iter().copied()
    }
}

/// The bytes of one element.
pub(crate) type ElementBytes = SmallVec<[u8; 8]>;

/// A real in the bytes of a type: rounded once, cut off for integers, of which the low bits are left.
pub(crate) fn real_bytes(value: f64, dtype: DType) -> ElementBytes {
    match dtype {
        DType::Bool => smallvec![u8::from(value != 0.0)],
        DType::F32 => ElementBytes::from_slice(&(value as f32).to_le_bytes()),
        DType::F64 => ElementBytes::from_slice(&value.to_le_bytes()),
        DType::U64 => ElementBytes::from_slice(&(value as u64).to_le_bytes()),
        _ => match dtype.encode(value) {
            Some(bits) => ElementBytes::from_slice(&bits.to_le_bytes()[..dtype.bytes()]),
            None => integer_bytes(value as i64, dtype),
        },
    }
}

/// An integer in the bytes of a type, its low bits if it does not fit; reals are rounded once.
pub(crate) fn integer_bytes(value: i64, dtype: DType) -> ElementBytes {
    match dtype {
        DType::Bool => smallvec![u8::from(value != 0)],
        DType::F32 => ElementBytes::from_slice(&(value as f32).to_le_bytes()),
        DType::F64 => ElementBytes::from_slice(&(value as f64).to_le_bytes()),
        DType::U4 | DType::I4 | DType::U2 | DType::I2 => smallvec![value as u8 & ((1 << dtype.bits()) - 1)],
        _ => match dtype.encode(value as f64) {
            Some(bits) => ElementBytes::from_slice(&bits.to_le_bytes()[..dtype.bytes()]),
            // Narrower integers take the low bits, as in C.
            None => ElementBytes::from_slice(&value.to_le_bytes()[..dtype.bytes()]),
        },
    }
}

fn little_endian<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().map(|&value| bytes(value)).collect::<Vec<_>>().into_flattened()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_run_along_any_axis() {
        let values: Vec<f32> = (1_u8..=12).map(f32::from).collect();
        let constant = Constant::from_f32(Shape::from([2, 3, 2]), &values).unwrap();
        let scaled = |axis, factors: &[f64]| constant.scaled(axis, factors).unwrap().to_f32().unwrap();
        assert_eq!(
            scaled(0, &[1.0, 2.0]),
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 14.0, 16.0, 18.0, 20.0, 22.0, 24.0]
        );
        assert_eq!(scaled(1, &[1.0, 0.5, 0.0]), [1.0, 2.0, 1.5, 2.0, 0.0, 0.0, 7.0, 8.0, 4.5, 5.0, 0.0, 0.0]);
        assert_eq!(
            scaled(2, &[1.0, -1.0]),
            [1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0, -8.0, 9.0, -10.0, 11.0, -12.0]
        );
        // A factor that f32 does not have.
        let third = Constant::from_f32(Shape::from([1]), &[1.0 / 3.0]).unwrap();
        let factor = 0.3;
        let exact = (f64::from(1.0_f32 / 3.0) * factor) as f32;
        assert_ne!(exact.to_bits(), (1.0_f32 / 3.0 * factor as f32).to_bits());
        assert_eq!(third.scaled(0, &[factor]).unwrap().to_f32().unwrap(), [exact]);
    }

    #[test]
    fn factors_that_do_not_fit_are_refused() {
        let constant = Constant::from_f32(Shape::from([2, 3]), &[0.0; 6]).unwrap();
        assert_eq!(constant.scaled(0, &[1.0; 3]), None);
        assert_eq!(constant.scaled(2, &[1.0]), None);
        assert_eq!(Constant::from_i32(Shape::from([2]), &[1, 2]).unwrap().scaled(0, &[1.0; 2]), None);
        let empty = Constant::from_f32(Shape::from([2, 0, 3]), &[]).unwrap();
        assert_eq!(empty.scaled(1, &[]), Some(empty.clone()));
        assert_eq!(empty.scaled(0, &[1.0; 2]), Some(empty));
    }
}
