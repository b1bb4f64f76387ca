//! Changes at once, changes cut short, files of others. (Other processes are in `tests/processes.rs`.)

use super::*;
use crate::entry::Running;
use crate::error::UnsafePath;
use crate::replace::Step;
use pario_types::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// A directory for a test, gone after it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        Scratch::at(std::env::temp_dir().join(format!("pario-registry-{}-{name}", std::process::id())))
    }

    pub fn at(dir: PathBuf) -> Scratch {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a directory");
        Scratch(dir)
    }

    pub fn dir(&self) -> &Path {
        &self.0
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn description(name: &str) -> Description {
    Description::parse("servers = ['/d/0', 'n1:/d/1']", Some(name)).expect("sound")
}

fn running(pid: u32) -> Running {
    let (unix, tcp) = ("/run/s".to_owned(), Some("127.0.0.1:1".to_owned()));
    Running { host: "here".to_owned(), pid, unix, tcp, started: Stamp(7) }
}

fn open(scratch: &Scratch) -> Registry {
    Registry::open(&scratch.path("home")).expect("opened")
}

fn names(registry: &Registry) -> Vec<String> {
    registry.list().expect("read").iter().map(|entry| entry.name().to_owned()).collect()
}

#[test]
fn a_partition_is_created_found_changed_and_removed() {
    let scratch = Scratch::new("life");
    let registry = open(&scratch);
    assert!(registry.list().expect("read").is_empty());
    assert_eq!(registry.get("a").expect_err("none").kind(), ErrorKind::NoSuchFile);

    let entry = registry.create(&description("a"), "here").expect("created");
    assert_eq!(registry.get("a").expect("there"), entry);
    assert_eq!((entry.host_of(ServerId(0)), entry.host_of(ServerId(1))), (Some("here"), Some("n1")));
    assert!(matches!(registry.create(&description("a"), "here"), Err(Error::AlreadyThere(_))));
    let secret = registry.secret(entry.id).expect("there");
    assert_ne!(secret.bytes(), &[0; 32]);
    assert_eq!(format!("{secret:?}"), "Secret(…)");

    let other = registry.create(&description("b"), "here").expect("created");
    assert!(other.id != entry.id && registry.secret(other.id).expect("there") != secret);

    let changed = registry.update("a", |entry| {
        entry.running.insert(ServerId(1), running(11));
    });
    let changed = changed.expect("changed");
    assert_eq!((changed.generation, changed.is_up()), (1, false));
    assert_eq!(open(&scratch).get("a").expect("there"), changed);

    let lock = registry.lock_partition("a", Duration::ZERO).expect("free");
    assert_eq!(registry.remove(lock).expect("removed"), changed);
    assert!(matches!(registry.secret(entry.id), Err(Error::NoSecret(..))));
    assert_eq!(names(&registry), ["b"]);
    assert_eq!(std::fs::read_dir(scratch.path("home/locks")).expect("there").count(), 0);
}

#[test]
fn fixed_settings_cannot_be_changed() {
    let scratch = Scratch::new("fixed");
    let registry = open(&scratch);
    registry.create(&description("a"), "here").expect("created");
    let change = |key: &str, value: &str| {
        registry.update("a", |entry| entry.description = entry.description.with(key, value).expect("allowed"))
    };
    change("stripe_size", "2M").expect("not made yet");
    registry.update("a", |entry| entry.made = true).expect("changed");
    assert_eq!(change("stripe_size", "1M").expect_err("fixed").kind(), ErrorKind::NotSame);
    assert_eq!(change("cache", "1G").expect("free").description.settings().cache, 1 << 30);
}

#[test]
fn everything_is_private() {
    let scratch = Scratch::new("private");
    let registry = open(&scratch);
    let entry = registry.create(&description("a"), "here").expect("created");
    let _lock = registry.lock_partition("a", Duration::ZERO).expect("free");
    let secret = format!("home/secrets/{}", entry.id);
    for (name, mode) in [
        ("home", 0o700),
        ("home/secrets", 0o700),
        ("home/locks", 0o700),
        ("home/registry.json", 0o600),
        ("home/registry.lock", 0o600),
        ("home/locks/a", 0o600),
        (&secret, 0o600),
    ] {
        assert_eq!(scratch.path(name).metadata().expect(name).mode() & 0o7777, mode, "{name}");
    }
    let set = |name: &str, mode| {
        std::fs::set_permissions(scratch.path(name), PermissionsExt::from_mode(mode)).expect("set");
    };
    set(&secret, 0o640);
    let error = registry.secret(entry.id).expect_err("open to others");
    assert!(matches!(error, Error::Unsafe { reason: UnsafePath::Mode(0o640), .. }), "{error}");
    set(&secret, 0o600);
    for name in ["home", "home/secrets"] {
        set(name, 0o750);
        let error = Registry::open(&scratch.path("home")).expect_err("open to others");
        assert!(error.to_string().contains("chmod go="), "{error}");
        set(name, 0o700);
    }
    open(&scratch).secret(entry.id).expect("private again");
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let scratch = Scratch::new("owner");
    drop(open(&scratch));
    // Only root can give files away.
    if std::os::unix::fs::chown(scratch.path("home"), Some(12345), None).is_ok() {
        let error = Registry::open(&scratch.path("home")).expect_err("another's");
        assert!(matches!(error, Error::Unsafe { reason: UnsafePath::Owner(12345), .. }), "{error}");
    }
}

#[test]
fn a_damaged_file_is_reported_and_left() {
    let scratch = Scratch::new("damaged");
    let registry = open(&scratch);
    registry.create(&description("a"), "here").expect("created");
    let file = scratch.path("home/registry.json");
    let good = std::fs::read_to_string(&file).expect("read");
    for bad in [
        String::new(),
        "nonsense".to_owned(),
        good[..good.len() / 2].to_owned(),
        good.replace("\"a\": {", "\"b\": {"),
        good.replace("\"stripe_size\": 65536", "\"stripe_size\": 5"),
        good.replace("\"generation\"", "\"degeneration\""),
        good.replace("\"running\": {}", "\"running\": {\"7\": {}}"),
        good.replace("\"abandoned\": []", "\"abandoned\": [7]"),
        good.replace("\"version\": 3", "\"version\": \"3\""),
        good.replace("\"id\": \"", "\"id\": \"x"),
    ] {
        assert_ne!(bad, good);
        std::fs::write(&file, &bad).expect("written");
        for error in [
            registry.list().expect_err("damaged"),
            registry.create(&description("c"), "here").expect_err("damaged"),
            registry.update("a", |_| ()).expect_err("damaged"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Damaged, "{bad}");
            assert!(error.to_string().contains("registry.json is damaged and was left as it is"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&file).expect("read"), bad);
    }
    std::fs::write(&file, good.replace("\"version\": 3", "\"version\": 4, \"more\": 1")).expect("written");
    assert!(matches!(registry.list(), Err(Error::Version { found: 4, .. })));
    std::fs::write(&file, good).expect("written");
    assert_eq!(names(&registry), ["a"]);
}

#[test]
fn a_change_interrupted_at_any_step_is_atomic() {
    let steps =
        [Step::Create, Step::WriteHalf, Step::WriteRest, Step::Sync, Step::Rename, Step::SyncDirectory];
    for stop in steps {
        let scratch = Scratch::new(&format!("crash-{stop:?}"));
        let sound = open(&scratch);
        let kept = sound.create(&description("kept"), "here").expect("created");
        let mut crashing = open(&scratch);
        crashing.check =
            Box::new(
                move |step| {
                    if step == stop { Err(io::Error::from(io::ErrorKind::Interrupted)) } else { Ok(()) }
                },
            );
        crashing.create(&description("new"), "here").expect_err("cut short");
        crashing.update("kept", |entry| entry.host = "there".to_owned()).expect_err("cut short");

        // No cleanup is needed: it reads as before or as after, and can be changed.
        let done = stop == Step::SyncDirectory;
        assert_eq!(names(&sound), if done { vec!["kept", "new"] } else { vec!["kept"] }, "{stop:?}");
        let now = sound.get("kept").expect("there");
        assert_eq!((now.host.as_str(), now.generation), if done { ("there", 1) } else { ("here", 0) });
        sound.secret(kept.id).expect("kept");
        sound.create(&description("later"), "here").expect("created");
        let secrets = std::fs::read_dir(scratch.path("home/secrets")).expect("there").count();
        assert_eq!(secrets, sound.list().expect("read").len(), "no secret without a partition");
    }
}

#[test]
fn a_lost_registry_costs_no_secret() {
    let scratch = Scratch::new("lost");
    let registry = open(&scratch);
    let [one, two] = ["one", "two"].map(|name| registry.create(&description(name), "here").expect("created"));
    let secrets = [&one, &two].map(|entry| registry.secret(entry.id).expect("there"));
    std::fs::remove_file(scratch.path("home/registry.json")).expect("removed");
    for name in ["three", "four"] {
        registry.create(&description(name), "here").expect("created");
    }
    assert_eq!([one.id, two.id].map(|id| registry.secret(id).expect("kept")), secrets);
    // A partition that is adopted gets a new one.
    registry.adopt(one.id, &description("one"), "here", Epoch(0)).expect("adopted");
    registry.secret(one.id).expect("there");
}

#[test]
fn a_removal_interrupted_at_any_step_keeps_the_secret_of_existing_data() {
    let steps =
        [Step::Create, Step::WriteHalf, Step::WriteRest, Step::Sync, Step::Rename, Step::SyncDirectory];
    for stop in steps {
        let scratch = Scratch::new(&format!("removal-{stop:?}"));
        let sound = open(&scratch);
        let entry = sound.create(&description("a"), "here").expect("created");
        let secret = sound.secret(entry.id).expect("there");
        let mut crashing = open(&scratch);
        crashing.check = Box::new(move |step| match step == stop {
            true => Err(io::Error::from(io::ErrorKind::Interrupted)),
            false => Ok(()),
        });
        let lock = crashing.lock_partition("a", Duration::ZERO).expect("free");
        crashing.remove(lock).expect_err("cut short");
        let is_there = sound.get("a").is_ok();
        assert_eq!(is_there, stop != Step::SyncDirectory);
        if is_there {
            assert!(sound.secret(entry.id).expect("there") == secret, "{stop:?}");
        }
        sound.create(&description("later"), "here").expect("created");
        let secrets = std::fs::read_dir(scratch.path("home/secrets")).expect("there").count();
        assert_eq!(secrets, sound.list().expect("read").len(), "no secret without a partition: {stop:?}");
    }
}

#[test]
fn concurrent_changes_are_all_applied() {
    let scratch = Scratch::new("threads");
    open(&scratch).create(&description("shared"), "here").expect("created");
    const EACH: u64 = 20;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let scratch = &scratch;
            scope.spawn(move || {
                let registry = open(scratch);
                for round in 0..EACH {
                    registry.create(&description(&format!("p{thread}-{round}")), "here").expect("created");
                    registry.update("shared", |_| ()).expect("changed");
                    assert!(registry.list().expect("readable at any time").len() > 1);
                }
            });
        }
    });
    assert_eq!(names(&open(&scratch)).len() as u64, 4 * EACH + 1);
    assert_eq!(open(&scratch).get("shared").expect("there").generation, 4 * EACH);
}

