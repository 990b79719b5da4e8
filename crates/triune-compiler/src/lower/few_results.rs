//! Convolutions with so few results that most of a register's lanes would stay empty: the last ones of networks that make pictures,
//! depths and masks.

use triune_device::command::{FMatMul, Operand, Reduce};
use triune_graph::{
    Constant, Node,
    ops::{Conv, PostOp, ReduceKind},
};
use triune_tensor::{
    DType, Shape,
    function::{BinaryKind, UnaryKind},
};

use super::{Form, Lowering, activation_first, extents, has_contiguous_channels, operand, result};
use crate::{
    Error,
    view::{Home, View},
};

/// Most results.
const RESULTS: usize = 4;
/// Most images, each of which takes commands of its own.
const IMAGES: usize = 8;
/// Bytes of the products of a band of rows, about: they are read again at once.
const BAND: usize = 1 << 20;
/// Most bands of an image.
const BANDS: usize = 64;

impl Lowering<'_> {
    /// A few weighted sums of an image's channels: products of few rows with all of its elements, of each tap by itself if there are
    /// several, whose results are then added up, each from where its tap stands. Whether the node is that.
    pub(super) fn few_results(&mut self, node: &Node, op: &Conv, weights: &Constant) -> Result<bool, Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let ((dims, dtype), (to_dims, _)) = (self.meta(x)?, self.meta(y)?);
        let (&[n, channels, ..], &[results, _, kh, kw]) = (&*dims, &*weights.shape()) else {
            return Ok(false);
        };
        let taps = kh * kw;
        let fits = (1..=RESULTS).contains(&results)
            && (1..=IMAGES).contains(&n)
            && (op.groups, op.stride) == (1, [1, 1])
            && (dtype, weights.dtype()) == (DType::F32, DType::F32)
            && node.quant.is_none()
            && !dims.contains(&0)
            && !to_dims.contains(&0)
            && !op.epilogue.post_ops.iter().any(|post_op| matches!(post_op, PostOp::Residual(_)));
        // Products of all taps are as many as the channels at most, so that they take no more memory than what they are of.
        let alone = taps == 1 && op.pad == [0; 4] && self.is_plane_by_plane(node);
        let several = taps > 3 && results * taps <= channels && self.io.block.is_none();
        if !fits || self.bordered(x).is_some() || !(alone || several) {
            return Ok(false);
        }
        let (activation, post_ops) = activation_first(&op.epilogue.post_ops);
        // Nothing that was made for it is left behind where it is not that.
        if several && node.inputs.get(2).copied().flatten().is_none() && activation != UnaryKind::Identity {
            return Ok(false);
        }
        let from = self.view(x)?;
        let from = if from.is_dense() { from } else { self.feature_map(node, x)? };
        let last = View::channels_last(from.home, from.dtype, from.dims);
        if !from.is_dense() && !from.same_layout(&last) {
            return Ok(false);
        }
        let addend = self.addend_of_planes(node, to_dims)?;
        let output = self.place(y, Form::Dense)?;
        let target = if post_ops.is_empty() { output } else { self.temporary(&output, DType::F32) };
        let sums = if addend.is_some() { self.temporary(&output, DType::F32) } else { target };
        let rows = self.rows_of_taps(weights);
        for image in 0..n {
            let (from, to) = (from.sliced(0, image, 1, 1), sums.sliced(0, image, 1, 1));
            if alone {
                let activation = if addend.is_some() { UnaryKind::Identity } else { activation };
                self.products_of_planes(&rows, &from, &to, activation)?;
            } else {
                self.sums_of_taps(op, [kh, kw], &rows, &from, &to)?;
            }
        }
        if let Some(addend) = addend {
            self.emit_binary(node, BinaryKind::Add, &sums, &addend, &target, activation)?;
        }
        self.float_post_ops(node, &target, post_ops, &output)?;
        Ok(true)
    }

    /// A constant row of channels for each result's taps, one after the other.
    fn rows_of_taps(&mut self, weights: &Constant) -> View {
        let extents = weights.shape();
        let (results, channels, taps) = (extents[0], extents[1], extents[2] * extents[3]);
        let (elements, _) = weights.bytes().as_chunks::<4>();
        let mut rows = Vec::with_capacity(weights.bytes().len());
        for row in 0..results * taps {
            let (result, tap) = (row / taps, row % taps);
            for channel in 0..channels {
                rows.extend_from_slice(&elements[(result * channels + channel) * taps + tap]);
            }
        }
        let view = View::dense(Home::Constants, DType::F32, Shape::from([results * taps, channels]));
        view.at(self.constants.add(&rows))
    }

    /// Each row with an image's channels, plane by plane or with channels last.
    fn products_of_planes(
        &mut self,
        rows: &View,
        from: &View,
        to: &View,
        activation: UnaryKind,
    ) -> Result<(), Error> {
        let [m, n, k] = extents([rows.dims[0], from.dims[2] * from.dims[3], rows.dims[1]])?;
        let command = FMatMul {
            batch: 1,
            m,
            n,
            k,
            a: self.addr(rows)?,
            transpose_a: false,
            b: self.addr(from)?,
            transpose_b: has_contiguous_channels(from) && k > 1,
            shared_b: false,
            bias: None,
            output: self.addr(to)?,
            activation,
        };
        self.emit(command, &[rows, from, to]);
        Ok(())
    }

    /// The convolution of an image, without bias, into planes.
    fn sums_of_taps(
        &mut self,
        op: &Conv,
        [kh, kw]: [usize; 2],
        rows: &View,
        from: &View,
        to: &View,
    ) -> Result<(), Error> {
        let [height, width] = [from.dims[2], from.dims[3]];
        let [top, left, ..] = op.pad;
        let [down, across] = op.dilation;
        let ([outs, high, wide], products) = ([to.dims[1], to.dims[2], to.dims[3]], rows.dims[0]);
        // Bands of planes would not lie side by side.
        let whole = from.is_dense() && !has_contiguous_channels(from);
        let each =
            if whole { high } else { (BAND / (4 * products * width)).max(high.div_ceil(BANDS)).max(1) };
        for first in (0..high).step_by(each) {
            let count = each.min(high - first);
            // The input's rows that these see, and all of what their taps stand on, with the border.
            let begin = first.saturating_sub(top).min(height);
            let end = (first + count + (kh - 1) * down).saturating_sub(top).clamp(begin, height);
            let bordered = Shape::from([1, products, count + (kh - 1) * down, wide + (kw - 1) * across]);
            let own = Shape::from([1, products, end - begin, width]);
            let made = View::dense(self.new_scratch(own, DType::F32), DType::F32, own);
            if begin < end {
                let rows_of = from.sliced(2, begin, end - begin, 1);
                self.products_of_planes(rows, &rows_of, &made, UnaryKind::Identity)?;
            }
            let seen = if own == bordered {
                made
            } else {
                let all = View::dense(self.new_scratch(bordered, DType::F32), DType::F32, bordered);
                self.fill(&all, 0)?;
                let inside = all.sliced(2, begin + top - first, end - begin, 1).sliced(3, left, width, 1);
                self.copy(&made, &inside)?;
                all
            };
            let [_, plane, row, column] = [0, 1, 2, 3].map(|axis| seen.strides[axis]);
            let [tap_down, tap_across] =
                [kw as u64 * plane + down as u64 * row, plane + across as u64 * column];
            let to = to.sliced(2, first, count, 1);
            let command = Reduce {
                dims: extents([1, outs, count, wide, kh, kw])?,
                axes: 0b11_0000,
                kind: ReduceKind::Sum,
                input: Operand {
                    addr: self.addr(&seen)?,
                    dtype: DType::F32,
                    strides: [0, (kh * kw) as u64 * plane, row, column, tap_down, tap_across],
                },
                output: Operand {
                    addr: self.addr(&to)?,
                    dtype: DType::F32,
                    strides: [0, to.strides[1], to.strides[2], to.strides[3], 0, 0],
                },
            };
            self.emit(command, &[&seen, &to]);
        }
        Ok(())
    }
}
