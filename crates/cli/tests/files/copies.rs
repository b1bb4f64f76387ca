//! `cp`: both ways and within, and after an interruption.

use crate::bench::text;
use crate::site::{Site, await_that, noise, taken};
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

fn set(path: &Path, mode: u32, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    let times = FileTimes::new().set_accessed(time).set_modified(time);
    File::open(path).and_then(|file| file.set_times(times)).expect("times");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Names, sorted, with what there is to compare of each.
fn tree(path: &Path) -> Vec<(String, u32, SystemTime, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut left = vec![path.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("listed") {
            let path_of = entry.expect("an entry").path();
            let metadata = fs::metadata(&path_of).expect("metadata");
            let bytes = metadata.is_file().then(|| fs::read(&path_of).expect("read"));
            if metadata.is_dir() {
                left.push(path_of.clone());
            }
            let name = path_of.strip_prefix(path).expect("within").display().to_string();
            found.push((name, metadata.permissions().mode(), metadata.modified().expect("a time"), bytes));
        }
    }
    found.sort();
    found
}

#[test]
fn a_tree_goes_in_and_comes_out_the_same() {
    let site = Site::new("tree", 3, "cache = 4M");
    site.write("tree/large", &noise(12_345_678, 1));
    site.write("tree/empty", b"");
    site.write("tree/dir/ünï cödé", "ü".as_bytes());
    site.write("tree/dir/inner/small", &noise(70_000, 2));
    for number in 0..40 {
        site.write(&format!("tree/many/{number}"), &noise(number * 100, 3));
    }
    let sparse = File::create(site.bench.path("tree/sparse")).expect("created");
    sparse.set_len(16 << 20).expect("a length");
    sparse.write_all_at(b"in the middle", 9_000_000).expect("written");
    set(&site.bench.path("tree/large"), 0o640, 1_500_000_000);
    set(&site.bench.path("tree/sparse"), 0o400, 1_600_000_000);
    set(&site.bench.path("tree/dir/inner"), 0o500, 1_400_000_000);
    set(&site.bench.path("tree/dir"), 0o750, 1_300_000_000);

    let done = site.json(&["cp", "-r", "--json", "tree", "part:/"]);
    assert_eq!((&done["files"], &done["directories"]), (&45.into(), &4.into()), "{done}");
    assert_eq!(site.json(&["du", "-s", "--json", "part:/tree"])[0]["files"], 45);
    // Holes are not read and not stored.
    assert!(done["moved_bytes"].as_u64().is_some_and(|moved| moved < 20 << 20), "{done}");
    let id = site.id("part:/tree/sparse");
    let stored: u64 = (0..3).map(|server| taken(&site.stored(server, &id))).sum();
    assert!(stored < 1 << 20, "{stored} bytes for 13");

    site.good(&["cp", "-r", "part:/tree", "back"]);
    assert_eq!(tree(&site.bench.path("back")), tree(&site.bench.path("tree")));
    assert!(taken(&site.bench.path("back/sparse")) < 1 << 20);
    assert!(site.good(&["check", "part"]).ends_with("nothing is wrong\n"));

    // Within the partition; what has no name of its own stands for what is in it; what is there is replaced.
    site.good(&["mkdir", "part:/copy"]);
    site.write("tree2/empty", b"no longer");
    site.good(&["cp", "-r", "part:/tree", "part:/copy"]);
    site.good(&["cp", "-r", "tree2/.", "part:/copy/tree"]);
    assert_eq!(site.good(&["cat", "part:/copy/tree/empty"]), "no longer");
    let (one, other) = (
        site.json(&["ls", "-R", "--json", "part:/tree"]),
        site.json(&["ls", "-R", "--json", "part:/copy/tree"]),
    );
    assert_eq!(one.as_array().map(Vec::len), other.as_array().map(Vec::len));
    site.good(&["cp", "part:/copy/tree/large", "large"]);
    assert_eq!(site.read("large"), site.read("tree/large"));

    // Again with --resume: nothing is to be done but for what changed.
    site.write("tree/many/7", b"changed");
    let done = site.json(&["cp", "-r", "--resume", "--json", "tree", "part:/"]);
    assert_eq!(
        (&done["files"], &done["unchanged"], &done["moved_bytes"]),
        (&1.into(), &44.into(), &7.into())
    );
    fs::set_permissions(site.bench.path("tree/dir/inner"), fs::Permissions::from_mode(0o700))
        .expect("a mode");
    fs::set_permissions(site.bench.path("back/dir/inner"), fs::Permissions::from_mode(0o700))
        .expect("a mode");
}

#[test]
fn what_makes_no_sense_is_refused_and_the_rest_is_copied() {
    let site = Site::new("refused", 1, "");
    site.write("one", b"1");
    site.write("tree/two", b"22");
    site.write("other/one", b"other");
    fs::create_dir(site.bench.path("tree/target")).expect("a directory");
    symlink("../one", site.bench.path("tree/link")).expect("a link");
    symlink("target", site.bench.path("tree/dirlink")).expect("a link");
    assert!(Command::new("mkfifo").arg(site.bench.path("pipe")).status().expect("mkfifo runs").success());
    site.good(&["mkdir", "part:/dir"]);
    for (arguments, words) in [
        (&["cp", "none", "part:/"][..], "none: no such file or directory"),
        (&["cp", "part:/none", "."], "part:/none: no such file or directory"),
        (&["cp", "tree", "part:/"], "tree: a directory; copy it with -r"),
        (&["cp", "one", "part:/nodir/"], "part:/nodir: no directory"),
        (&["cp", "one", "tree/two", "part:/file"], "part:/file: no directory"),
        (&["cp", "one", "part:/nodir/one"], "cannot write part:/nodir/.one.pario-part"),
        (&["cp", "one", "other/one", "part:/dir"], "other/one: two of that name"),
        (&["cp", "-r", "part:/dir", "part:/dir/inner"], "a directory cannot be copied into itself"),
        (&["cp", "-r", "tree", "tree/target"], "a directory cannot be copied into itself"),
        (&["cp", "one", "pipe"], "pipe: not a file: a copy does not take its place"),
        (&["cp", "one", "./one"], "one and ./one: they are the same file"),
        (&["cp", "-r", "part:/dir", "one"], "one: a file, where a directory is to be made"),
        (&["cp", "part:/dir/x", "other:/"], "no partition is called other"),
    ] {
        let error = site.bad(1, arguments);
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    assert_eq!(site.run(&["cp", "one"]).status.code(), Some(2));
    assert_eq!(site.run(&["cp", "--chunk", "1", "one", "part:/"]).status.code(), Some(2));

    // A link to a file is a file; one to a directory is not followed unless that is asked for.
    let output = site.run(&["cp", "-r", "tree", "part:/"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "pario: tree/dirlink: a link to a directory; -L copies what it leads to\n"
    );
    assert_eq!(site.good(&["ls", "part:/tree"]), "link\ntarget\ntwo\n");
    assert_eq!(site.good(&["cat", "part:/tree/link", "part:/tree/two"]), "122");
    symlink("..", site.bench.path("tree/target/round")).expect("a link");
    let output = site.run(&["cp", "-rL", "tree", "part:/"]);
    assert!(
        text(&output.stderr).contains("round: a link to a directory that it is in"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(site.good(&["ls", "-a", "part:/tree"]), "dirlink\nlink\ntarget\ntwo\n");
    // A copy goes where a link leads to.
    symlink("other/one", site.bench.path("away")).expect("a link");
    site.good(&["cp", "part:/tree/two", "away"]);
    assert_eq!((site.read("other/one"), site.bench.path("away").is_symlink()), (b"22".to_vec(), true));
    // Nothing is left but copies.
    assert_eq!(site.good(&["ls", "-a", "part:/dir"]), "");
}

/// Of files that are copied slowly.
const SIZE: usize = 12 << 20;

/// Copies slowly, kills that when `is_noted` says that it has noted how far it is, and goes on.
fn interrupted(site: &Site, source: &str, target: &str, is_noted: impl Fn() -> bool) -> serde_json::Value {
    let mut child = site.start(&["cp", "--chunk", "256K", "--limit", "3M", source, target]);
    await_that("no note of how far it is", &is_noted);
    child.kill().expect("killed");
    child.wait().expect("ended");
    site.json(&["cp", "--resume", "--json", source, target])
}

#[test]
fn a_copy_in_that_was_killed_goes_on_where_it_was() {
    let site = Site::new("resume-in", 2, "");
    site.write("file", &noise(SIZE, 5));
    let done = interrupted(&site, "file", "part:/file", || {
        site.good(&["ls", "-a", "part:/"]).contains(".file.pario-state\n")
    });
    assert!(done["moved_bytes"].as_u64().is_some_and(|moved| moved < SIZE as u64), "{done}");
    assert_eq!((&done["files"], site.good(&["ls", "-a", "part:/"]).as_str()), (&1.into(), "file\n"));
    assert!(site.run(&["cat", "part:/file"]).stdout == site.read("file"));
}

#[test]
fn a_copy_out_that_was_killed_goes_on_where_it_was() {
    let site = Site::new("resume-out", 2, "");
    site.write("file", &noise(SIZE, 5));
    site.good(&["cp", "file", "part:/"]);
    fs::create_dir(site.bench.path("out")).expect("a directory");
    let state = site.bench.path("out/.file.pario-state");
    let done = interrupted(&site, "part:/file", "out/file", || state.exists());
    assert!(done["moved_bytes"].as_u64().is_some_and(|moved| moved < SIZE as u64), "{done}");
    assert!(site.read("out/file") == site.read("file"));
    assert_eq!(fs::read_dir(site.bench.path("out")).expect("listed").count(), 1);
}

#[test]
fn another_source_is_not_gone_on_with() {
    let site = Site::new("changed", 2, "");
    site.write("file", &noise(SIZE, 6));
    fs::create_dir(site.bench.path("out")).expect("a directory");
    let state = site.bench.path("out/.file.pario-state");
    let mut child = site.start(&["cp", "--chunk", "256K", "--limit", "3M", "file", "out/file"]);
    await_that("no note of how far it is", || state.exists());
    child.kill().expect("killed");
    child.wait().expect("ended");
    // Of the same size, but of another time.
    site.write("file", &noise(SIZE, 7));
    let done = site.json(&["cp", "--resume", "--json", "file", "out/file"]);
    assert_eq!(done["moved_bytes"], SIZE, "{done}");
    assert_eq!(site.read("out/file"), site.read("file"));
    assert_eq!(fs::read_dir(site.bench.path("out")).expect("listed").count(), 1);
    // How far it is, for those who want to know.
    let output = site.run(&["cp", "--progress", "file", "part:/"]);
    assert!(text(&output.stderr).starts_with("copied 1 file, 12M in "), "{}", text(&output.stderr));
}
