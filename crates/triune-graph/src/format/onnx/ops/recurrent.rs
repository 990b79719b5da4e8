//! Recurrent networks: the products of all steps' inputs at once, then the steps.

use triune_tensor::{DType, Shape, function::CellKind, text::List};

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{Epilogue, Gemm, Recurrence, UnaryKind},
};

/// A recurrent operator's attributes.
struct Recurrent {
    op: Recurrence,
    hidden: Option<usize>,
    /// Whether sequences come before steps.
    batch_first: bool,
}

/// A cell's function by name, with those of its two parameters that a node gives.
fn function(
    name: &str,
    alpha: &mut impl Iterator<Item = f32>,
    beta: &mut impl Iterator<Item = f32>,
) -> Option<UnaryKind> {
    // Each list is used up by the functions that have such a parameter, in their order.
    let mut alpha = |default: f32| alpha.next().unwrap_or(default);
    let mut beta = |default: f32| beta.next().unwrap_or(default);
    Some(match name.to_ascii_lowercase().as_str() {
        "affine" => UnaryKind::Affine { alpha: alpha(1.0), beta: beta(0.0) },
        "elu" => UnaryKind::Elu(alpha(1.0)),
        "hardsigmoid" => UnaryKind::HardSigmoid { alpha: alpha(0.2), beta: beta(0.5) },
        "leakyrelu" => UnaryKind::LeakyRelu(alpha(0.01)),
        "relu" => UnaryKind::Relu,
        "scaledtanh" => UnaryKind::ScaledTanh { alpha: alpha(1.0), beta: beta(1.0) },
        "sigmoid" => UnaryKind::Sigmoid,
        "softplus" => UnaryKind::Softplus,
        "softsign" => UnaryKind::Softsign,
        "tanh" => UnaryKind::Tanh,
        "thresholdedrelu" => UnaryKind::ThresholdedRelu(alpha(1.0)),
        _ => return None,
    })
}

fn attributes(node: &mut NodeReader<'_, '_>, cell: CellKind) -> Result<Recurrent, Error> {
    let backwards: &[bool] = node.choice(
        "direction",
        "forward",
        &[("forward", &[false][..]), ("reverse", &[true]), ("bidirectional", &[false, true])],
    )?;
    let hidden = match node.int("hidden_size")? {
        None => None,
        Some(size) => match usize::try_from(size) {
            Ok(size) if size > 0 => Some(size),
            _ => return Err(node.unsupported(format!("attribute 'hidden_size' = {size}"))),
        },
    };
    let clip = node.maybe_float("clip")?;
    if let Some(clip) = clip.filter(|clip| clip.is_nan() || *clip < 0.0) {
        return Err(node.unsupported(format!("attribute 'clip' = {clip}")));
    }
    let functions = functions(node, cell, backwards.len())?;
    let batch_first = match node.int("layout")? {
        None | Some(0) => false,
        Some(1) => true,
        Some(layout) => return Err(node.unsupported(format!("attribute 'layout' = {layout}"))),
    };
    let coupled = cell == CellKind::Lstm && node.flag("input_forget")?;
    if node.since < 7 {
        // Whether the first result is wanted, which the results say.
        node.ignore(&["output_sequence"]);
    }
    let op = Recurrence {
        cell,
        backwards: backwards.to_vec(),
        functions,
        clip: clip.unwrap_or(f32::INFINITY),
        coupled,
    };
    Ok(Recurrent { op, hidden, batch_first })
}

fn recurrent(node: &mut NodeReader<'_, '_>, cell: CellKind) -> Result<Op, Error> {
    let attributes = attributes(node, cell)?;
    Ok(node.functions(move |f| attributes.body(f, std::array::from_fn(|index| f.get(index)))).into())
}

