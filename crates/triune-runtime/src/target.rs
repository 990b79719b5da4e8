//! What a target names: a device that comes with Triune, or the file with the description of one's own.

use std::path::Path;

use triune_device::{
    DeviceSpec,
    spec::{MAX_TEXT, Problem},
};
use triune_tensor::text::Name;

use crate::Error;

/// Whether a target is the path of a file: it has a separator or ends in `.toml`; everything else is a name.
pub fn is_file(target: &Path) -> bool {
    target.extension().is_some_and(|end| end == "toml")
        || target.as_os_str().as_encoded_bytes().contains(&b'/')
}

/// The device that a target names: one that comes with Triune, or the one that a file describes.
///
/// # Errors
/// [`Error::File`]; [`Error::Target`](triune_compiler::Error::Argument) names the file, the line and the key, what is there,
/// what can be, and the cure.
pub fn device(target: &Path) -> Result<DeviceSpec, Error> {
    if is_file(target) {
        return match problems(target)? {
            Ok(spec) => Ok(spec),
            Err(problems) => Err(Error::argument(told(target, &problems))),
        };
    }
    let name = target.to_string_lossy();
    match DeviceSpec::builtin(&name) {
        Ok(spec) => Ok(spec),
        // The usual slip: a file in this folder, without its path or its ending.
        Err(_) if target.is_file() => Err(Error::argument(format!(
            "target: '{0}' is no device that comes with Triune; for the file of that name say ./{0}",
            Name(&name)
        ))),
        Err(error) => Err(error.into()),
    }
}

/// The description in a file, or all that is wrong with it.
///
/// # Errors
/// [`Error::File`] if it cannot be read, is no plain file, or longer than any description.
pub fn problems(file: &Path) -> Result<Result<DeviceSpec, Vec<Problem>>, Error> {
    let text = triune_files::read_text(file, MAX_TEXT)?;
    Ok(DeviceSpec::own(&text))
}

/// The first problem of a file, and how many more there are.
pub(crate) fn told(file: &Path, problems: &[Problem]) -> String {
    let file = file.to_string_lossy();
    let Some(Problem { line, key, problem }) = problems.first() else {
        return format!("{}: is wrong", Name(&file));
    };
    let line = line.map_or_else(String::new, |line| format!("{line}:"));
    let more = match problems.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more: triune device check {})", Name(&file)),
    };
    format!("{}:{line} {key}: {problem}{more}", Name(&file))
}
