//! Writing several files of a folder as one.

use std::{
    fs::{self, File, Metadata},
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    Error, FolderLock, journal,
    output::{Output, is_part, refuse_direct},
    system,
};

/// Files of a folder that belong together: nobody sees one of them before [`FileSet::commit`], and from then on all. Dropped before
/// that, it leaves nothing behind.
///
/// Other files of the folder stay. Of two processes that write the same files at once, one has them all.
#[derive(Debug)]
pub struct FileSet {
    folder: PathBuf,
    outputs: Vec<Output>,
    /// Whether the folder was not there before.
    made: bool,
}

impl FileSet {
    /// Starts to write into a folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot be made.
    pub fn create(folder: &Path) -> Result<Self, Error> {
        let made = !folder.exists();
        let fail = Error::write(folder);
        fs::create_dir_all(folder).map_err(&fail)?;
        Ok(Self { folder: folder.canonicalize().map_err(&fail)?, outputs: Vec::new(), made })
    }

    /// Writes a file of that name, which has to be none of those before.
    ///
    /// # Errors
    /// [`Error::Write`], also for devices and pipes.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.folder.join(name);
        let mut output = Output::create(&path)?;
        refuse_direct(&output)?;
        output.write_all(bytes).map_err(Error::write(&path))?;
        output.sync()?;
        self.outputs.push(output);
        Ok(())
    }

    /// Gives all files their names. The lock that comes back keeps other writers out, so that what was written can be read.
    ///
    /// # Errors
    /// [`Error::Write`]; then what was there is still there, unless a folder or a file is of a kind that lets itself be written but
    /// not replaced.
    pub fn commit(mut self) -> Result<FolderLock, Error> {
        let lock = FolderLock::to_write(&self.folder)?;
        journal::recover(&self.folder)?;
        journal::begin(&self.folder, &self.outputs)?;
        let put = self.outputs.iter_mut().try_for_each(Output::put);
        journal::end(&self.folder)?;
        put?;
        self.made = false;
        sweep(&self.folder);
        Ok(lock)
    }
}

impl Drop for FileSet {
    fn drop(&mut self) {
        self.outputs.clear();
        if self.made {
            // Unless somebody else has put something into it.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Removes what killed processes left in a folder: parts that nobody holds. What cannot be removed does no harm.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| is_part(&entry.file_name())) {
        let opened = system::unfollowing(File::options().write(true)).open(entry.path());
        let Ok(file) = opened else { continue };
        let is_own = |found: Metadata| found.is_file() && system::owner_id(&found) == system::user_id();
        let own = file.metadata().is_ok_and(is_own);
        // Held until it is gone: who has just made it and not locked it yet sees that it was taken.
        if own && file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn set(folder: &Path, text: &[u8]) -> FileSet {
        let mut set = FileSet::create(folder).unwrap();
        for name in ["a", "b", "c"] {
            set.add(name, text).unwrap();
        }
        set
    }

    /// What a process leaves that is killed when `renamed` files have their names.
    fn killed(folder: &Path, text: &[u8], renamed: usize) {
        let mut set = set(folder, text);
        journal::begin(&set.folder, &set.outputs).unwrap();
        set.outputs[..renamed].iter_mut().for_each(|output| output.put().unwrap());
        for output in set.outputs.drain(renamed..) {
            output.abandon();
        }
    }

    fn contents(folder: &Path) -> Vec<Vec<u8>> {
        ["a", "b", "c"].map(|name| read(&folder.join(name), 100).unwrap()).to_vec()
    }

    #[test]
    fn a_kill_between_the_renames_leaves_the_new_files() {
        for renamed in 0..=3 {
            let folder = tempfile::tempdir().unwrap();
            set(folder.path(), b"old").commit().unwrap();
            killed(folder.path(), b"new", renamed);
            assert_eq!(contents(folder.path()), [b"new"; 3], "{renamed} renamed");
            // The next writer goes on where the other one stopped, and clears up.
            let mut other = FileSet::create(folder.path()).unwrap();
            other.add("d", b"other").unwrap();
            other.commit().unwrap();
            let mut names: Vec<_> =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["a", "b", "c", "d"]);
            for name in ["a", "b", "c"] {
                assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"new");
            }
        }
    }

