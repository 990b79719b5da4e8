//! How a network is loaded: what the program said when it made it or later, and what a packed model changes for itself alone.

use std::ffi::c_int;

use super::{
    failure::{Failure, failure},
    types::{CPU, Config, DEVICE_DEFAULT},
    wish::Wish,
};
use crate::boundary;

pub(super) const MOST_THREADS: usize = 1024;

/// The place of `force_output_use_user_specified_memory` in `LiteOptions`.
pub(super) const OWN_OUTPUTS: usize = 7;

#[expect(clippy::struct_excessive_bools, reason = "options that have nothing to do with each other")]
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) compressed: bool,
    pub(super) fusion: bool,
    pub(super) cipher: Option<String>,
    pub(super) device_type: c_int,
    pub(super) device_id: c_int,
    pub(super) threads: usize,
    pub(super) inplace: bool,
    /// Whether outputs have to have memory of the program's own.
    pub(super) own_outputs: bool,
    /// The input whose samples are tensors of their own.
    pub(super) discrete: Option<String>,
    /// Of inputs and of outputs; the last of a name counts.
    pub(super) wishes: [Vec<Wish>; 2],
}

impl Settings {
    /// # Safety
    /// The texts of the configuration are texts or NULL.
    pub(super) unsafe fn of(config: &Config, wishes: [Vec<Wish>; 2]) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let (cipher, discrete) = unsafe {
            (boundary::text(config.bare_model_cryption_name), boundary::text(config.discrete_input_name))
        };
        let settings = Self {
            compressed: config.has_compression != 0,
            fusion: config.options.graph_opt_level != 0,
            cipher: cipher.filter(|name| !name.is_empty()),
            device_type: config.device_type,
            device_id: config.device_id,
            threads: 1,
            inplace: false,
            own_outputs: config.options.before[OWN_OUTPUTS] != 0,
            discrete: discrete.filter(|name| !name.is_empty()),
            wishes,
        };
        settings.check_device()?;
        Ok(settings)
    }

    pub(super) fn check_device(&self) -> Result<(), Failure> {
        if matches!(self.device_type, CPU | DEVICE_DEFAULT) {
            return Ok(());
        }
        let device = self.device_type;
        Err(failure(format!("not implemented: networks on device type {device}; there is LITE_CPU")))
    }
}
