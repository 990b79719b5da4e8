//! Model instances: a model on sub-devices of a connection, and its runs.

use std::{
    ptr, slice,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
};

use triune::{
    CancelToken,
    internals::{
        fork::{Brief, Lock},
        runtime::{self, InstanceOptions, TensorIo},
    },
};

use super::{
    device::{self, Connection, Taken},
    dmabuf::Buffer,
    failure::{Failure, argument},
    model::Model,
    object::{self, Kind},
    properties,
    types::{Argument, Code, Opaque},
};
use crate::boundary;

/// The L2 memory is given out in quarters.
const L2_SHARES: usize = 4;

/// An `axrModelInstance`.
pub(crate) struct Instance {
    model: Arc<Model>,
    input_dmabuf: bool,
    output_dmabuf: bool,
    /// `None` once it is released.
    state: Lock<Option<runtime::Instance>>,
    taken: Brief<Option<Taken>>,
    /// Stops a run that is under way.
    stop: CancelToken,
    released: AtomicBool,
}

/// What an instance is loaded with.
#[expect(clippy::struct_excessive_bools, reason = "the header's properties are flags")]
#[derive(Default)]
struct Settings {
    aipu_cores: usize,
    num_sub_devices: usize,
    input_dmabuf: bool,
    output_dmabuf: bool,
    double_buffer: bool,
    host_profiling: bool,
}

impl Settings {
    fn read(pairs: &[(String, String)]) -> Result<Self, Failure> {
        let mut settings = Self::default();
        for (name, value) in pairs {
            let count = || {
                let wrong = || argument(format!("{name}: expected a number of at least 0, got '{value}'"));
                value.parse::<usize>().map_err(|_| wrong())
            };
            let flag = || match value.as_str() {
                "0" => Ok(false),
                "1" => Ok(true),
                _ => Err(argument(format!("{name}: expected 0 or 1, got '{value}'"))),
            };
            match name.as_str() {
                "aipu_cores" => settings.aipu_cores = count()?,
                "num_sub_devices" => settings.num_sub_devices = count()?,
                "input_dmabuf" => settings.input_dmabuf = flag()?,
                "output_dmabuf" => settings.output_dmabuf = flag()?,
                "double_buffer" => settings.double_buffer = flag()?,
                "host_profiling" => settings.host_profiling = flag()?,
                // The header has no function that says what was measured, and programs hold no ELF files here.
                "device_profiling" | "elf_in_ddr" => _ = flag()?,
                _ => {
                    return Err(argument(format!(
                        "unknown property '{name}'; valid are aipu_cores, num_sub_devices, input_dmabuf, device_profiling, \
                         host_profiling, output_dmabuf, double_buffer, elf_in_ddr"
                    )));
                }
            }
        }
        Ok(settings)
    }
}

impl Instance {
    fn new(connection: &Arc<Connection>, model: &Arc<Model>, settings: &Settings) -> Result<Self, Failure> {
        let program = model.package.program();
        let or = |given: usize, usual: usize| if given == 0 { usual } else { given };
        let count = or(settings.num_sub_devices, program.batch);
        let shares = or(settings.aipu_cores, count.min(L2_SHARES));
        if !(1..=L2_SHARES).contains(&shares) {
            return Err(argument(format!("aipu_cores: expected 0 to {L2_SHARES}, got {shares}")));
        }
        if count < program.batch {
            return Err(argument(format!(
                "num_sub_devices: expected at least {}, the model's batch size, got {count}",
                program.batch
            )));
        }
        let card = &connection.card;
        if !card.spec().takes(&program.target) {
            let cure = if program.device.is_some() {
                "; TRIUNE_CARDS=FILE.toml makes a card of its device file"
            } else {
                ""
            };
            return Err(Failure::new(
                Code::IncompatibleDevice,
                format!(
                    "<Model '{}'> is compiled for {}, {} is a {}{cure}",
                    model.path.display(),
                    program.target,
                    card.spec().name,
                    card.spec().device
                ),
            ));
        }
        let taken = connection.take(count)?;
        if card.settings()?.is_pending() {
            return Err(device::pending(card));
        }
        let options = InstanceOptions {
            cores: taken.sub_devices.iter().map(|&index| index as u32).collect(),
            threads: 0,
            double_buffer: settings.double_buffer,
            host_profiling: settings.host_profiling,
            constants_percent: (100 * shares / L2_SHARES) as u32,
            realtime: None,
        };
        let instance = runtime::Instance::new(card, &model.package, options)?;
        Ok(Self {
            model: Arc::clone(model),
            input_dmabuf: settings.input_dmabuf,
            output_dmabuf: settings.output_dmabuf,
            state: Lock::new(Some(instance)),
            taken: Brief::new(Some(taken)),
            stop: CancelToken::new(),
            released: AtomicBool::new(false),
        })
    }

