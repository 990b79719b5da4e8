//! The bytes of a tensor in a file, plain or compressed, as a constant.

use bytes::Bytes;
use triune_tensor::{DType, Shape, memory};

use super::{ReadOptions, file::Tensor};
use crate::{Constant, format::flatbuffer::Wrong};

/// The constant that a tensor's bytes in `file` are; plain ones share the file's buffer.
pub(super) fn constant(tensor: &Tensor, file: &Bytes, options: ReadOptions) -> Result<Constant, Wrong> {
    let dtype = tensor.element.clone()?.dtype;
    let shape = Shape::new(&tensor.shape).ok_or_else(|| format!("{} dimensions", tensor.shape.len()))?;
    let elements = shape.elements().filter(|elements| elements.checked_mul(dtype.bytes()).is_some());
    let elements = elements.ok_or_else(|| format!("shape {shape} is too large"))?;
    let data = match &tensor.data {
        Some(range) => file.slice(range.clone()),
        None if elements == 0 => Bytes::new(),
        None => return Err("its values are not in the file".into()),
    };
    let data = if options.compressed && elements > 0 { plain(&data, dtype, elements)? } else { data };
    let length = data.len();
    Constant::new(dtype, shape, data).ok_or_else(|| {
        let hint = if length == elements * dtype.bytes() + 1 && !options.compressed {
            "; a compressed model needs the option that says so"
        } else {
            ""
        };
        format!("{length} bytes for {dtype} {shape}{hint}")
    })
}

/// Undoes the compression that the first byte names: 0 none; 1 and 2 stride·q + base with q of 8 or 16 bits.
fn plain(data: &Bytes, dtype: DType, elements: usize) -> Result<Bytes, Wrong> {
    let method = *data.first().ok_or("a compressed tensor without a method")?;
    let width = match method {
        0 => return Ok(data.slice(1..)),
        1 | 2 => usize::from(method),
        _ => return Err(format!("Unexpected compression method {method}; is the model compressed at all?")),
    };
    if dtype != DType::F32 {
        return Err(format!("compression method {method} for {dtype}; only float32 has it"));
    }
    // Checked before anything is made: the result is at most four times what the file holds.
    let wanted = elements.checked_mul(width).and_then(|bytes| bytes.checked_add(9));
    if wanted != Some(data.len()) {
        return Err(format!("{} compressed bytes for {elements} values of {width} bytes each", data.len()));
    }
    let float = |at: usize| f32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    let (stride, base) = (float(1), float(5));
    let value = |q: u16| (stride * f32::from(q) + base).to_le_bytes();
    let values = &data[9..];
    let mut plain: Vec<u8> = memory::with_room(4 * elements).map_err(|none| none.to_string())?;
    if width == 1 {
        plain.extend(values.iter().flat_map(|&q| value(u16::from(q))));
    } else {
        plain.extend(values.chunks_exact(2).flat_map(|q| value(u16::from_le_bytes([q[0], q[1]]))));
    }
    Ok(plain.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: &[usize], length: usize) -> Tensor {
        Tensor { name: None, element: Ok(DType::F32.into()), shape: shape.into(), data: Some(0..length) }
    }

    fn read(bytes: &[u8], shape: &[usize], compressed: bool) -> Result<Vec<f32>, Wrong> {
        let file = Bytes::copy_from_slice(bytes);
        let constant = constant(&tensor(shape, bytes.len()), &file, ReadOptions { compressed })?;
        Ok(constant.to_f32().expect("floats"))
    }

    #[test]
    fn every_method_is_undone() {
        let raw = [1.5_f32, -2.0].map(f32::to_le_bytes).concat();
        assert_eq!(read(&raw, &[2], false).unwrap(), [1.5, -2.0]);
        assert_eq!(read(&[&[0], &raw[..]].concat(), &[2], true).unwrap(), [1.5, -2.0]);
        let head = [0.5_f32, -1.0].map(f32::to_le_bytes).concat();
        assert_eq!(read(&[&[1], &head[..], &[0, 3, 255]].concat(), &[3], true).unwrap(), [-1.0, 0.5, 126.5]);
        let wide = [0_u16, 3, 1000].map(u16::to_le_bytes).concat();
        assert_eq!(read(&[&[2], &head[..], &wide].concat(), &[3, 1], true).unwrap(), [-1.0, 0.5, 499.0]);
    }

    #[test]
    fn wrong_lengths_and_methods_are_errors() {
        assert!(read(&[9; 9], &[2], true).unwrap_err().contains("Unexpected compression method 9"));
        assert!(read(&[1; 11], &[3], true).unwrap_err().contains("compressed bytes"));
        assert!(read(&[0; 9], &[2], false).unwrap_err().contains("a compressed model needs"));
        assert!(read(&[0; 8], &[usize::MAX, 4], false).unwrap_err().contains("too large"));
    }
}
