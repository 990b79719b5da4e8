//! What a network does with its tensors in a run: takes what they hold, computes, and puts the results where they belong.

use std::slice;

use triune::{DType, Shape, TensorMut, TensorRef};

use super::{
    failure::{Failure, failure},
    network::{Loaded, Port},
    tensor::{self, State},
    types::{IO_VALUE, MAX_DIMS, kind},
};

impl Loaded {
    /// The inputs' extents, as the model takes them.
    pub(super) fn shapes(&self) -> Result<Vec<Shape>, Failure> {
        let shape = |port: &Port| {
            let (state, name) = (port.tensor.state.lock(), port.name.to_string_lossy());
            if state.kind != kind(&name, port.dtype)? {
                return Err(failure(format!(
                    "input '{name}': the model takes {}, the tensor is of another type",
                    port.dtype.name()
                )));
            }
            if state.shape.is_empty() {
                return Err(failure(format!(
                    "the shape of input '{name}' is open: set the layout of its tensor, or a LiteIO's"
                )));
            }
            let own: &[usize] = if port.scalar && state.shape == [1] { &[] } else { &state.shape };
            Shape::new(own).ok_or_else(|| failure(format!("input '{name}' has too many axes")))
        };
        self.inputs.iter().map(shape).collect()
    }

    /// Gives the outputs' tensors their layouts, as far as these do not depend on data.
    pub(super) fn plan(&mut self, shapes: &[Shape]) -> Result<Vec<bool>, Failure> {
        let planned = self.session.prepare(shapes)?;
        let fit = |(port, planned): (&mut Port, Option<(DType, Shape)>)| match planned {
            Some((dtype, shape)) => port.fit(dtype, &shape).map(|()| true),
            None => Ok(false),
        };
        self.outputs.iter_mut().zip(planned).map(fit).collect()
    }

    /// The inputs' elements, for one run.
    pub(super) fn operands(&self) -> Result<Operands, Failure> {
        let operand = |port: &Port| {
            let mut state = port.tensor.state.lock();
            state.start()?;
            let copy = if state.is_dense() { None } else { Some(state.gathered()?) };
            Ok((state.clone(), copy))
        };
        Ok(Operands(self.inputs.iter().map(operand).collect::<Result<_, Failure>>()?))
    }

    /// Computes; `own_outputs` says that results have to go to memory of the program's own.
    pub(super) fn run(&mut self, own_outputs: bool) -> Result<(), Failure> {
        if let Some(discrete) = &self.discrete {
            discrete.gather(&self.inputs)?;
        }
        let shapes = self.shapes()?;
        let known = self.plan(&shapes)?;
        if own_outputs {
            let mut planned = self.outputs.iter().zip(&known).filter(|(_, known)| **known);
            planned.try_for_each(|(port, _)| port.check_memory())?;
        }
        let mut operands = self.operands()?;
        let inputs = operands.refs(&self.inputs, &shapes)?;
        let mut taken: Vec<(usize, usize)> =
            inputs.iter().map(|input| (input.bytes.as_ptr().addr(), input.bytes.len())).collect();
        let mut kept = Vec::new();
        let mut places: Vec<Option<(*mut u8, usize, Vec<usize>)>> = Vec::new();
        for (port, known) in self.outputs.iter().zip(known) {
            let mut state = port.tensor.state.lock();
            let direct = known && state.is_dense() && port.io_type == IO_VALUE && port.dtype != DType::Bool;
            let place = if direct { Some((state.start()?, state.bytes()?)) } else { None };
            let free = |&(start, size): &(*mut u8, usize)| {
                taken
                    .iter()
                    .all(|&(other, length)| start.addr() >= other + length || other >= start.addr() + size)
            };
            let place = place.filter(free).map(|(start, size)| {
                taken.push((start.addr(), size));
                let shape = if port.scalar { Vec::new() } else { state.shape.clone() };
                (start, size, shape)
            });
            kept.push(state.clone());
            places.push(place);
        }
        let mut into: Vec<Option<TensorMut<'_>>> = places
            .iter()
            .zip(&self.outputs)
            .map(|(place, port)| {
                place.as_ref().map(|(start, size, shape)| TensorMut {
                    dtype: port.dtype,
                    shape,
                    // SAFETY: the clone keeps it, it is apart from all others, and nobody else writes there during a run.
                    bytes: unsafe { slice::from_raw_parts_mut(*start, *size) },
                })
            })
            .collect();
        let results = self.session.run_into(&inputs, &mut into)?;
        for (port, result) in self.outputs.iter_mut().zip(results) {
            let Some(result) = result else { continue };
            port.fit(result.dtype, &result.shape)?;
            if own_outputs {
                port.check_memory()?;
            }
            if port.io_type == IO_VALUE {
                port.tensor.state.lock().scatter(&result.bytes)?;
            }
        }
        Ok(())
    }
}

/// The inputs' elements: clones keep the memory, whatever the program does to the tensors meanwhile; what lies with gaps is copied.
pub(super) struct Operands(Vec<(State, Option<Vec<u8>>)>);

impl Operands {
    pub(super) fn refs<'a>(
        &'a mut self,
        ports: &[Port],
        shapes: &'a [Shape],
    ) -> Result<Vec<TensorRef<'a>>, Failure> {
        let mut operands = Vec::with_capacity(self.0.len());
        for ((state, copy), (port, shape)) in self.0.iter_mut().zip(ports.iter().zip(shapes)) {
            let bytes = match copy {
                Some(copy) => copy.as_slice(),
                // SAFETY: the clone keeps it; who writes an input during a run breaks the header's rules.
                None => unsafe { tensor::bytes(state) }?,
            };
            operands.push(TensorRef { dtype: port.dtype, shape, bytes });
        }
        Ok(operands)
    }
}

impl Port {
    /// Whether the results go to memory of the program's own.
    fn check_memory(&self) -> Result<(), Failure> {
        let state = self.tensor.state.lock();
        if state.is_programs() {
            return Ok(());
        }
        Err(failure(format!(
            "force_output_use_user_specified_memory: output '{}' has no memory of the program's, or too little of it: give it {} \
             bytes with LITE_reset_tensor_memory",
            self.name.to_string_lossy(),
            state.bytes()?
        )))
    }

    /// Takes the layout of results.
    fn fit(&mut self, dtype: DType, shape: &[usize]) -> Result<(), Failure> {
        self.scalar = shape.is_empty();
        let shape = if shape.is_empty() { &[1] } else { shape };
        let kind = kind(&self.name.to_string_lossy(), dtype)?;
        if shape.len() > MAX_DIMS {
            let name = self.name.to_string_lossy();
            return Err(failure(format!(
                "output '{name}' has {} axes, which no LiteLayout has",
                shape.len()
            )));
        }
        self.tensor.state.lock().relayout(shape, kind)
    }
}