#[test]
fn one_of_several_concurrent_creations_succeeds() {
    let scratch = Scratch::new("one");
    let made = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let registry = open(&scratch);
                let _lock = registry.lock_partition("p", Duration::from_secs(9)).expect("in time");
                match registry.get("p") {
                    Ok(_) => {}
                    Err(Error::NoPartition(_)) => {
                        registry.create(&description("p"), "here").expect("nobody else is here");
                        made.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    }
                    Err(other) => panic!("{other}"),
                }
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
}

#[test]
fn a_lock_held_too_long_names_its_holder() {
    let scratch = Scratch::new("held");
    let registry = open(&scratch).with_patience(Duration::from_millis(10));
    let _held = Lock::take(&scratch.path("home/registry.lock"), "it", Duration::ZERO).expect("free");
    let error = registry.create(&description("a"), "here").expect_err("locked");
    assert_eq!(error.kind(), ErrorKind::FileInUse);
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    assert!(registry.list().expect("readers need no lock").is_empty());
    let _partition = registry.lock_partition("a", Duration::ZERO).expect("free");
    let error = registry.lock_partition("a", Duration::ZERO).expect_err("held");
    assert!(error.to_string().starts_with("partition a is in use by process"), "{error}");
    for name in ["../a", "", ".", "a/b"] {
        assert!(matches!(registry.lock_partition(name, Duration::ZERO), Err(Error::NoPartition(_))));
    }
}

