//! Recurrent cells over time.

use triune_tensor::{DType, function::CellKind};

use super::{
    UnaryKind,
    infer::{Operands, TensorType},
};
use crate::Error;

/// The steps of a cell, whose inputs are multiplied already, in one direction or in both.
///
/// Inputs: x (steps, batch, directions · gates · hidden), the products of the steps' inputs with the gates' weights, biases
/// added; recurrent weights (directions, gates · hidden, hidden); optional vectors of the cell (directions, vectors · hidden);
/// optional states before the first step (states, directions, batch, hidden); optional lengths of the sequences (batch) of
/// i32. The result (steps + states, directions, batch, hidden) has h behind each step, 0 behind a sequence's last one, and then
/// the states behind the last step: h, and c of a cell that has it. [`CellKind`] says what a step computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrence {
    /// The cell.
    pub cell: CellKind,
    /// For each direction, whether it goes from a sequence's last step to its first; one or two.
    pub backwards: Vec<bool>,
    /// The cell's functions, for each direction; those that the cell does not have are not looked at.
    pub functions: Vec<[UnaryKind; 3]>,
    /// Functions of gates see arguments limited to −clip..clip.
    pub clip: f32,
    /// For `Lstm`: whether gate f is 1 − i.
    pub coupled: bool,
}

impl Recurrence {
    /// What operand `index` is called in messages.
    fn operand(index: usize) -> &'static str {
        ["input", "recurrent weights", "vectors", "initial states", "lengths"][index]
    }

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let directions = self.backwards.len();
        if !(1..=2).contains(&directions) || self.functions.len() != directions {
            return Err(at.wrong(format!("{directions} directions with {} functions", self.functions.len())));
        }
        if self.clip.is_nan() || self.clip < 0.0 {
            return Err(at.wrong(format!("a limit of {}", self.clip)));
        }
        let (x, weights) = (at.of_rank(0, 3)?, at.of_rank(1, 3)?);
        let ([steps, batch, width], hidden) = ([x.shape[0], x.shape[1], x.shape[2]], weights.shape[2]);
        let cell = self.cell;
        if Some(width) != hidden.checked_mul(directions * cell.gates()) || steps == 0 || hidden == 0 {
            return Err(at.wrong(format!(
                "input {} of {directions} · {} gates of {hidden} units",
                x.shape,
                cell.gates()
            )));
        }
        let fits = |index: usize, dtype: DType, dims: &[usize]| match at.get(index) {
            Some(operand) if operand.dtype != dtype || *operand.shape != *dims => Err(at.wrong(format!(
                "{} {} of type {}; {} of type {dtype} are expected",
                Self::operand(index),
                operand.shape,
                operand.dtype,
                triune_tensor::text::List(dims)
            ))),
            _ => Ok(()),
        };
        if !matches!(x.dtype, DType::F32 | DType::F16) {
            return Err(at.wrong(format!("a recurrence over {}; it computes on float32", x.dtype)));
        }
        fits(1, x.dtype, &[directions, cell.gates() * hidden, hidden])?;
        if cell.vectors() == 0 && at.get(2).is_some() {
            return Err(at.wrong(format!("vectors of a cell {cell}, which has none")));
        }
        fits(2, x.dtype, &[directions, cell.vectors() * hidden])?;
        fits(3, x.dtype, &[cell.states(), directions, batch, hidden])?;
        fits(4, DType::I32, &[batch])?;
        let known = at.get(4).and_then(|lengths| lengths.constant?.to_i32()).unwrap_or_default();
        let inside = |&length: &i32| usize::try_from(length).is_ok_and(|length| length <= steps);
        if let Some(length) = known.into_iter().find(|length| !inside(length)) {
            return Err(at.wrong(format!("lengths: {length} is not within 0 and {steps}")));
        }
        let Some(rows) = steps.checked_add(cell.states()) else {
            return Err(at.wrong(format!("{steps} steps")));
        };
        at.like_input(at.shape(&[rows, directions, batch, hidden])?)
    }
}