    /// Stops a run that is under way, and gives back what the instance has.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Release);
        self.stop.cancel();
        // In a child of a fork that came upon a run, it is the other process's.
        if let Ok(mut state) = self.state.lock() {
            *state = None;
        }
        let taken = self.taken.lock().take();
        drop(taken);
    }

    /// # Safety
    /// What the arguments point at can be read, and of the outputs written, by nobody else meanwhile.
    unsafe fn run(&self, inputs: &[Argument], outputs: &[Argument]) -> Result<(), Failure> {
        let program = self.model.package.program();
        // SAFETY: the caller's promise.
        let (mut given, mut wanted) = unsafe {
            (
                places("inputs", inputs, &program.taken().collect::<Vec<_>>(), self.input_dmabuf, false)?,
                places(
                    "outputs",
                    outputs,
                    &program.results().iter().collect::<Vec<_>>(),
                    self.output_dmabuf,
                    true,
                )?,
            )
        };
        apart(&given, &wanted)?;
        // SAFETY: the caller's promise; the outputs lie apart from all others.
        let (sources, mut targets) = unsafe {
            let sources: Vec<&[u8]> = given.iter_mut().map(|place| &*place.bytes()).collect();
            (sources, wanted.iter_mut().map(|place| place.bytes()).collect::<Vec<&mut [u8]>>())
        };
        let mut state = self.state.lock()?;
        if self.state.is_poisoned() {
            // A run that panicked may have left anything behind.
            return Err(Failure::new(Code::InternalError, "an earlier run failed midway"));
        }
        let released = || argument("instance: expected an object, got one that has been destroyed");
        let running = state.as_mut().ok_or_else(released)?;
        let done = self.stop.during(|| running.run(&sources, &mut targets));
        if self.released.load(Ordering::Acquire) {
            return Err(released());
        }
        done?;
        drop(state);
        wanted.iter_mut().try_for_each(Place::put_back)
    }
}

/// Where a tensor lies: in the program's memory, or behind a descriptor.
struct Place {
    memory: Memory,
}

enum Memory {
    Host(*mut u8, usize),
    Buffer(Buffer),
}

impl Place {
    /// # Safety
    /// The program's memory is there, and nobody else writes it.
    unsafe fn bytes(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Host(start, 0) => {
                let _: &*mut u8 = start;
                &mut []
            }
            // SAFETY: the caller's promise.
            Memory::Host(start, size) => unsafe { slice::from_raw_parts_mut(*start, *size) },
            Memory::Buffer(buffer) => buffer.bytes(),
        }
    }

    fn put_back(&mut self) -> Result<(), Failure> {
        if let Memory::Buffer(buffer) = &mut self.memory { buffer.put_back() } else { Ok(()) }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (&self.memory, &other.memory) {
            (Memory::Host(a, n), Memory::Host(b, m)) => {
                let (a, b) = (a.addr(), b.addr());
                a < b.saturating_add(*m) && b < a.saturating_add(*n)
            }
            (Memory::Buffer(one), Memory::Buffer(other)) => one.identity == other.identity,
            _ => false,
        }
    }
}

