//! Cards in a directory of their own.

use std::{
    fs::Permissions,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::Path,
    time::Duration,
};

use triune_device::{DeviceSpec, spec::Style};

use super::*;

fn cards(list: &str, directory: &Path) -> Cards {
    settling(list, directory, Duration::from_millis(30))
}

/// Cards whose clocks take as long to lock.
fn settling(list: &str, directory: &Path, settle: Duration) -> Cards {
    let mut specs = CardSpec::parse_list(list).unwrap();
    for spec in &mut specs {
        spec.settle = settle;
    }
    Cards::new(specs, directory).unwrap()
}

fn first(cards: &Cards) -> Arc<Card> {
    cards.iter().next().unwrap().clone()
}

#[test]
fn a_list_names_boards_in_slots() {
    let specs = CardSpec::parse_list("pcie, m2").unwrap();
    let short: Vec<_> = specs.iter().map(|spec| (spec.name.as_str(), spec.board)).collect();
    assert_eq!(short, [("metis-0:1:0", BoardType::Pcie), ("metis-0:2:0", BoardType::M2)]);
    assert!(CardSpec::parse_list("none").unwrap().is_empty());
    assert_eq!(CardSpec::parse_list(&["pcie"; 64].join(",")).unwrap().len(), 64);
    let error = CardSpec::parse_list(&["pcie"; 65].join(",")).unwrap_err().to_string();
    assert!(error.contains("expected at most 64 cards, got 65"), "{error}");
    let error = CardSpec::parse_list("pcie,usb").unwrap_err().to_string();
    assert!(error.contains("\"usb\"") && error.contains("alpha_pcie"), "{error}");
}

