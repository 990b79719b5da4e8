//! Faults are planted: full disks, kills, links, modes, devices, and files without end.
#![cfg(target_os = "linux")]

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use triune_files::{
    FileSet, FolderLock, Input, Output, append, open_state, read, read_secret, read_text, write, write_state,
};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The names in a folder, hidden ones included.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// This test's program again, to do `role` in a folder: what a test does to it must not happen to the tests.
fn helper(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "as_helper", "--nocapture"]).env("ROLE", role).env("FOLDER", folder);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a helper through a shell that does `first`.
fn helper_behind(first: &str, role: &str, folder: &Path) -> String {
    let exe = env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("{first}; exec '{}' --exact as_helper --nocapture", exe.display())])
        .envs([("ROLE", role.as_ref()), ("FOLDER", folder.as_os_str())])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const SET: [&str; 4] = ["a", "b", "c", "d"];
const BIG: usize = 1 << 20;

#[test]
fn as_helper() {
    let (Ok(role), Some(folder)) = (env::var("ROLE"), env::var_os("FOLDER").map(PathBuf::from)) else {
        println!("skipped: other tests run this one as a process of its own");
        return;
    };
    let big = |byte: u8| vec![byte; BIG];
    match role.as_str() {
        "write" => {
            println!("result: {:?}", write(&folder.join("file"), &big(b'n')).map_err(|e| e.to_string()));
        }
        "append" => {
            let result = append(&folder.join("file"), &big(b'n'));
            println!("result: {:?}", result.map_err(|e| e.to_string()));
        }
        "devices" => {
            for name in ["null", "full"] {
                let result = write(&Path::new("/dev").join(name), b"x").map_err(|e| e.to_string());
                println!("{name}: {result:?}");
            }
        }
        "secret" => {
            println!("result: {:?}", read_secret(&folder.join("file"), 100).map_err(|e| e.to_string()));
        }
        "lock" => {
            std::env::set_current_dir(&folder).unwrap();
            let lock = FolderLock::to_read(Path::new(""));
            let is_locked = || fs::File::open(&folder).unwrap().try_lock().is_err();
            let held = is_locked();
            drop(lock);
            println!("held: {held}, then {}", is_locked());
        }
        "set" => {
            let mut set = FileSet::create(&folder).unwrap();
            let result = SET
                .iter()
                .try_for_each(|name| set.add(name, &big(b'n')))
                .and_then(|()| set.commit().map(drop));
            println!("result: {:?}", result.map_err(|e| e.to_string()));
        }
        "sets" => {
            for count in 0_u64.. {
                let mut set = FileSet::create(&folder).unwrap();
                let text = format!("{}-{count} ", std::process::id()).repeat(2000);
                for name in SET {
                    set.add(name, text.as_bytes()).unwrap();
                }
                set.commit().unwrap();
                println!("written");
            }
        }
        other => panic!("no role {other}"),
    }
}

#[test]
fn what_is_written_is_there_and_nothing_else() {
    let folder = folder();
    let path = folder.path().join("file");
    write(&path, b"old").unwrap();
    write(&path, b"new").unwrap();
    assert_eq!(
        (fs::read(&path).unwrap().as_slice(), names(folder.path())),
        (&b"new"[..], vec!["file".to_owned()])
    );
    append(&path, b"er").unwrap();
    append(&path, b"").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"newer");
    write(&path, b"new").unwrap();
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"half").unwrap();
    drop(output);
    assert_eq!(
        (fs::read(&path).unwrap().as_slice(), names(folder.path())),
        (&b"new"[..], vec!["file".to_owned()])
    );
    let long = folder.path().join("n".repeat(255));
    write(&long, b"long").unwrap();
    assert_eq!(fs::read(&long).unwrap(), b"long");
}

