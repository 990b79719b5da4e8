//! Networks: a model, tensors for its inputs and outputs, and what runs it.

use std::{
    ffi::{CString, c_char, c_int, c_uint},
    sync::Arc,
};

use triune::{
    DType, Session, SessionOptions, Shape, ValueInfo, Workspace,
    internals::fork::{Brief, Lock},
};

use super::{
    allocator::Allocator,
    discrete::Discrete,
    failure::{Failure, done, failure, give},
    load::Opened,
    looks::Looks,
    run::{Async, Callback, Pending},
    settings::{MOST_THREADS, Settings},
    tensor::{self, State, TENSORS, Tensor},
    types::{Config, Handle, INPUT, IO_VALUE, Layout, NetworkIo, OUTPUT, kind},
    wish::{Wish, wishes},
};
use crate::{
    boundary,
    handle::{self, Table},
};

static NETWORKS: Table<Network> = Table::new();

/// A `LiteNetwork`.
pub(super) struct Network {
    pub(super) handle: usize,
    pub(super) state: Lock<Inner>,
    /// The run that a thread of the interface's own is at work with, if any.
    pub(super) running: Brief<Option<Arc<Pending>>>,
}

pub(super) struct Inner {
    /// What the program said; a model is loaded by a copy of it.
    pub(super) own: Settings,
    /// What the model that is loaded was loaded by.
    settings: Settings,
    stream_id: c_int,
    workspace: Option<Arc<Workspace>>,
    /// Whether what a packed model says of itself is left aside.
    pub(super) unconfigured: bool,
    /// Whether a model's bytes are kept, to be written again.
    pub(super) keeps_bytes: bool,
    pub(super) loaded: Option<Loaded>,
    pub(super) start: Option<Callback>,
    pub(super) finish: Option<Callback>,
    pub(super) apart: Option<Async>,
    /// What is called in the thread that computes, with that thread's number.
    pub(super) affinity: Option<unsafe extern "C" fn(c_int) -> c_int>,
    /// What gives memory to the tensors of models loaded from now on, if that is the program's.
    pub(super) allocator: Option<Allocator>,
    /// Whether there was a run that nobody waited for.
    pub(super) ran: bool,
    pub(super) looks: Looks,
}

pub(super) struct Loaded {
    pub(super) session: Session,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    /// What a packed model says besides.
    pub(super) extra: CString,
    /// The model as it was loaded, if it is to be kept.
    pub(super) bytes: Option<Arc<[u8]>>,
    /// The input whose samples are tensors of their own, if any.
    pub(super) discrete: Option<Discrete>,
}

/// An input or output of the model, and its tensor.
pub(super) struct Port {
    pub(super) name: CString,
    pub(super) dtype: DType,
    /// Whether the model has a scalar there, which is a tensor of one element.
    pub(super) scalar: bool,
    pub(super) is_host: c_int,
    pub(super) io_type: c_int,
    pub(super) handle: usize,
    pub(super) tensor: Arc<Tensor>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let ports = self.inputs.iter().chain(&self.outputs).map(|port| port.handle);
        let own: Vec<usize> = ports.chain(self.discrete.iter().flat_map(Discrete::handles)).collect();
        TENSORS.take(|handle, _| own.contains(&handle));
    }
}