#[test]
fn a_file_describes_cards() {
    let text = "[[card]]\nboard = 'm2'\nsub_devices = 2\nsettle_ms = 5\n[[card]]\nname = 'left'\nmax_memory = 1024\n";
    let specs = CardSpec::parse_toml(text, "cards.toml").unwrap();
    assert_eq!((specs[0].board, specs[0].sub_devices), (BoardType::M2, 2));
    assert_eq!(specs[0].settle, Duration::from_millis(5));
    assert_eq!((specs[1].name.as_str(), specs[1].max_memory), ("left", 1024));
    for (text, problem) in [
        ("[[card]]\nname = '../x'", "name"),
        ("[[card]]\nname = ''", "name"),
        ("[[card]]\nsub_devices = 0", "sub_devices"),
        ("[[card]]\nsub_devices = \"4\"", "string \"4\", expected a whole number of 0 or more"),
        ("[[card]]\nsub_devices = 5", "sub_devices: expected 1 to 4, the cores of metis, got 5"),
        ("[[card]]\nboard = 'usb'", "board"),
        ("[[card]]\ndevice = 'atari'", "device"),
        ("[[card]]\ncolour = 'red'", "colour"),
        ("[[card]]\nname = 'a'\n[[card]]\nname = 'a'", "second"),
        ("[[card]", "cards.toml"),
        (&"[[card]]\n".repeat(65), "expected at most 64 cards, got 65"),
    ] {
        let error = CardSpec::parse_toml(text, "cards.toml").unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn a_sub_device_has_one_holder() {
    let directory = tempfile::tempdir().unwrap();
    // Two enumerations, as two contexts or two processes make them.
    let (one, two) = (first(&cards("pcie", directory.path())), first(&cards("pcie", directory.path())));
    let held = one.reserve(3).unwrap();
    assert_eq!(held.sub_devices().collect::<Vec<_>>(), [0, 1, 2]);
    let me = format!(":{}", std::process::id());
    let users = two.users().unwrap();
    assert_eq!(users.iter().map(|user| user.sub_device).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(users.iter().all(|user| user.holder.ends_with(&me)));
    match two.reserve(2).unwrap_err() {
        Error::InUse { wanted: 2, free: 1, users, .. } => assert!(users.ends_with(&me), "{users}"),
        other => panic!("{other}"),
    }
    // The failed attempt let go of the one that it got.
    let last = two.reserve(1).unwrap();
    assert_eq!(last.sub_devices().collect::<Vec<_>>(), [3]);
    drop(held);
    assert_eq!(two.reserve(3).unwrap().sub_devices().collect::<Vec<_>>(), [0, 1, 2]);
    assert!(matches!(two.reserve(5), Err(Error::TooMany { wanted: 5, available: 4, .. })));
    assert!(matches!(two.reserve(0), Err(Error::TooMany { wanted: 0, .. })));
}

#[test]
fn a_changed_clock_is_pending_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let slow = || first(&settling("pcie", directory.path(), Duration::from_hours(1)));
    let card = slow();
    assert!(card.configure(&[("clock_profile", "800")]).unwrap(), "nothing changed");
    assert!(card.configure(&[("mvm_utilisation_core_2", "50")]).unwrap(), "a limit acts at once");
    assert!(!card.configure(&[("clock_profile_core_1", "400"), ("clock_profile", "700")]).unwrap());
    assert!(slow().settings().unwrap().is_pending());
    // What takes no time is over.
    let settings = first(&settling("pcie", directory.path(), Duration::ZERO)).settings().unwrap();
    assert!(!settings.is_pending());
    assert_eq!([0, 1, 2, 3].map(|core| settings.clock_mhz(core)), [700, 400, 700, 700]);
    assert_eq!([1, 2].map(|core| settings.utilisation(core)), [100, 50]);
    let map = settings.to_map();
    assert_eq!(map["clock_profile"], "700");
    assert_eq!(map["mvm_utilisation_core_2"], "50");
}

#[test]
fn settings_are_checked_and_all_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let card = first(&cards("pcie", directory.path()));
    let clock = "an integer from 20 to 1000 (MHz)";
    let share = "an integer from 1 to 100 (percent)";
    for (name, value, what) in [
        ("clock_profile", "19", clock),
        ("clock_profile", "1001", clock),
        ("clock_profile", "fast", clock),
        ("clock_profile_core_0", "-1", clock),
        ("mvm_utilisation_core_0", "0", share),
        ("mvm_utilisation_core_0", "101", share),
        ("ddr_size", "0", "a positive number of bytes"),
        ("ddr_size", "-5", "a positive number of bytes"),
        ("ddr_size", "1k", "a positive number of bytes"),
        ("device_firmware", "a\nb", "a short printable text"),
        ("device_firmware", "", "a short printable text"),
        ("device_firmware", &"v".repeat(257), "a short printable text"),
    ] {
        let error = card.configure(&[("clock_profile_core_3", "100"), (name, value)]).unwrap_err();
        match &error {
            Error::BadSetting { name: at, expected, got } => {
                assert_eq!((at.as_str(), expected.as_str(), got.as_str()), (name, what, value));
            }
            other => panic!("{other}"),
        }
    }
    assert!(card.configure(&[("device_firmware", &"v".repeat(256)), ("ddr_size", "1")]).unwrap());
    let kept = card.settings().unwrap().to_map();
    assert_eq!((kept["device_firmware"].as_str(), kept["ddr_size"].as_str()), (&*"v".repeat(256), "1"));
    card.configure(&[("device_firmware", "v1")]).unwrap();
    fs::remove_file(card.path("settings")).unwrap();
    for name in ["clock", "clock_profile_core_4", "clock_profile_core_", "clock_profile_core_+1", "ready_at"]
    {
        let error = card.configure(&[(name, "100")]).unwrap_err();
        assert!(matches!(&error, Error::UnknownSetting { name: at, .. } if at == name), "{error}");
        let valid =
            "clock_profile, clock_profile_core_0-3, mvm_utilisation_core_0-3, ddr_size, device_firmware";
        assert!(error.to_string().ends_with(valid), "{error}");
    }
    assert_eq!(card.settings().unwrap(), Settings::new(card.spec()));
    assert!(!card.configure(&[("clock_profile_core_0-3", "1000"), ("ddr_size", "2147483648")]).unwrap());
    assert_eq!(card.settings().unwrap().clock_mhz(3), 1000);
}

#[test]
fn a_damaged_settings_file_gives_the_defaults() {
    let directory = tempfile::tempdir().unwrap();
    let card = first(&cards("pcie", directory.path()));
    let far = u64::MAX;
    fs::write(card.path("settings"), format!("ready_at={far}\nclock_profile=99999\nnonsense\n=\n")).unwrap();
    let settings = card.settings().unwrap();
    assert_eq!(settings, Settings::new(card.spec()));
    fs::write(card.path("settings"), [0xff, 0xfe, 0x00]).unwrap();
    assert_eq!(card.settings().unwrap(), Settings::new(card.spec()));
}

/// The state lies in a directory that is made if it is missing, for this user alone.
#[test]
fn a_missing_directory_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let (state, file) = (directory.path().join("a/b"), directory.path().join("file"));
    Cards::new(Vec::new(), &state).unwrap();
    assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
    fs::write(&file, "").unwrap();
    match Cards::new(Vec::new(), &file).unwrap_err() {
        Error::Io { path, .. } => assert_eq!(path, file),
        other => panic!("{other}"),
    }
}