#[test]
fn errors_name_the_file_and_the_reason() {
    let folder = folder();
    let at = folder.path().join("none/file");
    let expected =
        format!("cannot write {}: there is no folder {}", at.display(), at.parent().unwrap().display());
    assert_eq!(write(&at, b"").unwrap_err().to_string(), expected);
    let error = write(folder.path(), b"").unwrap_err().to_string();
    assert_eq!(error, format!("cannot write {}: Is a directory", folder.path().display()));
    let error = read(&at, 1).unwrap_err().to_string();
    assert_eq!(error, format!("cannot read {}: No such file or directory", at.display()));
}

#[test]
fn links_are_written_through() {
    let folder = folder();
    let (real, first, second) =
        (folder.path().join("deep/real"), folder.path().join("first"), folder.path().join("second"));
    fs::create_dir(folder.path().join("deep")).unwrap();
    fs::write(&real, "old").unwrap();
    symlink("deep/real", &first).unwrap();
    symlink(&first, &second).unwrap();
    write(&second, b"new").unwrap();
    assert_eq!(fs::read(&real).unwrap(), b"new");
    assert!([&first, &second].iter().all(|link| fs::symlink_metadata(link).unwrap().is_symlink()));
    // One that leads to no file makes it.
    fs::remove_file(&real).unwrap();
    write(&second, b"again").unwrap();
    assert_eq!(fs::read(&real).unwrap(), b"again");
    symlink("loop", folder.path().join("loop")).unwrap();
    assert!(write(&folder.path().join("loop"), b"").unwrap_err().to_string().contains("too many links"));
    assert_eq!(names(&folder.path().join("deep")), ["real"]);
}

#[test]
fn modes_stay_and_new_files_have_the_masks() {
    let folder = folder();
    let path = folder.path().join("file");
    for kept in [0o600, 0o640, 0o755, 0o666] {
        fs::write(&path, "old").unwrap();
        set_mode(&path, kept);
        write(&path, b"new").unwrap();
        assert_eq!(mode(&path), kept, "{kept:o}");
    }
    for mask in ["077", "022", "000"] {
        let text = helper_behind(&format!("umask {mask}"), "set", folder.path());
        assert!(text.contains("result: Ok"), "{text}");
        assert_eq!(mode(&folder.path().join("a")), 0o666 & !u32::from_str_radix(mask, 8).unwrap());
        fs::remove_file(folder.path().join("a")).unwrap();
    }
}

#[test]
fn owners_stay() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    if std::os::unix::fs::chown(&path, Some(65534), Some(65534)).is_err() {
        println!("skipped: only root gives files away");
        return;
    }
    write(&path, b"new").unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid()), (65534, 65534));
}

/// What a helper says that is another user, with another group or with root's.
fn as_nobody(role: &str, folder: &Path, group: Option<u32>) -> Option<String> {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return None;
    }
    let mut command = helper(role, folder);
    command.uid(65534);
    group.map(|group| command.gid(group));
    let output = command.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Who cannot keep the group leaves it no right that another group would get instead.
#[test]
fn rights_of_a_group_do_not_go_to_another() {
    let folder = folder();
    set_mode(folder.path(), 0o777);
    let path = folder.path().join("file");
    for (group, old, new) in
        [(None, 0o666, 0o666), (None, 0o676, 0o676), (Some(65534), 0o666, 0o606), (Some(65534), 0o676, 0o606)]
    {
        let _ = fs::remove_file(&path);
        fs::write(&path, "old").unwrap();
        set_mode(&path, old);
        let Some(text) = as_nobody("write", folder.path(), group) else {
            println!("skipped: only root can be somebody else, and nobody cannot run this program");
            return;
        };
        assert!(text.contains("result: Ok"), "{text}");
        assert_eq!(fs::metadata(&path).unwrap().uid(), 65534, "replaced");
        assert_eq!(mode(&path), new, "{group:?}, {old:o}");
    }
}

