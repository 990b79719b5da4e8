//! What holds on every system.

use std::{fs, io::Write, path::Path};

use triune_files::{
    Error, FileSet, FolderLock, Input, Output, append, open_state, owner, read, read_secret, read_text,
    write, write_state,
};

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_whole_or_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("näme");
    write(&path, b"old").unwrap();
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"new").unwrap();
    assert_eq!(read(&path, 10).unwrap(), b"old");
    assert_eq!(names(folder.path()).len(), 2);
    drop(output);
    assert_eq!((read(&path, 10).unwrap(), names(folder.path()).len()), (b"old".to_vec(), 1));
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"new").unwrap();
    // Who has it open goes on reading what was there.
    let before = Input::open(&path, 10).unwrap();
    output.commit().unwrap();
    assert_eq!(before.read().unwrap(), b"old");
    append(&path, b"er").unwrap();
    assert_eq!(read_text(&path, 10).unwrap(), "newer");
    assert_eq!(names(folder.path()), ["näme"]);
}

#[test]
fn what_is_written_can_be_read_before_its_writer_goes() {
    let folder = tempfile::tempdir().unwrap();
    let mut set = FileSet::create(&folder.path().join("new/deep")).unwrap();
    for name in ["a", "b"] {
        set.add(name, name.as_bytes()).unwrap();
    }
    let lock = set.commit().unwrap();
    let path = folder.path().join("new").join("deep");
    assert_eq!(
        (names(&path), read(&path.join("b"), 10).unwrap()),
        (vec!["a".into(), "b".into()], b"b".to_vec())
    );
    drop(lock);
    drop(FolderLock::to_read(&path));
}

#[test]
fn what_is_no_plain_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read(folder.path(), 10), Err(Error::Read { .. })));
    assert!(matches!(write(folder.path(), b""), Err(Error::Write { .. })));
    assert!(matches!(read(&folder.path().join("none"), 10), Err(Error::Read { .. })));
    let path = folder.path().join("long");
    write(&path, &[0; 11]).unwrap();
    let error = read(&path, 10).unwrap_err().to_string();
    assert!(error.contains("it has 11 bytes, more than the 10"), "{error}");
}

#[test]
fn a_change_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    write(&path, b"old").unwrap();
    let input = Input::open(&path, 10).unwrap();
    input.check_unchanged().unwrap();
    append(&path, b"er").unwrap();
    assert!(input.check_unchanged().is_err());
}

#[test]
fn a_lock_is_one_holders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let (one, other) = (open_state(&path).unwrap(), open_state(&path).unwrap());
    one.lock().unwrap();
    assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
    one.unlock().unwrap();
    other.try_lock().unwrap();
    write_state(&folder.path().join("words"), b"mine").unwrap();
    write_state(&folder.path().join("words"), b"yours").unwrap();
    assert_eq!(read_text(&folder.path().join("words"), 10).unwrap(), "yours");
}

#[test]
fn a_secret_is_its_owners_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    write(&path, b"word").unwrap();
    owner::make_private(&folder.path().join("own/deep")).unwrap();
    if owner::user_id().is_none() {
        let error = read_secret(&path, 10).unwrap_err().to_string();
        assert!(error.contains("TRIUNE_TOKEN"), "{error}");
        return;
    }
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(owner::owner_id(&metadata), owner::user_id());
    let mode = owner::mode(&metadata).unwrap();
    assert_eq!(read_secret(&path, 10).is_ok(), mode.is_multiple_of(0o100), "{mode:o}");
}