/// Numbers that look random (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) as usize % limit
    }
}

/// The remains of an unsynced draft after a loss of power: any of its bytes, or no file at all.
fn spoil_draft(path: &Path, dice: &mut Dice) {
    let Ok(mut bytes) = std::fs::read(path) else { return };
    let cut = dice.below(bytes.len() + 1);
    match dice.below(3) {
        0 => std::fs::remove_file(path).expect("it is there"),
        1 => std::fs::write(path, &bytes[..cut]).expect("written"),
        _ => {
            bytes[cut..].fill(0);
            std::fs::write(path, bytes).expect("written");
        }
    }
}

#[test]
fn the_registry_keeps_its_promises_on_faulty_storage() {
    const STEPS: [Step; 6] =
        [Step::Create, Step::WriteHalf, Step::WriteRest, Step::Sync, Step::Rename, Step::SyncDirectory];
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let scratch = Scratch::at(base.join(format!("pario-registry-{}-faulty", std::process::id())));
    let (file, draft) = (scratch.path("home/registry.json"), scratch.path("home/registry.new"));
    open(&scratch).create(&description("kept"), "0").expect("created");
    for seed in 1..3000u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let before = std::fs::read(&file).expect("there");
        let old = open(&scratch).get("kept").expect("whole").host;
        let new = seed.to_string();
        // A step that fails with an error, or at which power is lost; or none.
        let at = dice.below(STEPS.len() + 2);
        let mut registry = open(&scratch);
        let errno = [5, 28, 30][dice.below(3)];
        registry.check = Box::new(move |step| match STEPS.get(at) {
            Some(failing) if *failing == step => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(()),
        });
        let done = registry.update("kept", |entry| entry.host.clone_from(&new)).is_ok();
        if dice.below(2) == 0 {
            spoil_draft(&draft, &mut dice);
            // A name whose directory was not flushed may be the old one again.
            if STEPS.get(at) == Some(&Step::SyncDirectory) && dice.below(2) == 0 {
                std::fs::write(&file, &before).expect("written");
            }
        }
        let found = open(&scratch).get("kept").expect("whole").host;
        match done {
            true => assert_eq!(found, new, "seed {seed}: it was said to be done"),
            false => assert!(found == old || found == new, "seed {seed}"),
        }
        assert_eq!(done, at >= STEPS.len(), "seed {seed}: a failed step is told");
    }
}