/// What an administrator shares with a group is its business; what is one's own is not.
#[test]
fn secrets_of_others_may_be_shared_with_a_group() {
    let folder = folder();
    set_mode(folder.path(), 0o755);
    let path = folder.path().join("file");
    fs::write(&path, "secret").unwrap();
    let own = |mode| {
        set_mode(&path, mode);
        read_secret(&path, 100).is_ok()
    };
    if std::os::unix::fs::chown(&path, Some(65534), Some(65534)).is_err() {
        println!("skipped: only root gives files away");
        return;
    }
    assert_eq!([0o640, 0o660, 0o600, 0o604, 0o602, 0o641].map(own), [true, true, true, false, false, false]);
    for (mode, well) in [(0o600, true), (0o640, false), (0o604, false)] {
        set_mode(&path, mode);
        let Some(text) = as_nobody("secret", folder.path(), Some(65534)) else {
            println!("skipped: nobody cannot run this program");
            return;
        };
        assert_eq!(text.contains("result: Ok"), well, "{mode:o}: {text}");
    }
}

#[test]
fn who_may_not_write_changes_nothing() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    // Root may write all: a helper that is nobody may not.
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let attempt = || {
        let mut command = helper("write", folder.path());
        if root {
            command.uid(65534);
        }
        let Ok(output) = command.output() else { return None };
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // The folder allows it, the file does not.
    set_mode(folder.path(), 0o777);
    set_mode(&path, 0o444);
    let Some(text) = attempt() else {
        println!("skipped: nobody cannot run this program");
        return;
    };
    assert!(text.contains("cannot write") && text.contains("file: Permission denied"), "{text}");
    // The file allows it, the folder does not.
    set_mode(&path, 0o666);
    set_mode(folder.path(), 0o555);
    let text = attempt().unwrap();
    assert!(text.contains("no file can be made beside it: Permission denied"), "{text}");
    set_mode(folder.path(), 0o755);
    assert_eq!(
        (fs::read(&path).unwrap().as_slice(), names(folder.path())),
        (&b"old"[..], vec!["file".to_owned()])
    );
}

#[test]
fn devices_and_pipes_are_written_directly() {
    let folder = folder();
    // By nobody, where this is root: should the writer take a device for a file, it would put one in its place.
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let devices = || {
        let mut command = helper("devices", folder.path());
        if root {
            command.uid(65534).gid(65534);
        }
        Some(String::from_utf8_lossy(&command.output().ok()?.stdout).into_owned())
    };
    match devices() {
        Some(text) => {
            assert!(text.contains("null: Ok(())"), "{text}");
            assert!(
                text.contains("full: Err(\"cannot write /dev/full: No space left on device\")"),
                "{text}"
            );
        }
        None => println!("skipped: nobody cannot run this program"),
    }
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let link = folder.path().join("link");
    symlink(&pipe, &link).unwrap();
    let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
    write(&link, b"through").unwrap();
    assert_eq!(reader.wait_with_output().unwrap().stdout, b"through");
    assert_eq!(names(folder.path()), ["link", "pipe"]);
    let mut set = FileSet::create(folder.path()).unwrap();
    assert!(set.add("link", b"x").unwrap_err().to_string().contains("it is a pipe"));
}

/// Whoever has the file open sees what is written to it by way of `/proc`: nothing takes its place.
#[test]
fn open_files_are_written_directly() {
    use std::os::fd::AsRawFd;
    let folder = folder();
    let path = folder.path().join("file");
    let file = fs::File::create(&path).unwrap();
    let inode = file.metadata().unwrap().ino();
    write(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), b"through").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"through");
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    // A folder whose name ends so is none of them.
    fs::create_dir(folder.path().join("proc")).unwrap();
    let beside = folder.path().join("proc/file");
    fs::write(&beside, "old").unwrap();
    let inode = fs::metadata(&beside).unwrap().ino();
    write(&beside, b"new").unwrap();
    assert_ne!(fs::metadata(&beside).unwrap().ino(), inode);
}

#[test]
fn sets_make_folders() {
    let folder = folder();
    let new = folder.path().join("a/b");
    drop(FileSet::create(&new).unwrap());
    assert!(!new.exists());
    FileSet::create(&new).unwrap().commit().unwrap();
    assert!(new.is_dir(), "a set of no files is one");
    // What was there stays, though it is empty.
    drop(FileSet::create(&new).unwrap());
    assert!(new.is_dir());
}

