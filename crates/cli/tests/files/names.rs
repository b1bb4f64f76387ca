//! `ls`, `stat`, `cat`, `mkdir`, `mv`, `rm`, `du`, `df`.

use crate::bench::text;
use crate::site::Site;

/// Words of a line, with one space between them.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn names_are_made_listed_changed_and_removed() {
    let site = Site::new("names", 2, "");
    site.good(&["mkdir", "part:/a", "pario:part/b"]);
    assert!(site.bad(1, &["mkdir", "part:/a"]).contains("cannot make part:/a: server 0: /a: exists"));
    site.good(&["mkdir", "-p", "part:/a", "part:/a/x/y"]);
    site.write("hello", b"hello");
    site.write("six", b"worlds");
    site.good(&["cp", "hello", "six", "part:/a"]);
    site.good(&["cp", "hello", "part:/a/.hidden"]);
    assert_eq!(site.good(&["ls", "part:/"]), "a\nb\n");
    assert_eq!(site.good(&["ls", "part:/a"]), "hello\nsix\nx\n");
    assert_eq!(site.good(&["ls", "-a", "part:/a"]), ".hidden\nhello\nsix\nx\n");
    assert_eq!(site.good(&["ls", "-d", "part:/a", "part:/a/six"]), "part:/a\npart:/a/six\n");
    assert_eq!(
        site.good(&["ls", "-R", "part:/a/x", "part:/b"]),
        "part:/a/x:\ny\n\npart:/a/x/y:\n\npart:/b:\n"
    );
    let long = site.good(&["ls", "-l", "part:/a"]);
    let lines: Vec<String> = long.lines().map(words).collect();
    assert!(
        lines[0].starts_with("-rw-") && lines[0].contains(" 0 5 20") && lines[0].ends_with(" hello"),
        "{long}"
    );
    assert!(lines[2].starts_with("drwxr-xr-x 0 - 20") && lines[2].ends_with(" x"), "{long}");
    let listed = site.json(&["ls", "--json", "part:/a"]);
    assert_eq!((&listed[1]["path"], &listed[1]["size"]), (&"part:/a/six".into(), &6.into()));
    assert_eq!((&listed[2]["kind"], &listed[2]["entries"]), (&"directory".into(), &1.into()));

    // The partition that the environment names.
    let output =
        site.pario(&["ls", "pario:/a/x"]).env("PARIO_PARTITION", "part").output().expect("pario runs");
    assert_eq!(text(&output.stdout), "y\n");
    let output = site.pario(&["ls"]).env("PARIO_PARTITION", "part").output().expect("pario runs");
    assert_eq!(text(&output.stdout), "a\nb\n");
    assert!(site.bad(2, &["ls", "pario:/a"]).contains("set PARIO_PARTITION"));
    assert!(site.bad(2, &["ls", "a"]).contains("a is not in a partition: write NAME:/path"));
    assert!(site.bad(1, &["ls", "other:/a"]).contains("no partition is called other"));
    assert!(site.bad(1, &["ls", "part:/none"]).contains("cannot list part:/none: server 0: /none: no such"));

    assert_eq!(site.good(&["cat", "part:/a/hello", "part:/a/six"]), "helloworlds");
    assert!(site.bad(1, &["cat", "part:/a"]).contains("is a directory"));

    assert_eq!(site.good(&["du", "part:/a"]), "0\tpart:/a/x/y\n0\tpart:/a/x\n16\tpart:/a\n");
    assert_eq!(site.good(&["du", "-sh", "part:/a", "part:/a/six"]), "16\tpart:/a\n6\tpart:/a/six\n");
    let sums = site.json(&["du", "-s", "--json", "part:/"]);
    assert_eq!((&sums[0]["files"], &sums[0]["directories"]), (&3.into(), &5.into()));

    site.good(&["mv", "part:/a/six", "part:/a/seven"]);
    site.good(&["mv", "part:/a/hello", "part:/a/seven", "part:/b"]);
    assert_eq!(site.good(&["ls", "part:/b"]), "hello\nseven\n");
    assert!(site.bad(1, &["mv", "-n", "part:/b/hello", "part:/b/seven"]).contains("/b/seven: exists"));
    site.good(&["mv", "part:/b/hello", "part:/b/seven"]);
    assert_eq!(site.good(&["cat", "part:/b/seven"]), "hello");
    assert!(
        site.bad(1, &["mv", "part:/b/seven", "other:/b"]).contains("different partitions; use 'pario cp'")
    );
    assert!(site.bad(1, &["mv", "part:/a", "part:/b", "part:/c"]).contains("part:/c: no directory"));
    assert!(site.bad(1, &["mv", "part:/a", "part:/a/x"]).contains("cannot become /a/x/a, a part of itself"));

    assert!(site.bad(1, &["rm", "part:/a"]).contains("part:/a: a directory; remove it with -r"));
    assert!(site.bad(1, &["rm", "part:/none"]).contains("no such file"));
    assert!(site.bad(1, &["rm", "-r", "part:/"]).contains("the root directory of a partition stays"));
    let removed = site.json(&["rm", "-rf", "--json", "part:/a", "part:/none", "part:/b/seven"]);
    assert_eq!(removed["done"].as_array().map(Vec::len), Some(3));
    assert_eq!(site.good(&["ls", "-R", "part:/"]), "part:/:\nb\n\npart:/b:\n");
    // One that fails does not keep the others from being done.
    let output = site.run(&["mkdir", "--json", "part:/none/c", "part:/c"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &said["done"][0]), (Some(1), &"part:/c".into()));
    assert!(
        said["failed"][0]["error"].as_str().is_some_and(|error| error.contains("no such file")),
        "{said}"
    );
}

