//! What a session computes with, one call at a time.

use pyo3::prelude::*;
use triune::internals::{
    runtime::{self, Inputs, Session, SessionOptions, Tensor, TensorMut, TensorRef, ValueRef, Variable},
    tensor::{DType, Shape},
};

use crate::{
    bound::{Bound, Given, Taken},
    error,
};

/// The runtime's session, another for the inputs with defaults that were given last, and what is planned for bound arrays.
pub(super) struct State {
    pub(super) session: Session,
    options: SessionOptions,
    other: Option<(Vec<String>, Session)>,
    /// The extents that are planned for, once they are known.
    pub(super) shapes: Option<Vec<Shape>>,
    /// Those that ran last, as long as none are planned for.
    ran: Option<Vec<Shape>>,
    /// What they give: by output, `None` where it depends on data.
    pub(super) output_shapes: Vec<Option<Shape>>,
    /// What the last run on bound arrays gave for outputs without one.
    pub(super) results: Vec<Option<Tensor>>,
    /// Counts plans: arrays that were bound to another one do not fit this one.
    pub(super) plan: u64,
}

impl State {
    pub(super) fn new(session: Session, options: SessionOptions) -> Result<Self, runtime::Error> {
        let (output_shapes, results) = (vec![None; session.outputs().len()], Vec::new());
        let shapes = session.model().default_shapes().map(<[Shape]>::to_vec);
        let mut state =
            Self { session, options, other: None, shapes: None, ran: None, output_shapes, results, plan: 0 };
        if let Some(shapes) = shapes {
            state.prepare(shapes)?;
        }
        Ok(state)
    }

    pub(super) fn prepare(&mut self, shapes: Vec<Shape>) -> Result<(), runtime::Error> {
        let outputs = self.session.prepare(&shapes)?;
        self.output_shapes = outputs.into_iter().map(|known| known.map(|(_, shape)| shape)).collect();
        self.shapes = Some(shapes);
        self.ran = None;
        self.results.clear();
        self.plan += 1;
        Ok(())
    }

    /// The extents that are planned for.
    pub(super) fn prepared(&self) -> PyResult<Vec<Shape>> {
        let none = || error::argument("the inputs' shapes are not known; call prepare first");
        self.shapes.clone().ok_or_else(none)
    }

    /// The extents that are planned for, or, where none were asked for, those that ran last.
    pub(super) fn known(&self) -> PyResult<Vec<Shape>> {
        self.ran.clone().map_or_else(|| self.prepared(), Ok)
    }

    /// Notes the extents that a run had, where none are planned for and all of its inputs are tensors.
    pub(super) fn note(&mut self, values: &[ValueRef<'_>]) {
        if self.shapes.is_some() {
            return;
        }
        let shapes = values.iter().map(|value| match value {
            ValueRef::Tensor(tensor) => Shape::new(tensor.shape),
            _ => None,
        });
        self.ran = shapes.collect();
    }

    /// What runs when these inputs are given besides those that have to be.
    pub(super) fn taking(&mut self, names: &[&str]) -> Result<&mut Session, runtime::Error> {
        if names.is_empty() {
            return Ok(&mut self.session);
        }
        let other = if let Some(other) = self.other.take().filter(|(own, _)| own == names) {
            other
        } else {
            let model = self.session.model().taking(names)?;
            let names = names.iter().map(|&name| name.to_owned()).collect();
            (names, Session::of(model, &self.options)?)
        };
        Ok(&mut self.other.insert(other).1)
    }

    /// Runs on bound arrays, which have been checked with the interpreter held.
    pub(super) fn run(&mut self, bound: &Bound) -> PyResult<()> {
        let Some(shapes) = self.shapes.as_ref().filter(|_| bound.plan() == self.plan) else {
            return Err(unbound());
        };
        if self.session.is_staged() {
            // There is no room for the results beforehand, and what an earlier run gave is not that of this one, whatever happens.
            self.results.clear();
            let given = Given(bound);
            let operands = operands(&self.session, shapes, |index| given.input(index));
            let mut taken = Taken { bound, own: &mut [] };
            let into = taken.arrays().zip(self.session.outputs()).zip(&self.output_shapes);
            let into = into.map(|((bytes, info), shape)| {
                Some(TensorMut { dtype: info.dtype, shape: shape.as_ref()?, bytes: bytes? })
            });
            let mut into: Vec<_> = into.collect();
            self.results = self.session.run_into(&operands, &mut into).map_err(error::runtime)?;
            return Ok(());
        }
        if self.results.len() != self.output_shapes.len() {
            let own = |(index, known): (usize, Option<(DType, Shape)>)| {
                let own = known.filter(|_| !bound.has_output(index));
                own.map(|(dtype, shape)| Tensor::zeros(dtype, shape).map_err(error::runtime)).transpose()
            };
            let outputs = self.session.prepare(shapes).map_err(error::runtime)?;
            self.results = outputs.into_iter().enumerate().map(own).collect::<PyResult<_>>()?;
        }
        let mut outputs = Taken { bound, own: &mut self.results };
        self.session.run_border(shapes, &Given(bound), &mut outputs).map_err(error::runtime)
    }

    /// Every value of the model for what bound arrays hold.
    pub(super) fn trace(&mut self, bound: &Bound) -> PyResult<Vec<Variable>> {
        let Some(shapes) = self.shapes.as_ref().filter(|_| bound.plan() == self.plan) else {
            return Err(unbound());
        };
        let given = Given(bound);
        // The arrays may change as soon as the inputs have been read.
        let copies: Vec<Vec<u8>> = (0..shapes.len()).map(|index| given.input(index).to_vec()).collect();
        let operands = operands(&self.session, shapes, |index| &copies[index]);
        self.session.trace(&operands).map_err(error::runtime)
    }
}

/// What a run takes for a session's inputs, of these shapes and elements.
fn operands<'a>(
    session: &Session,
    shapes: &'a [Shape],
    bytes: impl Fn(usize) -> &'a [u8],
) -> Vec<TensorRef<'a>> {
    let pairs = session.inputs().iter().zip(shapes).enumerate();
    pairs.map(|(index, (info, shape))| TensorRef { dtype: info.dtype, shape, bytes: bytes(index) }).collect()
}

pub(super) fn unbound() -> PyErr {
    error::argument("no arrays are bound to the session; call bind first, again after prepare")
}