impl Inner {
    /// # Safety
    /// The texts of the configuration are texts or NULL, and the arrays have so many items.
    pub(super) unsafe fn new(config: &Config, io: &NetworkIo) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let own = unsafe {
            let inputs = wishes("inputs", io.inputs, io.input_size)?;
            Settings::of(config, [inputs, wishes("outputs", io.outputs, io.output_size)?])?
        };
        Ok(Self {
            settings: own.clone(),
            own,
            stream_id: 0,
            workspace: None,
            unconfigured: false,
            keeps_bytes: false,
            loaded: None,
            start: None,
            finish: None,
            apart: None,
            affinity: None,
            allocator: None,
            ran: false,
            looks: Looks::default(),
        })
    }

    pub(super) fn loaded(&mut self) -> Result<&mut Loaded, Failure> {
        self.loaded.as_mut().ok_or_else(|| failure("no model is loaded"))
    }

    pub(super) fn settable(&mut self, what: &str) -> Result<&mut Self, Failure> {
        if self.loaded.is_some() {
            return Err(failure(format!("{what}: a model is loaded already; set it before")));
        }
        Ok(self)
    }

    /// Puts a setting of the program's in force, for what is loaded from now on.
    fn set(&mut self, what: &str, change: impl Fn(&mut Settings)) -> Result<(), Failure> {
        let inner = self.settable(what)?;
        change(&mut inner.own);
        change(&mut inner.settings);
        Ok(())
    }

    pub(super) fn open(&mut self, network: usize, opened: Opened) -> Result<(), Failure> {
        let Opened { model, settings, extra, bytes } = opened;
        let options = SessionOptions {
            threads: if settings.inplace { 1 } else { settings.threads },
            fusion: settings.fusion,
            device: None,
            workspace: self.workspace.clone(),
        };
        let session = Session::of(Arc::clone(&model), &options)?;
        let [given, wanted] = &settings.wishes;
        let place = (network, settings.device_type, settings.device_id);
        let known = model.default_shapes().unwrap_or_default();
        let given = |(index, info)| port(info, given, place, known.get(index), true);
        let inputs = model.inputs().iter().enumerate().map(given).collect::<Result<Vec<_>, _>>()?;
        let outputs = model
            .outputs()
            .iter()
            .map(|info| port(info, wanted, place, None, false))
            .collect::<Result<Vec<_>, _>>()?;
        let mut loaded = Loaded { session, inputs, outputs, extra, bytes, discrete: None };
        loaded.session.profile(self.looks.times());
        if let Some(name) = &settings.discrete {
            loaded.discrete = Some(Discrete::of(name, &loaded.inputs, place)?);
        }
        let device_id = settings.device_id;
        for port in loaded.inputs.iter().chain(&loaded.outputs) {
            port.tensor.state.lock().allocator = self.allocator.map(|own| own.of(device_id));
        }
        if loaded.inputs.iter().all(|port| !port.tensor.state.lock().shape.is_empty()) {
            let shapes = loaded.shapes()?;
            loaded.plan(&shapes)?;
        }
        self.loaded = Some(loaded);
        self.settings = settings;
        self.ran = false;
        Ok(())
    }

    /// What a network that shares this one's weights is loaded with: the model, with that one's own settings but for what tells
    /// how the model was read.
    pub(super) fn shared(&mut self, own: &Settings) -> Result<Opened, Failure> {
        let compressed = self.settings.compressed;
        let loaded = self.loaded()?;
        Ok(Opened {
            model: Arc::clone(loaded.session.model()),
            settings: Settings { compressed, ..own.clone() },
            extra: loaded.extra.clone(),
            bytes: loaded.bytes.clone(),
        })
    }

    /// The threads that compute a run.
    pub(super) fn threads(&self) -> usize {
        if self.settings.inplace { 1 } else { self.settings.threads }
    }

    pub(super) fn inplace(&self) -> bool {
        self.settings.inplace
    }

    pub(super) fn own_outputs(&self) -> bool {
        self.settings.own_outputs
    }
}

impl Loaded {
    fn port(&self, name: &str, phase: c_int) -> Result<&Port, Failure> {
        let ports: Vec<&Port> = match phase {
            INPUT => self.inputs.iter().collect(),
            OUTPUT => self.outputs.iter().collect(),
            0 => self.inputs.iter().chain(&self.outputs).collect(),
            _ => return Err(failure(format!("phase: expected a LiteTensorPhase, got {phase}"))),
        };
        let found = ports.iter().find(|port| port.name.to_bytes() == name.as_bytes());
        found.copied().ok_or_else(|| {
            let names: Vec<_> =
                ports.iter().map(|port| format!("'{}'", port.name.to_string_lossy())).collect();
            failure(format!("there is no tensor '{name}' in the model; there are {}", names.join(", ")))
        })
    }
}

fn port(
    info: &ValueInfo,
    wishes: &[Wish],
    (network, device_type, device_id): (usize, c_int, c_int),
    default: Option<&Shape>,
    is_input: bool,
) -> Result<Port, Failure> {
    let wish = wishes.iter().rev().find(|wish| wish.name == info.name);
    let scalar = info.is_ranked() && info.dims.is_empty();
    // Outputs get theirs when inputs have one.
    let mut shape = match default {
        Some(shape) if shape.is_empty() => vec![1],
        Some(shape) => shape.to_vec(),
        None => Vec::new(),
    };
    if let Some(wish) = wish.filter(|wish| is_input && wish.layout.ndim > 0) {
        shape = wish.layout.shape()?.to_vec();
    }
    if shape.len() > super::types::MAX_DIMS {
        return Err(failure(format!("'{}' has {} axes, which no LiteLayout has", info.name, shape.len())));
    }
    let state = State::new(
        &Layout::new(&shape, kind(&format!("'{}'", info.name), info.dtype)?),
        device_type,
        device_id,
    )?;
    let (handle, tensor) = tensor::of_network(state, network)?;
    Ok(Port {
        name: boundary::c_text(&info.name),
        dtype: info.dtype,
        scalar,
        is_host: wish.map_or(1, |wish| wish.is_host),
        io_type: wish.map_or(IO_VALUE, |wish| wish.io_type),
        handle,
        tensor,
    })
}

