//! `check`: what is wrong is found, named and put right.

use crate::bench::text;
use crate::site::{Site, await_that, noise};
use pario_registry::Registry;
use pario_transport::{Address, Connection, SocketOptions};
use pario_types::{ClientId, RequestId, ServerId};
use pario_wire::greeting::{Hello, Role};
use pario_wire::message::{CreateMode, LayoutRequest, OpenAccess};
use pario_wire::{Envelope, Reply, Request};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// The findings, and the exit code.
fn check(site: &Site, more: &[&str]) -> (Vec<serde_json::Value>, Option<i32>) {
    let output = site.run(&[&["check", "part", "--json"], more].concat());
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["troubles"].as_array().map(Vec::len), Some(0), "{said}");
    (said["findings"].as_array().expect("findings").clone(), output.status.code())
}

#[test]
fn a_flipped_byte_is_found_and_named() {
    let site = Site::new("flipped", 2, "");
    let mut bytes = noise(1 << 20, 8);
    site.write("file", &bytes);
    site.write("other", &noise(300_000, 9));
    site.good(&["mkdir", "part:/dir"]);
    site.good(&["cp", "file", "part:/dir/file"]);
    site.good(&["cp", "other", "part:/"]);
    assert_eq!(check(&site, &[]), (Vec::new(), Some(0)));
    let said = site.good(&["check", "part"]);
    assert!(
        said.starts_with("partition part: 2 files and 2 directories checked, 1.3M of bytes in 4 parts"),
        "{said}"
    );

    // Stripes and blocks are 64 KiB, so block 2 of the first server holds stripe 4 of the file.
    let layout = &site.json(&["stat", "--json", "part:/dir/file"])[0]["layout"];
    let first = layout["first_server"].as_u64().expect("a server") as usize;
    let id = site.id("part:/dir/file");
    let stored = OpenOptions::new().write(true).open(site.stored(first, &id)).expect("a part");
    let at = 4 * 65536 + 77;
    bytes[at] ^= 1;
    stored.write_all_at(&bytes[at..at + 1], 2 * 65536 + 77).expect("written");
    let output = site.run(&["check", "part"]);
    let line = text(&output.stdout).lines().next().expect("a finding").to_owned();
    assert_eq!(
        (output.status.code(), line),
        (
            Some(1),
            format!(
                "damaged  /dir/file: bytes 262144-327679 (server {first}, 1 block of {id}): \
                 the checksum differs"
            )
        )
    );
    // It is not put right by the way, but if it is asked for.
    let (found, code) = check(&site, &["--repair"]);
    assert_eq!(
        (&found[0]["fault"], &found[0]["repaired"], code),
        (&"damaged".into(), &false.into(), Some(1))
    );
    assert_eq!((&found[0]["bytes"][0][0], &found[0]["path"]), (&262_144.into(), &"/dir/file".into()));
    assert_eq!(site.run(&["check", "part", "--accept-damaged"]).status.code(), Some(2));
    let (found, code) = check(&site, &["--repair", "--accept-damaged"]);
    assert_eq!((found.len(), &found[0]["repaired"], code), (1, &true.into(), Some(0)));
    assert_eq!(check(&site, &[]), (Vec::new(), Some(0)));
    // As it is stored, so it is read; the caches of servers are empty after a start.
    site.down();
    site.up();
    assert!(site.run(&["cat", "part:/dir/file"]).stdout == bytes);
}

