//! Conversions between color spaces, with the integers that the vendor computes: fixed point of 14 bits for bytes.

use triune_tensor::DType;

use super::kind;
use crate::{Error, ValueId, format::mge::node::NodeReader, functions::Scope, ops::BinaryKind};

/// Bits behind the point.
const SHIFT: i64 = 14;
/// Shares of red, green and blue in gray, in 2⁻¹⁴: .299, .587 and .114.
const GRAY: [i64; 3] = [4899, 9617, 1868];

/// Pixels (N, H, W, channels) of one color space in another; formats with fewer chroma than luma samples have one channel.
pub(in super::super) fn convert(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let mode = node.params(kind::CVT_COLOR)?.u32(0, 0)?;
    if mode > 31 {
        return Err(node.unsupported(format!("mode {mode}")));
    }
    let x = node.input(0)?;
    match node.dtype(x)? {
        DType::U8 => {}
        DType::F32 if matches!(mode, 0..=3 | 8) => {}
        other => return Err(node.unsupported(format!("mode {mode} of {other}"))),
    }
    node.function(&[x], &[], move |f| {
        let x = f.input(0)?;
        let shape = f.shape(x);
        let wanted = match mode {
            0..=2 | 7..=9 => 3,
            4..=6 => 4,
            _ => 1,
        };
        if shape.rank() != 4 || shape[3] != wanted {
            return Err(f.wrong(format!("input {shape}; 4 axes are expected, the last of {wanted}")));
        }
        match mode {
            0 | 6 => gray(f, x, [0, 1, 2]),
            8 => gray(f, x, [2, 1, 0]),
            1 => to_yuv(f, x),
            2 => from_yuv(f, x),
            3 => f.concat(&[x; 3], 3),
            4 => f.slice(x, 3, 0, 3),
            5 | 7 | 9 => permuted(f, x, [2, 1, 0]),
            10 | 13 | 16 | 19 => luma(f, x),
            _ => subsampled(f, x, mode),
        }
    })
}

fn permuted(f: &mut Scope<'_, '_>, x: ValueId, order: [i64; 3]) -> Result<ValueId, Error> {
    let order = f.list(&order);
    f.gather(x, 3, order)
}

fn channel(f: &mut Scope<'_, '_>, x: ValueId, index: i64) -> Result<ValueId, Error> {
    f.slice(x, 3, index, index + 1)
}

/// Σ factor · value of integers.
fn weighted(f: &mut Scope<'_, '_>, parts: &[(ValueId, i64)]) -> Result<ValueId, Error> {
    let mut sum = None;
    for &(value, factor) in parts {
        let factor = f.integer(factor, DType::I32);
        let part = f.mul(value, factor)?;
        sum = Some(match sum {
            Some(sum) => f.add(sum, part)?,
            None => part,
        });
    }
    sum.ok_or_else(|| f.wrong("a sum of nothing"))
}

/// x · 2⁻ᵇⁱᵗˢ, down.
fn shifted(f: &mut Scope<'_, '_>, x: ValueId, bits: i64) -> Result<ValueId, Error> {
    let bits = f.integer(bits, DType::I32);
    f.binary(BinaryKind::ShiftRight, x, bits)
}

/// x · 2⁻¹⁴, half up.
fn rounded(f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let half = f.integer(1 << (SHIFT - 1), DType::I32);
    let x = f.add(x, half)?;
    shifted(f, x, SHIFT)
}

/// Integers as bytes: 0 below, 255 above.
fn bytes(f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let (low, high) = (f.integer(0, DType::I32), f.integer(255, DType::I32));
    let x = f.binary(BinaryKind::Max, x, low)?;
    let x = f.binary(BinaryKind::Min, x, high)?;
    f.cast(x, DType::U8)
}

fn gray(f: &mut Scope<'_, '_>, x: ValueId, rgb: [i64; 3]) -> Result<ValueId, Error> {
    if f.dtype(x) == DType::F32 {
        let mut sum = None;
        for (index, share) in rgb.into_iter().zip([0.299, 0.587, 0.114]) {
            let part = channel(f, x, index)?;
            let part = f.mul_number(part, share)?;
            sum = Some(match sum {
                Some(sum) => f.add(sum, part)?,
                None => part,
            });
        }
        return sum.ok_or_else(|| f.wrong("a sum of nothing"));
    }
    let x = f.cast(x, DType::I32)?;
    let mut parts = Vec::with_capacity(3);
    for (index, share) in rgb.into_iter().zip(GRAY) {
        parts.push((channel(f, x, index)?, share));
    }
    let sum = weighted(f, &parts)?;
    let gray = rounded(f, sum)?;
    f.cast(gray, DType::U8)
}

