//! A network's documents in a folder: `<name>_<stage>.json` with its constants in `<name>_<stage>.raw`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use triune_graph::{Error as GraphError, format::xir::Document};

use super::Stages;
use crate::{Error, package::replace};

impl Stages {
    /// Writes all documents into a folder, which is made if it is not there, and returns their paths in the order of the
    /// steps. Files of the same names are replaced.
    ///
    /// # Errors
    /// [`Error::Io`] names the file.
    pub fn write(&self, folder: &Path, name: &str) -> Result<Vec<PathBuf>, Error> {
        fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
        let mut paths = Vec::new();
        for (stage, document) in self.documents() {
            let (json, raw) = document.write()?;
            let path = folder.join(format!("{name}_{stage}.json"));
            // Last, so that a document has its constants.
            replace(&path.with_extension("raw"), &raw)?;
            replace(&path, json.as_bytes())?;
            paths.push(path);
        }
        Ok(paths)
    }
}

/// Reads a document, with the constants in the RAW file beside it if there is one.
///
/// # Errors
/// Name the file; a RAW file that is missing is none.
pub fn read(path: &Path) -> Result<Document, Error> {
    let wrong = |source| {
        Error::Graph(GraphError::File { path: path.display().to_string(), source: Box::new(source) })
    };
    let json = fs::read(path).map_err(|error| Error::io(path, error))?;
    let raw_path = path.with_extension("raw");
    let raw = match fs::read(&raw_path) {
        Ok(raw) => Some(raw.into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io(&raw_path, error)),
    };
    Document::read(&json, raw).map_err(wrong)
}