#[test]
fn names_and_bytes_that_do_not_fit_are_found_and_put_right() {
    let site = Site::new("misfits", 2, "deadline = 1s");
    for name in ["one", "two", "three"] {
        site.write(name, &noise(300_000, 10));
        site.good(&["cp", name, "part:/"]);
    }
    site.good(&["cp", "--stripe-count", "1", "one", "part:/single"]);
    let ids = ["part:/one", "part:/two", "part:/single"].map(|path| site.id(path));
    let single = &site.json(&["stat", "--json", "part:/single"])[0]["layout"]["servers"][0]["server"];
    let holder = single.as_u64().expect("a server") as usize;
    site.down();
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        for extension in ["", "sums"] {
            fs::copy(from.with_extension(extension), to.with_extension(extension)).expect("copied");
        }
    };
    // A part of a file that nobody knows; one where it does not belong; and one that is gone.
    copy(&site.stored(0, &ids[0]), &site.stored(0, "0000000000000fff"));
    copy(&site.stored(holder, &ids[2]), &site.stored(1 - holder, &ids[2]));
    for server in 0..2 {
        for extension in ["", "sums"] {
            fs::remove_file(site.stored(server, &ids[1]).with_extension(extension)).expect("removed");
        }
    }
    site.up();
    // The metadata server completes a truncation whose client is gone.
    begin_to_truncate(&site, "/three", 100_000);
    let size = || site.json(&["ls", "--json", "part:/three"])[0]["size"].clone();
    await_that("the truncation is not completed", || size() == 100_000);

    let (found, code) = check(&site, &[]);
    let facts = |found: &[serde_json::Value]| -> Vec<(String, String, bool)> {
        let fact = |one: &serde_json::Value| {
            let path = one["path"].as_str().unwrap_or("-").to_owned();
            (one["fault"].as_str().expect("a fault").to_owned(), path, one["repaired"] == true)
        };
        let mut facts: Vec<_> = found.iter().map(fact).collect();
        facts.sort();
        facts
    };
    let expected = |faults: &[(&str, &str)], repaired: bool| {
        faults.iter().map(|(fault, path)| (fault.to_string(), path.to_string(), repaired)).collect::<Vec<_>>()
    };
    // Both servers miss their parts of a file: that is damage, and its size is not known.
    let faults = [("damaged", "/two"), ("damaged", "/two"), ("orphan", "-"), ("stray", "/single")];
    assert_eq!((facts(&found), code), (expected(&faults, false), Some(1)));
    assert!(!site.run(&["cat", "part:/two"]).status.success());
    let (found, code) = check(&site, &["--repair", "--accept-damaged"]);
    assert_eq!((facts(&found), code), (expected(&faults, true), Some(0)));
    let (found, code) = check(&site, &["--repair"]);
    assert_eq!((facts(&found), code), (expected(&[("size", "/two")], true), Some(0)));
    assert_eq!((&found[0]["believed"], &found[0]["held"]), (&300_000.into(), &0.into()));
    assert_eq!(check(&site, &[]), (Vec::new(), Some(0)));
    assert_eq!(site.json(&["ls", "--json", "part:/three"])[0]["size"], 100_000);
    assert_eq!(site.json(&["ls", "--json", "part:/two"])[0]["size"], 0);
    for path in ["part:/one", "part:/single"] {
        assert!(site.run(&["cat", path]).stdout == site.read("one"), "{path}");
    }
    assert!(!site.stored(0, "0000000000000fff").exists());
}

/// As a client that dies after it has begun.
fn begin_to_truncate(site: &Site, path: &str, size: u64) {
    let registry = Registry::open(&site.bench.path("home")).expect("a registry");
    let entry = registry.get("part").expect("a partition");
    let secret = registry.secret(entry.id).expect("a secret");
    let (partition, server) = (entry.id, ServerId(0));
    let (client, role, resume_ledger) = (ClientId(99), Role::Client, None);
    let epoch = entry.epoch;
    let hello = Hello { partition, server, servers: 2, epoch, client, program: 1, role, resume_ledger };
    let address = Address::Unix(entry.running[&server].unix.clone().into());
    let deadline = Instant::now() + Duration::from_secs(60);
    let connected = Connection::connect(&address, &SocketOptions::default(), &hello, &secret, deadline);
    let (mut connection, ..) = connected.expect("connected");
    let mut call = |id, request: &Request| {
        connection
            .call(Envelope::new(server, RequestId(id)), request, &[], &mut [], deadline)
            .expect("an answer")
    };
    let (path, access, create, layout_request) =
        (path.to_owned(), OpenAccess::Write, CreateMode::Never, LayoutRequest::default());
    let Reply::Opened { attributes, .. } =
        call(1, &Request::Open { path, access, create, mode: 0, layout_request })
    else {
        panic!("not opened")
    };
    let begun = call(2, &Request::BeginTruncate { file: attributes.file, size });
    assert!(matches!(begun, Reply::Truncation { .. }), "{begun:?}");
}

#[test]
fn what_cannot_be_checked_is_not_called_right() {
    let site = Site::new("uncheckable", 2, "supervise = false\ndeadline = 1s");
    site.write("file", &noise(300_000, 11));
    site.good(&["cp", "file", "part:/"]);
    let pid = site.pid(1).to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().expect("kill runs").success());
    let error = site.bad(2, &["check", "part"]);
    assert!(error.contains("server 1 of partition part did not answer"), "{error}");
    assert!(site.bad(2, &["check", "other"]).contains("no partition is called other"));
    site.up();
    assert_eq!(check(&site, &[]), (Vec::new(), Some(0)));
}