    #[test]
    fn a_kill_before_the_renames_leaves_the_old_files() {
        let folder = tempfile::tempdir().unwrap();
        set(folder.path(), b"old").commit().unwrap();
        for output in set(folder.path(), b"new").outputs.drain(..) {
            output.abandon();
        }
        assert_eq!(contents(folder.path()), [b"old"; 3]);
        set(folder.path(), b"next").commit().unwrap();
        assert_eq!(contents(folder.path()), [b"next"; 3]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn parts_of_those_who_write_now_stay() {
        let folder = tempfile::tempdir().unwrap();
        let slow = set(folder.path(), b"slow");
        set(folder.path(), b"fast").commit().unwrap();
        slow.commit().unwrap();
        assert_eq!(contents(folder.path()), [b"slow"; 3]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_a_link_is_found_under_its_new_content() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let real = other.path().canonicalize().unwrap().join("real");
        fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink(&real, folder.path().join("a")).unwrap();
        killed(folder.path(), b"new", 0);
        assert_eq!(contents(folder.path()), [b"new"; 3]);
        // One that the list does not have is what it is.
        fs::write(folder.path().join("e"), b"other").unwrap();
        assert_eq!(read(&folder.path().join("e"), 100).unwrap(), b"other");
        set(folder.path(), b"next").commit().unwrap();
        assert_eq!(
            (fs::read(&real).unwrap().as_slice(), contents(folder.path())),
            (&b"next"[..], vec![b"next".to_vec(); 3])
        );
    }

    #[cfg(unix)]
    #[test]
    fn parts_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let part = |name: &str| folder.path().join(format!(".{name}.1-0.part"));
        fs::write(part("own"), b"").unwrap();
        fs::write(part("other"), b"").unwrap();
        if std::os::unix::fs::chown(part("other"), Some(65534), None).is_err() {
            println!("skipped: only root gives files away");
            return;
        }
        set(folder.path(), b"new").commit().unwrap();
        assert_eq!((part("own").exists(), part("other").exists()), (false, true));
    }

    #[cfg(unix)]
    #[test]
    fn a_list_that_is_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        set(folder.path(), b"old").commit().unwrap();
        killed(folder.path(), b"new", 0);
        let list = folder.path().join(".triune-renames");
        fs::rename(&list, folder.path().join("list")).unwrap();
        std::os::unix::fs::symlink("list", &list).unwrap();
        assert_eq!(contents(folder.path()), [b"old"; 3]);
    }

    #[cfg(unix)]
    #[test]
    fn a_part_that_cannot_have_its_name_goes() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let real = other.path().canonicalize().unwrap().join("real");
        fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink(&real, folder.path().join("a")).unwrap();
        killed(folder.path(), b"new", 0);
        // Something else has the name meanwhile.
        fs::remove_file(&real).unwrap();
        fs::create_dir(&real).unwrap();
        fs::remove_file(folder.path().join("a")).unwrap();
        set(folder.path(), b"next").commit().unwrap();
        assert_eq!(contents(folder.path()), [b"next"; 3]);
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_list_of_somebody_else_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        set(folder.path(), b"old").commit().unwrap();
        killed(folder.path(), b"new", 0);
        let list = folder.path().join(".triune-renames");
        if std::os::unix::fs::chown(&list, Some(65534), None).is_err() {
            println!("skipped: only root gives files away");
            return;
        }
        assert_eq!(contents(folder.path()), [b"old"; 3]);
    }

    #[cfg(unix)]
    #[test]
    fn a_part_that_is_a_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (link, real) = (folder.path().join(".net.1-0.part"), folder.path().join("real"));
        fs::write(&real, b"").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        set(folder.path(), b"new").commit().unwrap();
        assert!(fs::symlink_metadata(&link).is_ok());
    }

    #[test]
    fn a_set_that_is_given_up_leaves_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a/b");
        drop(set(&new, b"new"));
        assert!(!new.exists() && folder.path().join("a").exists());
    }
}
