//! Recurrent cells: one step of them, and layers of them over time.

use triune_tensor::function::CellKind;

use super::kind;
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    functions::Scope,
    ops::{BinaryKind, Epilogue, Gemm, Op, Recurrence, UnaryKind},
};

/// What a cell without gates makes of its sum.
fn nonlinearity(node: &NodeReader<'_, '_, '_>, mode: u32) -> Result<UnaryKind, Error> {
    match mode {
        0 => Ok(UnaryKind::Identity),
        1 => Ok(UnaryKind::Relu),
        2 => Ok(UnaryKind::Tanh),
        _ => Err(node.unsupported(format!("nonlinearity {mode}"))),
    }
}

/// x · wᵀ + b.
fn linear(f: &mut Scope<'_, '_>, x: ValueId, w: ValueId, b: Option<ValueId>) -> Result<ValueId, Error> {
    let op = Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true, epilogue: Epilogue::default() };
    let mut operands = vec![Some(x), Some(w)];
    if let Some(b) = b {
        let columns = f.shape(w)[0];
        operands.push(Some(f.reshape(b, &[columns])?));
    }
    Ok(f.ops(Op::Gemm(op), &operands, 1)?[0])
}

/// The sums of a cell's step: operands x, its weights and bias, the state, its weights and bias.
fn sums(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let own = linear(f, f.input(0)?, f.input(1)?, Some(f.input(2)?))?;
    let state = linear(f, f.input(3)?, f.input(4)?, Some(f.input(5)?))?;
    f.add(own, state)
}

/// One step of a cell without gates.
pub(in super::super) fn rnn_cell(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let kind = nonlinearity(node, node.params(kind::RNN_CELL)?.u32(0, 0)?)?;
    let inputs = node.inputs.clone();
    node.function(&inputs, &[], move |f| {
        let sums = sums(f)?;
        if kind == UnaryKind::Identity { Ok(sums) } else { f.unary(kind, sums) }
    })
}

/// One step of an LSTM; operands as a cell's without gates, then c. Results: h, c, and the gates' sums.
pub(in super::super) fn lstm_cell(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let inputs = node.inputs.clone();
    let results = node.functions(&inputs, 3, |f| {
        let sums = sums(f)?;
        let width = f.shape(sums)[1] / 4;
        let mut gates = Vec::with_capacity(4);
        for (index, kind) in [UnaryKind::Sigmoid, UnaryKind::Sigmoid, UnaryKind::Tanh, UnaryKind::Sigmoid]
            .into_iter()
            .enumerate()
        {
            let gate = f.slice(sums, 1, (index * width) as i64, ((index + 1) * width) as i64)?;
            gates.push(f.unary(kind, gate)?);
        }
        let kept = f.mul(gates[1], f.input(6)?)?;
        let new = f.mul(gates[0], gates[2])?;
        let c = f.add(kept, new)?;
        let shown = f.unary(UnaryKind::Tanh, c)?;
        Ok(vec![f.mul(gates[3], shown)?, c, sums])
    })?;
    node.finish(1, results[1])?;
    node.finish(2, results[2])?;
    Ok(results[0])
}

/// Layers of cells over time, as a file describes them.
#[derive(Clone, Copy)]
struct Layers {
    cell: CellKind,
    kind: UnaryKind,
    count: usize,
    directions: usize,
    bias: bool,
    hidden: usize,
}

/// Layers without gates; operands x (steps, batch, inputs), h (layers · directions, batch, hidden), all weights in a row. Results:
/// the last layer's h of every step, and h behind the last step.
pub(in super::super) fn rnn(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::RNN)?;
    let kind = nonlinearity(node, params.u32(5, 0)?)?;
    let layers = Layers {
        cell: CellKind::Simple,
        kind,
        count: params.u32(0, 1)? as usize,
        directions: 1 + usize::from(params.bool(1, false)?),
        bias: params.bool(2, true)?,
        hidden: params.u32(3, 128)? as usize,
    };
    over_time(node, layers)
}

/// Layers of LSTMs; operands x, h, c, all weights in a row. Results: the last layer's h of every step, h and c behind the last step.
pub(in super::super) fn lstm(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::LSTM)?;
    if params.u32(4, 0)? != 0 {
        return Err(node.unsupported(format!("projections to {} elements", params.u32(4, 0)?)));
    }
    let layers = Layers {
        cell: CellKind::Lstm,
        kind: UnaryKind::Tanh,
        count: params.u32(0, 1)? as usize,
        directions: 1 + usize::from(params.bool(1, false)?),
        bias: params.bool(2, true)?,
        hidden: params.u32(3, 128)? as usize,
    };
    over_time(node, layers)
}

fn over_time(node: &mut NodeReader<'_, '_, '_>, layers: Layers) -> Result<ValueId, Error> {
    if layers.count == 0 || layers.count > 64 || layers.hidden == 0 {
        return Err(node.unsupported(format!("{} layers of {} units", layers.count, layers.hidden)));
    }
    let inputs = node.inputs.clone();
    let states = layers.cell.states();
    let results = node.functions(&inputs, 1 + states, move |f| layers.body(f))?;
    for (index, &result) in results.iter().enumerate().skip(1) {
        node.finish(index, result)?;
    }
    Ok(results[0])
}