pub(super) fn find(name: &str, network: Handle) -> Result<Arc<Network>, Failure> {
    NETWORKS.find(network).ok_or_else(|| {
        let got = if network.is_null() { "NULL" } else { "one that has been destroyed, or never was one" };
        failure(format!("{name}: expected a LiteNetwork, got {got}"))
    })
}

pub(super) fn with(network: Handle, work: impl FnOnce(&mut Inner) -> Result<(), Failure>) -> c_int {
    done(|| work(&mut *find("network", network)?.state.lock()?))
}

/// # Safety
/// As [`Inner::new`]; `network` is NULL or can be written.
unsafe fn make(network: *mut Handle, config: &Config, io: &NetworkIo) -> c_int {
    done(|| {
        if network.is_null() {
            return Err(failure("network: expected a place for the result, got NULL"));
        }
        // SAFETY: the caller's promise.
        let inner = unsafe { Inner::new(config, io) }?;
        let handle =
            NETWORKS.add(|handle| Network { handle, state: Lock::new(inner), running: Brief::new(None) });
        // SAFETY: the caller's promise.
        unsafe { give("network", network, handle::pointer(handle)) }
    })
}

/// `LITE_make_default_network`.
///
/// # Safety
/// `network` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_make_default_network(network: *mut Handle) -> c_int {
    // SAFETY: the caller's promise; the defaults have no texts.
    unsafe { make(network, &Config::DEFAULT, &NetworkIo::DEFAULT) }
}

/// `LITE_make_network`.
///
/// # Safety
/// Texts and arrays are as the header says; `network` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_make_network(
    network: *mut Handle,
    config: Config,
    network_io: NetworkIo,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { make(network, &config, &network_io) }
}

/// `LITE_make_network_config`.
///
/// # Safety
/// Texts are as the header says; `network` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_make_network_config(network: *mut Handle, config: Config) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { make(network, &config, &NetworkIo::DEFAULT) }
}

/// `LITE_destroy_network`, with its tensors: one that is no more is nothing to end.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_destroy_network(network: Handle) -> c_int {
    done(|| {
        if network.is_null() {
            return Err(failure("network: expected a LiteNetwork, got NULL"));
        }
        for gone in NETWORKS.take(|handle, _| handle == network.addr()) {
            // After a run that is under way, whatever came of it.
            let _ = gone.settle();
            gone.state.lock()?.loaded = None;
        }
        Ok(())
    })
}

/// `LITE_share_runtime_memroy`; the name is the vendor's. The one that is loaded gives its memory to the other: the vendor's header
/// names that one first, its library takes it second.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_share_runtime_memroy(src_network: Handle, dst_network: Handle) -> c_int {
    done(|| {
        let (one, other) = (find("src_network", src_network)?, find("dst_network", dst_network)?);
        if Arc::ptr_eq(&one, &other) {
            return Err(failure("share_runtime_memroy: a network cannot share with itself"));
        }
        let first = one.state.lock()?.loaded.is_some();
        let (from, to) = if first { (one, other) } else { (other, one) };
        let workspace = Arc::clone(from.state.lock()?.loaded()?.session.workspace());
        to.state.lock()?.settable("shared memory")?.workspace = Some(workspace);
        Ok(())
    })
}

/// `LITE_get_io_tensor`.
///
/// # Safety
/// `io_name` is NULL or a text, `tensor` NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_io_tensor(
    network: Handle,
    io_name: *const c_char,
    phase: c_int,
    tensor: *mut Handle,
) -> c_int {
    with(network, |inner| {
        // SAFETY: the caller's promise.
        let name = unsafe { boundary::text(io_name) }
            .ok_or_else(|| failure("io_name: expected a name, got NULL"))?;
        let found = inner.loaded()?.port(&name, phase)?.handle;
        // SAFETY: the caller's promise.
        unsafe { give("tensor", tensor, handle::pointer(found)) }
    })
}

fn name(ports: &[Port], index: usize, what: &str) -> Result<*const c_char, Failure> {
    let found = ports.get(index).map(|port| port.name.as_ptr());
    found.ok_or_else(|| failure(format!("there is no {what} {index}: the model has {}", ports.len())))
}

