//! Pools and resampling.

use triune_graph::{
    Node,
    format::xir::Attribute,
    ops::{CoordinateMode, GlobalPool, NearestMode, Pool, PoolKind, Reduce, ReduceKind, Resize, ResizeMode},
};

use super::{
    super::{
        emit::{Emitter, input, ints},
        form::Form,
    },
    product::number,
};
use crate::Error;
use triune_tensor::text::List;

impl Emitter<'_> {
    pub(super) fn pool(&mut self, node: &Node, op: &Pool) -> Result<(), Error> {
        let (x, y) = (self.dims(input(node, 0)?)?, self.dims(super::super::source::ends(node)?.1)?);
        let [top, left, mut bottom, mut right] = op.pad;
        if op.ceil_mode {
            // The last window may reach beyond the padding, as if there were more of it.
            let more = |axis: usize, padded: usize| {
                let taps = (op.kernel[axis] - 1) * op.dilation[axis] + 1;
                ((y[2 + axis] - 1) * op.stride[axis] + taps).saturating_sub(padded)
            };
            let extra = [more(0, top + x[2] + bottom), more(1, left + x[3] + right)];
            if op.kind == (PoolKind::Average { count_include_pad: true }) && extra != [0, 0] {
                return Err(Error::unsupported(
                    node,
                    format!(
                        "a mean that counts the padding {} but not the {} rows and {} columns that its last windows of {} have \
                         beyond that (ceil_mode); the vendor's counts both or neither",
                        List(&op.pad),
                        extra[0],
                        extra[1],
                        List(&op.kernel)
                    ),
                ));
            }
            (bottom, right) = (bottom + extra[0], right + extra[1]);
        }
        let kind = match op.kind {
            PoolKind::Max => "MaxPool2d",
            PoolKind::Average { .. } if op.dilation == [1; 2] => "AvgPool2d",
            PoolKind::Average { .. } => {
                return Err(Error::unsupported(
                    node,
                    format!(
                        "a mean over a window of {} with dilation {}; the vendor's has none, only MaxPool2d does",
                        List(&op.kernel),
                        List(&op.dilation)
                    ),
                ));
            }
        };
        let mut attributes = vec![
            ("pad_bottom", number(bottom)),
            ("pad_left", number(left)),
            ("pad_right", number(right)),
            ("pad_top", number(top)),
            ("pool_height", number(op.kernel[0])),
            ("pool_width", number(op.kernel[1])),
            ("stride_height", number(op.stride[0])),
            ("stride_width", number(op.stride[1])),
        ];
        match op.kind {
            PoolKind::Max => attributes.extend([
                ("dilation_height", number(op.dilation[0])),
                ("dilation_width", number(op.dilation[1])),
            ]),
            PoolKind::Average { count_include_pad } => attributes.extend([
                ("count_include_pad", Attribute::Bool(count_include_pad)),
                ("divisor_override", Attribute::Int(0)),
            ]),
        }
        self.image_operator(node, kind, attributes)
    }

    pub(super) fn global_pool(&mut self, node: &Node, op: GlobalPool) -> Result<(), Error> {
        let dims = self.dims(input(node, 0)?)?;
        let [_, _, rows, columns] = *dims else {
            // Over other numbers of axes: what each channel's elements are reduced to.
            let kind = if op.kind == PoolKind::Max { ReduceKind::Max } else { ReduceKind::Mean };
            let along: Vec<isize> = (2..dims.rank() as isize).collect();
            return self.reduce(node, &Reduce::along(kind, &along));
        };
        match op.kind {
            PoolKind::Average { .. } => {
                let id = input(node, 0)?;
                let form = self.native(id, Form::image(), self.wanted(node, id));
                let dim = ints([2, 3].map(|axis| form.axis(axis) as i64));
                let attributes = vec![("dim", dim), ("keepdim", Attribute::Bool(true))];
                self.image_operator(node, "Mean", attributes)
            }
            PoolKind::Max => {
                let kernel = [rows, columns];
                let (kind, stride, dilation) = (PoolKind::Max, [1; 2], [1; 2]);
                let pad = [0; 4];
                let auto_pad = triune_graph::ops::AutoPad::Explicit;
                self.pool(node, &Pool { kind, kernel, stride, dilation, pad, auto_pad, ceil_mode: false })
            }
        }
    }

    pub(super) fn resize(&mut self, node: &Node, op: Resize) -> Result<(), Error> {
        let (x, y) = (self.dims(input(node, 0)?)?, self.dims(super::super::source::ends(node)?.1)?);
        let ([n, c, rows, columns], [n_out, c_out, rows_out, columns_out]) = (&*x, &*y) else {
            return Err(Error::unsupported(node, format!("resampling of rank {}", x.rank())));
        };
        if n != n_out || c != c_out {
            return Err(Error::unsupported(node, "resampling of images or channels"));
        }
        // The vendor's sampling places are known only by the extents.
        let scales = node.inputs.get(2).copied().flatten().and_then(|id| self.constant(id)?.to_f32());
        let exact = |axis: usize, from: usize, to: usize| {
            scales
                .as_ref()
                .is_none_or(|scales| scales.get(axis).is_none_or(|scale| from as f32 * scale == to as f32))
        };
        let exact = exact(2, *rows, *rows_out) && exact(3, *columns, *columns_out);
        let whole = rows_out % rows == 0 && columns_out % columns == 0;
        let named = match (op.mode, op.coordinates) {
            _ if !exact => None,
            (ResizeMode::Nearest(NearestMode::Floor), CoordinateMode::Asymmetric) => Some(("NEAREST", false)),
            // Between whole factors, the nearest neighbour is the same whatever the mode's name.
            (
                ResizeMode::Nearest(NearestMode::RoundPreferFloor | NearestMode::RoundPreferCeil),
                CoordinateMode::HalfPixel | CoordinateMode::PytorchHalfPixel,
            ) if whole => Some(("NEAREST", false)),
            // Of PyTorch, a single row or column is the first one.
            (ResizeMode::Linear, CoordinateMode::PytorchHalfPixel)
                if (*rows_out == 1 && *rows != 1) || (*columns_out == 1 && *columns != 1) =>
            {
                None
            }
            (ResizeMode::Linear, CoordinateMode::HalfPixel | CoordinateMode::PytorchHalfPixel) => {
                Some(("BILINEAR", false))
            }
            (ResizeMode::Linear, CoordinateMode::AlignCorners) => Some(("BILINEAR", true)),
            _ => None,
        };
        let Some((interpolation, corners)) = named else {
            let text = |name: String| Attribute::Text(name);
            let mut attributes = vec![
                ("coordinates", text(op.coordinates.to_string())),
                ("height", number(*rows_out)),
                ("mode", text(op.mode.to_string())),
                ("width", number(*columns_out)),
            ];
            if let Some([_, _, rows, columns]) = scales.as_deref().filter(|_| !exact) {
                let factors = [*rows, *columns].map(|factor| Attribute::Float(f64::from(factor)));
                attributes.push(("factors", Attribute::List(factors.to_vec())));
            }
            self.image_operator(node, "Resize", attributes)?;
            self.make_custom();
            return Ok(());
        };
        let attributes = vec![
            ("align_corners", Attribute::Bool(corners)),
            ("height", number(*rows_out)),
            ("interpolation", Attribute::Text(interpolation.to_owned())),
            ("width", number(*columns_out)),
        ];
        self.image_operator(node, "Upsample", attributes)
    }

    /// An operator over an image batch.
    fn image_operator(
        &mut self,
        node: &Node,
        kind: &str,
        attributes: Vec<(&str, Attribute)>,
    ) -> Result<(), Error> {
        let x = self.taken(node, 0, &Form::image())?;
        let y = self.made(node, 0, &Form::image())?;
        self.push(kind, &node.name, vec![Some(x)], vec![y], attributes);
        Ok(())
    }
}
