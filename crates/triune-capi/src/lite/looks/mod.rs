//! What a program can look at inside a network: its operators' times, its intermediate results, the plan of its memory.

mod drawing;
mod dumps;
mod memory;
mod numbers;
mod profile;

use std::{
    ffi::{c_char, c_int},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use triune::internals::files;

use self::{
    drawing::Drawing,
    dumps::Dump,
    memory::{Border, described, picture, static_info},
};
use super::{
    failure::{Failure, failure, path},
    network::{Inner, Loaded, with},
    types::Handle,
};

/// What is looked at, of every model that is loaded.
#[derive(Default)]
pub(super) struct Looks {
    /// Where the times of a run go when it has been waited for.
    profile: Option<PathBuf>,
    /// Where the results go when it has ended.
    dumps: Vec<Dump>,
}

impl Looks {
    /// Whether operators are to be timed.
    pub(super) fn times(&self) -> bool {
        self.profile.is_some()
    }
}

impl Inner {
    /// Writes the results of the run that has just been.
    pub(super) fn dump(&mut self) -> Result<(), Failure> {
        if self.looks.dumps.is_empty() {
            return Ok(());
        }
        let loaded = self.loaded()?;
        let shapes = loaded.shapes()?;
        let mut operands = loaded.operands()?;
        let results = loaded.session.trace(&operands.refs(&loaded.inputs, &shapes)?)?;
        self.looks.dumps.iter().try_for_each(|dump| dump.take(&results))
    }

    /// Writes the times of the run that has been waited for.
    pub(super) fn write_profile(&mut self) -> Result<(), Failure> {
        let Some(file) = self.looks.profile.clone() else { return Ok(()) };
        let session = &self.loaded()?.session;
        let content = profile::content(session.outline(), &session.operator_times());
        write("enable_profile_performance", &file, pretty(&content).as_bytes())
    }
}

impl Loaded {
    fn write_memory(&mut self, folder: &Path) -> Result<(), Failure> {
        const WHAT: &str = "get_static_memory_alloc_info";
        let shapes = self.shapes()?;
        self.plan(&shapes)?;
        let plan = self.session.memory_plan(&shapes)?;
        let results = self.session.prepare(&shapes)?;
        let inputs: Vec<Border> = self
            .session
            .inputs()
            .iter()
            .zip(&shapes)
            .map(|(info, shape)| {
                (info.name.clone(), Some(shape.iter().product::<usize>() * info.dtype.bytes()))
            })
            .collect();
        let outputs: Vec<Border> = self
            .session
            .outputs()
            .iter()
            .zip(results)
            .map(|(info, known)| {
                let bytes = known.map(|(dtype, shape)| shape.iter().product::<usize>() * dtype.bytes());
                (info.name.clone(), bytes)
            })
            .collect();
        fs::create_dir_all(folder)
            .map_err(|error| failure(format!("{WHAT}: cannot make '{}': {error}", folder.display())))?;
        let drawing = Drawing::of(self.session.outline());
        write(WHAT, &folder.join("memory.json"), pretty(&described(&plan, &inputs, &outputs)).as_bytes())?;
        write(WHAT, &folder.join("memory.svg"), picture(&plan).as_bytes())?;
        write(WHAT, &folder.join("StaticMemoryInfo.json"), pretty(&static_info(&plan)).as_bytes())?;
        write(WHAT, &folder.join("graph.json"), pretty(&drawing.content()).as_bytes())
    }
}

fn pretty(content: &Value) -> String {
    format!("{content:#}")
}

fn write(what: &str, file: &Path, content: &[u8]) -> Result<(), Failure> {
    files::write(file, content).map_err(|error| failure(format!("{what}: {error}")))
}

/// `LITE_enable_profile_performance`: every operator is timed from now on, and the times are written at each `LITE_wait` behind a run.
///
/// # Safety
/// `profile_json_file_path` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_enable_profile_performance(
    network: Handle,
    profile_json_file_path: *const c_char,
) -> c_int {
    with(network, |inner| {
        // SAFETY: the caller's promise.
        let file = unsafe { path("profile_json_file_path", profile_json_file_path) }?;
        if let Some(loaded) = &mut inner.loaded {
            loaded.session.profile(true);
        }
        inner.looks.profile = Some(file.to_owned());
        Ok(())
    })
}

/// `LITE_enable_io_txt_dump`: all results of each run from now on.
///
/// # Safety
/// `io_txt_out_file` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_enable_io_txt_dump(
    network: Handle,
    io_txt_out_file: *const c_char,
) -> c_int {
    with(network, |inner| {
        // SAFETY: the caller's promise.
        let file = unsafe { path("io_txt_out_file", io_txt_out_file) }?;
        inner.looks.dumps.push(Dump::text(file)?);
        Ok(())
    })
}

/// `LITE_enable_io_bin_dump`: as [`LITE_enable_io_txt_dump`], a file for each result, in a directory that is there.
///
/// # Safety
/// `io_bin_out_dir` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_enable_io_bin_dump(
    network: Handle,
    io_bin_out_dir: *const c_char,
) -> c_int {
    with(network, |inner| {
        // SAFETY: the caller's promise.
        let folder = unsafe { path("io_bin_out_dir", io_bin_out_dir) }?;
        inner.looks.dumps.push(Dump::binary(folder)?);
        Ok(())
    })
}

/// `LITE_get_static_memory_alloc_info`: the plan for the layouts that the inputs have now, in a directory that is made if need be.
///
/// # Safety
/// `log_dir` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_static_memory_alloc_info(
    network: Handle,
    log_dir: *const c_char,
) -> c_int {
    with(network, |inner| {
        // SAFETY: the caller's promise.
        let folder = unsafe { path("log_dir", log_dir) }?;
        inner.loaded()?.write_memory(folder)
    })
}
