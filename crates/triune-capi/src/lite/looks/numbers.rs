//! Numbers as the vendor's tools read them: as C's `%g`, and as the library numbers element types.

use triune::{
    DType,
    internals::{graph::Constant, tensor::Shape},
};

/// The library's number and name of an element type; the numbers are its own, other ones than in model files.
pub(super) fn known(dtype: DType) -> Option<(u32, &'static str)> {
    Some(match dtype {
        DType::F32 => (0, "Float32"),
        DType::U8 => (1, "Uint8"),
        DType::I8 => (2, "Int8"),
        DType::I16 => (3, "Int16"),
        DType::I32 => (4, "Int32"),
        DType::F16 => (9, "Float16"),
        DType::Bool => (12, "Bool"),
        DType::U16 => (13, "Uint16"),
        _ => return None,
    })
}

/// The elements as reals; nothing where they are no numbers of their own.
pub(super) fn reals(dtype: DType, shape: Shape, bytes: &[u8]) -> Option<Vec<f64>> {
    if dtype == DType::U64 {
        let (words, _) = bytes.as_chunks();
        return Some(words.iter().map(|word| u64::from_le_bytes(*word) as f64).collect());
    }
    let elements = Constant::new(dtype, shape, bytes.to_vec())?;
    let integers = || Some(elements.to_i64()?.into_iter().map(|value| value as f64).collect());
    elements.to_f64().or_else(integers)
}

/// A number with so many digits, as C's `%.{digits}g` has it.
pub(super) fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // Rounded first: what it is rounded to says how it is written.
    let rounded = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", shortened(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or_default();
    shortened(&format!("{value:.decimals$}")).to_owned()
}

/// Without zeros behind the point that say nothing.
fn shortened(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_char};

    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        let values = [0.0, -0.0, 1.0, -1.5, 9.9996, 99995.0, 0.000_099_995, 1e-5, 123_456.0, 1e300, 5e-324];
        for value in values.into_iter().chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1 + 0.2, 2.5e15])
        {
            for (format, digits) in [(c"%.4g", 4), (c"%.3g", 3)] {
                let mut place: [c_char; 64] = [0; 64];
                // SAFETY: the place has so many bytes, and the format takes one number.
                let text = unsafe {
                    libc::snprintf(place.as_mut_ptr(), place.len(), format.as_ptr(), value);
                    CStr::from_ptr(place.as_ptr())
                };
                assert_eq!(general(value, digits), text.to_str().unwrap(), "{value:e}");
            }
        }
    }

    #[test]
    fn elements_of_every_kind_are_numbers() {
        let shape = |count: usize| Shape::new(&[count]).unwrap();
        assert_eq!(reals(DType::F16, shape(1), &[0, 0x3e]), Some(vec![1.5]));
        assert_eq!(reals(DType::Bool, shape(2), &[0, 1]), Some(vec![0.0, 1.0]));
        assert_eq!(reals(DType::I16, shape(1), &[0xfe, 0xff]), Some(vec![-2.0]));
        assert_eq!(reals(DType::U64, shape(1), &[0xff; 8]), Some(vec![18_446_744_073_709_551_615.0]));
        assert_eq!(reals(DType::I64, shape(1), &[0xff; 8]), Some(vec![-1.0]));
        assert_eq!(reals(DType::F64, shape(1), &2.5f64.to_le_bytes()), Some(vec![2.5]));
    }
}