/// What is made below a directory that everybody writes to is refused unless it is this user's alone.
#[test]
fn a_directory_whose_name_can_be_guessed_is_this_users_own() {
    let shared = tempfile::tempdir().unwrap();
    let own = guessable_dir(shared.path()).unwrap();
    let user = owner::user_id().unwrap();
    assert_eq!(own, shared.path().join(format!("triune-{user}")));
    assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
    let refused = || match guessable_dir(shared.path()).unwrap_err() {
        Error::Io { path, source } => {
            assert_eq!(path, own);
            assert!(source.to_string().contains("set TRIUNE_RUNTIME_DIR to one"), "{source}");
        }
        other => panic!("{other}"),
    };
    for (mode, fits) in [(0o720, false), (0o702, false), (0o755, true)] {
        fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
        if fits { assert_eq!(guessable_dir(shared.path()).unwrap(), own) } else { refused() }
    }
    if user == 0 {
        chown(&own, Some(1), None).unwrap();
        refused();
        // One that the user named may be anybody's where that is root.
        Cards::new(Vec::new(), &own).unwrap();
    }
    fs::remove_dir(&own).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), &own).unwrap();
    refused();
}

#[test]
fn names_of_cards_fit_names_of_files() {
    let check = |name: &str| {
        CardSpec::parse_toml(&format!("[[card]]\nname = '{name}'\nsub_devices = 4"), "cards.toml")
    };
    for name in ["a", "aZ0-_.:9", &"x".repeat(64)] {
        assert_eq!(check(name).unwrap()[0].name, name);
    }
    for name in ["", ".a", "a b", "a/b", "ä", &"x".repeat(65)] {
        let error = check(name).unwrap_err().to_string();
        assert!(error.contains("card 0: name: expected 1 to 64 letters"), "{error}");
    }
}