impl Layers {
    fn body(self, f: &mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> {
        let states = self.cell.states();
        let mut x = f.input(0)?;
        let weights = f.input(1 + states)?;
        let total = f.shape(weights).elements().unwrap_or(0);
        let weights = f.reshape(weights, &[total])?;
        let (mut at, mut last) = (0, vec![Vec::new(); states]);
        for layer in 0..self.count {
            let shape = f.shape(x);
            let &[steps, batch, width] = &*shape else {
                return Err(f.wrong(format!("input {shape}; 3 axes are expected")));
            };
            let rows = self.cell.gates() * self.hidden;
            let mut parts: [Vec<ValueId>; 3] = [const { Vec::new() }; 3];
            for _ in 0..self.directions {
                for (index, columns) in [width, self.hidden].into_iter().enumerate() {
                    let part = part(f, weights, &mut at, [rows, columns], total)?;
                    let part = self.in_order(f, part)?;
                    parts[index].push(f.reshape(part, &[1, rows, columns])?);
                }
                if self.bias {
                    let own = part(f, weights, &mut at, [rows, 1], total)?;
                    let other = part(f, weights, &mut at, [rows, 1], total)?;
                    let bias = f.add(own, other)?;
                    let bias = self.in_order(f, bias)?;
                    parts[2].push(f.reshape(bias, &[rows])?);
                }
            }
            let all = f.product(&[steps, batch])?;
            f.product(&[all, self.directions * rows])?;
            let flat = f.reshape(x, &[all, width])?;
            let own = f.concat(&parts[0], 0)?;
            let own = f.reshape(own, &[self.directions * rows, width])?;
            let bias = if self.bias { Some(f.concat(&parts[2], 0)?) } else { None };
            let gates = linear(f, flat, own, bias)?;
            let gates = f.reshape(gates, &[steps, batch, self.directions * rows])?;
            let recurrent = f.concat(&parts[1], 0)?;
            let mut initial = Vec::with_capacity(states);
            for state in 0..states {
                let first = (layer * self.directions) as i64;
                let own = f.slice(f.input(1 + state)?, 0, first, first + self.directions as i64)?;
                initial.push(f.reshape(own, &[1, self.directions, batch, self.hidden])?);
            }
            let initial = f.concat(&initial, 0)?;
            let functions = match self.cell {
                CellKind::Lstm => [UnaryKind::Sigmoid, UnaryKind::Tanh, UnaryKind::Tanh],
                _ => [self.kind; 3],
            };
            let op = Recurrence {
                cell: self.cell,
                backwards: (0..self.directions).map(|direction| direction == 1).collect(),
                functions: vec![functions; self.directions],
                clip: f32::INFINITY,
                coupled: false,
            };
            let operands = [Some(gates), Some(recurrent), None, Some(initial)];
            let all = f.ops(Op::Recurrence(op), &operands, 1)?[0];
            let h = f.slice(all, 0, 0, steps as i64)?;
            let h = f.transpose(h, &[0, 2, 1, 3])?;
            x = f.reshape(h, &[steps, batch, self.directions * self.hidden])?;
            for (state, last) in last.iter_mut().enumerate() {
                let row = (steps + state) as i64;
                let row = f.slice(all, 0, row, row + 1)?;
                last.push(f.reshape(row, &[self.directions, batch, self.hidden])?);
            }
        }
        if at != total {
            return Err(f.wrong(format!("{total} weights; {at} are expected")));
        }
        let mut results = vec![x];
        for last in &last {
            results.push(f.concat(last, 0)?);
        }
        Ok(results)
    }

    /// Gates i, f, c, o in the order that the graph's cells have: i, o, f, c.
    fn in_order(self, f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
        if self.cell != CellKind::Lstm {
            return Ok(x);
        }
        let hidden = self.hidden as i64;
        let mut gates = Vec::with_capacity(4);
        for gate in [0, 3, 1, 2] {
            gates.push(f.slice(x, 0, gate * hidden, (gate + 1) * hidden)?);
        }
        f.concat(&gates, 0)
    }
}

/// The next rows of the weights.
fn part(
    f: &mut Scope<'_, '_>,
    weights: ValueId,
    at: &mut usize,
    [rows, columns]: [usize; 2],
    total: usize,
) -> Result<ValueId, Error> {
    let end = rows.checked_mul(columns).and_then(|count| at.checked_add(count));
    let end = end.filter(|&end| end <= total);
    let end = end.ok_or_else(|| f.wrong(format!("{total} weights are too few")))?;
    let part = f.slice(weights, 0, *at as i64, end as i64)?;
    *at = end;
    f.reshape(part, &[rows, columns])
}

/// A power whose exponent the file has.
pub(in super::super) fn power(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let exponent = node.params(kind::POW_C)?.f32(0, 0.0)?;
    let x = node.input(0)?;
    if node.quant(x).is_some() || !node.dtype(x)?.is_float() {
        return Err(node.unsupported(format!("a power of {}", node.dtype(x)?)));
    }
    if exponent == 2.0 {
        return node.binary(BinaryKind::Mul, x, x);
    }
    if exponent == 0.5 {
        return node.unary(UnaryKind::Sqrt, x);
    }
    if exponent == -1.0 {
        return node.unary(UnaryKind::Reciprocal, x);
    }
    let exponent = node.scalar(exponent);
    let exponent = node.cast(exponent, node.dtype(x)?)?;
    node.binary(BinaryKind::Pow, x, exponent)
}