/// The kernel follows 40 links.
#[test]
fn so_many_links_are_followed() {
    let folder = folder();
    let at = |number: usize| folder.path().join(format!("link{number}"));
    fs::write(at(0), "old").unwrap();
    for number in 1..=40 {
        symlink(at(number - 1), at(number)).unwrap();
    }
    write(&at(39), b"new").unwrap();
    assert_eq!(fs::read(at(0)).unwrap(), b"new");
    let error = write(&at(40), b"more").unwrap_err().to_string();
    assert!(error.ends_with("too many links lead on from it"), "{error}");
    assert_eq!(fs::read(at(0)).unwrap(), b"new");
}

#[test]
fn what_is_being_written_has_the_name_of_what_it_becomes() {
    let folder = folder();
    let output = Output::create(&folder.path().join("net.json")).unwrap();
    let [name] = &names(folder.path())[..] else { panic!("one file") };
    assert!(name.starts_with(&format!(".net.json.{}-", std::process::id())), "{name}");
    drop(output);
    let long = "n".repeat(255);
    let output = Output::create(&folder.path().join(&long)).unwrap();
    let [name] = &names(folder.path())[..] else { panic!("one file") };
    assert!(name.starts_with(&format!(".{}.", &long[..200])), "{name}");
    drop(output);
}

/// What others append meanwhile is not part of it.
#[test]
fn a_file_is_read_as_far_as_it_went() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    let input = Input::open(&path, 100).unwrap();
    append(&path, b" and new").unwrap();
    assert_eq!(input.read().unwrap(), b"old");
    assert_eq!(read(&path, 100).unwrap(), b"old and new");
}

/// What is of one writing can be told from what is not; a file that takes its place leaves the open one as it was.
#[test]
fn a_file_that_is_written_to_is_told() {
    let folder = folder();
    let path = folder.path().join("file");
    let writings: [fn(&Path); 3] = [
        |path| append(path, b" and new").unwrap(),
        |path| fs::write(path, "new").unwrap(),
        |path| fs::File::options().write(true).open(path).unwrap().set_len(1).unwrap(),
    ];
    for writing in writings {
        fs::write(&path, "old").unwrap();
        let input = Input::open(&path, 100).unwrap();
        input.check_unchanged().unwrap();
        // File systems tell times by ticks of some milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        writing(&path);
        let error = input.check_unchanged().unwrap_err().to_string();
        assert!(error.contains("file: it was written to while it was read"), "{error}");
    }
    let input = Input::open(&path, 100).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    write(&path, b"another").unwrap();
    input.check_unchanged().unwrap();
}

#[test]
fn limits_include_themselves() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, [b'x'; 100]).unwrap();
    assert_eq!(Input::open(&path, 100).unwrap().size(), 100);
    assert_eq!(read(&path, 100).unwrap().len(), 100);
    assert!(Input::open(&path, 99).is_err());
    // One that does not say how long it is.
    let version = Path::new("/proc/version");
    let all = fs::read(version).unwrap();
    assert_eq!(read(version, all.len() as u64).unwrap(), all);
    assert!(read(version, all.len() as u64 - 1).is_err());
    let mut buffer = vec![0; 150];
    assert_eq!(Input::open(&path, 100).unwrap().fill(&mut buffer).unwrap(), 100);
    assert_eq!(Input::open(&path, 100).unwrap().fill(&mut buffer[..30]).unwrap(), 30);
    assert_eq!(buffer, [vec![b'x'; 100], vec![0; 50]].concat());
}