/// A text that describes a device is one card of all of its cores, at its own clocks.
#[test]
fn a_device_is_a_card() {
    let mut device = DeviceSpec::builtin("zg330").unwrap();
    device.name = "mine".into();
    device.clocks_mhz = vec![100, 250, 600];
    device.clock_mhz = Some(250);
    let cards = CardSpec::parse_toml(&device.to_toml(Style::Short), "mine.toml").unwrap();
    let [card] = &*cards else { panic!("{cards:?}") };
    assert_eq!((card.name.as_str(), card.board), ("mine-0:1:0", BoardType::Unknown));
    assert_eq!((card.device.as_str(), card.sub_devices), ("mine", device.cores as usize));
    assert_eq!((card.clocks(), card.model().unwrap()), ((250, 100..=600), device.clone()));
    // One of a package has eight digits more, the same for the same device.
    let tagged = |device: &DeviceSpec| CardSpec::of_package(&Arc::new(device.clone())).name;
    let name = tagged(&device);
    assert_eq!((name.len(), tagged(&device)), ("mine-01234567-0:1:0".len(), name.clone()));
    assert!(name[5..13].chars().all(|digit| digit.is_ascii_hexdigit()), "{name}");
    device.cores += 1;
    assert_ne!(tagged(&device), name);
    // What comes with Triune has the vendor's.
    let card = CardSpec::new(BoardType::Sbc, 2);
    assert_eq!((card.name.as_str(), card.clocks()), ("metis-0:3:0", (800, 20..=1000)));
    assert_eq!(card.model().unwrap(), DeviceSpec::builtin("metis").unwrap());
    // The chip is the same on a module, what it reaches is not.
    let module = CardSpec::new(BoardType::M2, 0);
    assert_eq!(module.model().unwrap(), DeviceSpec::builtin("metis-m2").unwrap());
    for spec in [&card, &module] {
        assert!(spec.takes("metis") && spec.takes("metis-m2") && !spec.takes("zg330"), "{spec:?}");
    }
    let named = CardSpec::parse_toml("[[card]]\nboard = 'm2'\ndevice = 'metis'\n", "cards").unwrap();
    assert_eq!((named[0].device.as_str(), named[0].board), ("metis", BoardType::M2));
    for board in BoardType::ALL {
        assert_eq!(BoardType::from_name(board.name()), Some(board));
    }
    assert_eq!(BoardType::from_name("usb"), None);
}

#[test]
fn cores_are_named_one_by_one_or_from_one_to_another() {
    let directory = tempfile::tempdir().unwrap();
    let card = first(&cards("pcie", directory.path()));
    card.configure(&[("clock_profile_core_1-2", "20"), ("mvm_utilisation_core_2-3", "1")]).unwrap();
    let settings = card.settings().unwrap();
    assert_eq!([0, 1, 2, 3].map(|core| settings.clock_mhz(core)), [800, 20, 20, 800]);
    assert_eq!([0, 1, 2, 3].map(|core| settings.utilisation(core)), [100, 100, 1, 1]);
    // One that there is not has what all have.
    assert_eq!((settings.clock_mhz(4), settings.utilisation(4)), (800, 100));
    for name in ["clock_profile_core_2-1", "mvm_utilisation_core_0-4", "mvm_utilisation_core_-1"] {
        let error = card.configure(&[(name, "50")]).unwrap_err();
        assert!(matches!(error, Error::UnknownSetting { .. }), "{name}: {error}");
    }
    assert_eq!(card.settings().unwrap(), settings);
}

/// Who holds a sub-device is what its file says; one that says nothing is held all the same.
#[test]
fn a_holder_without_a_name_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let card = first(&cards("pcie", directory.path()));
    fs::write(card.path("1.holder"), "a longer text than this process has by far, of a process that is gone")
        .unwrap();
    let held = card.reserve(2).unwrap();
    let me = fs::read_to_string(card.path("0.holder")).unwrap();
    assert!(me.ends_with(&format!(":{}", std::process::id())), "{me}");
    assert_eq!(fs::read_to_string(card.path("1.holder")).unwrap(), me);
    fs::write(card.path("1.holder"), " \n").unwrap();
    fs::write(card.path("0.holder"), [0xff, 0xfe]).unwrap();
    let users = card.users().unwrap();
    let users: Vec<_> = users.iter().map(|user| (user.sub_device, user.holder.as_str())).collect();
    assert_eq!(users, [(0, "unknown"), (1, "unknown")]);
    drop(held);
    assert!(card.users().unwrap().is_empty());
}
