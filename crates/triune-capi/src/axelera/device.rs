//! Devices: which there are, how they are set, and connections to them.

use std::{
    collections::BTreeSet,
    ffi::{c_char, c_uint},
    ptr,
    sync::Arc,
};

use triune::internals::{
    fork::Brief,
    runtime::card::{BoardType, Card, Cards, Reservation},
};

use super::{
    failure::{Failure, argument},
    object::{self, Kind},
    properties::{self, Properties},
    types::{Code, DeviceInfo, LOG_DEBUG, LOG_WARNING, Opaque, fixed},
};

/// An `axrConnection`: reserved sub-devices of a card.
pub(crate) struct Connection {
    pub(crate) card: Arc<Card>,
    pub(crate) sub_devices: Vec<usize>,
    reservation: Brief<Option<Reservation>>,
    /// Those that instances have.
    taken: Brief<BTreeSet<usize>>,
}

impl Connection {
    fn new(card: &Arc<Card>, count: usize) -> Result<Self, Failure> {
        let reservation = card.reserve(count)?;
        Ok(Self {
            card: Arc::clone(card),
            sub_devices: reservation.sub_devices().collect(),
            reservation: Brief::new(Some(reservation)),
            taken: Brief::new(BTreeSet::new()),
        })
    }

    /// Gives an instance some of the sub-devices that no other has.
    pub(crate) fn take(self: &Arc<Self>, count: usize) -> Result<Taken, Failure> {
        let mut taken = self.taken.lock();
        let free: Vec<usize> =
            self.sub_devices.iter().copied().filter(|index| !taken.contains(index)).collect();
        let Some(own) = free.get(..count) else {
            let total = self.sub_devices.len();
            return Err(argument(format!(
                "num_sub_devices: expected at most {} (the connection has {total}, its other instances hold {}; release them \
                 or connect to more), got {count}",
                free.len(),
                total - free.len()
            )));
        };
        taken.extend(own);
        Ok(Taken { connection: Arc::clone(self), sub_devices: own.to_vec() })
    }

    pub(crate) fn release(&self) {
        let reservation = self.reservation.lock().take();
        drop(reservation);
    }
}

/// The sub-devices of an instance, which go back to the connection with it.
pub(crate) struct Taken {
    connection: Arc<Connection>,
    pub(crate) sub_devices: Vec<usize>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.connection.taken.lock();
        for index in &self.sub_devices {
            taken.remove(index);
        }
    }
}

/// Bytes of memory of cards whose description does not say: those of the form of the board.
fn memory(board: BoardType) -> u64 {
    match board {
        BoardType::M2 | BoardType::AlphaM2 | BoardType::Sbc => 1 << 30,
        BoardType::Pcie | BoardType::AlphaPcie | BoardType::Devboard | BoardType::Unknown => 4 << 30,
    }
}

/// `axrBoardType`.
fn board(board: BoardType) -> c_uint {
    match board {
        BoardType::AlphaPcie => 0,
        BoardType::AlphaM2 => 1,
        BoardType::Pcie => 2,
        BoardType::M2 => 3,
        BoardType::Devboard => 4,
        BoardType::Sbc => 5,
        BoardType::Unknown => 6,
    }
}

fn describe(card: &Card) -> Result<DeviceInfo, Failure> {
    let (spec, users) = (card.spec(), card.users()?);
    let holders: BTreeSet<&str> = users.iter().map(|user| user.holder.as_str()).collect();
    let bytes = if spec.max_memory == 0 { memory(spec.board) } else { spec.max_memory };
    Ok(DeviceInfo {
        name: fixed(&spec.name),
        subdevice_count: spec.sub_devices,
        max_memory: usize::try_from(bytes).unwrap_or(usize::MAX),
        in_use: users.len().try_into().unwrap_or(i32::MAX),
        in_use_by: fixed(&holders.into_iter().collect::<Vec<_>>().join(",")),
        board_type: board(spec.board),
        firmware_version: fixed(&spec.firmware_version),
        board_revision: spec.board_revision.try_into().unwrap_or(i32::MAX),
        flashed_firmware_version: fixed(&spec.flashed_firmware_version),
        board_controller_firmware_version: fixed(&spec.board_controller_firmware_version),
        board_controller_board_type: fixed(&spec.board_controller_board_type),
    })
}

/// The card that a device's name names.
///
/// # Safety
/// `device` is NULL or an `axrDeviceInfo`.
unsafe fn find(device: *const DeviceInfo) -> Result<Arc<Card>, Failure> {
    // SAFETY: the caller's promise.
    let device =
        unsafe { device.as_ref() }.ok_or_else(|| argument("device: expected an axrDeviceInfo, got NULL"))?;
    let bytes = |name: &[c_char]| -> Vec<u8> {
        name.iter().map(|byte| byte.cast_unsigned()).take_while(|&byte| byte != 0).collect()
    };
    let name = String::from_utf8_lossy(&bytes(&device.name)).into_owned();
    let cards = Cards::from_env()?;
    let found = cards.iter().find(|card| card.spec().name == name);
    found.cloned().ok_or_else(|| {
        let names: Vec<_> = cards.iter().map(|card| card.spec().name.as_str()).collect();
        let there = if names.is_empty() {
            "there is no device".to_owned()
        } else {
            format!("the devices are {}", names.join(", "))
        };
        argument(format!("device: no device named '{name}'; {there}"))
    })
}

