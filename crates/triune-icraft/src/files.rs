//! A network's documents in a folder: `<name>_<stage>.json` with its constants in `<name>_<stage>.raw`.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use triune_files::{DATA_LIMIT, FileSet, FolderLock, TEXT_LIMIT};
use triune_graph::{Error as GraphError, format::xir::Document};

use super::Stages;
use crate::Error;

impl Stages {
    /// Writes all documents into a folder, which is made if it is not there, and returns their paths in the order of the
    /// steps. Files of the same names are replaced, all at once.
    ///
    /// # Errors
    /// [`Error::File`] names the file; then those that were there are still there.
    pub fn write(&self, folder: &Path, name: &str) -> Result<Vec<PathBuf>, Error> {
        let mut files = FileSet::create(folder)?;
        let mut paths = Vec::new();
        for (stage, document) in self.documents() {
            let (json, raw) = document.write()?;
            files.add(&format!("{name}_{stage}.raw"), &raw)?;
            files.add(&format!("{name}_{stage}.json"), json.as_bytes())?;
            paths.push(folder.join(format!("{name}_{stage}.json")));
        }
        files.commit()?;
        Ok(paths)
    }
}

/// Reads a document, with the constants in the RAW file beside it if there is one.
///
/// # Errors
/// Name the file; a RAW file that is missing is none.
pub fn read(path: &Path) -> Result<Document, Error> {
    let wrong =
        |source| Error::from(GraphError::File { path: path.display().to_string(), source: Box::new(source) });
    let _lock = FolderLock::to_read(path.parent().unwrap_or(Path::new("")));
    let json = triune_files::read(path, TEXT_LIMIT)?;
    let raw = match triune_files::read(&path.with_extension("raw"), DATA_LIMIT) {
        Ok(raw) => Some(raw.into()),
        Err(error) if error.source().kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    Document::read(&json, raw).map_err(wrong)
}
