//! Matrix products: with constant weights as 1×1 convolutions, otherwise as a product of two feature maps.

use triune_device::{
    Weights,
    command::{self, FMatMul, IMatMul, QMatMul, RequantTarget, TMatMul},
};
use triune_graph::{
    Constant, Node, ValueId,
    ops::{BlockMatMul, Epilogue, Gemm, MatMul, PostOp},
};
use triune_kernels::ConvGeometry;
use triune_tensor::{DType, Shape};

use super::{
    Form, Lowering, activation_first,
    conv::{Product, as_pixels},
    eltwise::spread_over,
    extents, lowers, operand, result,
};
use crate::{Error, view::View};

lowers! {
    Gemm => |to, node, op| to.gemm(node, op);
    MatMul => |to, node, op| to.matmul(node, op);
    IntegerMatMul => |to, node, _| to.byte_product(node);
    BlockMatMul => |to, node, op| to.block_product(node, *op);
}

impl Lowering<'_> {
    pub(super) fn gemm(&mut self, node: &Node, op: &Gemm) -> Result<(), Error> {
        let (a, b, y) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let bias = node.inputs.get(2).copied().flatten();
        let scaled = op.alpha != 1.0 || (op.beta != 1.0 && bias.is_some());
        if scaled || self.graph.value(b).constant.is_none() {
            return Err(Error::unsupported(
                node,
                "alpha or beta other than 1, or a second matrix that is not constant",
            ));
        }
        let a_view = self.view(a)?;
        let a_view = if op.trans_a { a_view.permuted(&[1, 0]) } else { a_view };
        if node.quant.is_none() && a_view.dtype == DType::F32 && self.meta(b)?.0.contains(&0) {
            let output = self.place(y, Form::Dense)?;
            return self.sums_of_nothing(node, bias, op.epilogue.post_ops.as_slice(), &output);
        }
        let a_view = self.densified(&a_view)?;
        let weights = self.matrix(node, b, op.trans_b)?;
        let output = self.place(y, Form::Dense)?;
        self.matrix_product(node, &a_view, weights, bias, &op.epilogue, &output)
    }

    pub(super) fn matmul(&mut self, node: &Node, op: &MatMul) -> Result<(), Error> {
        let (a, b, y) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let (a_dims, a_dtype) = self.meta(a)?;
        let (b_dims, _) = self.meta(b)?;
        if node.quant.is_some() && (b_dims.rank() != 2 || self.graph.value(b).constant.is_none()) {
            return self.integer_matmul(node, op, [a, b, y]);
        }
        let output = self.place(y, Form::Dense)?;
        let nothing = a_dims.last() == Some(&0) || node.quant.is_none() && output.dims.contains(&0);
        if nothing && a_dtype == DType::F32 {
            return self.sums_of_nothing(node, None, op.epilogue.post_ops.as_slice(), &output);
        }
        let constant = self.graph.value(b).constant.is_some();
        let typed = a_dtype != DType::F32 && node.quant.is_none();
        if constant && !typed && b_dims.rank() == 2 {
            // A vector on the left is one row, and so is what comes of it.
            let a_view = self.dense(a)?;
            let k = b_dims[0];
            let rows = Shape::from([a_dims.iter().product::<usize>() / k.max(1), k]);
            let columns = Shape::from([rows[0], b_dims[1]]);
            if let (Some(a_rows), Some(out_rows)) = (a_view.reshaped(rows), output.reshaped(columns)) {
                let weights = self.matrix(node, b, false)?;
                return self.matrix_product(node, &a_rows, weights, None, &op.epilogue, &out_rows);
            }
        }
        let computes = !(a_dtype.is_half() || a_dtype.is_storage() || a_dtype == DType::Bool);
        if typed && computes && a_dims.rank() >= 2 && b_dims.rank() >= 2 && op.epilogue.post_ops.is_empty() {
            return self.typed_matmul(node, [a, b, y]);
        }
        if a_dtype != DType::F32 || a_dims.rank() < 2 || b_dims.rank() < 2 {
            return Err(Error::unsupported(node, format!("a {a_dtype} product of {a_dims} and {b_dims}")));
        }
        self.float_matmul(node, op, a_dims, b, b_dims, y)
    }

    /// A product over no elements, or without results: what is added to it.
    fn sums_of_nothing(
        &mut self,
        node: &Node,
        bias: Option<ValueId>,
        post_ops: &[PostOp],
        output: &View,
    ) -> Result<(), Error> {
        if output.dims.contains(&0) {
            return Ok(());
        }
        let sums = if post_ops.is_empty() { *output } else { self.temporary(output, DType::F32) };
        match bias {
            None => self.fill(&sums, 0)?,
            Some(bias) => {
                let spread = spread_over(node, &self.view(bias)?, sums.dims)?;
                self.copy(&spread, &sums)?;
            }
        }
        self.float_post_ops(node, &sums, post_ops, output)
    }

    /// Extents batch, m, n, k of a product, whose batch is that of the first operand, shared or equal in the second; whether it is shared.
    fn product_extents(node: &Node, a: &View, b: &View) -> Result<([u32; 4], bool), Error> {
        let wrong =
            || Error::unsupported(node, format!("a {} product of {} and {}", a.dtype, a.dims, b.dims));
        let ([own @ .., m, k], [other @ .., inner, n]) = (&*a.dims, &*b.dims) else { return Err(wrong()) };
        let shared = other.iter().product::<usize>() == 1;
        if !(shared || own == other) || k != inner {
            return Err(wrong());
        }
        Ok((extents([own.iter().product(), *m, *n, *k])?, shared))
    }

    /// A product of f64, or of integers that stand for themselves.
    fn typed_matmul(&mut self, node: &Node, [a, b, y]: [ValueId; 3]) -> Result<(), Error> {
        let (a_view, b_view) = (self.dense(a)?, self.dense(b)?);
        let ([batch, m, n, k], shared_b) = Self::product_extents(node, &a_view, &b_view)?;
        let output = self.place(y, Form::Dense)?;
        if k == 0 {
            return self.fill(&output, 0);
        }
        let command = TMatMul {
            dtype: a_view.dtype,
            batch,
            m,
            n,
            k,
            a: self.addr(&a_view)?,
            b: self.addr(&b_view)?,
            shared_b,
            output: self.addr(&output)?,
        };
        self.emit(command, &[&a_view, &b_view, &output]);
        Ok(())
    }

    /// A product of bytes in 32 bits; a constant matrix on the right is packed once.
    pub(super) fn byte_product(&mut self, node: &Node) -> Result<(), Error> {
        let (a, b, y) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let a_view = self.dense(a)?;
        let (b_dims, b_dtype) = self.meta(b)?;
        let mut touched = vec![a_view];
        let known =
            self.graph.value(b).constant.as_ref().filter(|_| b_dims.rank() == 2 && !b_dims.contains(&0));
        let (b_addr, weights) = if known.is_some() {
            let (weights, _) = self.matrix(node, b, false)?;
            let addr = match self.library {
                Some(library) => library.add(&weights),
                None => Some(super::constant(self.constants.add(&weights.dense()))),
            };
            (None, Some(addr.ok_or_else(|| Error::unsupported(node, "a matrix without all of its bytes"))?))
        } else {
            let view = self.dense(b)?;
            touched.push(view);
            (Some(self.addr(&view)?), None)
        };
        let b_shape = View { dims: b_dims, ..a_view };
        let ([batch, m, n, k], shared_b) = Self::product_extents(node, &a_view, &b_shape)?;
        let mut given = [None; 3];
        let mut counts = [0; 3];
        for index in 0..3 {
            let Some(id) = node.inputs.get(2 + index).copied().flatten() else { continue };
            let view = self.dense(id)?;
            [counts[index]] = extents([view.dims.iter().product()])?;
            given[index] = Some(self.addr(&view)?);
            touched.push(view);
        }
        let output = self.place(y, Form::Dense)?;
        touched.push(output);
        let [a_zeros, b_zeros, scales] = given;
        let command = IMatMul {
            batch,
            m,
            n,
            k,
            a: self.addr(&a_view)?,
            a_dtype: a_view.dtype,
            b: b_addr,
            weights,
            b_dtype,
            shared_b,
            a_zeros,
            b_zeros,
            scales,
            counts,
            output: self.addr(&output)?,
        };
        self.emit(command, &touched.iter().collect::<Vec<_>>());
        Ok(())
    }

    /// A product with a constant matrix in blocks, which is packed once.
    fn block_product(&mut self, node: &Node, op: BlockMatMul) -> Result<(), Error> {
        let (x, y) = (self.dense(operand(node, 0)?)?, result(node)?);
        let output = self.place(y, Form::Dense)?;
        let rows = x.dims[..x.dims.rank() - 1].iter().product();
        let columns = output.dims[output.dims.rank() - 1];
        if op.depth == 0 {
            return self.fill(&output, 0);
        }
        let (product, blocks) = (extents([rows, columns, op.depth])?, extents([op.bits, op.block])?);
        let (weights, _) = self.matrix(node, operand(node, 1)?, true)?;
        let weights = match self.library {
            Some(library) => library.add(&weights),
            None => Some(super::constant(self.constants.add(&weights.dense()))),
        };
        let weights = weights.ok_or_else(|| Error::unsupported(node, "a matrix without all of its bytes"))?;
        let (input, to) = (self.addr(&x)?, self.addr(&output)?);
        let integers = op.integers;
        let command = command::BlockMatMul { extents: product, blocks, integers, input, weights, output: to };
        self.emit(command, &[&x, &output]);
        Ok(())
    }

    /// A product of two 8-bit feature maps; the batch is that of the first operand, shared or equal in the second.
    fn integer_matmul(&mut self, node: &Node, op: &MatMul, [a, b, y]: [ValueId; 3]) -> Result<(), Error> {
        let ((a_dims, a_dtype), (b_dims, b_dtype)) = (self.meta(a)?, self.meta(b)?);
        let dtype = self.meta(y)?.1;
        let wrong = || Error::unsupported(node, format!("a {a_dtype} product of {a_dims} and {b_dims}"));
        let ([own @ .., m, k], [other @ .., _, n]) = (&*a_dims, &*b_dims) else { return Err(wrong()) };
        let shared = other.iter().product::<usize>() == 1;
        if !(shared || own == other) || dtype == DType::I16 {
            return Err(wrong());
        }
        // A table behind it stands for the result from what the product makes.
        let made = op.epilogue.post_ops.iter().find_map(|post_op| match post_op {
            PostOp::Table { quant, .. } => Some(*quant),
            _ => None,
        });
        let result = match made {
            Some(quant) => quant,
            None => self.result_quant(node)?,
        };
        let quants = [self.operand_quant(node, 0)?, self.operand_quant(node, 1)?, result];
        let target = |dtype, at: usize| RequantTarget { dtype, zero_point: quants[at].zero_point };
        let multiplier = self.factor(node, quants[0].scale * quants[1].scale / quants[2].scale, dtype)?;
        let (a_view, transpose_a) = self.matrices(a)?;
        let (b_view, transpose_b) = self.matrices(b)?;
        let placed = self.place(y, Form::Dense)?;
        let post_ops = &op.epilogue.post_ops;
        let output = if post_ops.is_empty() { placed } else { self.temporary(&placed, dtype) };
        let [batch, m, n, k] = extents([own.iter().product(), *m, *n, *k])?;
        let command = QMatMul {
            batch,
            m,
            n,
            k,
            a: self.addr(&a_view)?,
            a_target: target(a_dtype, 0),
            transpose_a,
            b: self.addr(&b_view)?,
            b_target: target(b_dtype, 1),
            transpose_b,
            shared_b: shared,
            output: self.addr(&output)?,
            result: target(dtype, 2),
            multiplier,
            rounding: self.graph.rounding,
        };
        self.emit(command, &[&a_view, &b_view, &output]);
        if post_ops.is_empty() {
            return Ok(());
        }
        let mut table: [u8; 256] = std::array::from_fn(|byte| byte as u8);
        for entry in &mut table {
            for post_op in post_ops {
                let q = if dtype == DType::I8 { i32::from(entry.cast_signed()) } else { i32::from(*entry) };
                *entry = match post_op {
                    PostOp::Clamp { limits } => q.max(limits[0]).min(limits[1]) as u8,
                    PostOp::Table { table, .. } => table[usize::from(*entry)],
                    PostOp::Activation(_) | PostOp::Residual(_) => return Err(wrong()),
                };
            }
        }
        self.emit_table(&table, &output, &placed)
    }

    /// Matrices without gaps, and whether each lies transposed.
    fn matrices(&mut self, id: ValueId) -> Result<(View, bool), Error> {
        let view = self.view(id)?;
        let rank = view.dims.rank();
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        let turned = view.permuted(&order);
        if !view.is_dense() && turned.is_dense() {
            return Ok((turned, true));
        }
        Ok((self.densified(&view)?, false))
    }

    /// A product of two f32 feature maps; the batch is that of the first operand, shared or equal in the second.
    fn float_matmul(
        &mut self,
        node: &Node,
        op: &MatMul,
        a_dims: Shape,
        b: ValueId,
        b_dims: Shape,
        y: ValueId,
    ) -> Result<(), Error> {
        let [.., m, k] = *a_dims else { return Err(Error::unsupported(node, "a vector")) };
        let n = b_dims[b_dims.rank() - 1];
        let batch: usize = a_dims[..a_dims.rank() - 2].iter().product();
        let b_batch: usize = b_dims[..b_dims.rank() - 2].iter().product();
        let same = a_dims[..a_dims.rank() - 2] == b_dims[..b_dims.rank() - 2];
        if !(b_batch == 1 || same) {
            return Err(Error::unsupported(node, format!("batches of {a_dims} and {b_dims} that broadcast")));
        }
        let (a_view, transpose_a) = self.matrices(operand(node, 0)?)?;
        let (b_view, transpose_b) = self.matrices(b)?;
        let output = self.place(y, Form::Dense)?;
        let (activation, post_ops) = activation_first(&op.epilogue.post_ops);
        let target = if post_ops.is_empty() { output } else { self.temporary(&output, DType::F32) };
        let [batch, m, n, k] = extents([batch, m, n, k])?;
        let command = FMatMul {
            batch,
            m,
            n,
            k,
            a: self.addr(&a_view)?,
            transpose_a,
            b: self.addr(&b_view)?,
            transpose_b,
            shared_b: b_batch == 1,
            bias: None,
            output: self.addr(&target)?,
            activation,
        };
        self.emit(command, &[&a_view, &b_view, &target]);
        self.float_post_ops(node, &target, post_ops, &output)
    }

    /// A constant matrix as weights of N output and K input channels, given as (K, N) or, if `transposed`, as (N, K).
    fn matrix(&self, node: &Node, b: ValueId, transposed: bool) -> Result<(Weights, DType), Error> {
        let constant: &Constant = self
            .graph
            .value(b)
            .constant
            .as_ref()
            .ok_or_else(|| Error::unsupported(node, "a matrix that is not constant"))?;
        let [rows, columns] = *constant.shape() else {
            return Err(Error::unsupported(node, format!("a matrix of shape {}", constant.shape())));
        };
        let (extents, strides) = if transposed {
            ([rows, 1, columns], [columns, columns, 1])
        } else {
            ([columns, 1, rows], [1, columns, columns])
        };
        let ((bytes, recipe), elem_bytes) = (self.weight_elements(constant), constant.dtype().bytes());
        Ok((Weights { bytes, recipe, elem_bytes, extents, strides }, constant.dtype()))
    }

    fn matrix_product(
        &mut self,
        node: &Node,
        a_view: &View,
        (weights, weight_dtype): (Weights, DType),
        bias: Option<ValueId>,
        epilogue: &Epilogue,
        output: &View,
    ) -> Result<(), Error> {
        let (Some(input), Some(pixels)) = (as_pixels(a_view), as_pixels(output)) else {
            return Err(Error::unsupported(node, format!("a product of {}", a_view.dims)));
        };
        let product = Product {
            geometry: ConvGeometry::pointwise(),
            group_channels: weights.extents[2],
            out_channels: weights.extents[0],
            weights,
            weight_dtype,
            bias,
            epilogue,
        };
        self.product(node, &product, &input, &pixels)
    }
}