/// `axr_list_devices`.
///
/// # Safety
/// `devices` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_list_devices(
    context: *mut Opaque,
    devices: *mut *mut DeviceInfo,
) -> usize {
    object::with(
        "context",
        context,
        |_| 0,
        |object| {
            object.is_context("context")?;
            let cards = Cards::from_env()?;
            let infos = cards.iter().map(|card| describe(card)).collect::<Result<Vec<_>, _>>()?;
            let count = infos.len();
            if !devices.is_null() {
                let mut given = object.context.devices.lock();
                *given = infos;
                // SAFETY: the caller's promise.
                unsafe { devices.write(if count == 0 { ptr::null_mut() } else { given.as_mut_ptr() }) };
            }
            Ok(count)
        },
    )
}

/// `axr_configure_device`.
///
/// # Safety
/// `device` is NULL or an `axrDeviceInfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_configure_device(
    context: *mut Opaque,
    device: *mut DeviceInfo,
    properties: *mut Opaque,
) -> Code {
    object::with(
        "context",
        context,
        |code| code,
        |object| {
            object.is_context("context")?;
            // SAFETY: the caller's promise.
            let card = unsafe { find(device) }?;
            let pairs = properties::pairs(properties)?;
            let changes: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let done = card.configure(&changes)?;
            let shown: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            object.context.tell(LOG_DEBUG, &format!("{}: configured {}", card.spec().name, shown.join(";")));
            if done { Ok(Code::Success) } else { Err(pending(&card)) }
        },
    )
}

pub(crate) fn pending(card: &Card) -> Failure {
    let text = format!("{}: a changed clock has not locked yet; poll axr_device_ready", card.spec().name);
    Failure::new(Code::Pending, text)
}

/// `axr_device_ready`.
///
/// # Safety
/// `device` is NULL or an `axrDeviceInfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_device_ready(context: *mut Opaque, device: *mut DeviceInfo) -> Code {
    object::with(
        "context",
        context,
        |code| code,
        |object| {
            object.is_context("context")?;
            // SAFETY: the caller's promise.
            let card = unsafe { find(device) }?;
            if card.settings()?.is_pending() { Err(pending(&card)) } else { Ok(Code::Success) }
        },
    )
}

/// `axr_read_device_configuration`. The clock of the card is that of the fastest core.
///
/// # Safety
/// `device` is NULL or an `axrDeviceInfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_read_device_configuration(
    context: *mut Opaque,
    device: *mut DeviceInfo,
) -> *mut Opaque {
    object::with(
        "context",
        context,
        |_| ptr::null_mut(),
        |object| {
            object.is_context("context")?;
            // SAFETY: the caller's promise.
            let card = unsafe { find(device) }?;
            let settings = card.settings()?;
            let clock =
                (0..card.spec().sub_devices).map(|core| settings.clock_mhz(core)).max().unwrap_or_default();
            let mut all = settings.to_map();
            all.insert("clock_profile".to_owned(), clock.to_string());
            let pairs = all.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            Ok(object.make(Kind::Properties(Properties::of(pairs))))
        },
    )
}

/// `axr_device_connect`.
///
/// # Safety
/// `device` is NULL or an `axrDeviceInfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_device_connect(
    context: *mut Opaque,
    device: *mut DeviceInfo,
    num_sub_devices: usize,
    properties: *mut Opaque,
) -> *mut Opaque {
    object::with(
        "context",
        context,
        |_| ptr::null_mut(),
        |object| {
            object.is_context("context")?;
            for (name, _) in properties::pairs(properties)? {
                if name != "device_firmware_check" {
                    let text = format!("device_connect: unknown property '{name}' is ignored");
                    object.context.tell(LOG_WARNING, &text);
                }
            }
            let cards: Vec<Arc<Card>> = if device.is_null() {
                Cards::from_env()?.iter().cloned().collect()
            } else {
                // SAFETY: the caller's promise.
                vec![unsafe { find(device) }?]
            };
            let Some(most) = cards.iter().map(|card| card.spec().sub_devices).max() else {
                let text = "device_connect: there is no device (TRIUNE_CARDS describes none)";
                return Err(Failure::new(Code::ConnectionError, text));
            };
            if !(1..=most).contains(&num_sub_devices) {
                return Err(argument(format!(
                    "num_sub_devices: expected 1 to {most}, got {num_sub_devices}"
                )));
            }
            let mut busy = Vec::new();
            for card in cards.iter().filter(|card| card.spec().sub_devices >= num_sub_devices) {
                match Connection::new(card, num_sub_devices) {
                    Ok(connection) => return Ok(object.make(Kind::Connection(Arc::new(connection)))),
                    Err(failure) if failure.code == Code::DeviceInUse => busy.push(failure.text),
                    Err(failure) => return Err(failure),
                }
            }
            Err(Failure::new(Code::DeviceInUse, busy.join("; ")))
        },
    )
}