#[test]
fn stat_says_where_stripes_are_and_df_how_much_room_there_is() {
    let site = Site::new("stat", 3, "");
    site.write("file", &[7; 200_000]);
    site.good(&["cp", "--stripe-size", "4K", "--stripe-count", "2", "file", "part:/striped"]);
    let said = site.good(&["stat", "part:/striped"]);
    assert!(said.contains("layout    stripes of 4K over 2 of 3 servers"), "{said}");
    assert!(said.contains("size      200000  (195K)") && said.contains("-rw-"), "{said}");
    let layout = &site.json(&["stat", "--json", "part:/striped"])[0]["layout"];
    assert_eq!((&layout["stripe"], &layout["count"]), (&4096.into(), &2.into()));
    let first = layout["first_server"].as_u64().expect("a server");
    for (place, bytes) in [(0, 101_696), (1, 98_304)] {
        let share = &layout["servers"][place];
        let expected = ((first + place as u64) % 3, place as u64 * 4096, 8192, bytes);
        let number = |name: &str| share[name].as_u64().expect("a number");
        assert_eq!((number("server"), number("first_at"), number("then_every"), number("bytes")), expected);
    }
    let directory = &site.json(&["stat", "--json", "part:/"])[0];
    assert_eq!((&directory["kind"], directory.get("layout")), (&"directory".into(), None));
    assert!(site.good(&["stat", "part:/"]).contains("mode      0755  drwxr-xr-x"));
    assert!(site.bad(1, &["stat", "part:/none"]).contains("cannot look at part:/none"));

    let room = &site.json(&["df", "--json", "part"])[0];
    let sum = |name: &str| -> u64 {
        let servers = room["servers"].as_array().expect("servers").iter();
        servers.map(|server| server[name].as_u64().expect("a number")).sum()
    };
    assert_eq!((sum("parts"), &room["all"]["parts"]), (2, &2.into()));
    assert!(sum("used") >= 200_000 && sum("total") > sum("free"), "{room}");
    let said = site.good(&["df", "-h"]);
    assert_eq!(words(said.lines().nth(1).expect("a head")), "SERVER HOST TOTAL USED FREE FULL PARTS");
    assert!(words(said.lines().nth(5).expect("a sum")).starts_with("all "), "{said}");
    site.down();
    assert!(site.good(&["df"]).starts_with("no partition is up"));
    assert!(site.bad(1, &["df", "part"]).contains("cannot use partition part: server 0"));
    site.up();
    assert_eq!(site.good(&["cat", "part:/striped"]).len(), 200_000);
}
