//! A partition of a test: started by `pario up` in a directory of its own, and always taken down.

use crate::bench::{Bench, text};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A partition called `part`, and the directory that its files are in.
pub struct Site {
    pub bench: Bench,
    servers: usize,
}

impl Site {
    /// A partition with so many servers, and these lines in its description.
    pub fn new(name: &str, servers: usize, more: &str) -> Site {
        let bench = Bench::new(&format!("files-{name}"));
        let resources: String = (0..servers)
            .map(|server| format!("ahpfs_server = {}\n", bench.path(&format!("d{server}")).display()))
            .collect();
        std::fs::write(bench.path("part.conf"), format!("{resources}stripe_size = 64k\n{more}\n"))
            .expect("written");
        let site = Site { bench, servers };
        site.up();
        site
    }

    pub fn up(&self) {
        self.good(&["up", "./part.conf"]);
    }

    pub fn down(&self) {
        self.good(&["down", "part"]);
    }

    pub fn pario(&self, arguments: &[&str]) -> Command {
        let mut command = self.bench.pario(arguments);
        command
            .env("PARIO_HOME", self.bench.path("home"))
            .env_remove("PARIO_PARTITION")
            .env_remove("PARIO_RUN");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.pario(arguments).output().expect("pario runs")
    }

    /// What it prints, if it does what it should.
    pub fn good(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (said, cried) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {cried}{said}");
        assert_eq!(cried, "", "{arguments:?}");
        said
    }

    /// The same as JSON.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.good(arguments)).expect("JSON")
    }

    /// The one line of an error, if it ends with this code.
    pub fn bad(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let cried = text(&output.stderr);
        assert_eq!((output.status.code(), cried.lines().count()), (Some(code), 1), "{arguments:?}: {cried}");
        cried
    }

    /// A file of this host with these bytes.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.bench.path(name);
        std::fs::create_dir_all(path.parent().expect("in a directory")).expect("a directory");
        std::fs::write(&path, bytes).expect("written");
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.bench.path(name)).expect("read")
    }

    /// The number of a file of the partition.
    pub fn id(&self, path: &str) -> String {
        self.json(&["stat", "--json", path])[0]["id"].as_str().expect("an id").to_owned()
    }

    /// Where a server keeps its part of a file, by the file's number.
    pub fn stored(&self, server: usize, id: &str) -> PathBuf {
        assert!(server < self.servers);
        let fan = &id[id.len() - 2..];
        self.bench.path(&format!("d{server}/parts/{fan}/{id}"))
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        self.pario(arguments).stderr(Stdio::null()).spawn().expect("pario runs")
    }

    /// The process of a server.
    pub fn pid(&self, server: usize) -> u64 {
        self.json(&["status", "part", "--json"])[0]["servers"][server]["pid"].as_u64().expect("a process")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let down = self.run(&["down", "part", "--force", "--forget"]);
        if !std::thread::panicking() {
            assert!(down.status.success(), "{}", text(&down.stderr));
        }
        let _ = std::fs::remove_dir_all(self.bench.path(""));
    }
}

/// Waits until something is so; that it never becomes so is a failure.
pub fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes that do not repeat.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Bytes that a file takes on its medium.
pub fn taken(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map_or(0, |metadata| metadata.blocks() * 512)
}