/// An LSTM whose weights (directions, inputs, gates) are integers, with scale and zero point of a direction or a gate's unit.
/// They become reals once, by operators of their own; ONNX Runtime quantizes inputs and states instead, anew in every step.
pub(super) fn dynamic_quantize_lstm(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let attributes = attributes(node, CellKind::Lstm)?;
    for (index, parameters) in [(1, [8, 9]), (2, [10, 11])] {
        let reals = node.functions(move |f| {
            let weights = f.input(0)?;
            let shape = f.shape(weights);
            let &[directions, _, rows] = &*shape else {
                return Err(f.wrong(format!("input {} has shape {shape}", NAMES[index])));
            };
            let mut spread = [weights; 2];
            for (to, parameter) in spread.iter_mut().zip([1, 2]) {
                let parameter = f.input(parameter)?;
                let dims = match f.shape(parameter).elements() {
                    Some(count) if count == directions => [directions, 1, 1],
                    Some(count) if count == directions * rows => [directions, 1, rows],
                    _ => return Err(f.wrong(format!("parameters {} of {shape}", f.shape(parameter)))),
                };
                let parameter = f.cast(parameter, DType::F32)?;
                *to = f.reshape(parameter, &dims)?;
            }
            let reals = f.cast(weights, DType::F32)?;
            let reals = f.sub(reals, spread[1])?;
            let reals = f.mul(reals, spread[0])?;
            Ok(vec![f.transpose(reals, &[0, 2, 1])?])
        });
        let operand = |index: usize| node.inputs.get(index).copied().flatten();
        let operands = [index, parameters[0], parameters[1]].map(operand);
        let weights = node.new_value(NAMES[index]);
        node.emit_before(reals.into(), &operands, weights);
        node.set_input(index, weights);
    }
    node.inputs.truncate(OPERANDS);
    Ok(node.functions(move |f| attributes.body(f, std::array::from_fn(|index| f.get(index)))).into())
}

/// The functions of each direction.
fn functions(
    node: &mut NodeReader<'_, '_>,
    cell: CellKind,
    directions: usize,
) -> Result<Vec<[UnaryKind; 3]>, Error> {
    let usual: &[&str] = match cell {
        CellKind::Simple => &["Tanh"],
        CellKind::Gru | CellKind::LinearGru => &["Sigmoid", "Tanh"],
        CellKind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
    };
    let names = node.texts("activations")?;
    let names = names.unwrap_or_else(|| usual.repeat(directions).into_iter().map(String::from).collect());
    if names.len() != usual.len() * directions {
        let (got, needed) = (names.len(), usual.len() * directions);
        return Err(node.unsupported(format!("attribute 'activations' has {got} names, not {needed}")));
    }
    let mut alphas = node.floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = node.floats("activation_beta")?.unwrap_or_default().into_iter();
    let mut functions = vec![[UnaryKind::Identity; 3]; directions];
    for (direction, names) in functions.iter_mut().zip(names.chunks(usual.len())) {
        for (to, name) in direction.iter_mut().zip(names) {
            *to = function(name, &mut alphas, &mut betas)
                .ok_or_else(|| node.unsupported(format!("attribute 'activations' has '{name}'")))?;
        }
    }
    Ok(functions)
}

/// Operands of an operator, and those of one node: X, W, R, B, the lengths, h, c, P.
const OPERANDS: usize = 8;
type Operands = [Option<ValueId>; OPERANDS];

/// What operands are called in messages.
const NAMES: [&str; OPERANDS] = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"];

