//! An input whose samples are tensors of their own.

use std::{
    ffi::{c_char, c_int},
    sync::Arc,
};

use super::{
    failure::{Failure, failure, give},
    network::{Port, with},
    tensor::{self, State, Tensor},
    types::{Handle, Layout, OUTPUT},
};
use crate::{boundary, handle};

/// The samples of an input, which runs take together.
pub(super) struct Discrete {
    /// Which input.
    input: usize,
    samples: Vec<(usize, Arc<Tensor>)>,
}

impl Discrete {
    /// Samples for the input of that name, as many as it has along its first axis.
    pub(super) fn of(
        name: &str,
        inputs: &[Port],
        (network, device_type, device_id): (usize, c_int, c_int),
    ) -> Result<Self, Failure> {
        let input = inputs.iter().position(|port| port.name.to_bytes() == name.as_bytes());
        let input = input.ok_or_else(|| {
            let names: Vec<_> =
                inputs.iter().map(|port| format!("'{}'", port.name.to_string_lossy())).collect();
            failure(format!(
                "discrete_input_name: the model has no input '{name}'; there are {}",
                names.join(", ")
            ))
        })?;
        let whole = inputs[input].tensor.state.lock().layout();
        let [count, rest @ ..] = whole.shape()? else {
            return Err(failure(format!(
                "discrete_input_name: the shape of '{name}' is open; configure its layout with a LiteIO"
            )));
        };
        let layout = Layout::new(&[&[1], rest].concat(), whole.data_type);
        let mut discrete = Self { input, samples: Vec::new() };
        for _ in 0..*count {
            let state = State::new(&layout, device_type, device_id)?;
            discrete.samples.push(tensor::of_network(state, network)?);
        }
        Ok(discrete)
    }

    /// The samples' handles.
    pub(super) fn handles(&self) -> impl Iterator<Item = usize> {
        self.samples.iter().map(|(handle, _)| *handle)
    }

    /// Puts the samples together, unless the program set the input as a whole.
    pub(super) fn gather(&self, inputs: &[Port]) -> Result<(), Failure> {
        let Port { name, tensor: whole, .. } = &inputs[self.input];
        let touched = |tensor: &Tensor| tensor.state.lock().has_memory();
        if !self.samples.iter().any(|(_, sample)| touched(sample)) && touched(whole) {
            return Ok(());
        }
        let mut all = Vec::new();
        let mut layout: Option<Layout> = None;
        for (number, (_, sample)) in self.samples.iter().enumerate() {
            let mut sample = sample.state.lock();
            let own = sample.layout();
            let first = *layout.get_or_insert(own);
            if own.shape()? != first.shape()?
                || own.data_type != first.data_type
                || own.shape()?.first() != Some(&1)
            {
                return Err(failure(format!(
                    "discrete input '{}': sample {number} has another layout than sample 0, or a leading extent that is not 1",
                    name.to_string_lossy()
                )));
            }
            all.extend(sample.gathered()?);
        }
        let Some(first) = layout else { return Ok(()) };
        let shape = [&[self.samples.len()], &first.shape()?[1..]].concat();
        let mut whole = whole.state.lock();
        whole.relayout(&shape, first.data_type)?;
        whole.scatter(&all)
    }
}

/// `LITE_get_discrete_tensor`: a sample of the input that `discrete_input_name` of the configuration names.
///
/// # Safety
/// `io_name` is NULL or a text, `tensor` NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_discrete_tensor(
    network: Handle,
    io_name: *const c_char,
    n_idx: usize,
    phase: c_int,
    tensor: *mut Handle,
) -> c_int {
    with(network, |inner| {
        // SAFETY: the caller's promise.
        let name = unsafe { boundary::text(io_name) };
        let name = name.ok_or_else(|| failure("io_name: expected a name, got NULL"))?;
        let loaded = inner.loaded()?;
        let found = loaded.discrete.as_ref().filter(|discrete| {
            phase != OUTPUT && loaded.inputs[discrete.input].name.to_bytes() == name.as_bytes()
        });
        let found = found.ok_or_else(|| {
            failure(format!("'{name}' is no discrete input: name it in LiteConfig.discrete_input_name"))
        })?;
        let (sample, _) = found.samples.get(n_idx).ok_or_else(|| {
            failure(format!("'{name}' has {} discrete tensors, there is no {n_idx}", found.samples.len()))
        })?;
        // SAFETY: the caller's promise.
        unsafe { give("tensor", tensor, handle::pointer(*sample)) }
    })
}
