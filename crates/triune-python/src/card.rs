//! Virtual cards and the reservation of their sub-devices.

use std::sync::Arc;

use pyo3::prelude::*;
use triune::internals::{fork::Brief, runtime::card};

use crate::list::List;
use crate::{composition::Composition, error};

/// One virtual card.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) inner: Arc<card::Card>,
}

/// Returns the virtual cards that the environment describes, in enumeration order.
///
/// Raises `SettingError` if the description is wrong, `FileError` if the runtime directory cannot be used.
#[pyfunction]
pub(crate) fn cards(py: Python<'_>) -> PyResult<Vec<Card>> {
    let cards = error::detached(py, card::Cards::from_env)?.map_err(|e| error::card(&e))?;
    Ok(cards.iter().map(|inner| Card { inner: inner.clone() }).collect())
}

#[pymethods]
impl Card {
    #[getter]
    fn name(&self) -> &str {
        &self.inner.spec().name
    }

    /// The device model, as `triune compile --target` spells it.
    #[getter]
    fn device(&self) -> &str {
        &self.inner.spec().device
    }

    #[getter]
    fn board_type(&self) -> &'static str {
        self.inner.spec().board.name()
    }

    #[getter]
    fn sub_devices(&self) -> usize {
        self.inner.spec().sub_devices
    }

    #[getter]
    fn max_memory(&self) -> u64 {
        self.inner.spec().max_memory
    }

    #[getter]
    fn firmware_version(&self) -> &str {
        &self.inner.spec().firmware_version
    }

    #[getter]
    fn board_revision(&self) -> u32 {
        self.inner.spec().board_revision
    }

    #[getter]
    fn flashed_firmware_version(&self) -> &str {
        &self.inner.spec().flashed_firmware_version
    }

    #[getter]
    fn board_controller_firmware_version(&self) -> &str {
        &self.inner.spec().board_controller_firmware_version
    }

    #[getter]
    fn board_controller_board_type(&self) -> &str {
        &self.inner.spec().board_controller_board_type
    }

    /// What instances of this process ran on the card, in virtual time; None if there are none now.
    fn composition(&self, py: Python<'_>) -> PyResult<Option<Composition>> {
        let found = error::detached(py, || self.inner.composition())?;
        Ok(found.map(|inner| Composition { inner }))
    }

    /// Who holds which sub-devices now: pairs of the sub-device's number and `user:pid`.
    fn users(&self, py: Python<'_>) -> PyResult<Vec<(usize, String)>> {
        let users = error::detached(py, || self.inner.users())?.map_err(|e| error::card(&e))?;
        Ok(users.into_iter().map(|user| (user.sub_device, user.holder)).collect())
    }

    /// Reserves `count` sub-devices until the reservation is released or collected, or the process ends.
    fn reserve(&self, py: Python<'_>, count: usize) -> PyResult<Reservation> {
        let held = error::detached(py, || self.inner.reserve(count))?.map_err(|e| error::card(&e))?;
        Ok(Reservation {
            sub_devices: held.sub_devices().collect(),
            card: self.inner.clone(),
            held: Brief::new(Some(held)),
        })
    }

    /// Changes settings, given as pairs of name and value, and returns whether they are in force already.
    fn configure(&self, py: Python<'_>, changes: List<(String, String)>) -> PyResult<bool> {
        let pairs: Vec<_> = changes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        error::detached(py, || self.inner.configure(&pairs))?.map_err(|e| error::card(&e))
    }

    /// Whether every changed setting is in force.
    fn ready(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!self.read(py)?.is_pending())
    }

    /// Every setting by name.
    fn settings(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<String, String>> {
        Ok(self.read(py)?.to_map())
    }

    /// A core's clock in MHz.
    fn clock_mhz(&self, py: Python<'_>, core: usize) -> PyResult<u32> {
        Ok(self.read(py)?.clock_mhz(core))
    }
}

impl Card {
    fn read(&self, py: Python<'_>) -> PyResult<card::Settings> {
        error::detached(py, || self.inner.settings())?.map_err(|e| error::card(&e))
    }
}

/// Reserved sub-devices of one card.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Reservation {
    card: Arc<card::Card>,
    sub_devices: Vec<usize>,
    held: Brief<Option<card::Reservation>>,
}

#[pymethods]
impl Reservation {
    #[getter]
    fn card(&self) -> Card {
        Card { inner: self.card.clone() }
    }

    /// The reserved sub-devices' numbers, ascending.
    #[getter]
    fn sub_devices(&self) -> Vec<usize> {
        self.sub_devices.clone()
    }

    /// Frees the sub-devices; harmless if they are free already.
    fn release(&self) {
        self.held.lock().take();
    }
}