/// Luma and two chroma samples, as the vendor has them: the first channel has blue's share of the luma.
fn to_yuv(f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    if f.dtype(x) == DType::F32 {
        let parts = [channel(f, x, 0)?, channel(f, x, 1)?, channel(f, x, 2)?];
        let mut y = f.mul_number(parts[0], 0.114)?;
        for (part, share) in [(parts[1], 0.587), (parts[2], 0.299)] {
            let part = f.mul_number(part, share)?;
            y = f.add(y, part)?;
        }
        let mut all = vec![y];
        for (part, share) in [(parts[0], 0.492), (parts[2], 0.877)] {
            let difference = f.sub(part, y)?;
            let chroma = f.mul_number(difference, share)?;
            all.push(f.add_number(chroma, 0.5)?);
        }
        return f.concat(&all, 3);
    }
    let x = f.cast(x, DType::I32)?;
    let parts = [channel(f, x, 0)?, channel(f, x, 1)?, channel(f, x, 2)?];
    let y = weighted(f, &[(parts[0], GRAY[2]), (parts[1], GRAY[1]), (parts[2], GRAY[0])])?;
    let y = rounded(f, y)?;
    let mut all = vec![y];
    for (part, share) in [(parts[0], 8061), (parts[2], 14369)] {
        let difference = f.sub(part, y)?;
        let chroma = weighted(f, &[(difference, share)])?;
        let middle = f.integer(128 << SHIFT, DType::I32);
        let chroma = f.add(chroma, middle)?;
        all.push(rounded(f, chroma)?);
    }
    let all = f.concat(&all, 3)?;
    bytes(f, all)
}

/// Back from [`to_yuv`].
fn from_yuv(f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    if f.dtype(x) == DType::F32 {
        let parts = [channel(f, x, 0)?, channel(f, x, 1)?, channel(f, x, 2)?];
        let first = f.add_number(parts[1], -0.5)?;
        let second = f.add_number(parts[2], -0.5)?;
        let mut all = Vec::new();
        for shares in [[2.032, 0.0], [-0.395, -0.581], [0.0, 1.140]] {
            let mut value = parts[0];
            for (chroma, share) in [(second, shares[1]), (first, shares[0])] {
                if share != 0.0 {
                    let part = f.mul_number(chroma, share)?;
                    value = f.add(value, part)?;
                }
            }
            all.push(value);
        }
        return f.concat(&all, 3);
    }
    let x = f.cast(x, DType::I32)?;
    let y = channel(f, x, 0)?;
    let middle = f.integer(128, DType::I32);
    let chroma = f.slice(x, 3, 1, 3)?;
    let chroma = f.sub(chroma, middle)?;
    let (first, second) = (channel(f, chroma, 0)?, channel(f, chroma, 1)?);
    let mut all = Vec::new();
    for parts in [vec![(first, 33292)], vec![(second, -9519), (first, -6472)], vec![(second, 18678)]] {
        let sum = weighted(f, &parts)?;
        let sum = rounded(f, sum)?;
        all.push(f.add(y, sum)?);
    }
    let all = f.concat(&all, 3)?;
    bytes(f, all)
}

/// The luma of (N, 3·H/2, W, 1).
fn luma(f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let rows = f.shape(x)[1];
    if !rows.is_multiple_of(3) {
        return Err(f.wrong(format!("{rows} rows; a multiple of 3 is expected")));
    }
    f.slice(x, 1, 0, (rows / 3 * 2) as i64)
}