/// # Safety
/// As [`Instance::run`].
unsafe fn places(
    what: &str,
    arguments: &[Argument],
    ios: &[&TensorIo],
    dmabuf: bool,
    write: bool,
) -> Result<Vec<Place>, Failure> {
    if arguments.len() != ios.len() {
        let names: Vec<_> = ios.iter().map(|io| io.name.as_str()).collect();
        let (count, got) = (ios.len(), arguments.len());
        return Err(argument(format!("{what}: expected {count} ({}), got {got}", names.join(", "))));
    }
    let place = |(index, (given, &io)): (usize, (&Argument, &&TensorIo))| {
        let (name, size) = (format!("{what}[{index}]"), io.bytes());
        if given.offset != 0 {
            return Err(argument(format!("{name}.offset: expected 0, got {}", given.offset)));
        }
        if given.size != 0 && given.size != size {
            let tensor = &io.name;
            return Err(argument(format!(
                "{name}.size: expected {size} bytes for tensor '{tensor}', got {}",
                given.size
            )));
        }
        let memory = if dmabuf {
            if given.fd <= 0 {
                let got = given.fd;
                return Err(argument(format!("{name}.fd: expected a dma-buf file descriptor, got {got}")));
            }
            Memory::Buffer(Buffer::open(&name, given.fd, &io.name, size, write)?)
        } else if given.ptr.is_null() {
            let cure = if given.fd > 0 {
                format!(
                    "; a model instance loaded with {}_dmabuf=1 takes descriptors",
                    &what[..what.len() - 1]
                )
            } else {
                String::new()
            };
            return Err(argument(format!(
                "{name}.ptr: expected {size} bytes for tensor '{}', got NULL{cure}",
                io.name
            )));
        } else {
            Memory::Host(given.ptr.cast(), size)
        };
        Ok(Place { memory })
    };
    arguments.iter().zip(ios).enumerate().map(place).collect()
}

/// Refuses outputs that lie in an input's memory, or another output's.
fn apart(inputs: &[Place], outputs: &[Place]) -> Result<(), Failure> {
    for (index, output) in outputs.iter().enumerate() {
        if inputs.iter().chain(&outputs[..index]).any(|other| output.overlaps(other)) {
            return Err(argument(format!(
                "outputs[{index}]: expected memory that nobody else uses, got some that is given twice"
            )));
        }
    }
    Ok(())
}

/// `axr_load_model_instance`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_load_model_instance(
    connection: *mut Opaque,
    model: *mut Opaque,
    properties: *mut Opaque,
) -> *mut Opaque {
    object::with(
        "connection",
        connection,
        |_| ptr::null_mut(),
        |object| {
            let connection = object.connection("connection")?;
            let found = object::find("model", model)?;
            let model = found.model("model")?;
            if found.context.handle != object.context.handle {
                return Err(argument(
                    "model: expected a Model of this connection's Context, got another context's",
                ));
            }
            let settings = Settings::read(&properties::pairs(properties)?)?;
            Ok(object.make(Kind::Instance(Box::new(Instance::new(connection, model, &settings)?))))
        },
    )
}

/// `axr_run_model_instance`.
///
/// # Safety
/// The arrays have so many arguments, and what these point at can be read, and of the outputs written, by nobody else meanwhile.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_run_model_instance(
    instance: *mut Opaque,
    inputs: *mut Argument,
    num_inputs: usize,
    output: *mut Argument,
    num_outputs: usize,
) -> Code {
    object::with(
        "instance",
        instance,
        |code| code,
        |object| {
            let instance = object.instance("instance")?;
            let none = |what: &str, count| {
                argument(format!("{what}: expected an array of {count} axrArgument, got NULL"))
            };
            // SAFETY: the caller's promise.
            let (given, wanted) =
                unsafe { (boundary::array(inputs, num_inputs), boundary::array(output, num_outputs)) };
            let given = given.ok_or_else(|| none("inputs", num_inputs))?;
            let wanted = wanted.ok_or_else(|| none("output", num_outputs))?;
            // SAFETY: the caller's promise.
            unsafe { instance.run(given, wanted) }?;
            Ok(Code::Success)
        },
    )
}