#[test]
fn a_folder_that_is_a_file_is_no_folder() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let error = write(&path.join("in"), b"").unwrap_err().to_string();
    assert_eq!(error, format!("cannot write {}: Not a directory", path.join("in").display()));
    let error = write(&path.join("in/it"), b"").unwrap_err().to_string();
    assert_eq!(error, format!("cannot write {}: Not a directory", path.join("in/it").display()));
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let folder = folder();
    let old: Vec<_> = SET.iter().chain(&["file"]).map(|name| folder.path().join(name)).collect();
    for path in &old {
        fs::write(path, "old").unwrap();
    }
    // 512 bytes to a block: half of what is to be written.
    for role in ["write", "append", "set"] {
        let text = helper_behind("trap '' XFSZ; ulimit -f 1024", role, folder.path());
        assert!(text.contains("cannot write") && text.contains("File too large"), "{text}");
    }
    assert!(old.iter().all(|path| fs::read(path).unwrap() == b"old"));
    assert_eq!(names(folder.path()).len(), old.len());
    // A folder that was not there is not there again.
    let new = folder.path().join("new");
    helper_behind("trap '' XFSZ; ulimit -f 1024", "set", &new);
    assert!(!new.exists());
}

/// One generation of a set, which `sets` writes.
fn whole(folder: &Path) -> Vec<u8> {
    let _lock = FolderLock::to_read(folder);
    let mut found = SET.iter().map(|name| read(&folder.join(name), 1 << 20).unwrap());
    let first = found.next().unwrap();
    assert!(found.all(|other| other == first), "files of two generations");
    first
}

fn started(folder: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = helper("sets", folder).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("written") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the helper ended");
    }
    (child, lines)
}

#[test]
fn kills_leave_whole_sets() {
    let folder = folder();
    for round in 0..24_u64 {
        let (mut child, _lines) = started(folder.path());
        // Somewhere in the next sets; where does not matter.
        std::thread::sleep(std::time::Duration::from_micros(round * 1733 % 9000));
        child.kill().unwrap();
        child.wait().unwrap();
        whole(folder.path());
    }
    // The last writer clears up behind all of them.
    let mut set = FileSet::create(folder.path()).unwrap();
    for name in SET {
        set.add(name, b"last").unwrap();
    }
    set.commit().unwrap();
    assert_eq!(names(folder.path()), SET);
}

#[test]
fn of_two_writers_one_has_all_files() {
    let folder = folder();
    let (mut one, first_lines) = started(folder.path());
    let (mut two, second_lines) = started(folder.path());
    for _ in 0..200 {
        whole(folder.path());
    }
    // Both went on while it was read.
    for mut lines in [first_lines, second_lines] {
        assert_ne!(lines.read_line(&mut String::new()).unwrap(), 0);
    }
    for child in [&mut one, &mut two] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    whole(folder.path());
}

