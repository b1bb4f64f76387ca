//! `pario mount` and `umount`: ordinary programs on a mounted partition, and what happens when something
//! ends.

use crate::bench::text;
use crate::site::{Site, await_that, noise};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

/// A site whose partition is mounted at `m`; unmounted when dropped.
struct Mounted {
    site: Site,
}

/// `None`, and a word about it, on a machine without FUSE.
fn mounted(name: &str, servers: usize, more: &str) -> Option<Mounted> {
    if !has_fuse() {
        return None;
    }
    let site = Site::new(&format!("mount-{name}"), servers, more);
    fs::create_dir(site.bench.path("m")).expect("a directory");
    site.good(&["mount", "part", "m"]);
    Some(Mounted { site })
}

fn has_fuse() -> bool {
    let found = Path::new("/dev/fuse").exists();
    if !found {
        eprintln!("skipped: there is no /dev/fuse");
    }
    found
}

impl Mounted {
    fn path(&self, name: &str) -> PathBuf {
        self.site.bench.path("m").join(name)
    }

    /// What a shell prints in the test's directory; it has to succeed.
    #[track_caller]
    fn shell(&self, script: &str) -> String {
        let mut shell = Command::new("sh");
        let output = shell.args(["-ec", script]).current_dir(self.site.bench.path("")).output();
        let output = output.expect("a shell");
        assert!(output.status.success(), "{script}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if is_mounted(&self.site) {
            let output = self.site.run(&["umount", "--lazy", "m"]);
            assert!(output.status.success() || std::thread::panicking(), "{}", text(&output.stderr));
        }
    }
}

fn is_mounted(site: &Site) -> bool {
    let list = fs::read_to_string("/proc/self/mountinfo").expect("a list of mounts");
    let dir = site.bench.path("m").canonicalize().unwrap_or_else(|_| site.bench.path("m"));
    list.lines().any(|line| line.split(' ').nth(4) == dir.to_str())
}

/// Serves the mount from a process that the test knows.
fn foreground(site: &Site) -> Child {
    fs::create_dir_all(site.bench.path("m")).expect("a directory");
    let child = site.start(&["mount", "--foreground", "part", "m"]);
    await_that("it is not mounted", || is_mounted(site));
    child
}

fn kill(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().expect("kill runs").success());
}

#[test]
fn ordinary_programs_see_files() {
    let Some(mounted) = mounted("tools", 2, "") else { return };
    mounted.site.write("data", &noise(3_000_001, 7));
    mounted.shell("mkdir -p m/a/b; cp data m/a/b/x; cmp data m/a/b/x; cat m/a/b/x | cmp - data");
    mounted.shell("dd if=data of=m/dd bs=64k 2>/dev/null; cmp data m/dd");
    mounted.shell(
        "cp data model
         for f in model m/dd; do
             dd if=data of=$f bs=1000 count=7 seek=211 conv=notrunc,fsync 2>/dev/null
         done",
    );
    mounted.shell("truncate -s 2500000 model m/dd; truncate -s 2600000 model m/dd; cmp model m/dd");
    mounted.shell("mv m/a/b m/c; mv m/dd m/c/y; rmdir m/a; echo one > m/log; echo two >> m/log");
    assert_eq!(
        mounted.shell("ls -R m; cat m/log; stat -c '%s %F' m/c/y"),
        "m:\nc\nlog\n\nm/c:\nx\ny\none\ntwo\n2600000 regular file\n"
    );
    mounted.shell("tar cf all.tar -C m .; mkdir u; tar xf all.tar -C u; diff -r m u; rm -r u");
    // What the servers say of it.
    let site = &mounted.site;
    site.good(&["cp", "part:/c/y", "copy"]);
    assert_eq!(site.read("copy"), site.read("model"));
    site.good(&["cp", "data", "part:/new"]);
    mounted.shell("cmp data m/new; cmp data m/c/x; rm -r m/c m/log m/new; test -z \"$(ls -A m)\"");
    assert_eq!(site.good(&["ls", "part:/"]), "");
    let room = mounted.shell("df --output=source,fstype m | tail -1");
    assert!(room.starts_with("pario:part#"), "{room}");
    site.good(&["umount", "m"]);
    assert!(!is_mounted(site));
}