/// Bytes of (N, 3·H/2, W, 1) whose two chroma samples stand for four lumas each, behind these: one after the other in a row
/// (NV12, NV21) or in two planes (YU12, YV12). Modes up to 23 are JPEG's conversion, those from 24 BT.601's.
fn subsampled(f: &mut Scope<'_, '_>, x: ValueId, mode: u32) -> Result<ValueId, Error> {
    let (planar, u_first, bgr) = match mode {
        11 | 22 | 24 => (false, false, false),
        12 | 23 | 25 => (false, false, true),
        14 | 26 => (false, true, false),
        15 | 27 => (false, true, true),
        17 | 28 => (true, false, false),
        18 | 29 => (true, false, true),
        20 | 30 => (true, true, false),
        _ => (true, true, true),
    };
    let shape = f.shape(x);
    let (n, height, width) = (shape[0], shape[1] / 3 * 2, shape[2]);
    if !shape[1].is_multiple_of(3) || !height.is_multiple_of(2) || !width.is_multiple_of(2) {
        return Err(f.wrong(format!("input {shape}: rows are not a multiple of 3, or columns are odd")));
    }
    let x = f.cast(x, DType::I32)?;
    let y = f.slice(x, 1, 0, height as i64)?;
    let chroma = f.slice(x, 1, height as i64, shape[1] as i64)?;
    let mut samples = Vec::with_capacity(2);
    for index in [0, 1] {
        let plane = if planar {
            let planes = f.reshape(chroma, &[n, 2, height / 2, width / 2])?;
            f.slice(planes, 1, index, index + 1)?
        } else {
            let pairs = f.reshape(chroma, &[n, height / 2, width / 2, 2])?;
            f.slice(pairs, 3, index, index + 1)?
        };
        let plane = f.reshape(plane, &[n, height / 2, 1, width / 2, 1])?;
        let wide = f.expand(plane, &[n, height / 2, 2, width / 2, 2])?;
        samples.push(f.reshape(wide, &[n, height, width, 1])?);
    }
    let (u, v) = if u_first { (samples[0], samples[1]) } else { (samples[1], samples[0]) };
    let mut colors = if mode >= 24 { bt601(f, y, u, v)? } else { jpeg(f, y, u, v)? };
    if bgr {
        colors.reverse();
    }
    let colors = f.concat(&colors, 3)?;
    bytes(f, colors)
}

/// Red, green and blue in 2⁻⁸, as JPEG has them.
fn jpeg(f: &mut Scope<'_, '_>, y: ValueId, u: ValueId, v: ValueId) -> Result<[ValueId; 3], Error> {
    let middle = f.integer(128, DType::I32);
    let (u, v) = (f.sub(u, middle)?, f.sub(v, middle)?);
    let red = weighted(f, &[(v, 359)])?;
    let red = shifted(f, red, 8)?;
    let green = weighted(f, &[(u, 88), (v, 183)])?;
    let green = shifted(f, green, 8)?;
    let blue = weighted(f, &[(u, 454)])?;
    let blue = shifted(f, blue, 8)?;
    Ok([f.add(y, red)?, f.sub(y, green)?, f.add(y, blue)?])
}

/// Red, green and blue in 2⁻⁶, as BT.601 has them: 1.164 (Y − 16) and so on, by libyuv's factors.
fn bt601(f: &mut Scope<'_, '_>, y: ValueId, u: ValueId, v: ValueId) -> Result<[ValueId; 3], Error> {
    const LUMA: i64 = 18997;
    const OFFSET: i64 = -1160;
    const BLUE: i64 = -128;
    const GREEN: [i64; 2] = [25, 52];
    const RED: i64 = -102;
    // Y · 257 · LUMA needs more than 31 bits.
    let wide = f.cast(y, DType::I64)?;
    let factor = f.integer(0x0101 * LUMA, DType::I64);
    let wide = f.mul(wide, factor)?;
    let bits = f.integer(16, DType::I64);
    let luma = f.binary(BinaryKind::ShiftRight, wide, bits)?;
    let luma = f.cast(luma, DType::I32)?;
    let mut color = |parts: &[(ValueId, i64)], bias: i64| {
        let chroma = weighted(f, parts)?;
        let bias = f.integer(bias + OFFSET, DType::I32);
        let sum = f.add(luma, bias)?;
        let sum = f.sub(sum, chroma)?;
        shifted(f, sum, 6)
    };
    let red = color(&[(v, RED)], RED * 128)?;
    let green = color(&[(u, GREEN[0]), (v, GREEN[1])], (GREEN[0] + GREEN[1]) * 128)?;
    let blue = color(&[(u, BLUE)], BLUE * 128)?;
    Ok([red, green, blue])
}