#[test]
fn what_does_not_end_is_not_read() {
    let folder = folder();
    let error = |path: &Path| Input::open(path, 100).unwrap_err().to_string();
    assert_eq!(error(Path::new("/dev/zero")), "cannot read /dev/zero: it is a device, not a plain file");
    assert!(error(folder.path()).ends_with("it is a folder, not a plain file"));
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(error(&pipe).ends_with("it is a pipe, not a plain file"));
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(error(&socket).ends_with("it is a socket, not a plain file"));
    let long = folder.path().join("long");
    fs::write(&long, [b'x'; 101]).unwrap();
    assert!(error(&long).ends_with("it has 101 bytes, more than the 100 that such a file can have"));
    // Files in /proc say that they have no bytes.
    assert!(!read(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
    let error = read(Path::new("/proc/self/status"), 100).unwrap_err().to_string();
    assert!(error.ends_with("it goes on, more than the 100 that such a file can have"), "{error}");
    fs::write(&long, b"ok \xff").unwrap();
    assert!(read_text(&long, 100).unwrap_err().to_string().ends_with("byte 3 is not UTF-8"));
}

#[test]
fn secrets_are_their_owners() {
    let folder = folder();
    let path = folder.path().join("token");
    fs::write(&path, "secret").unwrap();
    for shared in [0o604, 0o640, 0o620, 0o602, 0o644, 0o666] {
        set_mode(&path, shared);
        let error = read_secret(&path, 100).unwrap_err().to_string();
        assert!(error.contains(&format!("mode 0{shared:o}")), "{error}");
        assert!(error.ends_with(&format!("chmod 600 {}", path.display())), "{error}");
    }
    for own in [0o600, 0o400, 0o700] {
        set_mode(&path, own);
        assert_eq!(read_secret(&path, 100).unwrap(), b"secret");
    }
}

#[test]
fn state_follows_no_links() {
    let folder = folder();
    let (state, other) = (folder.path().join("lock"), folder.path().join("other"));
    fs::write(&other, "theirs").unwrap();
    symlink(&other, &state).unwrap();
    let error = open_state(&state).unwrap_err().to_string();
    assert!(error.ends_with("lock: it is a link, which is not followed; remove it"), "{error}");
    write_state(&state, b"mine").unwrap();
    assert!(fs::symlink_metadata(&state).unwrap().is_file());
    assert_eq!(fs::read(&other).unwrap(), b"theirs");
    open_state(&state).unwrap();
}

#[test]
fn folders_are_locked_while_they_are_read() {
    let folder = folder();
    let is_locked = || fs::File::open(folder.path()).unwrap().try_lock().is_err();
    let (one, two) = (FolderLock::to_read(folder.path()), FolderLock::to_read(folder.path()));
    assert!(is_locked());
    drop(one);
    assert!(is_locked());
    drop(two);
    assert!(!is_locked());
    let mut set = FileSet::create(folder.path()).unwrap();
    set.add("a", b"new").unwrap();
    let lock = set.commit().unwrap();
    assert!(is_locked());
    drop(lock);
    assert!(!is_locked());
    // The folder that a process is in has no name.
    let output = helper("lock", folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("held: true, then false"), "{text}");
}

/// A child that was forked meanwhile has the folder open, too, and may live for long.
#[test]
fn a_lock_is_given_back_though_a_child_has_it() {
    let folder = folder();
    let lock = FolderLock::to_read(folder.path());
    #[expect(unsafe_code, reason = "a child without another program")]
    // SAFETY: the child does nothing but wait and end.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::sleep(600);
            libc::_exit(0);
        }
        child
    };
    assert!(child > 0);
    drop(lock);
    let taken = fs::File::open(folder.path()).unwrap().try_lock();
    #[expect(unsafe_code, reason = "the end of the child")]
    // SAFETY: plain numbers; the child is this process's own and not waited for yet.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert!(taken.is_ok(), "{taken:?}");
}

#[test]
fn what_is_appended_to_is_made_if_it_is_missing() {
    let folder = folder();
    let path = folder.path().join("file");
    append(&path, b"new").unwrap();
    append(&path, b"er").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"newer");
    // A device has no end to be brought back to.
    let error = append(Path::new("/dev/full"), b"x").unwrap_err().to_string();
    assert_eq!(error, "cannot write /dev/full: No space left on device");
}

#[test]
fn what_is_written_directly_replaces_all_of_it() {
    use std::os::fd::AsRawFd;
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "a long text").unwrap();
    let file = fs::File::open(&path).unwrap();
    write(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), b"short").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"short");
}

/// As when a process has the number that another one had, which was killed.
#[test]
fn names_of_parts_that_are_taken_are_passed_over() {
    let folder = folder();
    let path = folder.path().join("file");
    let part = |count: usize| folder.path().join(format!(".file.{}-{count}.part", std::process::id()));
    (0..300).for_each(|count| fs::write(part(count), "theirs").unwrap());
    write(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert!((0..300).all(|count| fs::read(part(count)).unwrap() == b"theirs"));
}

#[test]
fn state_is_kept_and_can_be_read_and_written() {
    use std::io::{Read, Seek};
    let folder = folder();
    let path = folder.path().join("lock");
    let mut file = open_state(&path).unwrap();
    file.write_all(b"mine").unwrap();
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "mine");
    drop(file);
    text.clear();
    open_state(&path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "mine");
    let missing = folder.path().join("none/lock");
    let error = open_state(&missing).unwrap_err().to_string();
    assert_eq!(error, format!("cannot write {}: No such file or directory", missing.display()));
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = open_state(&pipe).unwrap_err().to_string();
    assert!(error.ends_with("it is a pipe, not a plain file"), "{error}");
}