/// # Safety
/// The places are NULL or can be written, for all names.
unsafe fn all_names(ports: &[Port], size: *mut usize, names: *mut *const c_char) -> Result<(), Failure> {
    if !size.is_null() {
        // SAFETY: the caller's promise.
        unsafe { size.write(ports.len()) };
    }
    if !names.is_null() {
        for (index, port) in ports.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { names.add(index).write(port.name.as_ptr()) };
        }
    }
    if size.is_null() && names.is_null() {
        Err(failure("expected a place for the result, got NULL"))
    } else {
        Ok(())
    }
}

macro_rules! names {
    ($($one:ident $all:ident $ports:ident $what:literal;)+) => {
        $(
            #[doc = concat!("`", stringify!($one), "`: the text stays until another model is loaded.\n\n# Safety\n`name` is NULL or can be written.")]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $one(network: Handle, index: usize, place: *mut *const c_char) -> c_int {
                // SAFETY: the caller's promise.
                with(network, |inner| unsafe { give("name", place, name(&inner.loaded()?.$ports, index, $what)?) })
            }

            #[doc = concat!("`", stringify!($all), "`.\n\n# Safety\n`size` is NULL or can be written, `name` NULL or an array for all names.")]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $all(network: Handle, size: *mut usize, name: *mut *const c_char) -> c_int {
                // SAFETY: the caller's promise.
                with(network, |inner| unsafe { all_names(&inner.loaded()?.$ports, size, name) })
            }
        )+
    };
}

names! {
    LITE_get_input_name LITE_get_all_input_name inputs "input";
    LITE_get_output_name LITE_get_all_output_name outputs "output";
}

macro_rules! getters {
    ($($name:ident: $kind:ty = $place:literal, $value:expr;)+) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.\n\n# Safety\nThe place is NULL or can be written.")]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(network: Handle, place: *mut $kind) -> c_int {
                let value: fn(&Inner) -> $kind = $value;
                // SAFETY: the caller's promise.
                with(network, |inner| unsafe { give($place, place, value(inner)) })
            }
        )+
    };
}

getters! {
    LITE_is_cpu_inplace_mode: c_int = "is_cpu_inplace_mode", |inner| c_int::from(inner.settings.inplace);
    LITE_get_cpu_threads_number: usize = "nr_threads", |inner| inner.settings.threads;
    LITE_get_device_id: c_int = "device_id", |inner| inner.settings.device_id;
    LITE_get_stream_id: c_int = "stream_id", |inner| inner.stream_id;
    LITE_get_device_type: c_int = "device_type", |inner| inner.settings.device_type;
}

/// `LITE_set_cpu_inplace_mode`: the thread that calls computes alone.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_set_cpu_inplace_mode(network: Handle) -> c_int {
    with(network, |inner| {
        if inner.apart.is_some() {
            return Err(failure("an async callback and inplace mode exclude each other"));
        }
        inner.set("in-place mode", |settings| settings.inplace = true)
    })
}

/// `LITE_set_cpu_threads_number`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_set_cpu_threads_number(network: Handle, nr_threads: usize) -> c_int {
    with(network, |inner| {
        if !(1..=MOST_THREADS).contains(&nr_threads) {
            return Err(failure(format!("nr_threads: expected 1 to {MOST_THREADS}, got {nr_threads}")));
        }
        inner.set("threads", |settings| settings.threads = nr_threads)
    })
}

/// `LITE_set_device_id`: the host takes any number.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_set_device_id(network: Handle, device_id: c_int) -> c_int {
    with(network, |inner| inner.set("the device", |settings| settings.device_id = device_id))
}

/// `LITE_set_stream_id`: the host takes any number.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_set_stream_id(network: Handle, stream_id: c_int) -> c_int {
    with(network, |inner| {
        inner.settable("the stream")?.stream_id = stream_id;
        Ok(())
    })
}

/// `LITE_set_network_algo_policy`: there is one algorithm for each operator, the same for every run.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_set_network_algo_policy(network: Handle, strategy: c_uint) -> c_int {
    with(network, |_| {
        if (1..16).contains(&strategy) {
            Ok(())
        } else {
            Err(failure(format!("strategy: expected LiteAlgoSelectStrategy, got {strategy}")))
        }
    })
}

/// `LITE_set_network_algo_fastrun_config`: as `LITE_set_network_algo_policy`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_set_network_algo_fastrun_config(
    network: Handle,
    _batch: c_uint,
    _equal: c_int,
) -> c_int {
    with(network, |_| Ok(()))
}

/// `LITE_set_network_algo_workspace_limit`: as `LITE_set_network_algo_policy`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_set_network_algo_workspace_limit(network: Handle, _limit: usize) -> c_int {
    with(network, |_| Ok(()))
}
