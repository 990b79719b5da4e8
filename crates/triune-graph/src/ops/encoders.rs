//! Operators that look elements or the keys of maps up in tables.
//!
//! Strings are their numbers, as in all tensors of them ([`crate::Strings`]).

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::Hash,
    ops::Deref,
    sync::Arc,
};

use triune_tensor::{DType, text::List};

use super::infer::{Operands, TensorType};
use crate::{Error, Op};

/// Entries by their keys, which are shown in the keys' order.
#[derive(Clone, PartialEq, Eq)]
pub struct Entries<K: Eq + Hash, V>(HashMap<K, V>);

impl<K: Eq + Hash, V> From<HashMap<K, V>> for Entries<K, V> {
    fn from(entries: HashMap<K, V>) -> Self {
        Self(entries)
    }
}

impl<K: Eq + Hash, V> FromIterator<(K, V)> for Entries<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<K: Eq + Hash, V> Deref for Entries<K, V> {
    type Target = HashMap<K, V>;

    fn deref(&self) -> &HashMap<K, V> {
        &self.0
    }
}

impl<K: Eq + Hash + Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for Entries<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().collect::<BTreeMap<_, _>>().fmt(f)
    }
}

/// Another value for each element that a table has, and one for all others: a tensor of the input's extents.
#[derive(Clone, Debug, PartialEq)]
pub struct Dictionary {
    /// The operator's name in its source format.
    pub name: &'static str,
    /// The input's element type.
    pub from: DType,
    /// The result's.
    pub to: DType,
    /// The bits of values by those of elements, as [`Self::key`] has them.
    pub table: Entries<u64, u64>,
    /// The bits of the value of all others.
    pub default: u64,
}

impl Dictionary {
    /// The bits that an element is looked up by: those of equal elements are equal, and so are those of all NaN.
    pub fn key(dtype: DType, bits: u64) -> u64 {
        match dtype {
            DType::F32 if f32::from_bits(bits as u32).is_nan() => f32::NAN.to_bits().into(),
            DType::F64 if f64::from_bits(bits).is_nan() => f64::NAN.to_bits(),
            DType::F32 if bits == u64::from((-0.0_f32).to_bits()) => 0,
            DType::F64 if bits == (-0.0_f64).to_bits() => 0,
            _ => bits,
        }
    }

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if x.dtype != self.from {
            return Err(at.wrong(format!("an input of {}; its keys are of {}", x.dtype, self.from)));
        }
        Ok(vec![TensorType { dtype: self.to, shape: x.shape }])
    }
}

/// 1 at each element's category, else 0: (…) gives (…, categories) of f32. Reals are cut to integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneHotEncoder {
    /// The categories' places.
    pub places: Entries<i64, usize>,
    /// How many there are.
    pub count: usize,
    /// Whether an element of no category has zeros, rather than that it is an error.
    pub zeros: bool,
}

impl OneHotEncoder {
    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if !matches!(x.dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64) {
            return Err(at.wrong(format!(
                "an input of {}; strings, int64, int32, float32 or float64 are expected",
                x.dtype
            )));
        }
        let mut dims = x.shape.to_vec();
        dims.push(self.count);
        Ok(vec![TensorType { dtype: DType::F32, shape: at.shape(&dims)? }])
    }
}

/// An operator that makes maps, or takes them.
///
/// Within a run a map is a list of two tensors, its keys and its values, and so is a list of maps with the same keys: of its
/// values, each row is one map's.
#[derive(Clone, Debug, PartialEq)]
pub enum MapOp {
    /// A map for each row of (N, keys), or one for (keys).
    Zip {
        /// The keys.
        keys: Vec<i64>,
    },
    /// The values of some keys, as (1, keys) of the values' type; nothing where a map has no such key.
    Vectorize {
        /// The keys.
        keys: Vec<i64>,
    },
    /// The values in the order of their keys, which are integers, as (1, values) of another type.
    Cast(CastMap),
}

/// How the values of a map become a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastMap {
    /// Whether the values are strings.
    pub from_strings: bool,
    /// The result's type; without one it is of strings.
    pub to: Option<DType>,
    /// So many values, each at its key; else those that there are.
    pub extent: Option<usize>,
    /// The string that stands where there is no value.
    pub gap: i64,
}

impl MapOp {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Zip { .. } => "ZipMap",
            Self::Vectorize { .. } => "DictVectorizer",
            Self::Cast(_) => "CastMap",
        }
    }

    /// Rows that (keys) or (N, keys) has; `Err` says what is wrong.
    pub fn zipped(keys: &[i64], dtype: DType, shape: &[usize]) -> Result<usize, String> {
        if dtype != DType::F32 {
            return Err(format!("values of {dtype}; float32 is expected"));
        }
        match *shape {
            [own] if own == keys.len() => Ok(1),
            [rows, own] if own == keys.len() => Ok(rows),
            _ => Err(format!("values {} for {} keys", List(shape), keys.len())),
        }
    }
}

impl From<Dictionary> for Op {
    fn from(op: Dictionary) -> Self {
        Self::Hosted(super::Hosted::Dictionary(Arc::new(op)))
    }
}

impl From<OneHotEncoder> for Op {
    fn from(op: OneHotEncoder) -> Self {
        Self::Hosted(super::Hosted::OneHotEncoder(Arc::new(op)))
    }
}

impl From<MapOp> for Op {
    fn from(op: MapOp) -> Self {
        Self::Hosted(super::Hosted::Maps(Arc::new(op)))
    }
}
