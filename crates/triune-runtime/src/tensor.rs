//! What runs take and give: dense row-major elements, with their type and extents.

use bytemuck::Pod;
use triune_device::{Inputs, Outputs};
use triune_tensor::{DType, Shape, memory};

use crate::Error;

/// A number that tensors are made of.
pub trait Element: Pod + sealed::Sealed {
    /// Its type in a model.
    const DTYPE: DType;
}

mod sealed {
    /// Nobody else says which type a number has.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($number:ty => $dtype:ident),+ $(,)?) => {
        $(
            impl sealed::Sealed for $number {}
            impl Element for $number {
                const DTYPE: DType = DType::$dtype;
            }
        )+
    };
}

elements! {
    f32 => F32,
    f64 => F64,
    i8 => I8,
    i16 => I16,
    i32 => I32,
    i64 => I64,
    u8 => U8,
    u16 => U16,
    u32 => U32,
    u64 => U64,
}

/// A dense row-major operand of a run.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: &'a [usize],
    /// Elements, little-endian.
    pub bytes: &'a [u8],
}

impl<'a> TensorRef<'a> {
    /// Numbers as an operand. Whether the extents go with them is checked by the run.
    pub fn of<T: Element>(elements: &'a [T], shape: &'a [usize]) -> Self {
        Self { dtype: T::DTYPE, shape, bytes: bytemuck::cast_slice(elements) }
    }
}

/// Memory for a dense row-major result of a run.
#[derive(Debug)]
pub struct TensorMut<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: &'a [usize],
    /// Elements, little-endian.
    pub bytes: &'a mut [u8],
}

/// A dense row-major result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// Elements, little-endian.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn zeros(dtype: DType, shape: Shape) -> Result<Self, Error> {
        let bytes = shape.iter().product::<usize>() * dtype.bytes();
        Ok(Self { dtype, shape, bytes: memory::filled(bytes, 0)? })
    }

    /// The tensor as an operand.
    pub fn view(&self) -> TensorRef<'_> {
        TensorRef { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }

    /// The elements, row-major.
    ///
    /// # Errors
    /// [`Error::Operand`] if they are of another type, or `bytes` lies where such numbers cannot: what runs give does not.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], Error> {
        let wrong = |got: String| Error::Operand {
            what: "tensor".into(),
            expected: format!("elements of {}", T::DTYPE),
            got,
        };
        if T::DTYPE != self.dtype {
            return Err(wrong(self.dtype.to_string()));
        }
        bytemuck::try_cast_slice(&self.bytes).map_err(|error| wrong(error.to_string()))
    }
}

/// Operands of a run.
pub(crate) struct Operands<'a>(pub(crate) &'a [TensorRef<'a>]);

impl Inputs for Operands<'_> {
    fn input(&self, index: usize) -> &[u8] {
        self.0[index].bytes
    }
}

/// Results of a run.
pub(crate) struct Results<'a, 'b> {
    /// `None` where `into` has the memory.
    pub(crate) own: Vec<Option<Tensor>>,
    pub(crate) into: &'a mut [Option<TensorMut<'b>>],
}

impl Outputs for Results<'_, '_> {
    fn output(&mut self, index: usize) -> &mut [u8] {
        match (&mut self.own[index], self.into.get_mut(index)) {
            (Some(own), _) => &mut own.bytes,
            (None, Some(Some(into))) => into.bytes,
            (None, _) => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_as_what_they_are() {
        let shape = [2, 2];
        let operand = TensorRef::of(&[1.5f32, -2.0, 0.0, 3.0], &shape);
        let mut tensor = Tensor::zeros(DType::F32, [2, 2].into()).unwrap();
        tensor.bytes.copy_from_slice(operand.bytes);
        assert_eq!(operand.dtype, DType::F32);
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.5, -2.0, 0.0, 3.0]);
        let error = tensor.as_slice::<i32>().unwrap_err().to_string();
        assert_eq!(error, "tensor: expected elements of int32, got float32");
    }
}
