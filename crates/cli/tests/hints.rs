//! `pario hints` as users and scripts call it.

use std::path::Path;
use std::process::{Command, Output};

fn hints(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pario")).arg("hints").args(arguments).output().expect("pario runs")
}

fn file(name: &str, text: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("a path").to_owned()
}

#[test]
fn the_table_lists_every_hint_and_json_has_the_same() {
    let listing = String::from_utf8(hints(&[]).stdout).expect("text");
    let all: serde_json::Value = serde_json::from_slice(&hints(&["--json"]).stdout).expect("JSON");
    let all = all.as_array().expect("a list");
    assert!(all.len() >= 25);
    for hint in all {
        assert!(listing.contains(hint["name"].as_str().expect("a name")), "{hint}");
    }
}

#[test]
fn one_hint_is_explained() {
    let output = hints(&["stripe_size"]);
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.starts_with("striping_unit\n") && said.contains("allowed  a size from"), "{said}");
    let one: serde_json::Value =
        serde_json::from_slice(&hints(&["cb_buffer_size", "--json"]).stdout).expect("JSON");
    assert_eq!(one["default"], "16777216");
    let output = hints(&["cb_buffersize"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is cb_buffer_size meant?"));
}

#[test]
fn a_hint_file_is_checked_line_by_line() {
    let good = file("good-hints", b"# fine\nnb_proc 4\nromio_only_hint 1\n");
    let output = hints(&["--check", &good]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(said.lines().next(), Some("   2: accepted  nb_proc = 4 (no effect yet)"));
    assert!(said.contains("   3: unknown   romio_only_hint"), "{said}");

    let bad = file("bad-hints", b"ind_rd_buffer_size -1\n\xff\xfe\n");
    let output = hints(&["--check", &bad, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&all[0]["verdict"], &all[1]["verdict"]), (&"refused".into(), &"skipped".into()));

    let output = hints(&["--check", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/file"));
}