#[test]
fn files_are_as_posix_says() {
    let Some(mounted) = mounted("posix", 2, "") else { return };
    let path = mounted.path("file");
    let new = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).open(path);
    let file = new(&path).expect("created");
    assert_eq!(new(&path).expect_err("it is there").kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o640);

    // A hole reads as zeros; what another process writes is seen at once, and its length too.
    file.write_all_at(b"end", 200_000).expect("written");
    let mut bytes = [1; 6];
    file.read_exact_at(&mut bytes, 199_997).expect("read");
    assert_eq!(&bytes, b"\0\0\0end");
    mounted.site.write("other", b"changed");
    mounted.site.good(&["cp", "other", "part:/other"]);
    assert_eq!(fs::read(mounted.path("other")).expect("read"), b"changed");

    // Without its name it goes on.
    fs::remove_file(&path).expect("removed");
    file.write_all_at(b"more", 0).expect("written");
    let found = file.metadata().expect("still there");
    assert_eq!((found.len(), found.nlink()), (200_003, 0));
    assert_eq!(fs::metadata(&path).expect_err("gone").kind(), io::ErrorKind::NotFound);
    drop(file);

    // The end of a file is where it is now, for each who appends.
    let appending =
        || OpenOptions::new().append(true).create(true).open(mounted.path("log")).expect("opened");
    let (mut one, mut two) = (appending(), appending());
    for _ in 0..3 {
        one.write_all(b"one ").expect("written");
        two.write_all(b"two ").expect("written");
    }
    assert_eq!(fs::read_to_string(mounted.path("log")).expect("read"), "one two ".repeat(3));

    // A time that somebody sets stays, also if the file was written before and is closed after it.
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::create(mounted.path("old")).expect("created");
    (&file).write_all(b"x").expect("written");
    let before = file.metadata().expect("there").modified().expect("a time");
    assert!(before > past);
    file.set_modified(past).expect("set");
    drop(file);
    assert_eq!(fs::metadata(mounted.path("old")).expect("there").modified().expect("a time"), past);

    fs::create_dir(mounted.path("d")).expect("made");
    fs::write(mounted.path("d/x"), "").expect("written");
    let errno = |outcome: io::Result<()>| outcome.expect_err("not to be done").raw_os_error();
    assert_eq!(errno(fs::remove_dir(mounted.path("d"))), Some(libc::ENOTEMPTY));
    assert_eq!(errno(fs::rename(mounted.path("d"), mounted.path("d/y"))), Some(libc::EINVAL));
    assert_eq!(errno(fs::rename(mounted.path("log"), mounted.path("d"))), Some(libc::EISDIR));
    assert_eq!(errno(std::os::unix::fs::symlink("x", mounted.path("link"))), Some(libc::EPERM));
    let long = "n".repeat(300);
    assert_eq!(errno(fs::write(mounted.path(&long), "")), Some(libc::ENAMETOOLONG));

    // More entries than fit one answer.
    for index in 0..1030 {
        File::create(mounted.path(&format!("d/{index:04}"))).expect("created");
    }
    let mut names: Vec<_> = fs::read_dir(mounted.path("d"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    let expected: Vec<String> =
        (0..1030).map(|index| format!("{index:04}")).chain(["x".to_owned()]).collect();
    assert_eq!(names, expected);
    fs::remove_dir_all(mounted.path("d")).expect("removed");
}

#[derive(Clone, Debug)]
enum Step {
    Write { file: u8, at: u32, len: u32 },
    Append { file: u8, len: u32 },
    Cut { file: u8, to: u32 },
    Rename { from: u8, to: u8 },
    Remove { file: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let (at, len) = (0u32..300_000, 1u32..150_000);
    prop_oneof![
        4 => (0u8..3, at.clone(), len.clone()).prop_map(|(file, at, len)| Step::Write { file, at, len }),
        1 => (0u8..3, len).prop_map(|(file, len)| Step::Append { file, len }),
        2 => (0u8..3, at).prop_map(|(file, to)| Step::Cut { file, to }),
        1 => (0u8..3, 0u8..3).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => (0u8..3).prop_map(|file| Step::Remove { file }),
    ]
}

/// Does a step in a directory; whether it worked, and how it did not.
fn play(step: &Step, seed: u64, dir: &Path) -> Result<(), Option<i32>> {
    let path = |file: &u8| dir.join(format!("f{file}"));
    let done = match step {
        Step::Write { file, at, len } => OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path(file))
            .and_then(|file| file.write_all_at(&noise(*len as usize, seed), u64::from(*at))),
        Step::Append { file, len } => OpenOptions::new()
            .append(true)
            .create(true)
            .open(path(file))
            .and_then(|mut file| file.write_all(&noise(*len as usize, seed))),
        Step::Cut { file, to } => {
            OpenOptions::new().write(true).open(path(file)).and_then(|file| file.set_len(u64::from(*to)))
        }
        Step::Rename { from, to } => fs::rename(path(from), path(to)),
        Step::Remove { file } => fs::remove_file(path(file)),
    };
    done.map_err(|error| error.raw_os_error())
}

#[test]
fn it_is_like_any_other_file_system() {
    let Some(mounted) = mounted("model", 3, "cache = 1M") else { return };
    let (model, real) = (mounted.site.bench.path("model"), mounted.path("d"));
    let mut runner = TestRunner::new(Config { cases: 8, failure_persistence: None, ..Config::default() });
    let steps = prop::collection::vec(step(), 1..20);
    let outcome = runner.run(&steps, |steps| {
        for dir in [&model, &real] {
            let _ = fs::remove_dir_all(dir);
            fs::create_dir(dir).expect("made");
        }
        for (step, seed) in steps.iter().zip(1..) {
            prop_assert_eq!(play(step, seed, &model), play(step, seed, &real), "{:?}", step);
            for file in 0..3 {
                let read = |dir: &Path| fs::read(dir.join(format!("f{file}"))).ok();
                let size =
                    |dir: &Path| fs::metadata(dir.join(format!("f{file}"))).ok().map(|found| found.len());
                prop_assert!(read(&model) == read(&real), "after {:?}", step);
                prop_assert_eq!(size(&model), size(&real), "after {:?}", step);
            }
        }
        Ok(())
    });
    outcome.expect("equal");
}

#[test]
fn two_write_one_file() {
    let Some(mounted) = mounted("writers", 2, "") else { return };
    const PIECE: usize = 10_007;
    let whole = noise(100 * PIECE, 3);
    let path = mounted.path("file");
    File::create(&path).expect("created");
    std::thread::scope(|scope| {
        for parity in 0..2 {
            let (path, whole) = (&path, &whole);
            scope.spawn(move || {
                let file = OpenOptions::new().write(true).open(path).expect("opened");
                for (index, piece) in whole.chunks(PIECE).enumerate().skip(parity).step_by(2) {
                    file.write_all_at(piece, (index * PIECE) as u64).expect("written");
                }
            });
        }
    });
    assert!(fs::read(&path).expect("read") == whole);
    mounted.site.good(&["cp", "part:/file", "copy"]);
    assert!(mounted.site.read("copy") == whole);
}

#[test]
fn nobody_writes_where_it_is_read_only() {
    if !has_fuse() {
        return;
    }
    let site = Site::new("mount-ro", 1, "");
    site.write("file", b"text");
    site.good(&["cp", "file", "part:/"]);
    fs::create_dir(site.bench.path("m")).expect("a directory");
    site.good(&["mount", "--read-only", "part", "m"]);
    let mounted = Mounted { site };
    assert_eq!(fs::read(mounted.path("file")).expect("read"), b"text");
    let error = fs::write(mounted.path("file"), "other").expect_err("read-only");
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
}

#[test]
fn what_a_killed_process_leaves_can_be_removed() {
    if !has_fuse() {
        return;
    }
    let site = Site::new("mount-killed", 1, "");
    let mut child = foreground(&site);
    fs::write(site.bench.path("m/file"), "kept").expect("written");
    let open = File::open(site.bench.path("m/file")).expect("opened");
    kill("-9", &child.id().to_string());
    child.wait().expect("ended");
    let error = fs::metadata(site.bench.path("m/file")).expect_err("nobody serves it");
    assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN));
    assert!((&open).read(&mut [0; 4]).is_err());
    drop(open);
    assert!(site.bad(1, &["mount", "part", "m"]).contains("is mounted at"));
    site.good(&["umount", "m"]);
    site.good(&["mount", "part", "m"]);
    let mounted = Mounted { site };
    assert_eq!(fs::read(mounted.path("file")).expect("read"), b"kept");
}

