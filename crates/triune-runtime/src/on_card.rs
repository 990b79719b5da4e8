//! Programs on virtual cards: the simulated device behind a card, what is deployed there, at which clock.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use triune_fork::Brief;

use crate::{
    DeployOptions, Deployment, Device, Error, Program,
    card::Card,
    clock::{Composition, Realtime},
};

/// The simulated devices of this process by card: all that is deployed to one card shares its memory.
static DEVICES: Brief<BTreeMap<String, Weak<Device>>> = Brief::new(BTreeMap::new());

impl Device {
    /// The device behind a card: one for all of this process, for as long as something is deployed there.
    ///
    /// # Errors
    /// As [`Device::new`], and if the card's description names a device that there is not.
    pub fn of_card(card: &Card) -> Result<Arc<Self>, Error> {
        let spec = card.spec();
        let mut devices = DEVICES.lock();
        let model = spec.model()?;
        // A card may have become another one of the same name: what is deployed to the old one keeps it.
        let known = devices.get(&spec.name).and_then(Weak::upgrade);
        if let Some(device) = known.filter(|device| *device.spec() == model) {
            return Ok(device);
        }
        let device = Self::new(model)?;
        devices.insert(spec.name.clone(), Arc::downgrade(&device));
        Ok(device)
    }
}

impl Card {
    /// What ran on the card in this process, in virtual time; nothing if nothing is deployed there.
    pub fn composition(&self) -> Option<Composition> {
        let devices = DEVICES.lock();
        let device = devices.get(&self.spec().name).and_then(Weak::upgrade)?;
        drop(devices);
        Some(device.clock().composition())
    }
}

impl Deployment {
    /// Deploys a program to `options.cores` of a card, timed at the slowest one's clock and the tightest limit of use. Without
    /// `options.realtime`, the environment says whether runs are paced.
    ///
    /// # Errors
    /// [`Error::Card`] if the card's settings cannot be read; as [`Deployment::new`] and [`Realtime::from_env`].
    pub fn on_card(card: &Card, program: &Arc<Program>, mut options: DeployOptions) -> Result<Self, Error> {
        let settings = card.settings()?;
        let device = Device::of_card(card)?;
        let clock = |&core: &u32| settings.clock_mhz(core as usize);
        let modelled = device.spec().clock_mhz.is_some();
        options.clock_mhz = options.cores.iter().map(clock).min().filter(|_| modelled);
        let limit = |&core: &u32| settings.utilisation(core as usize);
        options.array_percent = options.cores.iter().map(limit).min().unwrap_or(100);
        if options.realtime.is_none() {
            options.realtime = Realtime::from_env()?;
        }
        Self::new(&device, program, &options)
    }
}