impl Recurrent {
    fn body(&self, f: &mut Scope<'_, '_>, operands: Operands) -> Result<Vec<ValueId>, Error> {
        let Recurrence { cell, ref backwards, .. } = self.op;
        let directions = backwards.len();
        let [x, w, r, both, lengths, initial_h, initial_c, peepholes] = operands;
        let missing = |name: usize| f.wrong(format!("input {} is missing", NAMES[name]));
        let (x, w, r) =
            (x.ok_or_else(|| missing(0))?, w.ok_or_else(|| missing(1))?, r.ok_or_else(|| missing(2))?);
        let shape = f.shape(x);
        let &[first, second, width] = &*shape else {
            return Err(f.wrong(format!("input X has shape {shape}, but 3 dimensions are expected")));
        };
        let [steps, batch] = if self.batch_first { [second, first] } else { [first, second] };
        let recurrent = f.shape(r);
        let hidden = self.hidden.or_else(|| recurrent.get(2).copied()).unwrap_or(0);
        let rows = cell.gates().checked_mul(hidden).filter(|&rows| rows > 0 && rows < usize::MAX / 8);
        let rows =
            rows.ok_or_else(|| f.wrong(format!("input R has shape {recurrent}, so there are no units")))?;
        let dtype = f.dtype(x);
        let state = if self.batch_first { [batch, directions, hidden] } else { [directions, batch, hidden] };
        expect(f, (1, operands[1]), dtype, &[directions, rows, width])?;
        expect(f, (2, operands[2]), dtype, &[directions, rows, hidden])?;
        expect(f, (3, operands[3]), dtype, &[directions, 2 * rows])?;
        expect(f, (4, lengths), DType::I32, &[batch])?;
        expect(f, (5, operands[5]), dtype, &state)?;
        expect(f, (6, operands[6]), dtype, &state)?;
        expect(f, (7, operands[7]), dtype, &[directions, 3 * hidden])?;
        let initial = self.initial(f, [initial_h, initial_c], dtype, [directions, batch, hidden])?;
        if steps == 0 {
            return self.nothing(f, dtype, [directions, batch, hidden], initial);
        }

        let mut vectors = peepholes;
        let mut bias = None;
        if let Some(both) = both {
            let (own, mut other) =
                (f.slice(both, 1, 0, rows as i64)?, f.slice(both, 1, rows as i64, i64::MAX)?);
            if cell == CellKind::LinearGru {
                // The reset gate takes to the state's bias as well, so that of the last gate stays apart.
                let zeros = zeros(f, dtype, &[directions, hidden]);
                let last = (rows - hidden) as i64;
                vectors = Some(f.slice(other, 1, last, i64::MAX)?);
                let gates = f.slice(other, 1, 0, last)?;
                other = f.concat(&[gates, zeros], 1)?;
            }
            let sum = f.add(own, other)?;
            bias = Some(f.reshape(sum, &[directions * rows])?);
        }
        let x = if self.batch_first { f.transpose(x, &[1, 0, 2])? } else { x };
        let x = f.reshape(x, &[steps * batch, width])?;
        let w = f.reshape(w, &[directions * rows, width])?;
        let product =
            Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true, epilogue: Epilogue::default() };
        let operands = [Some(x), Some(w), bias];
        let operands = if bias.is_some() { &operands[..] } else { &operands[..2] };
        let gates = f.ops(Op::Gemm(product), operands, 1)?[0];
        let gates = f.reshape(gates, &[steps, batch, directions * rows])?;
        let operands = [Some(gates), Some(r), vectors, initial, lengths];
        let all = f.ops(Op::Recurrence(self.op.clone()), &operands, 1)?[0];

        let mut y = f.slice(all, 0, 0, steps as i64)?;
        if self.batch_first {
            y = f.transpose(y, &[2, 0, 1, 3])?;
        }
        let mut results = vec![y];
        for state in steps..steps + cell.states() {
            let row = f.slice(all, 0, state as i64, state as i64 + 1)?;
            let row = f.reshape(row, &[directions, batch, hidden])?;
            results.push(if self.batch_first { f.transpose(row, &[1, 0, 2])? } else { row });
        }
        Ok(results)
    }

    /// The states before the first step, h and c one behind the other, if a node says anything of them.
    fn initial(
        &self,
        f: &mut Scope<'_, '_>,
        given: [Option<ValueId>; 2],
        dtype: DType,
        dims: [usize; 3],
    ) -> Result<Option<ValueId>, Error> {
        let given = &given[..self.op.cell.states()];
        if given.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut states = Vec::with_capacity(given.len());
        for state in given {
            let state = match *state {
                Some(state) if self.batch_first => f.transpose(state, &[1, 0, 2])?,
                Some(state) => state,
                None => zeros(f, dtype, &dims),
            };
            states.push(f.reshape(state, &[1, dims[0], dims[1], dims[2]])?);
        }
        f.concat(&states, 0).map(Some)
    }

    /// The results of no steps: none, and the states as they were.
    fn nothing(
        &self,
        f: &mut Scope<'_, '_>,
        dtype: DType,
        [directions, batch, hidden]: [usize; 3],
        initial: Option<ValueId>,
    ) -> Result<Vec<ValueId>, Error> {
        let states = self.op.cell.states();
        let y = if self.batch_first {
            zeros(f, dtype, &[batch, 0, directions, hidden])
        } else {
            zeros(f, dtype, &[0, directions, batch, hidden])
        };
        let all = initial.unwrap_or_else(|| zeros(f, dtype, &[states, directions, batch, hidden]));
        let mut results = vec![y];
        for state in 0..states as i64 {
            let row = f.slice(all, 0, state, state + 1)?;
            let row = f.reshape(row, &[directions, batch, hidden])?;
            results.push(if self.batch_first { f.transpose(row, &[1, 0, 2])? } else { row });
        }
        Ok(results)
    }
}