#[test]
fn a_dead_server_is_an_error_and_no_hang() {
    let Some(mounted) = mounted("dead", 2, "supervise = false\ndeadline = 1s") else { return };
    fs::write(mounted.path("file"), "").expect("written");
    let pid = mounted.site.pid(1).to_string();
    kill("-9", &pid);
    await_that("it is still there", || !Path::new("/proc").join(&pid).exists());
    // More than a stripe, so that both servers have to take some.
    let error = fs::write(mounted.path("file"), noise(200_000, 5)).expect_err("half of it cannot be stored");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    // The names are with the other one.
    assert_eq!(fs::read_dir(mounted.path("")).expect("a directory").count(), 1);
}

#[test]
fn it_ends_when_it_should() {
    if !has_fuse() {
        return;
    }
    let site = Site::new("mount-ends", 1, "");
    // By a signal, even in use.
    let mut child = foreground(&site);
    let open = File::create(site.bench.path("m/open")).expect("created");
    let said = site.bad(1, &["umount", "m"]);
    assert!(said.contains("m is in use: ") && said.contains("--lazy"), "{said}");
    kill("-TERM", &child.id().to_string());
    assert!(child.wait().expect("ended").success());
    assert!(!is_mounted(&site));
    drop(open);
    // By being unmounted.
    let mut child = foreground(&site);
    site.good(&["umount", "m"]);
    assert!(child.wait().expect("ended").success());
    // With its partition.
    let mut child = foreground(&site);
    site.down();
    assert!(child.wait().expect("ended").success());
    assert!(!is_mounted(&site));
}

#[test]
fn what_cannot_be_mounted_is_said_in_one_line() {
    let site = Site::new("mount-cannot", 1, "");
    assert!(site.bad(1, &["umount", "."]).contains("no partition is mounted at ."));
    assert!(site.bad(1, &["mount", "other", "."]).contains("other"));
    if !has_fuse() {
        assert!(site.bad(1, &["mount", "part", "m"]).contains("/dev/fuse"));
        return;
    }
    assert!(site.bad(1, &["mount", "part", "m"]).contains("m: No such file or directory"));
    assert!(site.bad(1, &["mount", "part", "."]).contains("not empty"));
    site.down();
    fs::create_dir(site.bench.path("m")).expect("a directory");
    let said = site.bad(1, &["mount", "part", "m"]);
    assert!(said.contains("part"), "{said}");
}
