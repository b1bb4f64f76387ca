//! `status`: for people, for programs, for Prometheus; and when a server is gone.

use crate::bench::text;
use crate::site::{Site, await_that, noise};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn servers_tell_how_they_are() {
    let site = Site::new("status", 2, "");
    site.write("file", &noise(1 << 20, 12));
    site.good(&["cp", "file", "part:/"]);
    let said = site.good(&["status"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "partition part: 2 of 2 servers up, 1 file, 1 directory, 0 open");
    assert!(lines[1].starts_with("SRV  HOST") && lines[2].contains("  up  "), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");

    let status = &site.json(&["status", "part", "--json"])[0];
    let servers = status["servers"].as_array().expect("servers");
    assert_eq!(
        (servers.len(), &servers[0]["files"], &servers[1]["state"]),
        (2, &1.into(), &"answers".into())
    );
    let flushed: u64 =
        servers.iter().map(|one| one["cache"]["flushed_blocks"].as_u64().expect("a number")).sum();
    assert!(flushed >= 16, "a close has everything stored: {status}");

    let metrics = site.good(&["status", "--metrics"]);
    assert!(metrics.contains("# TYPE pario_requests_total counter\n"), "{metrics}");
    assert!(metrics.contains("pario_up{partition=\"part\",server=\"1\"} 1\n"), "{metrics}");
    assert!(metrics.contains("pario_files{partition=\"part\",server=\"0\"} 1\n"), "{metrics}");

    // Again and again, until nobody reads any more.
    let mut watching = site.pario(&["status", "part", "--watch", "1", "--json"]);
    let mut child = watching.stdout(Stdio::piped()).spawn().expect("pario runs");
    let mut rounds = BufReader::new(child.stdout.take().expect("piped")).lines();
    for _ in 0..2 {
        let line = rounds.next().expect("a round").expect("read");
        let round: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(round[0]["servers"][0]["state"], "answers");
    }
    drop(rounds);
    assert!(child.wait().expect("ended").success());
}

#[test]
fn a_server_that_is_gone_hides_no_other() {
    let site = Site::new("gone", 2, "supervise = false");
    // The metadata server of all.
    let pid = site.pid(0).to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().expect("kill runs").success());
    await_that("it is still there", || !site.run(&["status", "part"]).status.success());
    let output = site.run(&["status", "part"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("partition part: 1 of 2 servers up\n"), "{said}");
    assert!(said.contains("silent") && said.contains("  server 0 does not answer: "), "{said}");
    let output = site.run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let states = [0, 1].map(|server| status[0]["servers"][server]["state"].as_str().unwrap_or("").to_owned());
    assert_eq!(states, ["silent", "answers"]);
    assert!(
        text(&site.run(&["status", "--metrics"]).stdout)
            .contains("pario_up{partition=\"part\",server=\"0\"} 0\n")
    );

    site.up();
    site.good(&["status", "part"]);
    site.down();
    let output = site.run(&["status", "part"]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("partition part: down\n", Some(1)));
    assert_eq!(site.good(&["status"]), "partition part: down\n");
    assert!(site.bad(1, &["status", "other"]).contains("no partition is called other"));
}