/// Refuses an operand of another type or shape.
fn expect(
    f: &Scope<'_, '_>,
    (index, id): (usize, Option<ValueId>),
    dtype: DType,
    dims: &[usize],
) -> Result<(), Error> {
    let Some(id) = id else { return Ok(()) };
    let (own, shape) = (f.dtype(id), f.shape(id));
    if own == dtype && *shape == *dims {
        return Ok(());
    }
    let name = NAMES[index];
    Err(f.wrong(format!(
        "input {name} has shape {shape} of type {own}, but {} of type {dtype} is expected",
        List(dims)
    )))
}

/// Zeros that are known.
fn zeros(f: &mut Scope<'_, '_>, dtype: DType, dims: &[usize]) -> ValueId {
    let shape = Shape::new(dims).unwrap_or_else(|| Shape::from([0]));
    let bytes = vec![0; dims.iter().product::<usize>() * dtype.bytes()];
    f.constant(Constant::new(dtype, shape, bytes).expect("as many bytes as the shape says"))
}

fn gru(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let linear = node.since >= 3 && node.flag("linear_before_reset")?;
    recurrent(node, if linear { CellKind::LinearGru } else { CellKind::Gru })
}

/// The operator that has a cell.
pub(super) const fn name(cell: CellKind) -> &'static str {
    match cell {
        CellKind::Simple => "RNN",
        CellKind::Gru | CellKind::LinearGru => "GRU",
        CellKind::Lstm => "LSTM",
    }
}

/// A function's name with its parameters, as [`function`] reads them.
fn spelled(kind: UnaryKind) -> Option<(&'static str, Option<f32>, Option<f32>)> {
    Some(match kind {
        UnaryKind::Affine { alpha, beta } => ("Affine", Some(alpha), Some(beta)),
        UnaryKind::Elu(alpha) => ("Elu", Some(alpha), None),
        UnaryKind::HardSigmoid { alpha, beta } => ("HardSigmoid", Some(alpha), Some(beta)),
        UnaryKind::LeakyRelu(alpha) => ("LeakyRelu", Some(alpha), None),
        UnaryKind::Relu => ("Relu", None, None),
        UnaryKind::ScaledTanh { alpha, beta } => ("ScaledTanh", Some(alpha), Some(beta)),
        UnaryKind::Sigmoid => ("Sigmoid", None, None),
        UnaryKind::Softplus => ("Softplus", None, None),
        UnaryKind::Softsign => ("Softsign", None, None),
        UnaryKind::Tanh => ("Tanh", None, None),
        UnaryKind::ThresholdedRelu(alpha) => ("ThresholdedRelu", Some(alpha), None),
        _ => return None,
    })
}

/// Writes the attributes of a node that has the operands and results of ONNX's operator.
fn write(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Recurrence(op) = op else { return Err(mistaken(op)) };
    let direction = match *op.backwards {
        [false] => "forward",
        [true] => "reverse",
        [false, true] => "bidirectional",
        _ => return Err("directions in another order than ONNX's".into()),
    };
    writer.text("direction", direction);
    let used = op.functions.iter().flat_map(|functions| &functions[..op.cell.functions()]);
    let functions = used
        .map(|&kind| spelled(kind).ok_or_else(|| format!("ONNX's cells have no function {}", kind.name())))
        .collect::<Result<Vec<_>, _>>()?;
    writer.texts("activations", functions.iter().map(|function| function.0));
    writer.floats("activation_alpha", functions.iter().filter_map(|function| function.1));
    writer.floats("activation_beta", functions.iter().filter_map(|function| function.2));
    if op.clip != f32::INFINITY {
        writer.float("clip", op.clip);
    }
    if op.coupled {
        writer.int("input_forget", 1);
    }
    if op.cell == CellKind::LinearGru {
        writer.int("linear_before_reset", 1);
    }
    // ONNX Runtime asks for it, although the third operand says it.
    if let Some(hidden) = writer.extents_of(2).and_then(|extents| extents.last().copied()) {
        writer.int("hidden_size", hidden as i64);
    }
    writer.needs(14);
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "GRU": [1, 3, 7, 14, 22] {3, 6, 2 => gru} write write;
    "LSTM": [1, 7, 14, 22] {3, 8, 3 => |node| recurrent(node, CellKind::Lstm)} write write;
    "RNN": [1, 7, 14, 22] {3, 6, 2 => |node| recurrent(node, CellKind::Simple)} write write;
}
